//! A worker under a steady load claims at short intervals, and pushes do not notify meanwhile (`turno.inbox_poll`).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_postgres::Client;
use turno::Settings;
use turno::inbox::Job;
use turno_testkit::sql::{client, replace_in_function};
use turno_testkit::{Sql as _, eventually_async};

use crate::actors::{Done, connect, worker};
use crate::common::LONG;
use crate::log::{new_database, until_silent};

/// Longer than an idle worker needs.
const MISSED: Duration = Duration::from_secs(5);

/// A worker that sleeps, and a session of the owner. `without` is removed from `inbox_poll`.
async fn sleeping(without: &str) -> (Done, Client, String, String) {
    let (url, database) = new_database();
    drop(connect(&url, "migrate", Settings::default()).await);
    let owner = client(&url).await;
    if !without.is_empty() {
        replace_in_function(&owner, "inbox_poll", without, "")
            .await
            .unwrap();
    }
    let turno = connect(&url, "worker", Settings::default()).await;
    let done = worker(&turno, "q");
    until_silent(&[&database]).await;
    (done, owner, url, database)
}

/// Wakes the sleeping workers.
const WAKE: &str = "perform turno.wake('turno_inbox', 'inbox:' || inbox_poll.queue);";

/// The worker that polls says so, and is not seen again. A push that notified no worker is found when its time is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_vanishes_while_it_polls_delays_little() {
    let (mut done, owner, _, database) = sleeping("").await;
    owner.run("select turno.inbox_poll('q', '2 s')").await;
    owner.run("select turno.inbox_push('q', '\"1\"')").await;
    assert_eq!(done.next().await, "1");
    // And all is as it was.
    until_silent(&[&database]).await;
    owner.run("select turno.inbox_push('q', '\"2\"')").await;
    assert_eq!(done.next().await, "2");
}

/// The control: workers that sleep already do not know it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn if_it_wakes_no_worker_a_push_is_missed() {
    let (mut done, owner, ..) = sleeping(WAKE).await;
    owner.run("select turno.inbox_poll('q', '2 s')").await;
    owner.run("select turno.inbox_push('q', '\"1\"')").await;
    assert!(done.is_silent(MISSED).await);
}

/// Pushes while a worker polls, in a transaction that stays open until it has stopped.
async fn push_under_way(owner: &Client, url: &str) -> Client {
    owner.run("select turno.inbox_poll('q', '2 s')").await;
    let open = client(url).await;
    open.run("begin; select turno.inbox_push('q', '\"late\"')")
        .await;
    owner.run("select turno.inbox_poll('q', '0')").await;
    open
}

/// A push that notifies no worker, because a worker polled when it began, is found also if that one has stopped before it commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_that_ends_after_the_polling_is_found() {
    let (mut done, owner, url, _) = sleeping("").await;
    let open = push_under_way(&owner, &url).await;
    assert!(done.is_silent(Duration::from_secs(1)).await);
    open.run("commit").await;
    assert_eq!(done.next().await, "late");
}

/// The control: if the mark does not begin anew, a worker believes that every push notified.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_old_mark_it_is_missed() {
    let (mut done, owner, url, database) = sleeping(",\n        since = null").await;
    let open = push_under_way(&owner, &url).await;
    until_silent(&[&database]).await;
    open.run("commit").await;
    assert!(done.is_silent(MISSED).await);
}

/// Whether a worker polls the queue; `None` if it has said that it stopped.
async fn polls(owner: &Client) -> Option<bool> {
    let sql = "select polled_until > clock_timestamp() from turno.inbox_listener where queue = 'q'";
    owner.row(sql).await.get(0)
}

/// Pushes until the worker polls.
async fn push_until_it_polls(owner: &Client) {
    eventually_async(LONG, "a worker that polls", async || {
        let some = "select turno.inbox_push('q', '\"1\"') from generate_series(1, 20)";
        owner.run(some).await;
        polls(owner).await.filter(|polls| *polls)
    })
    .await;
}

async fn until_it_stops(owner: &Client) {
    eventually_async(LONG, "a worker that stops polling", async || {
        polls(owner).await.is_none().then_some(())
    })
    .await;
}

/// Under a steady load a worker polls. When it is over, the worker sleeps, and the next push wakes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_worker_polls_and_sleeps_afterwards() {
    let (mut done, owner, _, database) = sleeping("").await;
    push_until_it_polls(&owner).await;
    until_it_stops(&owner).await;
    until_silent(&[&database]).await;
    owner.run("select turno.inbox_push('q', '\"last\"')").await;
    while done.next().await != "last" {}
}

/// A worker whose handlers are all busy does not claim, so it stops polling, and pushes wake other workers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_without_room_does_not_poll() {
    let (url, database) = new_database();
    let turno = connect(&url, "worker", Settings::default()).await;
    let open = Arc::new(Semaphore::new(1));
    let gate = open.clone();
    let handler = move |_: Job<String>| {
        let gate = gate.clone();
        async move {
            drop(gate.acquire().await.unwrap());
            Ok::<_, Infallible>(())
        }
    };
    let worker = turno.inbox("q").worker(handler).concurrency(64);
    tokio::spawn(worker.run(std::future::pending()));
    until_silent(&[&database]).await;
    let owner = client(&url).await;
    push_until_it_polls(&owner).await;
    let shut = open.acquire().await.unwrap();
    // More than it claims ahead.
    let many = "select turno.inbox_push('q', '\"1\"') from generate_series(1, 2000)";
    owner.run(many).await;
    until_it_stops(&owner).await;
    drop(shut);
}
