//! Lost responses: the call was executed, but the caller does not know that.
//!
//! Only PostgreSQL has a network on which responses can be lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;
use tokio_postgres::Client;
use turno::Turno;
use turno::history::{History, Part};
use turno::lock::{Acquire, HistoryEvent, Lease, Lock, ReleaseOutcome};
use turno_testkit::faults::{LossyPath, client};
use turno_testkit::{Sql as _, eventually_async};

use crate::LONG;

/// Number of concurrent paths. Each has a database, a proxy and an instance of the library.
const PATHS: usize = 4;
const ROUNDS: usize = 20;

/// Returns the number of connections through the proxy that the server still has, broken or not.
async fn proxied(onlooker: &Client) -> i64 {
    let sql = "select count(*)
        from pg_stat_activity
        where datname = current_database()
          and application_name = 'lossy'";
    onlooker.query_one(sql, &[]).await.unwrap().get(0)
}

async fn holds(path: &LossyPath, resource: &str) -> u32 {
    let status = path.direct.lock(resource).status().await.unwrap();
    status.holders.first().map_or(0, |holder| holder.holds)
}

async fn events(path: &LossyPath, resource: &str) -> Vec<HistoryEvent> {
    let ask = History {
        part: Some(Part::Lock),
        resource: Some(resource.to_owned()),
        prefix: String::new(),
        before: None,
        limit: 100,
    };
    let history = path.direct.history(ask).await.unwrap();
    history.into_iter().map(|entry| entry.event).collect()
}

