//! Small pushes that are made for many callers at once.

use std::collections::HashSet;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::batcher::{Answer, Batchable};
use super::locks;
use crate::error::Result;
use crate::store::postgres::calls::{Calls, IfLocked};
use crate::store::postgres::inbox::{self, PushColumns};
use crate::store::*;

/// A push of more items than this goes alone: it has enough company.
const SMALL: usize = 16;
/// And one of more bytes than this: it would keep the others waiting.
const SMALL_BYTES: usize = 64 * 1024;

/// Pushes of a few items, to any queues.
pub(crate) struct Pushes(pub(in crate::store::postgres) Calls);

/// Whether a push can share a call with others.
pub(crate) fn is_small(ask: &InboxPush) -> bool {
    let bytes = ask.items.iter().map(|item| item.payload.len());
    ask.items.len() <= SMALL && bytes.sum::<usize>() <= SMALL_BYTES
}

/// Whether it may meet the same key in somebody's open transaction.
pub(crate) fn has_keys(ask: &InboxPush) -> bool {
    ask.items.iter().any(|item| item.key.is_some())
}

/// What a push may have to wait for, as people read it: an open transaction that has pushed the same key, or the first item of
/// the queue.
pub(crate) fn push_lock(ask: &InboxPush) -> String {
    match ask.items.iter().find_map(|item| item.key.as_ref()) {
        Some(key) => format!("key {key:?} of queue {:?}", ask.queue),
        None => format!("queue {:?}", ask.queue),
    }
}

impl Batchable for Pushes {
    type Ask = InboxPush;
    type Answer = Vec<PushedItem>;
    /// While one of them waits for the disk, the other stores.
    const LANES: usize = 2;

    async fn call(&self, asks: Vec<InboxPush>) -> Vec<Answer<Vec<PushedItem>>> {
        let count = asks.len();
        let mut places = unlike(&asks);
        places.sort_by_key(|place| &asks[*place].queue);
        let sorted: Vec<&InboxPush> = places.iter().map(|place| &asks[*place]).collect();
        let rows = self.all(&sorted).await;
        let is_locked = rows.as_ref().is_ok_and(Vec::is_empty);
        let given = locks::answers(sorted.len(), rows, inbox::pushed);
        let mut answers: Vec<_> = std::iter::repeat_with(|| Answer::Alone)
            .take(count)
            .collect();
        for (place, answer) in places.into_iter().zip(given) {
            answers[place] = if is_locked { Answer::Locked } else { answer };
        }
        answers
    }
}

/// The places of the callers, each request once: one that is there twice is answered the same, which only a call of its
/// own finds out.
fn unlike(asks: &[InboxPush]) -> Vec<usize> {
    let mut seen = HashSet::new();
    (0..asks.len())
        .filter(|place| seen.insert(asks[*place].request))
        .collect()
}

impl Pushes {
    /// One row for each, if all could be stored without waiting for anybody.
    async fn all(&self, asks: &[&InboxPush]) -> Result<Vec<Row>> {
        let queues: Vec<&str> = asks.iter().map(|ask| ask.queue.as_str()).collect();
        let requests: Vec<Uuid> = asks.iter().map(|ask| ask.request).collect();
        // At the most SMALL of them.
        let sizes: Vec<i32> = asks.iter().map(|ask| ask.items.len() as i32).collect();
        let items: Vec<&NewItem> = asks.iter().flat_map(|ask| &ask.items).collect();
        let columns = PushColumns::of(items);
        let delays = columns.intervals();
        self.0
            .rows_if(
                IfLocked::NoRows,
                query!(inbox_push_batch),
                &[
                    (&queues, Type::TEXT_ARRAY),
                    (&sizes, Type::INT4_ARRAY),
                    (&requests, Type::UUID_ARRAY),
                    (&columns.payloads, Type::TEXT_ARRAY),
                    (&columns.keys, Type::TEXT_ARRAY),
                    (&columns.priorities, Type::INT4_ARRAY),
                    (&delays, Type::INTERVAL_ARRAY),
                    (&columns.run_ats, Type::TIMESTAMPTZ_ARRAY),
                    (&columns.groups, Type::TEXT_ARRAY),
                    (&columns.max_attempts, Type::INT4_ARRAY),
                ],
            )
            .await
    }

    pub(crate) async fn one(
        &self,
        ask: &InboxPush,
        if_locked: IfLocked<'_>,
    ) -> Result<Vec<PushedItem>> {
        let columns = PushColumns::of(&ask.items);
        let delays = columns.intervals();
        let row = self
            .0
            .row_if(
                if_locked,
                query!(inbox_push),
                &[
                    (&ask.queue, Type::TEXT),
                    (&columns.payloads, Type::TEXT_ARRAY),
                    (&columns.keys, Type::TEXT_ARRAY),
                    (&columns.priorities, Type::INT4_ARRAY),
                    (&delays, Type::INTERVAL_ARRAY),
                    (&columns.run_ats, Type::TIMESTAMPTZ_ARRAY),
                    (&columns.groups, Type::TEXT_ARRAY),
                    (&columns.max_attempts, Type::INT4_ARRAY),
                    (&ask.request, Type::UUID),
                ],
            )
            .await?;
        inbox::pushed(&row)
    }
}
