//! Answers that are lost on their way back: what was asked for has been done, and whoever asked does not know.
//!
//! Only PostgreSQL has a network to lose them on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};
use turno::Turno;
use turno::lock::{Acquire, HistoryEvent, Lease, Lock, LockHistory, ReleaseOutcome};
use turno_testkit::{PostgresServer, TcpProxy, eventually_async};

use crate::LONG;

/// Each with a database, a network and an instance of the library of its own.
const LINES: usize = 4;
const ROUNDS: usize = 20;

/// An instance of the library behind a network that loses answers, and a view of the database without it.
struct Line {
    proxy: TcpProxy,
    lossy_url: String,
    direct_url: String,
    /// One connection, so that the next request is the one that is meant.
    lossy: Turno,
    direct: Turno,
    observer: Client,
}

impl Line {
    async fn open() -> Self {
        let server = PostgresServer::shared();
        let url = tokio::task::spawn_blocking(|| server.create_database())
            .await
            .unwrap();
        let proxy = TcpProxy::start(([127, 0, 0, 1], server.port()).into())
            .await
            .unwrap();
        let lossy_url = format!("{}?application_name=lossy", proxy.url_for(&url));
        let direct = Turno::connect(&url).await.unwrap();
        let lossy = Turno::builder()
            .connections(1)
            .connect(&lossy_url)
            .await
            .unwrap();
        let observer = client(&url).await;
        Self {
            proxy,
            lossy_url,
            direct_url: url,
            lossy,
            direct,
            observer,
        }
    }

    /// Does something whose first answer is lost; and makes sure that it was.
    async fn losing<T>(&self, work: impl Future<Output = T>) -> T {
        let before = self.connection().await;
        self.proxy.drop_next_answer();
        let done = work.await;
        assert_ne!(self.connection().await, before, "no answer was lost");
        done
    }

    /// The server's process for the newest connection through the network.
    async fn connection(&self) -> Option<i32> {
        let row = self
            .observer
            .query_opt(
                "select pid
                from pg_stat_activity
                where datname = current_database()
                  and application_name = 'lossy'
                order by backend_start desc
                limit 1",
                &[],
            )
            .await
            .unwrap();
        row.map(|row| row.get(0))
    }

    /// How many connections through the network the server still has, broken or not.
    async fn proxied(&self, onlooker: &Client) -> i64 {
        let sql = "select count(*)
            from pg_stat_activity
            where datname = current_database()
              and application_name = 'lossy'";
        onlooker.query_one(sql, &[]).await.unwrap().get(0)
    }

    async fn holds(&self, resource: &str) -> u32 {
        let status = self.direct.lock(resource).status().await.unwrap();
        status.holders.first().map_or(0, |holder| holder.holds)
    }

    async fn events(&self, resource: &str) -> Vec<HistoryEvent> {
        let ask = LockHistory {
            resource: Some(resource.to_owned()),
            prefix: String::new(),
            before: None,
            limit: 100,
        };
        let history = self.direct.lock_history(ask).await.unwrap();
        history.into_iter().map(|entry| entry.event).collect()
    }
}

