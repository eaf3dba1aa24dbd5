//! Model-based testing: the lock rules once more, in memory and without a clock, and random histories in which the model and
//! a store must agree on every answer.
//!
//! Time is virtual: a step lets a resource's leases run out, in the model by a word and in the store by the back door. A
//! model with a [`Flaw`] shows that disagreement is noticed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod play;
mod rules;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

pub use self::play::play;
pub use self::rules::{Flaw, Model};
use crate::conformance::Bed;

/// How many resources and owners a history has: few, so that they meet.
const RESOURCES: usize = 2;
const OWNERS: usize = 3;
/// The longest history.
const STEPS: usize = 60;

/// One step of a history.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// An owner asks for a resource.
    Acquire {
        /// Which.
        resource: usize,
        /// Who.
        owner: usize,
        /// How.
        mode: Mode,
    },
    /// A renewal with the token of some lease, perhaps long over.
    Renew(Pick),
    /// A release with the token of some lease.
    Release(Pick),
    /// A person breaks some lease.
    Break(Pick),
    /// Time passes for a resource, until all that is held there has run out.
    Expire(usize),
    /// Time passes for some lease alone, if it is held.
    ExpireOne(Pick),
    /// A sweep.
    Sweep,
}

/// How a resource is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Alone.
    Exclusive,
    /// With any others.
    Shared,
    /// With one other.
    Two,
}

/// Which lease of those granted so far a step names.
#[derive(Debug, Clone, Copy)]
pub enum Pick {
    /// One of the latest, counted from the end.
    Lately(usize),
    /// Any, counted around.
    Any(usize),
    /// None of them: a token that was never granted, on this resource.
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
    // Mostly the first resource, so that much happens to it.
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

/// Plays so many random histories on a store.
///
/// # Errors
/// With the shortest history found on which the store and the model disagree, and where.
pub fn check(bed: &Bed, cases: u32, flaw: Flaw) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let turno = runtime.block_on(bed.turno());
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
        // Names of its own for every history: they share one store.
        number.set(number.get() + 1);
        let agreed = runtime.block_on(play(
            bed,
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
