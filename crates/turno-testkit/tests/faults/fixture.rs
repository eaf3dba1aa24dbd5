//! An empty store for one test, and the queries of an observer.

use std::collections::HashMap;
use std::ops::Deref;

use turno::history::{History, Part};
use turno::lock::{HistoryEntry, HistoryEvent, LockHolder, LockList, LockStatus};
use turno_testkit::eventually;
use turno_testkit::faults::StoreFixture;

use crate::LONG;

/// Maximum size of a page.
const PAGE: u32 = 1000;

pub struct Fixture(StoreFixture);

impl From<StoreFixture> for Fixture {
    fn from(store: StoreFixture) -> Self {
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
    pub fn status(&self, resource: &str) -> LockStatus {
        self.runtime
            .block_on(self.turno.lock(resource).status())
            .expect("the status is answered")
    }

    pub fn await_waiters(&self, resource: &str, count: u64) {
        eventually(LONG, "the waiters to register", || {
            (self.status(resource).waiters == count).then_some(())
        });
    }

    pub fn history(&self, resource: &str, event: HistoryEvent) -> Vec<HistoryEntry> {
        let ask = History {
            part: Some(Part::Lock),
            resource: Some(resource.to_owned()),
            prefix: String::new(),
            before: None,
            limit: PAGE,
        };
        self.runtime
            .block_on(self.turno.history(ask))
            .expect("the history is answered")
            .into_iter()
            .filter(|entry| entry.event == event)
            .collect()
    }

    /// Returns all current holders, by resource.
    pub fn held(&self) -> HashMap<String, LockHolder> {
        let mut held = HashMap::new();
        let mut after = String::new();
        loop {
            let ask = LockList {
                prefix: String::new(),
                after: after.clone(),
                limit: PAGE,
            };
            let page = self
                .runtime
                .block_on(self.turno.lock_list(ask))
                .expect("the list is answered");
            let Some(last) = page.last() else {
                return held;
            };
            after.clone_from(&last.resource);
            held.extend(
                page.into_iter()
                    .map(|holder| (holder.resource.clone(), holder)),
            );
        }
    }
}