async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn taken(lock: Lock) -> Lease {
    match lock.acquire().await.unwrap() {
        Acquire::Acquired(lease) => lease,
        Acquire::Busy(busy) => panic!("nobody else has it: {busy:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_answer_was_lost_is_applied_once() {
    let mut lines = JoinSet::new();
    for _ in 0..LINES {
        lines.spawn(async {
            let line = Line::open().await;
            for round in 0..ROUNDS {
                once_each(&line, &format!("PRESTAMO/{round}")).await;
            }
        });
    }
    lines.join_all().await;
}

/// Taken, entered again, and given back twice, with every answer lost once.
async fn once_each(line: &Line, resource: &str) {
    let lock = line.lossy.lock(resource).owner("ana");

    let first = line.losing(taken(lock.clone())).await;
    assert_eq!(first.grant().holds, 1);
    assert!(!first.grant().reentered);
    assert_eq!(line.holds(resource).await, 1);

    let second = line.losing(taken(lock)).await;
    assert_eq!(second.token(), first.token());
    assert_eq!(second.grant().holds, 2);
    assert!(second.grant().reentered, "it was held already");
    assert_eq!(line.holds(resource).await, 2);

    let released = line.losing(second.release()).await.unwrap();
    assert_eq!(released, ReleaseOutcome::Released { holds: 1 });
    assert_eq!(line.holds(resource).await, 1);

    let released = line.losing(first.release()).await.unwrap();
    assert_eq!(released, ReleaseOutcome::Released { holds: 0 });
    assert_eq!(line.holds(resource).await, 0);
    assert_eq!(line.events(resource).await, [HistoryEvent::Released]);
}

/// The next holder comes in between a release and its repetition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_whose_answer_was_lost_is_no_loss_to_who_released() {
    let line = Line::open().await;
    for round in 0..ROUNDS {
        let resource = format!("PRESTAMO/{round}");
        let lease = taken(line.lossy.lock(&resource)).await;
        let next = tokio::spawn(taken(line.direct.lock(&resource).wait(LONG)));
        eventually_async(LONG, "somebody to wait", async || {
            let status = line.direct.lock(&resource).status().await.unwrap();
            (status.waiters == 1).then_some(())
        })
        .await;

        let released = line.losing(lease.release()).await.unwrap();
        let next = next.await.unwrap();
        assert_eq!(released, ReleaseOutcome::Released { holds: 0 });
        assert_eq!(
            line.events(&resource).await,
            [HistoryEvent::Acquired, HistoryEvent::Released],
            "nothing came late"
        );
        next.release().await.unwrap();
    }
}

/// Many tasks of one owner at once: the repetition of a call comes long after others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_among_many_calls_of_one_owner() {
    const TASKS: usize = 16;
    const CALLS: usize = 150;
    const RESOURCE: &str = "PRESTAMO/123";
    let line = Line::open().await;
    let many = Turno::builder()
        .connections(TASKS)
        .connect(&line.lossy_url)
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
    // One answer in so many, and none at the end, when there is little else on the line: no call loses all of its tries.
    let mut next = 0;
    while next < TASKS * CALLS / 2 {
        line.proxy.drop_next_answer();
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
    assert_eq!(line.holds(RESOURCE).await, 1);
    drop(base);
}

/// The connection breaks while a call waits inside the server, which does not know that nobody listens any more: the call
/// and its repetition go on together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repetition_that_meets_the_original_is_applied_once() {
    const RESOURCE: &str = "PRESTAMO/123";
    let line = Line::open().await;
    let lock = line.lossy.lock(RESOURCE).owner("ana");
    let first = taken(lock.clone()).await;
    // Somebody's guarded transaction, in front of both.
    let guard = format!(
        "begin; select turno.lock_guard('{RESOURCE}', {})",
        first.token()
    );
    line.observer.batch_execute(&guard).await.unwrap();
    let onlooker = client(&line.direct_url).await;
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
    line.proxy.cut().await;
    line.proxy.restore().await.unwrap();
    waiting(2).await;
    line.observer.batch_execute("commit").await.unwrap();
    let second = second.await.unwrap();
    assert_eq!(second.grant().holds, 2);
    eventually_async(LONG, "both to be done", async || {
        (line.proxied(&onlooker).await == 1).then_some(())
    })
    .await;
    assert_eq!(line.holds(RESOURCE).await, 2);
}

/// The control: the same call, repeated without the identity of the request, is applied twice.
#[tokio::test]
async fn a_call_without_an_identity_is_applied_twice() {
    const REQUEST: &str = "'0198b1a0-0000-7000-8000-000000000001'";
    let line = Line::open().await;
    for (round, request) in [REQUEST, "null"].into_iter().enumerate() {
        let resource = format!("PRESTAMO/{round}");
        let acquire = |request: &str| {
            format!(
                "select holds from turno.lock_acquire('{resource}', 'ana', request => {request})"
            )
        };
        line.observer.batch_execute(&acquire("null")).await.unwrap();

        let lossy = client(&line.lossy_url).await;
        line.proxy.drop_next_answer();
        let lost = lossy.batch_execute(&acquire(request)).await;
        assert!(lost.is_err(), "no answer was lost");
        let again = client(&line.lossy_url).await;
        again.batch_execute(&acquire(request)).await.unwrap();

        let doubled = request == "null";
        assert_eq!(line.holds(&resource).await, if doubled { 3 } else { 2 });
    }
}
