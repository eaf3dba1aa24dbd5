//! Batched pushes of a few items.

use std::collections::HashSet;

use tokio_postgres::types::Type;

use super::batcher::{Batchable, CallAlone, Reply, column, replies};
use crate::error::Result;
use crate::store::postgres::calls::{Calls, IfLocked};
use crate::store::postgres::inbox::{self, PushColumns};
use crate::store::*;

/// A push of more items is large enough without a batch.
const MAX_BATCHED_ITEMS: usize = 16;
/// A push of more bytes would delay the other pushes of a batch.
const MAX_BATCHED_BYTES: usize = 64 * 1024;

/// Pushes of a few items, to any queues.
pub(crate) struct Pushes(pub(in crate::store::postgres) Calls);

/// Returns whether a push has unique keys, which another open transaction may have pushed too.
pub(crate) fn has_keys(ask: &InboxPush) -> bool {
    ask.items.iter().any(|item| item.key.is_some())
}

impl Batchable for Pushes {
    type Ask = InboxPush;
    type Answer = Vec<PushedItem>;
    /// While one batch commits, the next one inserts.
    const CONCURRENCY: usize = 2;

    /// Pushes all of them if none has to wait for a lock.
    async fn call(&self, asks: Vec<InboxPush>) -> Vec<Reply<Vec<PushedItem>>> {
        let mut places = distinct(&asks);
        places.sort_by_key(|place| &asks[*place].queue);
        let sorted: Vec<&InboxPush> = places.iter().map(|place| &asks[*place]).collect();
        let columns = PushColumns::of(sorted.iter().flat_map(|ask| &ask.items));
        let delays = columns.intervals();
        let rows = self
            .0
            .rows_if(
                IfLocked::NoRows,
                query!(inbox_push_batch),
                &[
                    (&column(&sorted, |ask| &*ask.queue), Type::TEXT_ARRAY),
                    (
                        &column(&sorted, |ask| ask.items.len() as i32),
                        Type::INT4_ARRAY,
                    ),
                    (&column(&sorted, |ask| ask.request), Type::UUID_ARRAY),
                    (&columns.payloads, Type::TEXT_ARRAY),
                    (&columns.keys, Type::TEXT_ARRAY),
                    (&columns.priorities, Type::INT4_ARRAY),
                    (&delays, Type::INTERVAL_ARRAY),
                    (&columns.run_ats, Type::TIMESTAMPTZ_ARRAY),
                    (&columns.groups, Type::TEXT_ARRAY),
                    (&columns.max_attempts, Type::INT4_ARRAY),
                ],
            )
            .await;
        let is_locked = rows.as_ref().is_ok_and(Vec::is_empty);
        let mut all: Vec<_> = column(&asks, |_| Reply::CallAlone);
        for (place, reply) in places
            .into_iter()
            .zip(replies(sorted.len(), rows, inbox::pushed))
        {
            all[place] = if is_locked { Reply::Locked } else { reply };
        }
        all
    }
}

/// Returns the places of the calls, one per request id. A second call with the same id must be made alone, because it returns the
/// result of the first.
fn distinct(asks: &[InboxPush]) -> Vec<usize> {
    let mut seen = HashSet::new();
    (0..asks.len())
        .filter(|place| seen.insert(asks[*place].request))
        .collect()
}

impl CallAlone for Pushes {
    /// A push waits for an open transaction that has pushed the same unique key, or the first item of the queue.
    fn lock(ask: &InboxPush) -> String {
        match ask.items.iter().find_map(|item| item.key.as_ref()) {
            Some(key) => format!("key {key:?} of queue {:?}", ask.queue),
            None => format!("queue {:?}", ask.queue),
        }
    }

    fn is_small(ask: &InboxPush) -> bool {
        let bytes = ask.items.iter().map(|item| item.payload.len());
        ask.items.len() <= MAX_BATCHED_ITEMS && bytes.sum::<usize>() <= MAX_BATCHED_BYTES
    }

    async fn one(&self, ask: &InboxPush, if_locked: IfLocked<'_>) -> Result<Vec<PushedItem>> {
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
