//! How soon a waiter in another process gets a released lock.

use std::time::{Duration, Instant};

use turno_testkit::faults::{client, on_postgres};
use turno_testkit::sql::replace_in_function;
use turno_testkit::{eventually, on_each_store};

use crate::LONG;
use crate::actor::Actor;
use crate::fixture::Fixture;

const RESOURCE: &str = "PRESTAMO/123";
const LONG_MS: u64 = 60_000;
/// Promised maximum of the median.
const MEDIAN_US: i64 = 50_000;
/// A waiter first looks often, by itself. After this time it relies on notifications.
const RELIES: Duration = Duration::from_secs(5);
/// Longer than a waiter takes to rely on notifications.
const TTL_MS: u64 = 12_000;

on_each_store! {
    a_waiter_is_granted_soon_after_release => soon;
}

fn soon(fixture: &Fixture) {
    let median_us = median_us(fixture, 200, LONG_MS, Duration::ZERO);
    assert!(median_us <= MEDIAN_US, "median {median_us} us");
}

/// Also if it has waited so long that it hardly looks by itself.
#[test]
fn a_waiter_is_granted_soon_after_a_long_wait() {
    on_postgres(|fixture: &Fixture| {
        let median_us = median_us(fixture, 3, TTL_MS, RELIES);
        assert!(median_us <= MEDIAN_US, "median {median_us} us");
    });
}

/// The control: without notifications, it is granted later.
#[test]
fn without_notifications_a_waiter_is_granted_later() {
    on_postgres(|fixture: &Fixture| {
        fixture.runtime.block_on(async {
            let client = client(&fixture.url).await;
            let notify = "perform pg_notify(wake.channel, turno.wake_hash(wake.name));";
            let removed = replace_in_function(&client, "wake", notify, "null;");
            removed.await.unwrap();
        });
        let median_us = median_us(fixture, 1, TTL_MS, RELIES);
        assert!(median_us > MEDIAN_US, "median {median_us} us");
    });
}

/// Returns the median of the times from the release in one process to the grant in another, which has waited at least this
/// long.
fn median_us(fixture: &Fixture, handovers: usize, ttl_ms: u64, waits: Duration) -> i64 {
    let actors = [Actor::start(&fixture.url), Actor::start(&fixture.url)];
    actors[0].acquire(RESOURCE, ttl_ms, 0, "ana");
    let mut after_us: Vec<i64> = (0..handovers)
        .map(|turn| {
            let (holder, waiter) = (&actors[turn % 2], &actors[(turn + 1) % 2]);
            waiter.tell_acquire(RESOURCE, ttl_ms, LONG_MS, "eva");
            fixture.await_waiters(RESOURCE, 1);
            let began = Instant::now();
            eventually(LONG, "a long wait", || {
                (began.elapsed() >= waits).then_some(())
            });
            let released_us = holder.release(RESOURCE);
            // Negative if the waiter was granted the lock before the release returned.
            waiter.acquired().answered_us - released_us
        })
        .collect();
    after_us.sort_unstable();
    let at = |percent: usize| after_us[(handovers - 1) * percent / 100];
    println!(
        "{}: {handovers} handovers, from release acknowledged to acquire acknowledged: median {} us, p95 {} us, longest {} us",
        fixture.name,
        at(50),
        at(95),
        at(100),
    );
    at(50)
}
