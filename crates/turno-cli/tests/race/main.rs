//! Races of real processes: those of the demo, and the classic lost update.
//!
//! 32 processes, each of which adds one to a number in a plain file 25 times (`TURNO_RACE_ROUNDS` sets another number): under
//! `turno run` the sum is exact, and without it additions are lost.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod demo;

use std::process::Child;

use common::{Fixture, Kind, TURNO};

const PROCESSES: u32 = 32;
/// Each round under the lock starts a process, which takes most of the time.
const ROUNDS: u32 = 25;
const ROUNDS_VARIABLE: &str = "TURNO_RACE_ROUNDS";
/// Without the lock a round is fast, and with more of them some are certain to overlap.
const CONTROL_ROUNDS: u32 = 200;

/// A read-modify-write that fails if two processes do it concurrently.
const ADD_ONE: &str = "read -r n < counter; echo $((n + 1)) > counter";

/// Runs the race. `before` precedes the addition: nothing, or the lock.
fn race(fixture: &Fixture, rounds: u32, before: &str) -> u32 {
    std::fs::write(fixture.path("counter"), "0\n").unwrap();
    let script = format!(
        "i=0; while [ $i -lt {rounds} ]; do {before} sh -c '{ADD_ONE}' || exit 1; i=$((i + 1)); done"
    );
    let workers: Vec<Child> = (0..PROCESSES)
        .map(|_| fixture.program("sh").args(["-c", &script]).spawn().unwrap())
        .collect();
    for mut worker in workers {
        assert!(
            worker.wait().unwrap().success(),
            "every round of every process succeeds"
        );
    }
    std::fs::read_to_string(fixture.path("counter"))
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

fn under_turno(kind: Kind) {
    let fixture = Fixture::new(kind);
    fixture.turno(&["migrate"]).expect(0);
    let rounds = std::env::var(ROUNDS_VARIABLE).map_or(ROUNDS, |text| text.parse().unwrap());
    let started = std::time::Instant::now();
    let counted = race(
        &fixture,
        rounds,
        &format!("{TURNO} run --lock counter --ttl 30s --wait 600s --"),
    );
    println!(
        "{kind:?}: {PROCESSES} × {rounds} in {:.1?}",
        started.elapsed()
    );
    assert_eq!(counted, PROCESSES * rounds);
    assert!(!fixture.is_locked("counter"));
}

#[test]
fn the_counter_is_exact_on_sqlite() {
    under_turno(Kind::Sqlite);
}

#[test]
fn the_counter_is_exact_on_postgres() {
    under_turno(Kind::Postgres);
}

#[test]
fn the_control_without_a_lock_loses_updates() {
    let counted = race(&Fixture::new(Kind::Sqlite), CONTROL_ROUNDS, "");
    assert!(
        counted < PROCESSES * CONTROL_ROUNDS,
        "the race is no race: all {counted} additions survived"
    );
}
