//! A roll-out: the document's workers and Turno's on the document's own table at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use turno_testkit::{eventually, eventually_async};
use uuid::Uuid;

use crate::cast::{Actor, LONG};
use crate::ef_table::{EfStage, TABLE, WORKER, change, document_worker};
use crate::stage::{await_frozen, shared_broker};
use crate::tap::Tap;

/// A worker of Turno in the document's mode, with lock 42.
const SINGLE: [&str; 3] = ["worker", "--tabla", TABLE];
/// Pause of a worker of the document between two runs. There it is five seconds.
const EVERY: Duration = Duration::from_millis(200);

/// A worker of the document: a session that asks for lock 42 before each run.
struct Old {
    session: PgConnection,
    ef: Arc<EfStage>,
}

impl Old {
    async fn new(ef: &Arc<EfStage>) -> Self {
        Old {
            session: PgConnection::connect(&ef.stage.cast.store).await.unwrap(),
            ef: ef.clone(),
        }
    }

    /// `TryAcquireAdvisoryLock(42)`.
    async fn try_lock(&mut self) -> bool {
        let lock = sqlx::query_scalar("SELECT pg_try_advisory_lock(42)");
        lock.fetch_one(&mut self.session).await.unwrap()
    }

    /// `ReleaseAdvisoryLock(42)`.
    async fn unlock(&mut self) {
        let unlock = sqlx::query("SELECT pg_advisory_unlock(42)");
        unlock.execute(&mut self.session).await.unwrap();
    }

    /// One run, if no other worker is active.
    async fn run(&mut self) -> bool {
        if !self.try_lock().await {
            return false;
        }
        document_worker(&self.ef, None).await;
        self.unlock().await;
        true
    }

    /// Runs until stopped, with the document's pause between two runs, shortened.
    async fn work(mut self, stop: CancellationToken) {
        let mut every = tokio::time::interval(EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !stop.is_cancelled() {
            every.tick().await;
            self.run().await;
        }
    }
}

async fn adopted() -> (Arc<EfStage>, Tap) {
    let ef = EfStage::at(shared_broker().port()).await;
    ef.adopt().await;
    let tap = ef.stage.tap().await;
    (Arc::new(ef), tap)
}

/// Returns the ids of all messages, in their order.
async fn ids(tap: &Tap) -> Vec<Uuid> {
    let mut ids = Vec::new();
    while let Some(message) = tap.take().await.unwrap() {
        let id = message
            .properties
            .message_id()
            .as_ref()
            .unwrap()
            .to_string();
        ids.push(id.parse().unwrap());
    }
    ids
}

/// Safe with lock 42: two old workers and two of Turno, while the application writes. Each event is published once. The old
/// ones begin alone; then those of Turno wait for their turn, and take it between two runs.
#[tokio::test(flavor = "multi_thread")]
async fn con_el_lock_42_cada_evento_se_publica_una_vez() {
    let (ef, tap) = adopted().await;
    let stop = CancellationToken::new();
    let mut old = JoinSet::new();
    for _ in 0..2 {
        old.spawn(Old::new(&ef).await.work(stop.clone()));
    }
    let mut expected = BTreeSet::new();
    for number in 0..20 {
        expected.insert(change(&ef.pool, number % 5, number).await);
    }
    // The old ones are at work.
    ef.await_dispatched(1).await;
    let new = [ef.stage.start(&SINGLE), ef.stage.start(&SINGLE)];
    for number in 20..200 {
        expected.insert(change(&ef.pool, number % 5, number).await);
    }
    eventually(LONG, "a worker of Turno to be active", || {
        let next = |worker: &Actor| worker.process.lines().next(Duration::ZERO);
        let mut lines = new.iter().filter_map(next);
        lines
            .any(|line| line.contains("this relay is the leader"))
            .then_some(())
    });
    for number in 200..220 {
        expected.insert(change(&ef.pool, number % 5, number).await);
    }
    ef.await_dispatched(220).await;
    stop.cancel();
    while let Some(ended) = old.join_next().await {
        ended.unwrap();
    }
    let published = ids(&tap).await;
    assert_eq!(published.len(), expected.len(), "published twice");
    assert_eq!(published.into_iter().collect::<BTreeSet<_>>(), expected);
}

/// While a worker of Turno is active, an old one does not get lock 42, and while an old one has it, a worker of Turno waits.
#[tokio::test(flavor = "multi_thread")]
async fn el_lock_42_es_el_mismo() {
    let (ef, tap) = adopted().await;
    let mut old = Old::new(&ef).await;
    assert!(old.try_lock().await);
    let new = ef.stage.start(&SINGLE);
    new.await_log("another relay is at work").unwrap();
    change(&ef.pool, 1, 1).await;
    document_worker(&ef, None).await;
    old.unlock().await;
    new.await_log("this relay is the leader").unwrap();
    assert!(!old.run().await, "lock 42 is taken");
    change(&ef.pool, 1, 2).await;
    ef.await_dispatched(2).await;
    assert_eq!(ids(&tap).await.len(), 2);
}

/// The control: in mode `ordered`, Turno's workers do not take lock 42. An old worker does not look at a claim, and publishes
/// what a worker of Turno has published and not recorded yet.
#[tokio::test(flavor = "multi_thread")]
async fn control_sin_el_lock_42_se_publica_dos_veces() {
    let (ef, tap) = adopted().await;
    let frozen = ef.stage.start_doomed(&WORKER, "stop@despues-de-publicar");
    let id = change(&ef.pool, 1, 1).await;
    await_frozen(&frozen.process);
    assert!(Old::new(&ef).await.run().await, "nothing stops it");
    eventually_async(LONG, "both messages", async || {
        (tap.count().await.unwrap() == 2).then_some(())
    })
    .await;
    assert_eq!(ids(&tap).await, [id, id]);
}
