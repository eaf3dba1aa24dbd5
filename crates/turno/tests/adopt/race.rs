//! Many processes on one table: each row is processed once. The controls show that the test would detect a duplicate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Barrier;
use tokio::task::JoinSet;
use turno::adopt::{Acquire, Adopted, Release, Stats};
use turno_testkit::conformance::TestStore;
use turno_testkit::{Sql as _, eventually_async};

use super::{TIMEOUT, tell, test_stores, with_notes};

const ROWS: u32 = 1000;

/// Counts how often each row was processed, like a web service that must be called once.
#[derive(Debug, Clone)]
struct Ledger(Arc<[AtomicU32]>);

impl Ledger {
    fn new() -> Self {
        Ledger((0..ROWS).map(|_| AtomicU32::new(0)).collect())
    }

    fn process(&self, id: &str) {
        let row: usize = id.parse().unwrap();
        self.0[row - 1].fetch_add(1, Ordering::Relaxed);
    }

    fn counts(&self) -> Vec<u32> {
        self.0
            .iter()
            .map(|row| row.load(Ordering::Relaxed))
            .collect()
    }
}

/// The scheduled job: processes batches until none is left.
async fn scheduler(notes: Adopted, ledger: Ledger) {
    loop {
        let rows = notes.next(None, 20, TIMEOUT).await.unwrap();
        if rows.is_empty() {
            return;
        }
        let mut releases = JoinSet::new();
        for row in rows {
            ledger.process(&row.id);
            let notes = notes.clone();
            releases.spawn(async move { notes.release(&row.id, row.token).await.unwrap() });
        }
        assert!(
            releases
                .join_all()
                .await
                .iter()
                .all(|end| *end == Release::Released)
        );
    }
}

/// The manual user: processes one row after the other, from the end.
async fn manual(notes: Adopted, ledger: Ledger) {
    for id in (1..=ROWS).rev() {
        let id = id.to_string();
        if let Acquire::Acquired { token } = notes.acquire(&id, TIMEOUT).await.unwrap() {
            ledger.process(&id);
            assert_eq!(notes.release(&id, token).await.unwrap(), Release::Released);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_schedulers_and_a_person_process_each_row_once() {
    for test_store in test_stores() {
        let (_turno, notes) = with_notes(&test_store, ROWS).await;
        let ledger = Ledger::new();
        let mut tasks = JoinSet::new();
        for _ in 0..2 {
            let own = test_store.turno().await.adopted("notes");
            tasks.spawn(scheduler(own, ledger.clone()));
        }
        let own = test_store.turno().await.adopted("notes");
        tasks.spawn(manual(own, ledger.clone()));
        tasks.join_all().await;
        assert_eq!(ledger.counts(), vec![1; ROWS as usize]);
        let done = Stats {
            total: ROWS.into(),
            completed: ROWS.into(),
            ..Stats::default()
        };
        assert_eq!(notes.stats(None).await.unwrap(), done);
    }
}

/// The plain select of the presentations system, as first written: both processes read the same rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_a_plain_select_doubles() {
    let test_store = TestStore::postgres();
    tell(&test_store, &format!("create table presentations (id bigint primary key, processed boolean not null default false); insert into presentations select g from generate_series(1, {ROWS}) g")).await;
    let (ledger, both) = (Ledger::new(), Arc::new(Barrier::new(2)));
    let mut tasks = JoinSet::new();
    for _ in 0..2 {
        let (client, ledger, both) = (
            test_store.postgres_connection().await,
            ledger.clone(),
            both.clone(),
        );
        tasks.spawn(async move {
            loop {
                let rows = client.query("select id::text from presentations where not processed order by id limit 100", &[]).await.unwrap();
                both.wait().await;
                for row in &rows {
                    ledger.process(row.get(0));
                }
                for row in &rows {
                    let id: i64 = row.get::<_, &str>(0).parse().unwrap();
                    client.execute("update presentations set processed = true where id = $1", &[&id]).await.unwrap();
                }
                both.wait().await;
                if rows.is_empty() {
                    return;
                }
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(ledger.counts(), vec![2; ROWS as usize]);
}

/// Locks row 1 in a transaction that stays open. Returns what another session gets meanwhile, or, if that session waits
/// for the first one, afterwards.
async fn second_of_two(test_store: &TestStore) -> Option<i64> {
    const ACQUIRE: &str = "select acquire_processing_lock_token(1)";
    let (first, second) = (
        test_store.postgres_connection().await,
        test_store.postgres_connection().await,
    );
    first.run("begin").await;
    let token: Option<i64> = first.query_one(ACQUIRE, &[]).await.unwrap().get(0);
    assert!(token.is_some());
    let asking = tokio::spawn(async move { second.query_one(ACQUIRE, &[]).await.unwrap().get(0) });
    let waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    eventually_async(
        Duration::from_secs(60),
        "an answer, or a session that waits",
        async || {
            let waiting: i64 = first.query_one(waits, &[]).await.unwrap().get(0);
            (waiting > 0 || asking.is_finished()).then_some(())
        },
    )
    .await;
    first.run("commit").await;
    asking.await.unwrap()
}

#[tokio::test]
async fn a_lock_that_is_not_committed_yet_is_a_lock() {
    let test_store = TestStore::postgres();
    with_notes(&test_store, 1).await;
    assert_eq!(second_of_two(&test_store).await, None);
}

/// The same without the row lock: the second session waits, continues, and both have the row.
#[tokio::test]
async fn control_without_the_row_lock_both_have_the_row() {
    let test_store = TestStore::postgres();
    with_notes(&test_store, 1).await;
    let client = test_store.postgres_connection().await;
    let definition = "select pg_get_functiondef('acquire_processing_lock_token'::regproc)";
    let guarded: String = client.query_one(definition, &[]).await.unwrap().get(0);
    let unguarded = guarded.replace("for no key update skip locked", "");
    assert_ne!(guarded, unguarded);
    client.run(&unguarded).await;
    assert!(second_of_two(&test_store).await.is_some());
}

/// Behind a transaction pooler, every call is still one statement.
#[tokio::test]
async fn everything_works_behind_a_pooler() {
    let test_store = TestStore::pgbouncer();
    let (turno, notes) = with_notes(&test_store, 20).await;
    let ledger = Ledger::new();
    tokio::join!(
        scheduler(notes.clone(), ledger.clone()),
        scheduler(notes.clone(), ledger.clone())
    );
    assert_eq!(ledger.counts()[..20], [1; 20]);
    assert_eq!(notes.stats(None).await.unwrap().completed, 20);
    turno.unadopt("notes").await.unwrap();
}
