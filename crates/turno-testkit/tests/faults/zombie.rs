//! A holder that was paused for longer than its lease continues as if nothing had happened.

use turno::lock::HistoryEvent;

use turno_testkit::on_each_store;

use crate::LONG;
use crate::actor::Actor;
use crate::fixture::Fixture;

const RESOURCE: &str = "PRESTAMO/123";
const SHORT_MS: u64 = 300;
const LONG_MS: u64 = 60_000;

on_each_store! {
    its_guarded_write_is_refused => |fixture: &Fixture| zombie(fixture, Actor::start, Actor::start, Write::Guarded);
    /// The control: without the guard, the stale write is stored.
    its_unguarded_write_gets_through => |fixture: &Fixture| zombie(fixture, Actor::start, Actor::start, Write::Unguarded);
    its_clock_does_not_matter => |fixture: &Fixture| {
        zombie(fixture, ahead, behind, Write::Guarded);
    };
    its_clock_does_not_matter_either_way => |fixture: &Fixture| {
        zombie(fixture, behind, ahead, Write::Guarded);
    };
    /// The control for the clocks: the actors' clocks are really shifted.
    the_clocks_are_bent => the_clocks_are_bent;
}

#[derive(Clone, Copy, PartialEq)]
enum Write {
    Guarded,
    Unguarded,
}

fn ahead(url: &str) -> Actor {
    Actor::start_at(url, "+1h")
}

fn behind(url: &str) -> Actor {
    Actor::start_at(url, "-1h")
}

fn zombie(fixture: &Fixture, first: fn(&str) -> Actor, second: fn(&str) -> Actor, write: Write) {
    let (zombie, next) = (first(&fixture.url), second(&fixture.url));
    assert_eq!(zombie.ask("prepare"), "prepared");

    // Long enough to be found held even on a busy machine. The clock of the reader does not shorten it.
    let seen = zombie.acquire(RESOURCE, LONG_MS, 0, "ana");
    let busy = next.ask(&format!("acquire {RESOURCE} {LONG_MS} 0 eva"));
    let remaining_ms: u64 = busy
        .strip_prefix("busy ")
        .and_then(|rest| rest.parse().ok())
        .unwrap_or_else(|| panic!("{busy:?} while another caller holds it"));
    assert!((1..=LONG_MS).contains(&remaining_ms), "{remaining_ms}");
    zombie.release(RESOURCE);

    let stale = zombie.acquire(RESOURCE, SHORT_MS, 0, "ana");
    assert!(stale.token > seen.token);
    zombie.stop();
    let fresh = next.acquire(RESOURCE, LONG_MS, LONG_MS, "eva");
    assert!(fresh.token > stale.token);
    let written = next.ask(&format!("write {RESOURCE} eva guarded"));
    assert_eq!(written, "written");

    zombie.cont();
    let (options, answer, value) = match write {
        Write::Guarded => ("guarded", "refused", "value eva"),
        Write::Unguarded => ("unguarded", "written", "value ana"),
    };
    assert_eq!(
        zombie.ask(&format!("write {RESOURCE} ana {options}")),
        answer
    );
    assert_eq!(next.ask("read"), value);

    let released = zombie.ask(&format!("release {RESOURCE}"));
    assert!(released.starts_with("lost "), "{released:?}");
    let late = fixture.history(RESOURCE, HistoryEvent::Late);
    assert_eq!(late.len(), 1, "{late:?}");
    assert_eq!(late[0].token.unwrap().0, stale.token);
    assert_eq!(late[0].reason.as_deref(), Some("release"));
    assert_eq!(late[0].attribution.user.as_deref(), Some("ana"));
    assert_eq!(late[0].attribution.pid, Some(zombie.pid()));
    assert!(late[0].attribution.host.is_some());

    // Nothing that the zombie did has affected the next holder's lease.
    assert_eq!(
        next.ask(&format!("write {RESOURCE} eva2 guarded")),
        "written"
    );
    next.release(RESOURCE);
}

fn the_clocks_are_bent(fixture: &Fixture) {
    let clock = |actor: Actor| -> i64 {
        let answer = actor.ask("clock");
        let seconds = answer.strip_prefix("clock ").expect("a time");
        seconds.parse().expect("a number")
    };
    let apart = clock(ahead(&fixture.url)) - clock(behind(&fixture.url));
    let slack = i64::try_from(LONG.as_secs()).unwrap();
    assert!((7200 - slack..=7200).contains(&apart), "{apart} s");
}
