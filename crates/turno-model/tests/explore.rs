//! Explores all states of each model: the promises hold, and each known bug has a counterexample.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Debug;
use std::fs;
use std::hash::Hash;
use std::path::Path;

use stateright::{Checker, Expectation, HasDiscoveries, Model};
use turno_model::{StandsFor, inbox, lock, once, outbox};

/// A model whose states and steps can be compared and printed.
trait Explored:
    Model<
        State: Clone + Debug + Eq + Hash + Send + Sync,
        Action: Clone + Debug + Eq + Hash + Send + Sync,
    > + Send
    + Sync
    + 'static
{
}

impl Explored for lock::Lock {}
impl Explored for inbox::Inbox {}
impl Explored for outbox::Outbox {}
impl Explored for once::Once {}

/// Explores a model, as far as asked for; prints how many states it has.
fn explore<M: Explored>(name: &str, model: M, until: HasDiscoveries) -> impl Checker<M> {
    let checker = model.checker().threads(2).finish_when(until);
    let checker = checker.spawn_bfs().join();
    println!("{name}: {} states", checker.unique_state_count());
    checker
}

/// All promises hold, and the model does all that it is for.
fn holds(name: &str, model: impl Explored) {
    let checker = explore(name, model, HasDiscoveries::All);
    // More than a handful of states, or the properties hold for nothing.
    assert!(checker.unique_state_count() > 50);
    checker.assert_properties();
}

/// A bug breaks a promise.
fn breaks(name: &str, model: impl Explored) {
    let checker = explore(name, model, HasDiscoveries::AnyFailures);
    let promises = checker.model().properties();
    let broken: Vec<&str> = promises
        .iter()
        .filter(|property| matches!(property.expectation, Expectation::Always))
        .map(|property| property.name)
        .filter(|name| checker.discovery(name).is_some())
        .collect();
    assert!(!broken.is_empty(), "{name} breaks no promise");
    let path = checker.discovery(broken[0]).unwrap();
    println!("{name} breaks {broken:?}: {:?}", path.into_actions());
}

#[test]
fn locks_keep_their_promises() {
    holds("lock", lock::Lock { flaw: None });
}

#[test]
fn each_bug_of_locks_is_found() {
    for flaw in lock::FLAWS {
        let flaw = Some(flaw);
        breaks(&format!("lock, {flaw:?}"), lock::Lock { flaw });
    }
}

#[test]
fn the_inbox_keeps_its_promises() {
    holds("inbox", inbox::Inbox { flaw: None });
}

#[test]
fn each_bug_of_the_inbox_is_found() {
    for flaw in inbox::FLAWS {
        let flaw = Some(flaw);
        breaks(&format!("inbox, {flaw:?}"), inbox::Inbox { flaw });
    }
}

#[test]
fn the_outbox_keeps_its_promises() {
    holds("outbox", outbox::Outbox { flaw: None });
}

#[test]
fn each_bug_of_the_outbox_is_found() {
    for flaw in outbox::FLAWS {
        let flaw = Some(flaw);
        breaks(&format!("outbox, {flaw:?}"), outbox::Outbox { flaw });
    }
}

#[test]
fn once_keeps_its_promises() {
    for runs_again in [false, true] {
        let flaw = None;
        holds(
            &format!("once, runs again: {runs_again}"),
            once::Once { runs_again, flaw },
        );
    }
}

#[test]
fn each_bug_of_once_is_found() {
    for flaw in once::FLAWS {
        let runs_again = flaw != once::Flaw::UnknownForgotten;
        let flaw = Some(flaw);
        breaks(&format!("once, {flaw:?}"), once::Once { runs_again, flaw });
    }
}

/// An action that stands for a function of Turno names one that exists.
#[test]
fn what_the_actions_stand_for_is_there() {
    let sql = Path::new(env!("CARGO_MANIFEST_DIR")).join("../turno/src/store/postgres/sql");
    let all: [(&str, &str, &[StandsFor]); 4] = [
        ("lock", include_str!("../src/lock.rs"), lock::STANDS_FOR),
        ("inbox", include_str!("../src/inbox.rs"), inbox::STANDS_FOR),
        (
            "outbox",
            include_str!("../src/outbox.rs"),
            outbox::STANDS_FOR,
        ),
        ("once", include_str!("../src/once.rs"), once::STANDS_FOR),
    ];
    for (model, source, stands_for) in all {
        for StandsFor {
            action,
            function,
            world,
        } in stands_for
        {
            assert!(function.is_some() || !world.is_empty(), "{model}: {action}");
            let Some((file, function)) = function else {
                continue;
            };
            let text = fs::read_to_string(sql.join(file)).unwrap();
            let definition = format!("function turno.{function}(");
            assert!(
                text.contains(&definition),
                "{model}, {action}: no {function} in {file}"
            );
        }
        // Each action of the model is in the table.
        let actions = source.split("pub enum Action {").nth(1).unwrap();
        let actions = actions.split("\n}").next().unwrap();
        for line in actions
            .lines()
            .map(str::trim)
            .filter(|line| line.ends_with(','))
        {
            let name = line.trim_end_matches(',').split('(').next().unwrap();
            let is_there = stands_for.iter().any(|entry| entry.action == name);
            assert!(is_there, "{model}: {name} stands for nothing");
        }
    }
}
