//! An empty store for one test, with the tables of the application and the consumer in the same database, and a recorded history.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::OnceLock;

use serde::Deserialize;
use turno::outbox::{Event, EventState, EventView, OutboxStats};
use turno_testkit::eventually;
use turno_testkit::faults::{StoreFixture, client, sqlite};
use turno_testkit::history::outbox::{self, Answer, Call, Event as Emitted};
use turno_testkit::history::{self, History, Operation, Recorder, Violation};
use turno_testkit::server::RabbitMq;
use uuid::Uuid;

use crate::LONG;

pub struct Fixture {
    store: StoreFixture,
    /// Records the transactions.
    recorder: Recorder,
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Commit,
    RollBack,
}

/// An event whose payload has its name, key and number.
pub struct Recorded {
    event: Event,
    emitted: Emitted,
}

impl Recorded {
    /// Its payload also has this many bytes of padding.
    pub fn new(kind: &str, key: &str, number: i64, padding: usize) -> Self {
        let name = name(key, number);
        let padding = "x".repeat(padding);
        let payload =
            serde_json::json!({"name": name, "key": key, "number": number, "padding": padding});
        Self {
            event: Event::new(kind, &payload).ordering_key(key),
            emitted: Emitted {
                name,
                key: key.to_owned(),
                number: number.try_into().unwrap(),
            },
        }
    }
}

/// Returns the name of an event.
pub fn name(key: &str, number: i64) -> String {
    format!("{key}/{number}")
}

/// The name of a committed transaction.
#[derive(Deserialize)]
struct Committed {
    name: String,
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
        store.create_table("emitted", "name text not null");
        let recorder = Recorder::create(store.folder.path(), "test").unwrap();
        Self { store, recorder }
    }
}

impl Deref for Fixture {
    type Target = StoreFixture;

    fn deref(&self) -> &StoreFixture {
        &self.store
    }
}

impl Fixture {
    /// Emits events in one transaction of an application.
    pub fn emit(&self, events: &[Event], end: End) {
        self.transaction("", events, end);
    }

    /// The same, recorded.
    pub fn emit_recorded(&self, events: Vec<Recorded>, end: End) {
        let (events, emitted): (Vec<_>, Vec<_>) = events
            .into_iter()
            .map(|recorded| (recorded.event, recorded.emitted))
            .unzip();
        let transaction = Uuid::now_v7().to_string();
        let pending = self.recorder.call(history::Call::Outbox(Call::Emit {
            transaction: transaction.clone(),
            events: emitted,
        }));
        self.transaction(&transaction, &events, end);
        pending.answer(history::Answer::Outbox(match end {
            End::Commit => Answer::Committed,
            End::RollBack => Answer::RolledBack,
        }));
    }

    /// Writes the name of a transaction and emits events in it.
    fn transaction(&self, name: &str, events: &[Event], end: End) {
        let insert = "insert into emitted (name) values ($1)";
        let outbox = self.turno.outbox();
        match self.file() {
            Some(file) => {
                let mut db = sqlite(&file);
                let mut tx = db.transaction().unwrap();
                tx.execute(insert, [name]).unwrap();
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
                tx.execute(insert, &[&name]).await.unwrap();
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

    /// Violations of the recorded history, and of the consumer's table.
    pub fn violations(&self) -> Vec<Violation> {
        let mut violations = self.recorded_violations();
        violations.extend(self.handled_violations());
        violations
    }

    /// Violations of the recorded history.
    pub fn recorded_violations(&self) -> Vec<Violation> {
        let history = History::read(self.folder.path()).unwrap();
        let broken = outbox::check(&history.outbox, &self.end());
        history.errors().chain(broken).collect()
    }

    /// Violations of the consumer's table, which has each event once, in the order of its key. Its rows are checked like messages
    /// without a label.
    pub fn handled_violations(&self) -> Vec<Violation> {
        let mut operations = History::read(self.folder.path()).unwrap().outbox;
        operations.retain(|operation| matches!(operation.call, Call::Emit { .. }));
        operations.extend(self.handled().into_iter().map(|row| Operation {
            process: "handled".to_owned(),
            call_us: 0,
            return_us: 0,
            call: Call::Receive {
                id: row.event,
                name: name(&row.key, row.number),
                possible_duplicate: false,
                connection: 0,
            },
            answer: Some(Answer::Received),
        }));
        outbox::check(&operations, &self.end())
    }

    fn end(&self) -> outbox::End {
        let committed = self.rows("select name from emitted").into_iter();
        let committed: HashSet<String> = committed.map(|row: Committed| row.name).collect();
        let end = outbox::End::read(&self.turno, committed);
        self.runtime.block_on(end).unwrap()
    }

    /// Returns all handled events, in order.
    pub fn handled(&self) -> Vec<Handled> {
        self.rows("select event, key, number from handled order by n")
    }
}
