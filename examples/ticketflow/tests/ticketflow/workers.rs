//! Scenarios 1 and 2 of the document: one worker, and several that compete.

use std::collections::BTreeMap;

use turno_testkit::eventually_async;

use crate::cast::{Actor, LONG};
use crate::db::Db;
use crate::on_each_store;
use crate::stage::{Stage, all_once, await_frozen};

on_each_store! {
    escenario_1_worker_unico_procesando;
    escenario_2_multiples_workers_compitiendo;
    un_worker_pausado_no_registra_nada;
}

/// "Worker único procesando"; checklist: BatchSize = 50, MarkAsDispatched, logging.
async fn escenario_1_worker_unico_procesando(stage: Stage) {
    let api = stage.start(&["api"]);
    for number in 0..60 {
        api.create(&format!("ticket {number}")).await.unwrap();
    }
    let _consumers = [stage.start(&["consumer"]), stage.start(&["consumer"])];
    let worker = stage.start(&["worker"]);
    for line in [
        "this relay is the leader",
        "Procesando 50 mensajes del Outbox (Lock ID: 42)",
        "✅ Mensaje publicado: TicketCreatedEvent (ID: ",
        "Procesamiento completado. Exitosos: 50, Fallidos: 0, Omitidos: 0",
        "Procesando 10 mensajes del Outbox (Lock ID: 42)",
        "Procesamiento completado. Exitosos: 10, Fallidos: 0, Omitidos: 0",
    ] {
        worker.await_log(line).unwrap();
    }
    assert!(has_lock_42(&stage).await);
    let tally = stage
        .await_tally("all to be handled", |tally| tally.lost == 0)
        .await;
    assert_eq!(tally, all_once(60, 60));
    stage
        .await_stats("all to be recorded", |stats| stats.dispatched == 60)
        .await;
    worker.process.term();
    worker
        .await_log("Worker detenido. Exitosos: 60, Fallidos: 0, Muertos: 0, Omitidos: 0")
        .unwrap();
    assert!(worker.process.wait_timeout(LONG).unwrap().success());
    // The server detects the end of the session by itself.
    eventually_async(LONG, "the lock to be free", async || {
        (!has_lock_42(&stage).await).then_some(())
    })
    .await;
}

/// "Múltiples workers compitiendo"; checklist: lock 42, no worker waits for locked rows. The active one is killed with -9
/// after its third publication: another takes over, nothing is lost, nothing is handled twice.
async fn escenario_2_multiples_workers_compitiendo(stage: Stage) {
    let tap = stage.tap().await;
    let crew = stage.crew(&["consumer"], Some("kill@despues-de-publicar:3 once"));
    let names: Vec<String> = crew.workers.iter().map(name).collect();
    for worker in &crew.workers[1..] {
        // Usually the line says that another relay is active. Or this one has replaced one that had no work yet.
        let line = worker.await_log("relay").unwrap();
        assert!(names.iter().any(|name| line.contains(name)), "{line}");
    }
    let api = stage.start(&["api"]);
    for number in 0..20 {
        let id = api.create(&format!("ticket {number}")).await.unwrap();
        api.change_status(&id, "InProgress").await.unwrap();
    }
    crew.await_death();
    let tally = stage
        .await_tally("all to be handled", |tally| tally.lost == 0)
        .await;
    assert_eq!(tally, all_once(20, 40));
    stage
        .await_stats("all to be recorded", |stats| stats.dispatched == 40)
        .await;
    assert!(
        tap.count().await.unwrap() > 40,
        "something was published twice"
    );
    // Published in the order of emission: a ticket is created before it changes.
    let mut outcome: BTreeMap<String, Vec<String>> = BTreeMap::new();
    while let Some(message) = tap.take().await.unwrap() {
        let payload: serde_json::Value = serde_json::from_slice(&message.data).unwrap();
        let of_ticket = outcome.entry(payload["ticketId"].to_string()).or_default();
        let key = message.routing_key.as_str().to_owned();
        if !of_ticket.contains(&key) {
            of_ticket.push(key);
        }
    }
    assert_eq!(outcome.len(), 20);
    for keys in outcome.values() {
        assert_eq!(keys, &["ticket.created", "ticket.status.changed"]);
    }
}

/// Returns the name that a worker gives itself.
fn name(worker: &Actor) -> String {
    format!("worker {}", worker.process.id())
}

/// A lock alone does not stop a worker that was paused, by its machine or by a network partition: it continues as if it were
/// the only one, and marks events as published. Its claim is stale by then, and nothing is recorded.
async fn un_worker_pausado_no_registra_nada(stage: Stage) {
    let tap = stage.tap().await;
    let consumer = stage.start(&["consumer"]);
    let paused = stage.start_doomed(&["worker"], "stop@despues-de-publicar");
    paused.await_log("this relay is the leader").unwrap();
    let api = stage.start(&["api"]);
    api.create("published by the one, recorded by the other")
        .await
        .unwrap();
    await_frozen(&paused.process);
    assert_eq!(stage.stats().await.dispatched, 0);
    let next = stage.start(&["worker"]);
    // A frozen process keeps its session: the server ends it after five seconds without a sign of life. A lease expires.
    next.await_log("this relay is the leader").unwrap();
    stage
        .await_stats("the other to record it", |stats| stats.dispatched == 1)
        .await;
    assert_eq!(tap.count().await.unwrap(), 2);
    paused.process.cont();
    paused.await_log("another relay is at work").unwrap();
    assert_eq!(stage.stats().await.dispatched, 1);
    eventually_async(LONG, "the repetition to be recognised", async || {
        let seen = consumer.metric("consumer_duplicates_total").await.unwrap();
        (seen == 1).then_some(())
    })
    .await;
    assert_eq!(stage.tally().await, all_once(1, 1));
}

/// Returns whether the lock is held: PostgreSQL's advisory lock, or Turno's lease on SQLite.
async fn has_lock_42(stage: &Stage) -> bool {
    match &stage.db {
        Db::Postgres(pool) => sqlx::query_scalar(
            "select exists (select from pg_locks l join pg_database d on d.oid = l.database \
             where l.locktype = 'advisory' and l.objid = 42 and d.datname = current_database())",
        )
        .fetch_one(pool)
        .await
        .unwrap(),
        Db::Sqlite(_) => {
            let status = stage.turno.lock("turno/outbox/relay/42").status().await;
            !status.unwrap().holders.is_empty()
        }
    }
}
