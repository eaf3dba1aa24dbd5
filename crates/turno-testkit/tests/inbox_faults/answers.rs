//! Lost responses: the call was executed, but the caller does not know that.
//!
//! Only PostgreSQL has a network on which responses can be lost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::inbox::{Again, ClaimId, ClaimedItem, Failure, Inbox, Item, Job, Settled};
use turno_testkit::faults::{LossyPath, client};
use turno_testkit::{Sql as _, eventually_async};

use crate::LONG;
use crate::fixture::QUEUE;

const ROUNDS: u64 = 10;

/// Opens a path and makes a claim that waits, which starts to listen on a separate connection: all later requests are those of the
/// test.
async fn open() -> LossyPath {
    // By default a call that waits for a lock would fail after a second, and here it has to wait for its repetition.
    let path = LossyPath::open_with("&options=-clock_timeout%3D60s").await;
    eventually_async(LONG, "a listener", async || {
        let waiting = inbox(&path).claim().wait(Duration::from_millis(50));
        assert_eq!(waiting.take().await.unwrap(), []);
        let sql = "select count(*)
            from pg_stat_activity
            where datname = current_database()
              and application_name = 'lossy'
              and state = 'idle'
              and query like '%turno.notifies%'";
        let row = path.observer.query_one(sql, &[]).await.unwrap();
        (row.get::<_, i64>(0) == 1).then_some(())
    })
    .await;
    path
}

fn inbox(path: &LossyPath) -> Inbox {
    path.lossy.inbox(QUEUE)
}

/// Runs a call that waits in the server, and is repeated while it waits.
async fn meeting<T>(path: &LossyPath, work: impl Future<Output = T>) -> T {
    // A transaction of another session, which blocks both. Not the observer's, whose snapshot would then not change.
    let other = client(&path.direct_url).await;
    let lock = "begin; lock table turno.inbox_item, turno.inbox_claim in share mode";
    other.run(lock).await;
    let fault = async {
        let original = await_blocked(path, &[]).await;
        path.proxy.cut().await;
        path.proxy.restore().await.unwrap();
        // If the network is restored before the library gives up on the original, the library cancels it. Usually it is not.
        await_blocked(path, &original).await;
        other.run("commit").await;
    };
    let (done, ()) = tokio::join!(work, fault);
    // The original may be the slower one.
    eventually_async(LONG, "no call that waits inside the server", async || {
        blocked(path).await.is_empty().then_some(())
    })
    .await;
    done
}

/// Waits for a call in another session than these that waits in the server. Returns its session.
async fn await_blocked(path: &LossyPath, others: &[i32]) -> Vec<i32> {
    eventually_async(LONG, "a call that waits inside the server", async || {
        let mut blocked = blocked(path).await;
        blocked.retain(|pid| !others.contains(pid));
        (!blocked.is_empty()).then_some(blocked)
    })
    .await
}

/// Returns the sessions through the proxy that wait for a lock.
async fn blocked(path: &LossyPath) -> Vec<i32> {
    let sql = "select pid
        from pg_stat_activity
        where datname = current_database()
          and application_name = 'lossy'
          and wait_event_type = 'Lock'";
    let rows = path.observer.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Returns pending, scheduled, processing, completed, failed.
async fn counts(path: &LossyPath) -> [u64; 5] {
    let stats = match path.direct.inbox(QUEUE).stats().await {
        // No item was stored yet.
        Err(error) if error.is_no_queue() => return [0; 5],
        stats => stats.unwrap(),
    };
    [
        stats.pending,
        stats.scheduled,
        stats.processing,
        stats.completed,
        stats.failed,
    ]
}

async fn take(inbox: &Inbox) -> Vec<ClaimedItem> {
    inbox.claim().lease(LONG).take().await.unwrap()
}

async fn take_one(inbox: &Inbox) -> ClaimId {
    let claimed = take(inbox).await;
    assert_eq!(claimed.len(), 1, "{claimed:?}");
    assert_eq!(claimed[0].attempt, 1);
    claimed[0].claim
}

fn one() -> Settled {
    Settled {
        done: 1,
        stale: Vec::new(),
    }
}

/// Makes each call twice: first to prepare the statement on the connection, then with a lost response. The second call is
/// then a single request, so the repetition is that of the call itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_answer_was_lost_is_applied_once() {
    let path = open().await;
    for round in 0..ROUNDS {
        completed_once(&path, round).await;
    }
    let done = counts(&path).await[3];
    assert_eq!(done, 2 * ROUNDS);
}

