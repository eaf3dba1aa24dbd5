//! An empty store for one test, with the application's table, the queries of an observer, and a recorded history.

use std::ops::Deref;

use serde::Deserialize;
use turno::inbox::{Inbox, Item, ItemId, ItemState, ItemView, QueueStats};
use turno_testkit::eventually;
use turno_testkit::faults::StoreFixture;
use turno_testkit::history::inbox::{self, Answer, Call, End};
use turno_testkit::history::{self, History, Pending, Recorder, Violation};

use crate::LONG;

/// The only queue of every test.
pub const QUEUE: &str = "presentations";
/// More attempts than faults can use up.
const MANY_ATTEMPTS: u16 = 1000;
/// Maximum number of items per push.
const PUSH: usize = 10_000;
/// Maximum size of a page.
const PAGE: u32 = 1000;

pub struct Fixture {
    store: StoreFixture,
    /// Records the calls of this process.
    pub recorder: Recorder,
}

/// A completed item.
#[derive(Deserialize)]
struct Completion {
    id: i64,
}

impl From<StoreFixture> for Fixture {
    fn from(store: StoreFixture) -> Self {
        let columns = "payload text not null, attempt bigint not null";
        store.create_table("effect", columns);
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
    pub fn inbox(&self) -> Inbox {
        self.turno.inbox(QUEUE)
    }

    /// Pushes items and returns their ids, in order.
    pub fn push(&self, items: impl IntoIterator<Item = Item>) -> Vec<ItemId> {
        let items: Vec<Item> = items.into_iter().collect();
        let mut ids = Vec::with_capacity(items.len());
        for some in items.chunks(PUSH) {
            let push = self.inbox();
            let pushed = self.runtime.block_on(push.push_many(some.to_vec()));
            ids.extend(pushed.unwrap().into_iter().map(|pushed| pushed.id));
        }
        ids
    }

    /// Records and pushes items that `make` makes from their payloads. Each payload is unique: it is the item's name.
    pub fn push_recorded<N: Into<String>>(
        &self,
        payloads: impl IntoIterator<Item = N>,
        make: impl Fn(&str) -> Item,
    ) -> Vec<ItemId> {
        let payloads: Vec<String> = payloads.into_iter().map(N::into).collect();
        let pending: Vec<Pending> = payloads
            .iter()
            .map(|name| record_push(&self.recorder, name))
            .collect();
        let ids = self.push(payloads.iter().map(|payload| make(payload)));
        for (pending, item) in pending.into_iter().zip(&ids) {
            pending.answer(history::Answer::Inbox(Answer::Pushed { item: item.0 }));
        }
        ids
    }

    /// Violations of the history that all processes have recorded, with the effects and the items that are left. The store crashed at
    /// `crashes_us`.
    pub fn violations(&self, crashes_us: Vec<i64>) -> Vec<Violation> {
        let history = History::read(self.folder.path()).unwrap();
        let left = End::read(&self.turno, &[QUEUE]);
        let end = End {
            effects: self.effects(),
            crashes_us,
            ..self.runtime.block_on(left).unwrap()
        };
        let broken = inbox::check(&history.inbox, &end);
        history.errors().chain(broken).collect()
    }

    pub fn stats(&self) -> QueueStats {
        match self.runtime.block_on(self.inbox().stats()) {
            // Nothing was pushed yet.
            Err(error) if error.is_no_queue() => QueueStats::default(),
            stats => stats.unwrap(),
        }
    }

    pub fn list(&self, state: ItemState) -> Vec<ItemView> {
        self.runtime
            .block_on(self.inbox().list(state, None, PAGE))
            .unwrap()
    }

    #[track_caller]
    pub fn await_stats(&self, what: &str, condition: impl Fn(&QueueStats) -> bool) -> QueueStats {
        eventually(LONG, what, || {
            let stats = self.stats();
            condition(&stats).then_some(stats)
        })
    }

    /// Returns all effects, in the order in which they happened.
    pub fn effects(&self) -> Vec<inbox::Effect> {
        self.rows("select payload as name, attempt from effect order by n")
    }

    /// Returns the items that the store has recorded as completed, once per record.
    pub fn completions(&self) -> Vec<i64> {
        let read = match self.file() {
            Some(_) => {
                "with recursive done(id, last_id) as (
                   select id, coalesce(last_id, id) from turno_inbox_done
                   union all
                   select id + 1, last_id from done where id < last_id)
                 select id from done order by id"
            }
            None => {
                "select i as id
                from turno.inbox_done d
                cross join lateral unnest(d.ids) r
                cross join lateral generate_series(lower(r), upper(r) - 1) i
                order by i"
            }
        };
        let rows = self.rows(read).into_iter();
        rows.map(|row: Completion| row.id).collect()
    }
}

/// Records the call of a push.
pub fn record_push(recorder: &Recorder, payload: &str) -> Pending {
    recorder.call(history::Call::Inbox(Call::Push {
        queue: QUEUE.to_owned(),
        name: payload.to_owned(),
        group: payload.split(' ').nth(2).map(str::to_owned),
        key: None,
    }))
}

/// Returns an item whose handler does what the first word says, and that has practically unlimited attempts.
pub fn item(payload: &str) -> Item {
    Item::new(payload).max_attempts(MANY_ATTEMPTS)
}
