//! The document's reason for an outbox: events that the usual ways lose or invent (the controls), and the outbox does not.

use crate::on_each_store;
use crate::stage::{Stage, all_once};

on_each_store! {
    control_publicar_despues_del_commit_pierde_eventos;
    control_publicar_antes_del_commit_inventa_eventos;
    con_outbox_nada_se_pierde_ni_se_inventa;
}

/// The API dies between commit and publication: a ticket exists, and its event is never published.
async fn control_publicar_despues_del_commit_pierde_eventos(stage: Stage) {
    let _consumers = [stage.start(&["consumer"]), stage.start(&["consumer"])];
    let words = ["api", "--sin-outbox", "despues-del-commit"];
    let doomed = stage.start_doomed(&words, "kill@despues-del-commit");
    doomed.create("lost").await.unwrap_err();
    doomed.await_death().unwrap();
    stage.start(&words).create("outcome").await.unwrap();
    let tally = stage
        .await_tally("the second one", |tally| tally.handled == 1)
        .await;
    assert_eq!((tally.tickets, tally.lost), (2, 1));
}

/// The API dies between publication and commit: an event is published for a ticket that does not exist.
async fn control_publicar_antes_del_commit_inventa_eventos(stage: Stage) {
    let _consumers = [stage.start(&["consumer"]), stage.start(&["consumer"])];
    let words = ["api", "--sin-outbox", "antes-del-commit"];
    let doomed = stage.start_doomed(&words, "kill@despues-de-publicar");
    doomed.create("rolled back").await.unwrap_err();
    doomed.await_death().unwrap();
    let tally = stage
        .await_tally("the event", |tally| tally.handled == 1)
        .await;
    assert_eq!((tally.tickets, tally.phantom), (0, 1));
}

/// The same two crashes with the outbox: the event of a committed ticket is published, that of a rolled-back one is not.
async fn con_outbox_nada_se_pierde_ni_se_inventa(stage: Stage) {
    let tap = stage.tap().await;
    let crew = stage.crew(&["consumer"], None);
    for fault in ["kill@antes-del-commit", "kill@despues-del-commit"] {
        let doomed = stage.start_doomed(&["api"], fault);
        doomed.create(fault).await.unwrap_err();
        doomed.await_death().unwrap();
    }
    let id = stage
        .start(&["api"])
        .create("an ordinary one")
        .await
        .unwrap();
    // The event of a rolled-back status change is not published either.
    let doomed = stage.start_doomed(&["api"], "kill@antes-del-commit");
    doomed.change_status(&id, "Closed").await.unwrap_err();
    doomed.await_death().unwrap();
    stage
        .await_stats("all to be published", |stats| stats.dispatched == 2)
        .await;
    let tally = stage
        .await_tally("all to be handled", |tally| tally.lost == 0)
        .await;
    assert_eq!(tally, all_once(2, 2));
    assert_eq!(stage.stats().await.total, 2);
    assert_eq!(tap.count().await.unwrap(), 2);
    drop(crew);
}