async fn completed_once(path: &LossyPath, round: u64) {
    let inbox = inbox(path);
    let done = 2 * round;
    let first = inbox.push("first").await.unwrap();
    let second = path.losing(inbox.push("second")).await.unwrap();
    assert!(!second.duplicate, "its repetition is no duplicate");
    assert!(second.id > first.id);
    assert_eq!(counts(path).await, [2, 0, 0, done, 0]);

    let a = take_one(&inbox).await;
    let b = path.losing(take_one(&inbox)).await;
    assert_eq!((a.item, b.item), (first.id, second.id));
    assert_eq!(counts(path).await, [0, 0, 2, done, 0]);

    assert_eq!(inbox.extend(&[a], LONG).await.unwrap(), one());
    let extended = path.losing(inbox.extend(&[b], LONG)).await;
    assert_eq!(extended.unwrap(), one());

    assert_eq!(inbox.complete(&[a]).await.unwrap(), one());
    let completed = path.losing(inbox.complete(&[b])).await.unwrap();
    assert_eq!(completed, one(), "its own completion is not stale");
    assert_eq!(counts(path).await, [0, 0, 0, done + 2, 0]);
}

/// A failure is counted once, and an item is given back once, even if the response is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_whose_answer_was_lost_is_counted_once() {
    let path = open().await;
    let inbox = inbox(&path);
    for _ in 0..2 * ROUNDS {
        inbox.push("work").await.unwrap();
    }
    for round in 0..ROUNDS {
        let (a, b) = (take_one(&inbox).await, take_one(&inbox).await);
        assert_eq!(inbox.give_back(&[a]).await.unwrap(), one());
        let given = path.losing(inbox.give_back(&[b])).await.unwrap();
        assert_eq!(given, one());
        // Items that were given back are claimed first, and no attempt was counted for them.
        let (a, b) = (take_one(&inbox).await, take_one(&inbox).await);
        assert_eq!(inbox.fail(&[failure(a)]).await.unwrap(), one());
        let failed = path.losing(inbox.fail(&[failure(b)])).await.unwrap();
        assert_eq!(failed, one());
        let scheduled = 2 * (round + 1);
        let expected = [2 * ROUNDS - scheduled, scheduled, 0, 0, 0];
        assert_eq!(counts(&path).await, expected);
    }
    let views = path.direct.inbox(QUEUE);
    let state = turno::inbox::ItemState::Scheduled;
    for view in views.list(state, None, 100).await.unwrap() {
        assert_eq!((view.attempts, view.errors.len()), (1, 1), "{view:?}");
    }
}

fn failure(claim: ClaimId) -> Failure {
    Failure {
        claim,
        error: "not now".to_owned(),
        // It is not retried during the test.
        retry_in: Some(Duration::from_secs(3600)),
        again: Again::Retry,
    }
}

