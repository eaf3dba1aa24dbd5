//! Long-running commands through a server.

use std::process::Stdio;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use turno_testkit::{Process, eventually};

use crate::common::arguments::Arguments;
use crate::common::{Fixture, Kind, LONG, text};
use crate::pair::Served;

fn spawn(served: &Served, arguments: impl Arguments) -> Process {
    Process::spawn(served.command(arguments).stderr(Stdio::null())).unwrap()
}

/// Longer than its lease: it is renewed meanwhile, and released at the end.
#[test]
fn a_run_keeps_its_lock() {
    let served = Served::start(Fixture::new(Kind::Sqlite));
    let run = "run --lock it --ttl 600ms -- sh -c 'echo up; cat'";
    let mut command = served.command(run);
    let running = Process::spawn(command.stdin(Stdio::piped()).stderr(Stdio::null())).unwrap();
    assert_eq!(running.lines().next(LONG).as_deref(), Some("up"));
    let end = || {
        let status = served.fixture.json(0, "lock status it");
        let end: Timestamp = text(&status["holder"], "expires_at").parse().unwrap();
        (end, status["holder"]["token"].clone())
    };
    let (first, token) = end();
    eventually(LONG, "several renewals", || {
        let (later, same) = end();
        assert_eq!(same, token, "it was never lost");
        (later > first + SignedDuration::from_secs(2)).then_some(())
    });
    drop(running.take_stdin());
    assert_eq!(running.wait_timeout(LONG).unwrap().code(), Some(0));
    assert!(!served.fixture.is_locked("it"));
}

/// The server grants the lock to the waiter, however long it waits.
#[test]
fn a_waiter_gets_its_turn() {
    let served = Served::start(Fixture::new(Kind::Sqlite));
    let held = served.fixture.json(0, "lock acquire it --ttl 60s");
    let waiting = spawn(&served, "--json lock acquire it --wait 60s");
    eventually(LONG, "the waiter to stand in line", || {
        (served.fixture.json(0, "lock status it")["waiters"] == json!(1)).then_some(())
    });
    served
        .fixture
        .json(0, &["lock", "release", "it", "--lease", text(&held, "id")]);
    let line = waiting.lines().next(LONG).unwrap();
    let lease: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert!(lease["token"].as_i64() > held["token"].as_i64(), "{lease}");
    assert_eq!(waiting.wait_timeout(LONG).unwrap().code(), Some(0));
}

/// If the server has ended, the lease cannot be renewed: the command is stopped before another caller could get the lock.
#[test]
fn a_run_without_its_server_ends_in_time() {
    let served = Served::start(Fixture::new(Kind::Sqlite));
    let running = spawn(
        &served,
        "run --lock it --ttl 2s -- sh -c 'echo up; sleep 60'",
    );
    assert_eq!(running.lines().next(LONG).as_deref(), Some("up"));
    served.server.kill_9();
    assert_eq!(running.wait_timeout(LONG).unwrap().code(), Some(1));
    eventually(LONG, "the lock to be over", || {
        let free = served.fixture.turno("lock acquire it");
        (free.code == Some(0)).then_some(())
    });
}
