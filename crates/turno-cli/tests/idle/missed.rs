//! Changes that a program which sleeps for a quarter of an hour could miss.

use std::time::Duration;
use turno_testkit::sql::{client, replace_in_function};

use tokio_postgres::Client;
use turno::Settings;
use turno_testkit::{Sql as _, eventually_async};

use crate::actors::{Done, connect, worker};
use crate::common::LONG;
use crate::log::{new_database, statements, until_silent};

/// Longer than a worker needs after a notification or a poll.
const MISSED: Duration = Duration::from_secs(5);

/// Starts a push that is in progress when the worker goes to sleep, and has not seen the worker's mark.
async fn push_under_way(url: &str, begin: &str) -> (Client, Done) {
    let open = client(url).await;
    open.run(begin).await;
    open.run("select turno.inbox_push('q', '\"late\"')").await;
    let turno = connect(url, "worker", Settings::default()).await;
    let done = worker(&turno, "q");
    let watcher = client(url).await;
    eventually_async(LONG, "a worker that listens", async || {
        let rows = watcher.query_typed("select from turno.inbox_listener where queue = 'q'", &[]);
        (rows.await.unwrap().len() == 1).then_some(())
    })
    .await;
    (open, done)
}

/// The worker does not sleep before every such push has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_that_was_under_way_is_found() {
    let (url, database) = new_database();
    drop(connect(&url, "migrate", Settings::default()).await);
    let (open, mut done) = push_under_way(&url, "begin").await;
    // After many polls it is still polling.
    let looks = || statements(&database).get("worker").copied().unwrap_or(0);
    let before = looks();
    eventually_async(LONG, "looks", async || {
        (looks() > before + 20).then_some(())
    })
    .await;
    open.run("commit").await;
    assert_eq!(done.next().await, "late");
}

/// The control: a worker that assumes immediately that every push notifies misses it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_waiting_for_pushes_under_way_one_is_missed() {
    let (url, database) = new_database();
    drop(connect(&url, "migrate", Settings::default()).await);
    let owner = client(&url).await;
    let rule = "pg_snapshot_xmin(pg_current_snapshot()) >= mark.since";
    replace_in_function(&owner, "inbox_idle", rule, "true")
        .await
        .unwrap();
    let (open, mut done) = push_under_way(&url, "begin").await;
    until_silent(&[&database]).await;
    open.run("commit").await;
    assert!(done.is_silent(MISSED).await, "it was notified of nothing");
}

/// A transaction whose snapshot is from before the queue was marked notifies in any case.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_from_an_old_snapshot_wakes() {
    let (url, database) = new_database();
    let turno = connect(&url, "worker", Settings::default()).await;
    let open = client(&url).await;
    open.run("begin isolation level repeatable read; select count(*) from turno.inbox_listener")
        .await;
    let mut done = worker(&turno, "q");
    until_silent(&[&database]).await;
    open.run("select turno.inbox_push('q', '\"old\"'); commit")
        .await;
    assert_eq!(done.next().await, "old");
}

/// The listening connection is lost, and so is a notification that is sent before there is another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_wakes() {
    let (url, database) = new_database();
    let turno = connect(&url, "worker", Settings::default()).await;
    let mut done = worker(&turno, "q");
    until_silent(&[&database]).await;
    let other = client(&url).await;
    let lose = "select pg_terminate_backend(pid, 5000) from pg_stat_activity
        where application_name = 'worker' and datname = current_database() and query like '%turno.notifies%'";
    let lost = other.query_typed(lose, &[]).await.unwrap();
    assert_eq!(lost.len(), 1, "the worker listened");
    let pusher = connect(&url, "other", Settings::default()).await;
    for number in ["1", "2"] {
        pusher.inbox("q").push(number).await.unwrap();
        assert_eq!(done.next().await, number);
    }
    until_silent(&[&database]).await;
}

/// After a worker has ended, notifications are sent to it only until the next busy worker checks which workers listen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_gone_is_forgotten() {
    let (url, _) = new_database();
    let turno = connect(&url, "worker", Settings::default()).await;
    let gone = "insert into turno.inbox_listener values ('q', now() + '1 hour', '1')";
    let owner = client(&url).await;
    owner.run(gone).await;
    turno.store().inbox_rouse("q").await.unwrap();
    let left = "select until < now() + '1 minute' from turno.inbox_listener where queue = 'q'";
    let rows = owner.query_typed(left, &[]).await.unwrap();
    assert!(rows[0].get::<_, bool>(0));
}