/// A worker behind such a proxy: every handler is called once, and no claim is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_does_each_item_once() {
    const ITEMS: usize = 2000;
    /// Number of items per lost response.
    const BETWEEN: usize = 50;
    let path = open().await;
    let items = (0..ITEMS).map(|number| Item::new(&number));
    path.direct.inbox(QUEUE).push_many(items).await.unwrap();

    let calls: Arc<Mutex<HashMap<usize, usize>>> = Arc::default();
    let handler = {
        let calls = calls.clone();
        move |job: Job<usize>| {
            *calls.lock().unwrap().entry(job.payload).or_default() += 1;
            let first = job.attempt() == 1;
            async move { first.then_some(()).ok_or("it was attempted before") }
        }
    };
    let many = Turno::builder().connections(4).connect(&path.lossy_url);
    let worker = many.await.unwrap().inbox(QUEUE).worker(handler);
    let stop = CancellationToken::new();
    let running = tokio::spawn(worker.run(stop.clone().cancelled_owned()));
    // None at the end, when there are few other calls: no call loses all of its attempts.
    for next in (BETWEEN..ITEMS - BETWEEN).step_by(BETWEEN) {
        path.proxy.drop_next_answer();
        eventually_async(LONG, "the worker to go on", async || {
            (calls.lock().unwrap().len() >= next).then_some(())
        })
        .await;
    }
    eventually_async(LONG, "all items", async || {
        (counts(&path).await[3] == ITEMS as u64).then_some(())
    })
    .await;
    stop.cancel();
    let report = running.await.unwrap().unwrap();
    assert_eq!(
        (report.completed, report.failed, report.lost),
        (ITEMS as u64, 0, 0)
    );
    let calls = calls.lock().unwrap();
    assert!(calls.len() == ITEMS && calls.values().all(|count| *count == 1));
}

/// The connection breaks while a call waits in the server, which does not notice that its client has gone: the call
/// and its repetition run concurrently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repetition_that_meets_the_original_is_applied_once() {
    let path = open().await;
    let inbox = inbox(&path);
    path.direct.inbox(QUEUE).push("first").await.unwrap();

    let push = async { inbox.push("second").await.unwrap() };
    assert!(!meeting(&path, push).await.duplicate);
    assert_eq!(counts(&path).await, [2, 0, 0, 0, 0]);

    let first = meeting(&path, take_one(&inbox)).await;
    assert_eq!(counts(&path).await, [1, 0, 1, 0, 0]);
    let given = meeting(&path, inbox.give_back(&[first])).await;
    assert_eq!(given.unwrap(), one());
    assert_eq!(counts(&path).await, [2, 0, 0, 0, 0]);

    let (first, second) = (take_one(&inbox).await, take_one(&inbox).await);
    let failed = meeting(&path, inbox.fail(&[failure(first)])).await;
    assert_eq!(failed.unwrap(), one());
    assert_eq!(counts(&path).await, [0, 1, 1, 0, 0]);
    let completed = meeting(&path, inbox.complete(&[second])).await;
    assert_eq!(completed.unwrap(), one());
    assert_eq!(counts(&path).await, [0, 1, 0, 1, 0]);
}

/// The control: the same push, repeated without a request id, is stored twice; and so is a claim.
#[tokio::test]
async fn a_call_without_an_identity_is_applied_twice() {
    const REQUEST: &str = "'0198b1a0-0000-7000-8000-000000000001'";
    for (request, count) in [(REQUEST, 1), ("null", 2)] {
        let path = open().await;
        let push = format!("select turno.inbox_push('{QUEUE}', '1', request => {request})");
        twice(&path, &push).await;
        assert_eq!(counts(&path).await, [count, 0, 0, 0, 0]);
    }
    for (request, count) in [(REQUEST, 1), ("null", 2)] {
        let path = open().await;
        let items = [1, 2].map(|number| Item::new(&number));
        path.direct.inbox(QUEUE).push_many(items).await.unwrap();
        let claim = format!("select turno.inbox_claim('{QUEUE}', request => {request})");
        twice(&path, &claim).await;
        assert_eq!(counts(&path).await, [2 - count, 0, count, 0, 0]);
    }
}

/// Sends a statement whose response is lost, and sends it again.
async fn twice(path: &LossyPath, sql: &str) {
    let lossy = client(&path.lossy_url).await;
    path.proxy.drop_next_answer();
    let lost = lossy.batch_execute(sql).await;
    assert!(lost.is_err(), "no answer was lost");
    let again = client(&path.lossy_url).await;
    again.run(sql).await;
}
