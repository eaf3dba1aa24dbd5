//! A handler that outlives its lease, and finds that another run has taken over.

use axum::extract::Request;
use turno::once::http::{Policy, Unknown};
use turno::once::{OnceState, Released};

use crate::kit::{Held, Site, paying, problem};
use crate::on_each_store;

on_each_store! {
    its_answer_is_not_kept => its_answer_is_not_kept;
}

async fn its_answer_is_not_kept(url: &str) {
    let held = Held::new();
    let holding = held.clone();
    let policy = Policy::new("pagos").unknown(Unknown::Rerun);
    let site = Site::on(url, policy, move |run, _: Request| {
        let held = holding.clone();
        async move {
            if run == 1 {
                held.hold().await;
            }
            format!("run {run}")
        }
    })
    .await;
    let first = site.sending(paying("77"));
    held.begun().await;
    // As if its lease had expired without an extension.
    let view = site.await_state(OnceState::InFlight).await;
    let doubted = site
        .turno
        .once_release(&view.claim, Released::Unknown)
        .await;
    doubted.unwrap();

    site.send(paying("77")).await.assert_fresh("run 2");
    held.go();
    let late = first.await.unwrap();
    assert_eq!(late.problem(), problem(409, "stale"));
    assert!(late.headers.contains_key("retry-after"));
    site.send(paying("77")).await.assert_replayed("run 2");
    let view = site.await_state(OnceState::Done).await;
    assert_eq!((view.attempt, view.late), (2, 1));
    let counts = site.counts();
    assert_eq!((counts.fresh, counts.stale, counts.replayed), (2, 1, 1));
}
