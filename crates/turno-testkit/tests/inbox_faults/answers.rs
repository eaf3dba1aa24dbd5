//! Answers that are lost on their way back: what was asked for has been done, and whoever asked does not know.
//!
//! Only PostgreSQL has a network to lose them on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::inbox::{Again, ClaimId, ClaimedItem, Failure, Inbox, Item, Job, Settled};
use turno_testkit::{PostgresServer, TcpProxy, eventually_async};

use crate::LONG;
use crate::place::{QUEUE, client};

const ROUNDS: u64 = 10;

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
        // A call that meets a lock would end after a second, and here it has to wait for its repetition.
        let settings = "application_name=lossy&options=-clock_timeout%3D60s";
        let lossy_url = format!("{}?{settings}", proxy.url_for(&url));
        let direct = Turno::connect(&url).await.unwrap();
        let lossy = Turno::builder()
            .connections(1)
            .connect(&lossy_url)
            .await
            .unwrap();
        let line = Self {
            proxy,
            lossy_url,
            lossy,
            direct,
            observer: client(&url).await,
            direct_url: url,
        };
        line.settle_down().await;
        line
    }

    /// The first claim begins to listen, on a connection of its own: what is asked after that is asked by the test.
    async fn settle_down(&self) {
        assert_eq!(take(&self.inbox()).await, []);
        eventually_async(LONG, "somebody to listen", async || {
            let sql = "select count(*)
                from pg_stat_activity
                where datname = current_database()
                  and application_name = 'lossy'
                  and state = 'idle'
                  and query like '%turno.notifies%'";
            let row = self.observer.query_one(sql, &[]).await.unwrap();
            (row.get::<_, i64>(0) == 1).then_some(())
        })
        .await;
    }

    fn inbox(&self) -> Inbox {
        self.lossy.inbox(QUEUE)
    }

    /// Does something whose first answer is lost; and makes sure that it was.
    async fn losing<T>(&self, work: impl Future<Output = T>) -> T {
        let before = self.connection().await;
        self.proxy.drop_next_answer();
        let done = work.await;
        assert_ne!(self.connection().await, before, "no answer was lost");
        done
    }

    /// Does something that waits inside the server, and is repeated there while it does.
    async fn meeting<T>(&self, work: impl Future<Output = T>) -> T {
        // Somebody's transaction, in front of both. Not the observer's, which would see the same all the time in it.
        let other = client(&self.direct_url).await;
        let lock = "begin; lock table turno.inbox_item, turno.inbox_batch in share mode";
        other.batch_execute(lock).await.unwrap();
        let fault = async {
            let original = self.await_blocked(&[]).await;
            self.proxy.cut().await;
            self.proxy.restore().await.unwrap();
            // The library cancels the original if the network is restored before it gives up on that: usually it is not.
            self.await_blocked(&original).await;
            other.batch_execute("commit").await.unwrap();
        };
        let (done, ()) = tokio::join!(work, fault);
        // The original may be the slower one.
        eventually_async(LONG, "no call that waits inside the server", async || {
            self.blocked().await.is_empty().then_some(())
        })
        .await;
        done
    }

    /// Waits for a call, in none of these sessions, that waits inside the server. Returns its session.
    async fn await_blocked(&self, others: &[i32]) -> Vec<i32> {
        eventually_async(LONG, "a call that waits inside the server", async || {
            let mut blocked = self.blocked().await;
            blocked.retain(|pid| !others.contains(pid));
            (!blocked.is_empty()).then_some(blocked)
        })
        .await
    }

    /// The sessions through the network that wait for a lock.
    async fn blocked(&self) -> Vec<i32> {
        let sql = "select pid
            from pg_stat_activity
            where datname = current_database()
              and application_name = 'lossy'
              and wait_event_type = 'Lock'";
        let rows = self.observer.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// The server's process for the newest connection through the network.
    async fn connection(&self) -> Option<i32> {
        let sql = "select pid
            from pg_stat_activity
            where datname = current_database()
              and application_name = 'lossy'
            order by backend_start desc
            limit 1";
        let row = self.observer.query_opt(sql, &[]).await.unwrap();
        row.map(|row| row.get(0))
    }

    /// Pending, scheduled, processing, completed, failed.
    async fn counts(&self) -> [u64; 5] {
        let stats = match self.direct.inbox(QUEUE).stats().await {
            // Nothing was stored yet.
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

/// Each call twice: once so that the connection knows its statement, and then with its answer lost. The second is then one
/// request, and it is the call itself that is repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_answer_was_lost_is_applied_once() {
    let line = Line::open().await;
    for round in 0..ROUNDS {
        completed_once(&line, round).await;
    }
    let done = line.counts().await[3];
    assert_eq!(done, 2 * ROUNDS);
}

async fn completed_once(line: &Line, round: u64) {
    let inbox = line.inbox();
    let done = 2 * round;
    let first = inbox.push("first").await.unwrap();
    let second = line.losing(inbox.push("second")).await.unwrap();
    assert!(!second.duplicate, "its repetition is no duplicate");
    assert!(second.id > first.id);
    assert_eq!(line.counts().await, [2, 0, 0, done, 0]);

    let a = take_one(&inbox).await;
    let b = line.losing(take_one(&inbox)).await;
    assert_eq!((a.item, b.item), (first.id, second.id));
    assert_eq!(line.counts().await, [0, 0, 2, done, 0]);

    assert_eq!(inbox.extend(&[a], LONG).await.unwrap(), one());
    let extended = line.losing(inbox.extend(&[b], LONG)).await;
    assert_eq!(extended.unwrap(), one());

    assert_eq!(inbox.complete(&[a]).await.unwrap(), one());
    let completed = line.losing(inbox.complete(&[b])).await.unwrap();
    assert_eq!(completed, one(), "its own completion is not stale");
    assert_eq!(line.counts().await, [0, 0, 0, done + 2, 0]);
}

/// A failure is counted once, and what was given back is given back once, also when its answer was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_whose_answer_was_lost_is_counted_once() {
    let line = Line::open().await;
    let inbox = line.inbox();
    for _ in 0..2 * ROUNDS {
        inbox.push("work").await.unwrap();
    }
    for round in 0..ROUNDS {
        let (a, b) = (take_one(&inbox).await, take_one(&inbox).await);
        assert_eq!(inbox.give_back(&[a]).await.unwrap(), one());
        let given = line.losing(inbox.give_back(&[b])).await.unwrap();
        assert_eq!(given, one());
        // What was given back has its turn first, and no attempt of it was counted.
        let (a, b) = (take_one(&inbox).await, take_one(&inbox).await);
        assert_eq!(inbox.fail(&[failure(a)]).await.unwrap(), one());
        let failed = line.losing(inbox.fail(&[failure(b)])).await.unwrap();
        assert_eq!(failed, one());
        let scheduled = 2 * (round + 1);
        let expected = [2 * ROUNDS - scheduled, scheduled, 0, 0, 0];
        assert_eq!(line.counts().await, expected);
    }
    let views = line.direct.inbox(QUEUE);
    let state = turno::inbox::ItemState::Scheduled;
    for view in views.list(state, None, 100).await.unwrap() {
        assert_eq!((view.attempts, view.errors.len()), (1, 1), "{view:?}");
    }
}

fn failure(claim: ClaimId) -> Failure {
    Failure {
        claim,
        error: "not now".to_owned(),
        // It does not come back in the course of the test.
        retry_in: Some(Duration::from_secs(3600)),
        again: Again::Retry,
    }
}

/// A worker behind such a network: every handler is called once, and no claim is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_does_each_item_once() {
    const ITEMS: usize = 2000;
    /// One answer is lost in so many items.
    const BETWEEN: usize = 50;
    let line = Line::open().await;
    let items = (0..ITEMS).map(|number| Item::new(&number));
    line.direct.inbox(QUEUE).push_many(items).await.unwrap();

    let calls: Arc<Mutex<HashMap<usize, usize>>> = Arc::default();
    let handler = {
        let calls = calls.clone();
        move |job: Job<usize>| {
            *calls.lock().unwrap().entry(job.payload).or_default() += 1;
            let first = job.attempt() == 1;
            async move { first.then_some(()).ok_or("it was attempted before") }
        }
    };
    let many = Turno::builder().connections(4).connect(&line.lossy_url);
    let worker = many.await.unwrap().inbox(QUEUE).worker(handler);
    let stop = CancellationToken::new();
    let running = tokio::spawn(worker.run(stop.clone().cancelled_owned()));
    // None at the end, when there is little else on the line: no call loses all of its tries.
    for next in (BETWEEN..ITEMS - BETWEEN).step_by(BETWEEN) {
        line.proxy.drop_next_answer();
        eventually_async(LONG, "the worker to go on", async || {
            (calls.lock().unwrap().len() >= next).then_some(())
        })
        .await;
    }
    eventually_async(LONG, "all items", async || {
        (line.counts().await[3] == ITEMS as u64).then_some(())
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

/// The connection breaks while a call waits inside the server, which does not know that nobody listens any more: the call
/// and its repetition go on together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repetition_that_meets_the_original_is_applied_once() {
    let line = Line::open().await;
    let inbox = line.inbox();
    line.direct.inbox(QUEUE).push("first").await.unwrap();

    let push = async { inbox.push("second").await.unwrap() };
    assert!(!line.meeting(push).await.duplicate);
    assert_eq!(line.counts().await, [2, 0, 0, 0, 0]);

    let first = line.meeting(take_one(&inbox)).await;
    assert_eq!(line.counts().await, [1, 0, 1, 0, 0]);
    let given = line.meeting(inbox.give_back(&[first])).await;
    assert_eq!(given.unwrap(), one());
    assert_eq!(line.counts().await, [2, 0, 0, 0, 0]);

    let (first, second) = (take_one(&inbox).await, take_one(&inbox).await);
    let failed = line.meeting(inbox.fail(&[failure(first)])).await;
    assert_eq!(failed.unwrap(), one());
    assert_eq!(line.counts().await, [0, 1, 1, 0, 0]);
    let completed = line.meeting(inbox.complete(&[second])).await;
    assert_eq!(completed.unwrap(), one());
    assert_eq!(line.counts().await, [0, 1, 0, 1, 0]);
}

/// The control: the same push, repeated without the identity of the request, is stored twice; and so is a claim.
#[tokio::test]
async fn a_call_without_an_identity_is_applied_twice() {
    const REQUEST: &str = "'0198b1a0-0000-7000-8000-000000000001'";
    for (request, count) in [(REQUEST, 1), ("null", 2)] {
        let line = Line::open().await;
        let push = format!("select turno.inbox_push('{QUEUE}', '1', request => {request})");
        twice(&line, &push).await;
        assert_eq!(line.counts().await, [count, 0, 0, 0, 0]);
    }
    for (request, count) in [(REQUEST, 1), ("null", 2)] {
        let line = Line::open().await;
        let items = [1, 2].map(|number| Item::new(&number));
        line.direct.inbox(QUEUE).push_many(items).await.unwrap();
        let claim = format!("select turno.inbox_claim('{QUEUE}', request => {request})");
        twice(&line, &claim).await;
        assert_eq!(line.counts().await, [2 - count, 0, count, 0, 0]);
    }
}

/// Sends a statement whose answer is lost, and sends it again.
async fn twice(line: &Line, sql: &str) {
    let lossy = client(&line.lossy_url).await;
    line.proxy.drop_next_answer();
    let lost = lossy.batch_execute(sql).await;
    assert!(lost.is_err(), "no answer was lost");
    let again = client(&line.lossy_url).await;
    again.batch_execute(sql).await.unwrap();
}
