//! A holder that is killed: a waiter gets the lock soon after the end of its TTL.

use std::time::{Duration, Instant};

use turno::lock::HistoryEvent;

use turno_testkit::on_each_store;

use crate::actor::Actor;
use crate::fixture::Fixture;

const RESOURCE: &str = "PRESTAMO/123";
const TTL: Duration = Duration::from_secs(1);
/// Promised maximum in addition to the TTL.
const SLACK: Duration = Duration::from_secs(1);
const LONG_MS: u64 = 60_000;

on_each_store! {
    a_killed_holder_is_followed_in_time => |fixture: &Fixture| {
        followed(fixture, Actor::start(&fixture.url), Actor::start(&fixture.url));
    };
    their_clocks_do_not_matter => |fixture: &Fixture| {
        followed(fixture, Actor::start_at(&fixture.url, "+1h"), Actor::start_at(&fixture.url, "-1h"));
    };
    their_clocks_do_not_matter_either_way => |fixture: &Fixture| {
        followed(fixture, Actor::start_at(&fixture.url, "-1h"), Actor::start_at(&fixture.url, "+1h"));
    };
    /// The control: a holder that is alive keeps its lock for longer than that.
    a_living_holder_is_not_followed => a_living_holder_is_not_followed;
}

fn followed(fixture: &Fixture, holder: Actor, next: Actor) {
    let first = hold(&holder);
    next.tell_acquire(RESOURCE, LONG_MS, LONG_MS, "eva");
    fixture.await_waiters(RESOURCE, 1);

    let killed = Instant::now();
    holder.kill_9();
    let second = next.acquired();
    let took = killed.elapsed();
    println!(
        "{}: taken over {took:?} after the kill, ttl {TTL:?}",
        fixture.name
    );
    assert!(took <= TTL + SLACK, "{took:?}");
    assert!(second.token > first);
    let history = fixture.history(RESOURCE, HistoryEvent::TakenOver);
    assert_eq!(history[0].token.unwrap().0, first);
    assert_eq!(history[0].attribution.pid, Some(holder.pid()));
}

fn a_living_holder_is_not_followed(fixture: &Fixture) {
    let (holder, next) = (Actor::start(&fixture.url), Actor::start(&fixture.url));
    let first = hold(&holder);
    next.tell_acquire(RESOURCE, LONG_MS, LONG_MS, "eva");
    let answer = next.process().lines().next(TTL + SLACK);
    assert_eq!(answer, None, "taken from a holder that renews it");
    assert_eq!(fixture.status(RESOURCE).holders[0].token.0, first);
    holder.release(RESOURCE);
    assert!(next.acquired().token > first);
}

/// Acquires the lock and renews it until killed, as the runner does.
fn hold(holder: &Actor) -> i64 {
    let ttl_ms = u64::try_from(TTL.as_millis()).expect("a second is short");
    let first = holder.acquire(RESOURCE, ttl_ms, 0, "ana").token;
    assert_eq!(holder.ask(&format!("keep {RESOURCE}")), "kept");
    first
}
