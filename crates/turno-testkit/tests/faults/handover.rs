//! How soon a waiter in another process gets a released lock.

use turno_testkit::on_each_store;

use crate::actor::Actor;
use crate::fixture::Fixture;

const RESOURCE: &str = "PRESTAMO/123";
const HANDOVERS: usize = 200;
const LONG_MS: u64 = 60_000;
/// Promised maximum of the median.
const MEDIAN_US: i64 = 50_000;

on_each_store! {
    a_waiter_is_granted_soon_after_release => soon;
}

fn soon(fixture: &Fixture) {
    let actors = [Actor::start(&fixture.url), Actor::start(&fixture.url)];
    actors[0].acquire(RESOURCE, LONG_MS, 0, "ana");
    let mut after_us: Vec<i64> = (0..HANDOVERS)
        .map(|turn| {
            let (holder, waiter) = (&actors[turn % 2], &actors[(turn + 1) % 2]);
            waiter.tell_acquire(RESOURCE, LONG_MS, LONG_MS, "eva");
            fixture.await_waiters(RESOURCE, 1);
            let released_us = holder.release(RESOURCE);
            // Negative if the waiter was granted the lock before the release returned.
            waiter.acquired().answered_us - released_us
        })
        .collect();
    after_us.sort_unstable();
    let at = |percent: usize| after_us[(HANDOVERS - 1) * percent / 100];
    println!(
        "{}: {HANDOVERS} handovers, from release acknowledged to acquire acknowledged: median {} us, p95 {} us, longest {} us",
        fixture.name,
        at(50),
        at(95),
        at(100),
    );
    assert!(at(50) <= MEDIAN_US, "median {} us", at(50));
}
