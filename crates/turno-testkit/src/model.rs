//! Model-based tests: the lock rules in memory and without a clock, and random histories in which the model and a store must
//! return the same results.
//!
//! Time is virtual: a step lets the leases of a resource expire, in the model by a flag and in the store by a direct update. A
//! model with a [`Flaw`] shows that disagreement is detected.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod play;
mod rules;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

pub use self::play::play;
pub use self::rules::{Flaw, Model};
use crate::conformance::TestStore;

/// Number of resources and owners in a history. Small, so that they conflict.
const RESOURCES: usize = 2;
const OWNERS: usize = 3;
/// Maximum length of a history.
const STEPS: usize = 60;

/// One step of a history.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// An owner acquires a resource.
    Acquire {
        /// Index of the resource.
        resource: usize,
        /// Index of the owner.
        owner: usize,
        /// Mode of the lock.
        mode: Mode,
    },
    /// A renewal with the token of some lease, which may have ended long ago.
    Renew(Pick),
    /// A release with the token of some lease.
    Release(Pick),
    /// An operator breaks some lease.
    Break(Pick),
    /// All leases of a resource expire.
    Expire(usize),
    /// One lease expires, if it is held.
    ExpireOne(Pick),
    /// A sweep.
    Sweep,
}

/// Mode of an acquire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Exclusive.
    Exclusive,
    /// Shared, without a limit.
    Shared,
    /// Shared, with two permits.
    Two,
}

/// Selects one of the leases granted so far.
#[derive(Debug, Clone, Copy)]
pub enum Pick {
    /// One of the latest, counted from the end.
    Lately(usize),
    /// Any lease; the number is taken modulo the count.
    Any(usize),
    /// No lease: a token that was never granted, on this resource.
    Unknown(usize),
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![
        6 => (0..4usize).prop_map(Pick::Lately),
        3 => (0..100usize).prop_map(Pick::Any),
        1 => (0..RESOURCES).prop_map(Pick::Unknown),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let mode =
        prop_oneof![2 => Just(Mode::Exclusive), 3 => Just(Mode::Shared), 2 => Just(Mode::Two)];
    // Mostly the first resource, so that conflicts are frequent.
    let resource = prop_oneof![3 => Just(0), 1 => 0..RESOURCES];
    prop_oneof![
        10 => (resource, 0..OWNERS, mode).prop_map(|(resource, owner, mode)| Step::Acquire { resource, owner, mode }),
        4 => pick().prop_map(Step::Renew),
        6 => pick().prop_map(Step::Release),
        1 => pick().prop_map(Step::Break),
        3 => (0..RESOURCES).prop_map(Step::Expire),
        3 => pick().prop_map(Step::ExpireOne),
        1 => Just(Step::Sweep),
    ]
}

/// Replays `cases` random histories on a store.
///
/// # Errors
/// Returns the shortest history found on which the store and the model disagree, and the step.
pub fn check(test_store: &TestStore, cases: u32, flaw: Flaw) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let turno = runtime.block_on(test_store.turno());
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 300,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    let histories = prop::collection::vec(step(), 1..STEPS);
    let number = std::cell::Cell::new(0);
    let played = runner.run(&histories, |steps| {
        // New names per history, because all histories share one store.
        number.set(number.get() + 1);
        let agreed = runtime.block_on(play(
            test_store,
            &turno,
            &format!("h{}", number.get()),
            &steps,
            flaw,
        ));
        agreed.map_err(TestCaseError::fail)
    });
    played.map_err(|error| match error {
        TestError::Fail(why, steps) => format!("{why}\nin {steps:#?}"),
        TestError::Abort(why) => why.to_string(),
    })
}
