//! Waiters that sleep until the end of a lease of an hour, and faults that could leave them asleep.

use std::time::Duration;

use turno::Settings;
use turno_testkit::eventually_async;

use crate::actors::{HOUR, connect, lock_waiter, once_waiter};
use crate::common::{LONG, ask_postgres};
use crate::log::{new_database, start_server, until_silent, until_silent_at};

/// A failed primary loses its list of waiters, because the table is unlogged. Waiters register again on the new one, and are
/// notified of the release there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_that_sleep_are_woken_after_a_failover() {
    let primary = start_server();
    let database = primary.create_database();
    let database = database.rsplit('/').next().unwrap();
    let standby = primary.start_standby().unwrap();
    let url = format!(
        "postgres://owner@127.0.0.1:{},127.0.0.1:{}/{database}?target_session_attrs=read-write",
        primary.port(),
        standby.port()
    );
    let holder = connect(&url, "holder", Settings::default()).await;
    let held = holder.lock("held").ttl(HOUR).acquire().await.unwrap();
    let lease = held.acquired().unwrap();
    let running = holder.once("running").lease(HOUR).begin().await.unwrap();
    let running = running.fresh().unwrap();

    let turno = connect(&url, "waiter", Settings::default()).await;
    let any = lock_waiter(&turno, "held", false);
    let fifo = lock_waiter(&turno, "held", true);
    let once = once_waiter(&turno, "running");
    until_silent_at(&primary, &[database]).await;

    primary.kill_9().unwrap();
    standby.promote().unwrap();
    eventually_async(LONG, "the new primary to be found", async || {
        holder.store().check_writable().await.ok()
    })
    .await;
    lease.release().await.unwrap();
    running.complete(&"the holder's").await.unwrap();
    let woken = async { (any.await.unwrap(), fifo.await.unwrap(), once.await.unwrap()) };
    let woken = tokio::time::timeout(LONG, woken)
        .await
        .expect("to be woken");
    assert_eq!(woken, (true, true, "the holder's".to_owned()));
}

/// The first waiter has died without unregistering. The next one is served when the registration of the first has expired,
/// although it was asleep when the lock was released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_waiter_at_the_head_of_a_line_is_passed_over() {
    let (url, database) = new_database();
    let holder = connect(&url, "holder", Settings::default()).await;
    let held = holder.lock("held").ttl(HOUR).acquire().await.unwrap();
    let lease = held.acquired().unwrap();
    ask_postgres(
        &url,
        "select turno.lock_wait('held', 'dead', fifo => true)::text",
    );
    let turno = connect(&url, "waiter", Settings::default()).await;
    let mut next = lock_waiter(&turno, "held", true);
    until_silent(&[&database]).await;
    lease.release().await.unwrap();
    let early = tokio::time::timeout(Duration::from_secs(1), &mut next).await;
    assert!(early.is_err(), "the one before it may still be there");
    let served = tokio::time::timeout(LONG, next).await;
    assert!(served.expect("to be served").unwrap());
}
