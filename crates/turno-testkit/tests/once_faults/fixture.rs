//! An empty store for one test, with the application's tables, the queries of an observer, and a recorded history.

use std::ops::Deref;

use serde::Deserialize;
use turno::once::{OnceList, OnceState, OnceView};
use turno_testkit::eventually;
use turno_testkit::faults::StoreFixture;
use turno_testkit::history::once::{self, Effect};
use turno_testkit::history::{Clock, History, Violation};

use crate::LONG;

pub struct Fixture(StoreFixture);

/// A run of the handler, or its effect.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Row {
    pub key: String,
    pub pid: i64,
    pub attempt: i64,
}

impl From<StoreFixture> for Fixture {
    fn from(store: StoreFixture) -> Self {
        let columns = "key text not null, pid bigint not null, attempt bigint not null";
        store.create_table("ran", columns);
        store.create_table("effect", &format!("{columns}, answer text not null"));
        Self(store)
    }
}

impl Deref for Fixture {
    type Target = StoreFixture;

    fn deref(&self) -> &StoreFixture {
        &self.0
    }
}

impl Fixture {
    /// Returns all runs of handlers, in the order in which they began.
    pub fn ran(&self) -> Vec<Row> {
        self.rows("select key, pid, attempt from ran order by n")
    }

    /// Returns all effects, in the order in which they happened.
    pub fn effects(&self) -> Vec<Row> {
        self.rows("select key, pid, attempt from effect order by n")
    }

    /// Violations of the history that all instances have recorded, with the effects.
    pub fn violations(&self) -> Vec<Violation> {
        let history = History::read(self.folder.path()).unwrap();
        let effects: Vec<Effect> = self.rows("select key, answer from effect order by n");
        let broken = once::check(&history.once, &effects, &Clock::default());
        history.errors().chain(broken).collect()
    }

    /// Whether violations of this promise are recorded, and no others.
    pub fn breaks_only(&self, promise: &str) -> bool {
        let violations = self.violations();
        println!("{}: {violations:#?}", self.name);
        !violations.is_empty() && violations.iter().all(|broken| broken.promise == promise)
    }

    /// Returns the state of the only key in the store.
    pub fn known(&self) -> OnceView {
        let ask = OnceList {
            limit: 2,
            ..OnceList::default()
        };
        let mut known = self.runtime.block_on(self.turno.once_list(ask)).unwrap();
        assert_eq!(known.len(), 1, "{known:?}");
        known.remove(0)
    }

    #[track_caller]
    pub fn await_state(&self, state: OnceState) -> OnceView {
        eventually(LONG, state.as_str(), || {
            Some(self.known()).filter(|known| known.state == state)
        })
    }
}
