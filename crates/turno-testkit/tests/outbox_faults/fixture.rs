//! An empty store for one test, with the consumer's table in the same database.

use std::ops::Deref;
use std::sync::OnceLock;

use serde::Deserialize;
use turno::outbox::{Event, EventState, EventView, OutboxStats};
use turno_testkit::eventually;
use turno_testkit::faults::{StoreFixture, client, sqlite};
use turno_testkit::server::RabbitMq;

use crate::LONG;

pub struct Fixture(StoreFixture);

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Commit,
    RollBack,
}

/// An event that a consumer has handled.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Handled {
    pub event: String,
    pub key: String,
    pub number: i64,
}

/// Returns a broker that no test stops or kills.
pub fn shared_broker() -> &'static RabbitMq {
    static BROKER: OnceLock<RabbitMq> = OnceLock::new();
    BROKER.get_or_init(|| RabbitMq::start().expect("RabbitMQ starts"))
}

impl From<StoreFixture> for Fixture {
    fn from(store: StoreFixture) -> Self {
        let columns = "event text not null, key text not null, number bigint not null";
        store.create_table("handled", columns);
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
    /// Emits events in one transaction of an application.
    pub fn emit(&self, events: &[Event], end: End) {
        let outbox = self.turno.outbox();
        match self.file() {
            Some(file) => {
                let mut db = sqlite(&file);
                let mut tx = db.transaction().unwrap();
                let emit = outbox.emit_many_in(&mut tx, events);
                self.runtime.block_on(emit).unwrap();
                match end {
                    End::Commit => tx.commit().unwrap(),
                    End::RollBack => tx.rollback().unwrap(),
                }
            }
            None => self.runtime.block_on(async {
                let mut client = client(&self.url).await;
                let mut tx = client.transaction().await.unwrap();
                outbox.emit_many_in(&mut tx, events).await.unwrap();
                match end {
                    End::Commit => tx.commit().await.unwrap(),
                    End::RollBack => tx.rollback().await.unwrap(),
                }
            }),
        }
    }

    /// Returns the counts, or `None` while the store is unavailable.
    pub fn try_stats(&self) -> Option<OutboxStats> {
        self.runtime.block_on(self.turno.outbox().stats()).ok()
    }

    pub fn stats(&self) -> OutboxStats {
        self.try_stats().expect("the store answers")
    }

    pub fn list(&self, state: EventState) -> Vec<EventView> {
        let mut all: Vec<EventView> = Vec::new();
        loop {
            let after = all.last().map(|event| event.seq);
            let page = self.turno.outbox();
            let page = self
                .runtime
                .block_on(page.list(state, after, 1000))
                .unwrap();
            if page.is_empty() {
                return all;
            }
            all.extend(page);
        }
    }

    #[track_caller]
    pub fn await_stats(&self, what: &str, condition: impl Fn(&OutboxStats) -> bool) -> OutboxStats {
        eventually(LONG, what, || {
            let stats = self.try_stats()?;
            condition(&stats).then_some(stats)
        })
    }

    /// Returns all handled events, in order.
    pub fn handled(&self) -> Vec<Handled> {
        self.rows("select event, key, number from handled order by n")
    }
}
