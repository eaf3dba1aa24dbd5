//! Idle programs send no statements.

use std::time::Duration;

use tokio::task::JoinError;
use turno::Settings;
use turno::outbox::{Event, Mode};
use turno_testkit::conformance::acquired;
use turno_testkit::eventually_async;

use crate::actors::*;
use crate::common::LONG;
use crate::log::{new_database, statements, until_silent};

/// How long the log has to stay empty.
const WINDOW: Duration = Duration::from_secs(8);
/// Sets another time in seconds, to measure: the statements of each application are then printed, and need not be zero.
pub const WINDOW_VARIABLE: &str = "TURNO_IDLE_WINDOW";

/// A worker, relays of two modes, waiters of every kind and a server, all idle: the log stays empty. Then each is
/// given something to do, and does it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_nothing_to_do_sends_nothing() {
    let (url, database) = new_database();
    let (alone_url, alone_database) = new_database();
    let connect = async |url: &str, name: &str| connect(url, name, Settings::default()).await;
    let other = connect(&url, "other").await;
    let held = acquired(other.lock("r").ttl(HOUR)).await;
    let lined = acquired(other.lock("line").ttl(HOUR)).await;
    let run = other
        .once("k")
        .lease(HOUR)
        .begin()
        .await
        .unwrap()
        .fresh()
        .unwrap();

    let mut worker = worker(&connect(&url, "worker").await, "q");
    let mut parallel = relay(&connect(&url, "parallel").await, Mode::Parallel, "parallel");
    let mut single = relay(&connect(&alone_url, "single").await, Mode::Single, "single");
    let claim = claim_waiter(&connect(&url, "claim").await, "by hand");
    let lock = lock_waiter(&connect(&url, "lock-waiter").await, "r", false);
    let fifo = lock_waiter(&connect(&url, "fifo-waiter").await, "line", true);
    let once = once_waiter(&connect(&url, "once-waiter").await, "k");
    let serving = serve(&url, "[serve]\nmax_wait = \"1h\"\n");
    let readers = [
        hold(other.lock("read").shared()).await,
        hold(other.lock("read").shared()).await,
    ];
    let writer = connect(&url, "writer").await;
    let writes = wait_for(writer.lock("read").wait(HOUR));
    let permit = || other.lock("permits").permits(2);
    let permits = [hold(permit()).await, hold(permit()).await];
    let permitted = connect(&url, "permit-waiter").await;
    let permitted = wait_for(permitted.lock("permits").permits(2).wait(HOUR));
    let alone = hold(other.lock("alone")).await;
    let reader = connect(&url, "reader").await;
    let reads = wait_for(reader.lock("alone").shared().wait(HOUR));
    let over_http = || other.lock("over http").shared();
    let clients = [hold(over_http()).await, hold(over_http()).await];
    let writes_over_http = serving.wait_for("over http");

    let databases = [database.as_str(), alone_database.as_str()];
    until_silent(&databases).await;
    let before = databases.map(statements);
    match std::env::var(WINDOW_VARIABLE) {
        Ok(seconds) => {
            tokio::time::sleep(Duration::from_secs(seconds.parse().unwrap())).await;
            for (before, after) in before.iter().zip(databases.map(statements)) {
                for (name, count) in after {
                    let sent = count - before.get(&name).unwrap_or(&0);
                    println!("{name}: {sent} statements in {seconds} s");
                }
            }
        }
        Err(_) => {
            tokio::time::sleep(WINDOW).await;
            assert_eq!(before, databases.map(statements), "nothing was sent");
        }
    }
    for name in [
        "worker",
        "parallel",
        "claim",
        "lock-waiter",
        "fifo-waiter",
        "once-waiter",
        "writer",
        "permit-waiter",
        "reader",
        "serve",
    ] {
        assert!(
            before[0].contains_key(name),
            "{name} has been at work: {before:?}"
        );
    }
    assert!(before[1].contains_key("single"), "{before:?}");

    // Each of these is notified: without that, none would poll for a quarter of an hour.
    for number in ["1", "2", "3"] {
        other.inbox("q").push(number).await.unwrap();
        assert_eq!(worker.next().await, number);
        other
            .outbox()
            .emit_many(&[Event::new(number, &())])
            .await
            .unwrap();
        assert_eq!(parallel.next().await, number);
        let emitter = connect(&alone_url, "emitter").await;
        emitter
            .outbox()
            .emit_many(&[Event::new(number, &())])
            .await
            .unwrap();
        assert_eq!(single.next().await, number);
    }
    other.inbox("by hand").push("x").await.unwrap();
    assert_eq!(soon(claim).await, 1);
    held.release().await.unwrap();
    assert!(soon(lock).await, "the waiter had the lock");
    lined.release().await.unwrap();
    assert!(soon(fifo).await, "the waiter in line had the lock");
    let [first, second] = readers;
    let (first, second) = tokio::join!(first.release(), second.release());
    assert!(first.and(second).is_ok());
    assert!(soon(writes).await, "the writer had the lock");
    let [permit, _other_permit] = permits;
    permit.release().await.unwrap();
    assert!(soon(permitted).await, "the waiter had a permit");
    alone.release().await.unwrap();
    assert!(soon(reads).await, "the reader had the lock");
    let [first, second] = clients;
    let (first, second) = tokio::join!(first.release(), second.release());
    assert!(first.and(second).is_ok());
    assert!(soon(writes_over_http).await, "the client had the lock");
    run.complete(&"the answer").await.unwrap();
    assert_eq!(soon(once).await, "the answer");
}

/// The control: with a maximum pause of a second, each of them polls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bound_of_a_second_is_kept() {
    let (url, database) = new_database();
    let mut settings = Settings::default();
    settings.idle_poll_max = Duration::from_secs(1);
    let connect = async |name: &str| connect(&url, name, settings.clone()).await;
    let other = connect("other").await;
    let _held = acquired(other.lock("r").ttl(HOUR)).await;
    let _run = other
        .once("k")
        .lease(HOUR)
        .begin()
        .await
        .unwrap()
        .fresh()
        .unwrap();
    let _worker = worker(&connect("worker").await, "q");
    let _parallel = relay(&connect("parallel").await, Mode::Parallel, "parallel");
    let _claim = claim_waiter(&connect("claim").await, "by hand");
    let _lock = lock_waiter(&connect("lock-waiter").await, "r", false);
    let _once = once_waiter(&connect("once-waiter").await, "k");
    let cleanup = "idle_poll_max = \"1s\"\n[cleanup]\ninterval = \"1s\"\n";
    let _serving = serve(&url, cleanup);
    // Two windows, so that what they do at their start is over.
    for _ in 0..2 {
        let before = statements(&database);
        eventually_async(LONG, "statements of each", async || {
            let now = statements(&database);
            [
                "worker",
                "parallel",
                "claim",
                "lock-waiter",
                "once-waiter",
                "serve",
            ]
            .iter()
            .all(|name| now.get(*name) > before.get(*name))
            .then_some(())
        })
        .await;
    }
}

pub async fn soon<T>(task: impl Future<Output = Result<T, JoinError>>) -> T {
    tokio::time::timeout(LONG, task)
        .await
        .expect("to be woken")
        .unwrap()
}