async fn taken(lock: Lock) -> Lease {
    match lock.acquire().await.unwrap() {
        Acquire::Acquired(lease) => lease,
        Acquire::Busy(busy) => panic!("no other caller has it: {busy:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_answer_was_lost_is_applied_once() {
    let mut paths = JoinSet::new();
    for _ in 0..PATHS {
        paths.spawn(async {
            let path = LossyPath::open().await;
            for round in 0..ROUNDS {
                once_each(&path, &format!("PRESTAMO/{round}")).await;
            }
        });
    }
    paths.join_all().await;
}

/// Acquires, acquires reentrantly, and releases twice. Every response is lost once.
async fn once_each(path: &LossyPath, resource: &str) {
    let lock = path.lossy.lock(resource).owner("ana");

    let first = path.losing(taken(lock.clone())).await;
    assert_eq!(first.grant().holds, 1);
    assert!(!first.grant().reentered);
    assert_eq!(holds(path, resource).await, 1);

    let second = path.losing(taken(lock)).await;
    assert_eq!(second.token(), first.token());
    assert_eq!(second.grant().holds, 2);
    assert!(second.grant().reentered, "it was held already");
    assert_eq!(holds(path, resource).await, 2);

    let released = path.losing(second.release()).await.unwrap();
    assert_eq!(released, ReleaseOutcome::Released { holds: 1 });
    assert_eq!(holds(path, resource).await, 1);

    let released = path.losing(first.release()).await.unwrap();
    assert_eq!(released, ReleaseOutcome::Released { holds: 0 });
    assert_eq!(holds(path, resource).await, 0);
    assert_eq!(events(path, resource).await, [HistoryEvent::Released]);
}

/// The next holder acquires between a release and its repetition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_whose_answer_was_lost_is_no_loss_to_who_released() {
    let path = LossyPath::open().await;
    for round in 0..ROUNDS {
        let resource = format!("PRESTAMO/{round}");
        let lease = taken(path.lossy.lock(&resource)).await;
        let next = tokio::spawn(taken(path.direct.lock(&resource).wait(LONG)));
        eventually_async(LONG, "a waiter", async || {
            let status = path.direct.lock(&resource).status().await.unwrap();
            (status.waiters == 1).then_some(())
        })
        .await;

        let released = path.losing(lease.release()).await.unwrap();
        let next = next.await.unwrap();
        assert_eq!(released, ReleaseOutcome::Released { holds: 0 });
        assert_eq!(
            events(&path, &resource).await,
            [HistoryEvent::Acquired, HistoryEvent::Released],
            "nothing came late"
        );
        next.release().await.unwrap();
    }
}

/// Many concurrent tasks of one owner: the repetition of a call arrives long after other calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_among_many_calls_of_one_owner() {
    const TASKS: usize = 16;
    const CALLS: usize = 150;
    const RESOURCE: &str = "PRESTAMO/123";
    let path = LossyPath::open().await;
    let many = Turno::builder()
        .connections(TASKS)
        .connect(&path.lossy_url)
        .await
        .unwrap();
    let lock = many.lock(RESOURCE).owner("ana");
    let base = taken(lock.clone()).await;

    let calls = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (lock, calls) = (lock.clone(), calls.clone());
        tasks.spawn(async move {
            for _ in 0..CALLS {
                let lease = taken(lock.clone()).await;
                let released = lease.release().await.unwrap();
                assert!(matches!(released, ReleaseOutcome::Released { holds: 1.. }));
                calls.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    // One lost response per 40 calls, and none at the end, when there are few other calls: no call loses all of its attempts.
    let mut next = 0;
    while next < TASKS * CALLS / 2 {
        path.proxy.drop_next_answer();
        next += 40;
        eventually_async(LONG, "the tasks to go on", async || {
            if let Some(Err(error)) = tasks.try_join_next() {
                panic!("{error}");
            }
            (calls.load(Ordering::Relaxed) >= next).then_some(())
        })
        .await;
    }
    tasks.join_all().await;
    assert_eq!(holds(&path, RESOURCE).await, 1);
    drop(base);
}

/// The connection breaks while a call waits in the server, which does not notice that its client has gone: the call
/// and its repetition run concurrently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repetition_that_meets_the_original_is_applied_once() {
    const RESOURCE: &str = "PRESTAMO/123";
    let path = LossyPath::open().await;
    let lock = path.lossy.lock(RESOURCE).owner("ana");
    let first = taken(lock.clone()).await;
    // A guarded transaction of another session, which blocks both.
    let guard = format!(
        "begin; select turno.lock_guard('{RESOURCE}', {})",
        first.token()
    );
    path.observer.run(&guard).await;
    let onlooker = client(&path.direct_url).await;
    let waiting = async |count: i64| {
        eventually_async(LONG, "calls that wait inside the server", async || {
            let sql = "select count(*)
                from pg_stat_activity
                where datname = current_database()
                  and application_name = 'lossy'
                  and wait_event_type = 'Lock'";
            let row = onlooker.query_one(sql, &[]).await.unwrap();
            (row.get::<_, i64>(0) == count).then_some(())
        })
        .await;
    };

    let second = tokio::spawn(taken(lock));
    waiting(1).await;
    path.proxy.cut().await;
    path.proxy.restore().await.unwrap();
    waiting(2).await;
    path.observer.run("commit").await;
    let second = second.await.unwrap();
    assert_eq!(second.grant().holds, 2);
    eventually_async(LONG, "both to be done", async || {
        (proxied(&onlooker).await == 1).then_some(())
    })
    .await;
    assert_eq!(holds(&path, RESOURCE).await, 2);
}

/// The control: the same call, repeated without a request id, is applied twice.
#[tokio::test]
async fn a_call_without_an_identity_is_applied_twice() {
    const REQUEST: &str = "'0198b1a0-0000-7000-8000-000000000001'";
    let path = LossyPath::open().await;
    for (round, request) in [REQUEST, "null"].into_iter().enumerate() {
        let resource = format!("PRESTAMO/{round}");
        let acquire = |request: &str| {
            format!(
                "select holds from turno.lock_acquire('{resource}', 'ana', request => {request})"
            )
        };
        path.observer.run(&acquire("null")).await;

        let lossy = client(&path.lossy_url).await;
        path.proxy.drop_next_answer();
        let lost = lossy.batch_execute(&acquire(request)).await;
        assert!(lost.is_err(), "no answer was lost");
        let again = client(&path.lossy_url).await;
        again.run(&acquire(request)).await;

        let doubled = request == "null";
        assert_eq!(holds(&path, &resource).await, if doubled { 3 } else { 2 });
    }
}
