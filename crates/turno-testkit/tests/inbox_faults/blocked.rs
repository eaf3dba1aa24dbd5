//! A transaction that claims, or begins a once key, and does not end. It blocks what it has claimed or begun, and nothing
//! else: the number of waiting backends is at most the size of the pool, other queues and locks are served, and when the
//! transaction ends, nothing is claimed or begun for callers that have given up.
//!
//! The control is a client that closes its connection when it gives up, and does not cancel its call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_postgres::Client;
use turno::Turno;
use turno_testkit::faults::{FromStore as _, client};
use turno_testkit::{PgBouncer, PoolMode, PostgresServer, Sql as _, eventually_async};

use crate::LONG;
use crate::fixture::{Fixture, QUEUE, item};

const POOL: usize = 4;
const CALLERS: usize = 64;
const CALL_TIMEOUT: Duration = Duration::from_millis(500);
/// Timeout of a caller, shorter than that of its call.
const IMPATIENT: Duration = Duration::from_millis(100);
/// How long the transaction stays open by default. `TURNO_BLOCKED_SECONDS` sets another time.
const BLOCKED: Duration = Duration::from_secs(3);
const ITEMS: usize = 2000;
/// Number of measurements of other calls before the transaction begins.
const USUAL: usize = 20;

fn blocked_for() -> Duration {
    let seconds = std::env::var("TURNO_BLOCKED_SECONDS").ok();
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    seconds.map_or(BLOCKED, Duration::from_secs)
}

/// A store, a transaction that stays open, and a session that observes both.
struct TestStore {
    fixture: Fixture,
    blocker: Client,
    observer: Client,
}

#[derive(Debug, Default, Clone, Copy)]
struct Backends {
    waiting: i64,
    all: i64,
}

impl TestStore {
    fn new(blocking: &str) -> Self {
        let fixture = Fixture::postgres();
        fixture.push((0..ITEMS).map(|_| item("work")));
        let (blocker, observer) = fixture.runtime.block_on(async {
            let observer = client(&fixture.url).await;
            let blocker = client(&fixture.url).await;
            blocker.run("begin").await;
            blocker.run(blocking).await;
            for own in [&blocker, &observer] {
                let name = "set application_name = 'the test''s own'";
                own.run(name).await;
            }
            (blocker, observer)
        });
        TestStore {
            fixture,
            blocker,
            observer,
        }
    }

    async fn turno(&self) -> Turno {
        Turno::builder()
            .connections(POOL)
            .call_timeout(CALL_TIMEOUT)
            .connect(&self.fixture.url)
            .await
            .unwrap()
    }

    /// Returns the backends of this database, except for the test's own.
    async fn backends(&self) -> Backends {
        let count = "
            select count(*) filter (where wait_event_type = 'Lock'), count(*)
            from pg_stat_activity
            where datname = current_database()
              and backend_type = 'client backend'
              and application_name <> 'the test''s own'";
        let row = self.observer.query_one(count, &[]).await.unwrap();
        Backends {
            waiting: row.get(0),
            all: row.get(1),
        }
    }

    async fn until_none_waits(&self) {
        eventually_async(LONG, "no backend waits", async || {
            (self.backends().await.waiting == 0).then_some(())
        })
        .await;
    }

    async fn processing(&self) -> u64 {
        let sql = "select processing from turno.inbox_stats($1)";
        let row = self.observer.query_one(sql, &[&QUEUE]).await.unwrap();
        u64::try_from(row.get::<_, i64>(0)).unwrap()
    }

    /// Runs clients that close their connections when they give up: as many concurrently as a pool has, three times.
    async fn give_up_without_cancelling(&self, sql: &'static str) {
        for _ in 0..3 {
            let mut callers = JoinSet::new();
            for _ in 0..POOL {
                let url = self.fixture.url.clone();
                callers.spawn(async move {
                    let client = client(&url).await;
                    let call = client.batch_execute(sql);
                    assert!(tokio::time::timeout(CALL_TIMEOUT, call).await.is_err());
                });
            }
            callers.join_all().await;
        }
    }
}

/// Returns the duration of a claim and completion in another queue, and of a lock and its release.
async fn others(turno: &Turno) -> Duration {
    let began = Instant::now();
    let inbox = turno.inbox("other");
    inbox.push(item("other")).await.unwrap();
    let items = inbox.claim().lease(LONG).take().await.unwrap();
    let claims: Vec<_> = items.iter().map(|item| item.claim).collect();
    assert_eq!(inbox.complete(&claims).await.unwrap().done, 1);
    let lease = turno.lock("other").acquire().await.unwrap();
    lease.acquired().unwrap().release().await.unwrap();
    began.elapsed()
}

fn longest_and_mean(times: &[Duration]) -> (Duration, Duration) {
    let count = u32::try_from(times.len()).unwrap();
    let sum: Duration = times.iter().sum();
    (times.iter().copied().max().unwrap(), sum / count)
}

#[derive(Default)]
struct Heard {
    stop: AtomicBool,
    items: AtomicU64,
    failures: AtomicU64,
}

/// Claims until it is stopped. Every second caller claims more than a few items, and every fourth gives up early.
async fn claim_again_and_again(turno: Turno, number: usize, heard: Arc<Heard>) {
    while !heard.stop.load(Ordering::SeqCst) {
        let limit = if number.is_multiple_of(2) { 1 } else { 20 };
        let claim = turno.inbox(QUEUE).claim().limit(limit).lease(LONG).take();
        let claimed = match number % 4 {
            3 => tokio::time::timeout(IMPATIENT, claim).await.ok(),
            _ => Some(claim.await),
        };
        match claimed {
            Some(Ok(items)) => {
                let count = u64::try_from(items.len()).unwrap();
                heard.items.fetch_add(count, Ordering::SeqCst);
            }
            Some(Err(error)) => {
                assert!(error.is_unavailable(), "{error}");
                heard.failures.fetch_add(1, Ordering::SeqCst);
            }
            None => {}
        }
    }
}

