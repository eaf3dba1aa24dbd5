//! The inbox. Each verb is one job of the writer, so that its statements are one atomic step. The rules are in
//! `queries/inbox.sql` and in the modules below, one per kind of change.
//!
//! An item has a `state` (see `migrations/0012_rules.sql`). A change of it also updates the other items of its group and the
//! counters in the same transaction, so that no call has to search.

pub(super) mod claim;
pub(super) mod complete;
pub(super) mod held;
pub(super) mod ids;
pub(super) mod list;
pub(super) mod push;
pub(super) mod request;
pub(super) mod revive;
pub(super) mod settings;
mod settle;
pub(super) mod stats;
pub(super) mod tally;
#[cfg(test)]
mod tests;
mod tx;

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension};

pub(super) use self::revive::sweep_failed;
pub(crate) use self::tx::*;
use super::rows::exec;
use super::{SqliteStore, classify};
use crate::clock;
use crate::error::Result;
use crate::store::*;

/// States of an item.
mod line {
    pub(super) const READY: i64 = 0;
    pub(super) const TIMED: i64 = 1;
    pub(super) const BEHIND: i64 = 2;
    pub(super) const FAILED: i64 = 4;
}

#[async_trait]
impl InboxStore for SqliteStore {
    async fn inbox_push(&self, ask: &InboxPush) -> Result<Vec<PushedItem>> {
        let ask = ask.clone();
        self.writer
            .write(move |db| push::push(db, &ask, clock::now_us()))
            .await
    }

    async fn inbox_claim(&self, ask: &InboxClaim) -> Result<Vec<ClaimedItem>> {
        let (look, ask) = (ask.clone(), ask.clone());
        let how = (Order::ByKey, self.max_claim_bytes);
        self.writer
            .look_then_write(
                move |db| claim::look(db, &look, Order::ByKey, clock::now_us()),
                move |db| claim::claim(db, &ask, how, clock::now_us()),
            )
            .await
    }

    async fn inbox_complete(&self, ask: &InboxComplete) -> Result<Settled> {
        let ask = ask.clone();
        self.writer
            .write(move |db| complete::complete(db, &ask, clock::now_us()))
            .await
    }

    async fn inbox_turn(&self, ask: &InboxTurn) -> Result<(Settled, Vec<ClaimedItem>)> {
        if ask.complete.claims.is_empty() {
            let claimed = self.inbox_claim(&ask.claim).await?;
            return Ok((Settled::default(), claimed));
        }
        let ask = ask.clone();
        let how = (Order::ByKey, self.max_claim_bytes);
        self.writer
            .write(move |db| {
                let now = clock::now_us();
                let settled = complete::complete(db, &ask.complete, now)?;
                Ok((settled, claim::claim(db, &ask.claim, how, now)?))
            })
            .await
    }

    async fn inbox_fail(&self, ask: &InboxFail) -> Result<Settled> {
        let ask = ask.clone();
        self.writer
            .write(move |db| settle::fail(db, &ask, clock::now_us()))
            .await
    }

    async fn inbox_give_back(&self, ask: &InboxGiveBack) -> Result<Settled> {
        let ask = ask.clone();
        self.writer
            .write(move |db| settle::give_back(db, &ask, clock::now_us()))
            .await
    }

    async fn inbox_extend(&self, ask: &InboxExtend) -> Result<Settled> {
        let ask = ask.clone();
        self.writer
            .write(move |db| settle::extend(db, &ask, clock::now_us()))
            .await
    }

    async fn inbox_requeue(&self, ask: &InboxFailedItems) -> Result<u64> {
        let ask = ask.clone();
        self.writer
            .write(move |db| revive::requeue(db, &ask, clock::now_us()))
            .await
    }

    async fn inbox_discard(&self, ask: &InboxFailedItems) -> Result<u64> {
        let ask = ask.clone();
        self.writer
            .write(move |db| revive::discard(db, &ask, clock::now_us()))
            .await
    }

    async fn inbox_reset(&self, ask: &InboxReset) -> Result<u64> {
        let ask = ask.clone();
        self.writer
            .write(move |db| revive::reset(db, &ask, clock::now_us()))
            .await
    }

    async fn inbox_settings(&self, queue: &str) -> Result<QueueSettings> {
        let queue = queue.to_owned();
        self.read(move |db| settings::settings(db, &queue)).await
    }

    async fn inbox_configure(&self, ask: &InboxConfigure) -> Result<QueueSettings> {
        let ask = ask.clone();
        self.writer
            .write(move |db| settings::configure(db, &ask, clock::now_us()))
            .await
    }

    async fn inbox_stats(&self, ask: &InboxStats) -> Result<Vec<QueueStats>> {
        let ask = ask.clone();
        self.read(move |db| stats::stats(db, &ask, clock::now_us()))
            .await
    }

    async fn inbox_list(&self, ask: &InboxList) -> Result<Vec<ItemView>> {
        let ask = ask.clone();
        self.read(move |db| list::list(db, &ask, clock::now_us()))
            .await
    }

    async fn inbox_queues(&self, claims: &[ClaimId]) -> Result<Vec<Option<String>>> {
        let claims = claims.to_vec();
        self.read(move |db| {
            let mut find = db.prepare_cached(query!(inbox_queues)).map_err(classify)?;
            let queue = |claim: &ClaimId| {
                find.query_row((claim.item.0, claim.token.as_bytes()), |row| row.get(0))
                    .optional()
                    .map_err(classify)
            };
            claims.iter().map(queue).collect()
        })
        .await
    }

    async fn inbox_wait(&self, queue: &str) -> Result<Option<Duration>> {
        // Every commit wakes the waiters in this process and in others: see `watch.rs`.
        let queue = queue.to_owned();
        self.read(move |db| claim::next_due(db, &queue, clock::now_us()))
            .await
    }

    async fn inbox_idle(&self, ask: &InboxIdle) -> Result<InboxIdleness> {
        Ok(InboxIdleness {
            due: self.inbox_wait(&ask.queue).await?,
            // Every commit wakes waiters, so there is no push that does not.
            sure: Some(String::new()),
        })
    }
}

/// Returns a length as SQLite's integer.
fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// Returns a queue's number, if an item was ever pushed to it.
pub(super) fn find_queue(db: &Connection, name: &str) -> Result<Option<i64>> {
    db.prepare_cached(query!(inbox_queue_find))
        .and_then(|mut find| find.query_row([name], |row| row.get(0)).optional())
        .map_err(classify)
}

/// Makes the next item of a group claimable, after the first one has left.
pub(super) fn next_of_group(db: &Connection, queue: i64, group: &str) -> Result<()> {
    exec(db, INBOX_GROUP_NEXT, (queue, group)).map(drop)
}
