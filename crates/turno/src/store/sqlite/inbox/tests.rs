//! The rules of the inbox on SQLite, on a clock that the tests move.

mod claiming;
mod counting;
mod grouping;
mod plans;
mod pushing;
mod random;
mod reviving;
mod rules;
mod settling;
mod through_the_store;
mod transactions;

use std::time::Duration;

use rusqlite::Connection;
use uuid::Uuid;

use super::super::{migrate, sweep};
use super::{claim, complete, list, push, revive, settle, stats};
use crate::clock::as_us;
use crate::store::*;

const QUEUE: &str = "notes";
const LEASE: Duration = Duration::from_secs(30);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn item(payload: &str) -> NewItem {
    NewItem {
        payload: payload.to_owned(),
        key: None,
        label: None,
        priority: 1,
        due: None,
        group: None,
        max_attempts: 3,
    }
}

fn after(payload: &str, delay: Duration) -> NewItem {
    NewItem {
        due: Some(Due::After(delay)),
        ..item(payload)
    }
}

fn keyed(payload: &str, key: &str) -> NewItem {
    NewItem {
        key: Some(key.to_owned()),
        ..item(payload)
    }
}

fn grouped(payload: &str, group: &str) -> NewItem {
    NewItem {
        group: Some(group.to_owned()),
        ..item(payload)
    }
}

/// A database in memory, and its time of day.
struct Desk {
    db: Connection,
    now: i64,
}

impl Desk {
    fn new() -> Self {
        let db = Connection::open_in_memory().unwrap();
        db.set_prepared_statement_cache_capacity(64);
        migrate::migrate(&db).unwrap();
        Desk {
            db,
            now: 1_700_000_000_000_000,
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += as_us(time);
    }

    fn push(&self, items: Vec<NewItem>) -> Vec<PushedItem> {
        self.push_as(Uuid::new_v4(), items)
    }

    fn push_as(&self, request: Uuid, items: Vec<NewItem>) -> Vec<PushedItem> {
        let ask = InboxPush {
            queue: QUEUE.to_owned(),
            items,
            request,
        };
        push::push(&self.db, &ask, self.now).unwrap()
    }

    fn ask(&self, limit: u32) -> InboxClaim {
        InboxClaim {
            queue: QUEUE.to_owned(),
            worker: "w1".to_owned(),
            limit,
            lease: LEASE,
            request: Uuid::new_v4(),
            batching: crate::Batching::Batched,
        }
    }

    fn claim(&self, limit: u32) -> Vec<ClaimedItem> {
        self.claim_with(&self.ask(limit))
    }

    /// Claims; a look may only answer what the claim itself would.
    fn claim_with(&self, ask: &InboxClaim) -> Vec<ClaimedItem> {
        let look = claim::look(&self.db, ask, Order::ByKey, self.now).unwrap();
        let claimed = claim::claim(&self.db, ask, (Order::ByKey, usize::MAX), self.now).unwrap();
        if let Some(look) = look {
            assert_eq!(look, claimed);
        }
        claimed
    }

    fn next_due(&self) -> Option<Duration> {
        claim::next_due(&self.db, QUEUE, self.now).unwrap()
    }

    fn claim_one(&self) -> ClaimedItem {
        let mut items = self.claim(1);
        assert_eq!(items.len(), 1, "one is to be claimed");
        items.remove(0)
    }

    fn complete(&self, claims: &[ClaimId]) -> Settled {
        let ask = InboxComplete {
            claims: claims.to_vec(),
            request: Uuid::new_v4(),
        };
        complete::complete(&self.db, &ask, self.now).unwrap()
    }

    fn fail(&self, claim: ClaimId, retry_in: Option<Duration>) -> Settled {
        self.fail_with(Failure {
            claim,
            error: "no".to_owned(),
            retry_in,
            again: Again::Retry,
        })
    }

    fn fail_for_good(&self, claim: ClaimId) -> Settled {
        self.fail_with(Failure {
            claim,
            error: "never".to_owned(),
            retry_in: None,
            again: Again::Never,
        })
    }

    fn fail_with(&self, failure: Failure) -> Settled {
        let ask = InboxFail {
            failures: vec![failure],
            request: Uuid::new_v4(),
        };
        settle::fail(&self.db, &ask, self.now).unwrap()
    }

    fn give_back(&self, claims: &[ClaimId]) -> Settled {
        let ask = InboxGiveBack {
            claims: claims.to_vec(),
            request: Uuid::new_v4(),
        };
        settle::give_back(&self.db, &ask, self.now).unwrap()
    }

    fn extend(&self, claims: &[ClaimId], lease: Duration) -> Settled {
        let ask = InboxExtend {
            claims: claims.to_vec(),
            lease,
        };
        settle::extend(&self.db, &ask, self.now).unwrap()
    }

    fn requeue(&self, ids: Option<Vec<ItemId>>, limit: u32) -> u64 {
        let ask = InboxFailedItems {
            queue: QUEUE.to_owned(),
            ids,
            limit,
            user: None,
            reason: None,
        };
        revive::requeue(&self.db, &ask, self.now).unwrap()
    }

    fn reset(&self, older_than: Duration, limit: u32) -> u64 {
        let ask = InboxReset {
            queue: QUEUE.to_owned(),
            older_than,
            limit,
            user: None,
            reason: None,
        };
        revive::reset(&self.db, &ask, self.now).unwrap()
    }

    fn sweep(&self, keep_completed: Duration, batch: u32) -> u64 {
        let ask = Sweep {
            keep_completed,
            batch,
            ..Sweep::default()
        };
        sweep::sweep(&self.db, &ask, self.now).unwrap().completed
    }

    fn stats(&self) -> QueueStats {
        let ask = InboxStats {
            queue: Some(QUEUE.to_owned()),
            prefix: String::new(),
        };
        let all = stats::stats(&self.db, &ask, self.now).unwrap();
        // Zeros, if nothing was pushed yet.
        all.into_iter().next().unwrap_or_default()
    }

    /// Pending, scheduled, processing, completed, failed.
    fn counts(&self) -> [u64; 5] {
        let all = self.stats();
        let counts = [
            all.pending,
            all.scheduled,
            all.processing,
            all.completed,
            all.failed,
        ];
        assert_eq!(all.total, counts.iter().sum::<u64>());
        counts
    }

    fn list(&self, state: ItemState) -> Vec<ItemView> {
        self.page(state, None, 1000)
    }

    fn page(&self, state: ItemState, after: Option<ItemId>, limit: u32) -> Vec<ItemView> {
        let ask = InboxList {
            queue: QUEUE.to_owned(),
            state,
            after,
            limit,
        };
        list::list(&self.db, &ask, self.now).unwrap()
    }

    fn rows(&self, table: &str) -> i64 {
        let sql = format!("select count(*) from {table}");
        self.db.query_row(&sql, [], |row| row.get(0)).unwrap()
    }
}

fn payloads(items: &[ClaimedItem]) -> Vec<&str> {
    items.iter().map(|item| item.payload.as_str()).collect()
}

fn claims(items: &[ClaimedItem]) -> Vec<ClaimId> {
    items.iter().map(|item| item.claim).collect()
}

fn ids(pushed: &[PushedItem]) -> Vec<ItemId> {
    pushed.iter().map(|item| item.id).collect()
}