/// Claims of one item keep no other waiting: this is a claim of several.
const CLAIM: &str = "select from turno.inbox_claim('presentations', 'blocked', 2, '1 hour')";
const BEGIN: &str = "select from turno.once_begin('pay/1')";

#[test]
fn a_claim_that_stays_open_blocks_its_own_queue_only() {
    let test_store = TestStore::new(CLAIM);
    test_store.fixture.runtime.block_on(async {
        let turno = test_store.turno().await;
        let mut usual = Vec::new();
        for _ in 0..USUAL {
            usual.push(others(&turno).await);
        }
        let heard = Arc::new(Heard::default());
        let mut callers = JoinSet::new();
        for number in 0..CALLERS {
            callers.spawn(claim_again_and_again(turno.clone(), number, heard.clone()));
        }
        let (mut most, mut beside) = (Backends::default(), Vec::new());
        let began = Instant::now();
        while began.elapsed() < blocked_for() {
            let now = test_store.backends().await;
            most.waiting = most.waiting.max(now.waiting);
            most.all = most.all.max(now.all);
            beside.push(others(&turno).await);
        }
        assert_eq!(heard.items.load(Ordering::SeqCst), 0, "the queue is blocked");
        test_store.blocker.run("rollback").await;
        heard.stop.store(true, Ordering::SeqCst);
        callers.join_all().await;
        println!(
            "{CALLERS} callers: at most {most:?}, {} calls failed, other calls took (longest, mean) {:?}, usually {:?}",
            heard.failures.load(Ordering::SeqCst),
            longest_and_mean(&beside),
            longest_and_mean(&usual),
        );
        let pool = i64::try_from(POOL).unwrap();
        assert!(most.waiting <= pool, "{most:?}");
        // Plus the connection that listens.
        assert!(most.all <= pool + 1, "{most:?}");
        test_store.until_none_waits().await;
        let heard = heard.items.load(Ordering::SeqCst);
        eventually_async(LONG, "no item is claimed for a caller that has gone", async || {
            (test_store.processing().await == heard).then_some(())
        })
        .await;
    });
}

#[test]
fn control_a_claim_that_is_not_cancelled_claims_for_a_caller_that_has_gone() {
    let test_store = TestStore::new(CLAIM);
    test_store.fixture.runtime.block_on(async {
        test_store.give_up_without_cancelling(CLAIM).await;
        let most = test_store.backends().await;
        assert!(most.waiting > i64::try_from(POOL).unwrap(), "{most:?}");
        test_store.blocker.run("rollback").await;
        test_store.until_none_waits().await;
        assert!(test_store.processing().await > 0);
    });
}

#[test]
fn a_key_that_stays_open_is_begun_for_no_caller_that_has_gone() {
    let test_store = TestStore::new(BEGIN);
    test_store.fixture.runtime.block_on(async {
        let turno = test_store.turno().await;
        let usual = others(&turno).await;
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let turno = turno.clone();
            callers.spawn(async move {
                let begun = turno.once("pay/1").begin().await;
                assert!(begun.unwrap_err().is_unavailable());
            });
        }
        let (mut most, mut beside) = (0, Vec::new());
        while !callers.is_empty() {
            most = test_store.backends().await.waiting.max(most);
            beside.push(others(&turno).await);
            while callers.try_join_next().is_some() {}
        }
        println!("{CALLERS} callers: at most {most} backends wait; other calls took {beside:?}, usually {usual:?}");
        assert!(most <= i64::try_from(POOL).unwrap());
        test_store.until_none_waits().await;
        test_store.blocker.run("rollback").await;
        assert!(turno.once("pay/1").status().await.unwrap().is_none());
    });
}

/// Behind a pooler, no session setting ends the statement, because server connections are shared.
#[test]
fn a_call_through_a_pooler_is_cancelled_too() {
    let test_store = TestStore::new(BEGIN);
    let pooler = PgBouncer::start(PostgresServer::shared(), PoolMode::Transaction).unwrap();
    let database = test_store.fixture.url.rsplit('/').next().unwrap();
    test_store.fixture.runtime.block_on(async {
        let turno = Turno::builder()
            .connections(POOL)
            .call_timeout(CALL_TIMEOUT)
            .connect(&pooler.url(database))
            .await
            .unwrap();
        let begun = turno.once("pay/1").begin().await;
        assert!(begun.unwrap_err().is_unavailable());
        test_store.until_none_waits().await;
        test_store.blocker.run("rollback").await;
        assert!(turno.once("pay/1").status().await.unwrap().is_none());
    });
}

#[test]
fn control_a_begin_that_is_not_cancelled_begins_for_a_caller_that_has_gone() {
    let test_store = TestStore::new(BEGIN);
    test_store.fixture.runtime.block_on(async {
        test_store.give_up_without_cancelling(BEGIN).await;
        let most = test_store.backends().await;
        assert!(most.waiting > i64::try_from(POOL).unwrap(), "{most:?}");
        test_store.blocker.run("rollback").await;
        test_store.until_none_waits().await;
        let turno = test_store.turno().await;
        assert!(turno.once("pay/1").status().await.unwrap().is_some());
    });
}
