//! The rules of `queries/rules.sql` decide on every path that takes a lock: a test changes a rule, and every path must follow.
//! The control is the same call without the change.

use std::time::Duration;

use rusqlite::Connection;
use uuid::Uuid;

use super::queries::changed::change;
use super::{lock, migrate, sweep};
use crate::clock::as_us;
use crate::store::*;

const ACQUIRED_AT: i64 = 1_700_000_000_000_000;
const TTL: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3600);

/// A condition that is false, with the parameters of the rule that it replaces.
const NEVER: &str = ":resource is null and :owner is null and :now is null";

fn params(owner: &str, mode: LockMode) -> LockAcquire {
    LockAcquire {
        resource: "r".to_owned(),
        owner: owner.to_owned(),
        ttl: TTL,
        mode,
        min_hold: None,
        max_hold: None,
        attribution: Attribution::default(),
        request: Uuid::new_v4(),
    }
}

/// A store in which owner `first` took lock `r` in this mode.
fn held(mode: LockMode) -> Connection {
    let db = Connection::open_in_memory().unwrap();
    migrate::migrate(&db).unwrap();
    assert!(acquires(&db, "first", mode, ACQUIRED_AT));
    db
}

fn acquires(db: &Connection, owner: &str, mode: LockMode, now: i64) -> bool {
    let outcome = lock::acquire(db, &params(owner, mode), now).unwrap();
    matches!(outcome, LockOutcome::Acquired(_))
}

fn finds_free(db: &Connection, mode: LockMode, now: i64) -> bool {
    let busy = lock::lose(db, &params("second", mode), now).unwrap();
    busy.is_none()
}

fn acquires_all(db: &Connection, now: i64) -> bool {
    let all = LockAcquireAll {
        resources: vec!["r".to_owned(), "other".to_owned()],
        each: params("second", LockMode::Exclusive),
    };
    let outcome = lock::acquire_all(db, &all, now).unwrap();
    matches!(outcome, LockAllOutcome::Acquired(_))
}

fn sweeps(db: &Connection, now: i64) -> bool {
    sweep::sweep(db, &Sweep::default(), now).unwrap().expired > 0
}

/// Whether a path takes lock `r` for owner `second`.
type Path = fn(&Connection, i64) -> bool;

/// The paths that need a lock without other holds.
const EXCLUSIVE_PATHS: &[(&str, Path)] = &[
    ("read", |db, now| finds_free(db, LockMode::Exclusive, now)),
    ("acquire", |db, now| {
        acquires(db, "second", LockMode::Exclusive, now)
    }),
    ("acquire all", acquires_all),
    ("read permit", |db, now| {
        finds_free(db, LockMode::Permits(1), now)
    }),
    ("permit", |db, now| {
        acquires(db, "second", LockMode::Permits(1), now)
    }),
];

/// The paths that need a lock without an exclusive hold.
const SHARED_PATHS: &[(&str, Path)] = &[
    ("read shared", |db, now| {
        finds_free(db, LockMode::Shared, now)
    }),
    ("shared", |db, now| {
        acquires(db, "second", LockMode::Shared, now)
    }),
];

/// Returns the paths that take an expired lock, of those that an unexpired one excludes.
fn paths_that_take(now: i64) -> Vec<String> {
    let exclusive = EXCLUSIVE_PATHS.iter().chain(SHARED_PATHS);
    let exclusive = exclusive.map(|path| (LockMode::Exclusive, path));
    let shared = EXCLUSIVE_PATHS.iter().map(|path| (LockMode::Shared, path));
    exclusive
        .chain(shared)
        .filter(|(mode, (_, takes))| takes(&held(*mode), now))
        .map(|(mode, (name, _))| format!("{name} after {mode:?}"))
        .collect()
}

#[test]
fn every_path_follows_the_rule_of_takeover() {
    let expired = ACQUIRED_AT + as_us(TTL) + 1;
    let control = paths_that_take(expired);
    assert_eq!(
        control.len(),
        2 * EXCLUSIVE_PATHS.len() + SHARED_PATHS.len()
    );
    assert!(sweeps(&held(LockMode::Exclusive), expired));
    let none: Vec<String> = Vec::new();
    assert_eq!(paths_that_take(expired - 2), none);
    {
        // A path that returns busy by a rule of its own does so here.
        let _changed = change(
            "lock_is_held",
            "holds > 0 and expires_at - 3600000000 > :now",
        );
        assert_eq!(paths_that_take(expired - 2), control);
    }

    let _changed = change(
        "lock_is_held",
        "holds > 0 and expires_at + 3600000000 > :now",
    );
    assert_eq!(paths_that_take(expired), none);
    assert!(!sweeps(&held(LockMode::Exclusive), expired));
    assert_eq!(paths_that_take(expired + as_us(HOUR)), control);
    assert!(sweeps(&held(LockMode::Exclusive), expired + as_us(HOUR)));
}

#[test]
fn every_path_follows_the_rules_of_rest_and_order() {
    let expired = ACQUIRED_AT + as_us(TTL) + 1;
    for (rule, to) in [("lock_is_resting", ":now > 0"), ("lock_is_next", NEVER)] {
        let _changed = change(rule, to);
        // The first hold was taken when the lock had no row.
        assert_eq!(paths_that_take(expired), Vec::<String>::new(), "{rule}");
    }
}

#[test]
fn every_exclusive_path_follows_the_whole_rule() {
    let expired = ACQUIRED_AT + as_us(TTL) + 1;
    let _changed = change("lock_is_takeable", NEVER);
    let exclusive = |name: &str| !name.contains("permit") && !name.contains("shared after");
    let taken: Vec<String> = paths_that_take(expired);
    let taken: Vec<&String> = taken.iter().filter(|name| exclusive(name)).collect();
    assert!(taken.is_empty(), "{taken:?}");
}
