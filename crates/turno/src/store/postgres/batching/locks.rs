//! The calls that are made for many callers at once.

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::batcher::{Answer, Batchable};
use crate::error::Result;
use crate::store::postgres::calls::{Calls, IfLocked};
use crate::store::postgres::interval::Interval;
use crate::store::postgres::rows;
use crate::store::*;

/// What an acquire may have to wait for, as people read it.
pub(crate) fn acquire_lock(resource: &str) -> String {
    format!("the acquires of resource {resource:?}")
}

/// What a renewal or a release may have to wait for, as people read it.
pub(crate) fn lease_lock(resource: &str) -> String {
    format!("the lease on resource {resource:?}")
}

/// Exclusive acquires.
pub(crate) struct Acquires(pub(in crate::store::postgres) Calls);

/// Whether an acquire can share a call with others: the plain ones can.
pub(crate) fn is_plain(ask: &LockAcquire) -> bool {
    ask.mode == LockMode::Exclusive && ask.min_hold.is_none() && ask.max_hold.is_none()
}

impl Batchable for Acquires {
    type Ask = LockAcquire;
    type Answer = LockOutcome;

    async fn call(&self, asks: Vec<LockAcquire>) -> Vec<Answer<LockOutcome>> {
        answers(asks.len(), self.all(&asks).await, rows::outcome)
    }
}

impl Acquires {
    /// One row for each, in any order.
    async fn all(&self, asks: &[LockAcquire]) -> Result<Vec<Row>> {
        let column = |of: fn(&LockAcquire) -> Option<&str>| -> Vec<Option<&str>> {
            asks.iter().map(of).collect()
        };
        let resources = column(|ask| Some(&ask.resource));
        let owners = column(|ask| Some(&ask.owner));
        let users = column(|ask| ask.attribution.user.as_deref());
        let services = column(|ask| ask.attribution.service.as_deref());
        let descriptions = column(|ask| ask.attribution.description.as_deref());
        let hosts = column(|ask| ask.attribution.host.as_deref());
        let ttls: Vec<Interval> = asks.iter().map(|ask| Interval(ask.ttl)).collect();
        let pids: Vec<Option<i32>> = asks.iter().map(|ask| ask.attribution.pid).collect();
        let requests: Vec<Uuid> = asks.iter().map(|ask| ask.request).collect();
        self.0
            .rows(
                query!(lock_acquire_batch),
                &[
                    (&resources, Type::TEXT_ARRAY),
                    (&owners, Type::TEXT_ARRAY),
                    (&ttls, Type::INTERVAL_ARRAY),
                    (&users, Type::TEXT_ARRAY),
                    (&services, Type::TEXT_ARRAY),
                    (&descriptions, Type::TEXT_ARRAY),
                    (&hosts, Type::TEXT_ARRAY),
                    (&pids, Type::INT4_ARRAY),
                    (&requests, Type::UUID_ARRAY),
                ],
            )
            .await
    }

    pub(crate) async fn one(
        &self,
        ask: &LockAcquire,
        if_locked: IfLocked<'_>,
    ) -> Result<LockOutcome> {
        let (mode, permits) = rows::mode(ask.mode);
        let (who, pid) = (&ask.attribution, ask.attribution.pid);
        let row = self
            .0
            .row_if(
                if_locked,
                query!(lock_acquire),
                &[
                    (&ask.resource, Type::TEXT),
                    (&ask.owner, Type::TEXT),
                    (&Interval(ask.ttl), Type::INTERVAL),
                    (&who.user, Type::TEXT),
                    (&who.service, Type::TEXT),
                    (&who.description, Type::TEXT),
                    (&mode, Type::TEXT),
                    (&permits, Type::INT4),
                    (&ask.min_hold.map(Interval), Type::INTERVAL),
                    (&ask.max_hold.map(Interval), Type::INTERVAL),
                    (&who.host, Type::TEXT),
                    (&pid, Type::INT4),
                    (&ask.request, Type::UUID),
                ],
            )
            .await?;
        rows::outcome(&row)
    }

    /// Acquires several locks, all or none.
    pub(crate) async fn all_or_none(&self, ask: &LockAcquireAll) -> Result<LockAllOutcome> {
        let each = &ask.each;
        let (who, pid) = (&each.attribution, each.attribution.pid);
        let rows = self
            .0
            .rows(
                query!(lock_acquire_all),
                &[
                    (&ask.resources, Type::TEXT_ARRAY),
                    (&each.owner, Type::TEXT),
                    (&Interval(each.ttl), Type::INTERVAL),
                    (&who.user, Type::TEXT),
                    (&who.service, Type::TEXT),
                    (&who.description, Type::TEXT),
                    (&each.min_hold.map(Interval), Type::INTERVAL),
                    (&each.max_hold.map(Interval), Type::INTERVAL),
                    (&who.host, Type::TEXT),
                    (&pid, Type::INT4),
                    (&each.request, Type::UUID),
                ],
            )
            .await?;
        let mut grants = Vec::with_capacity(rows.len());
        for row in &rows {
            match rows::outcome(row)? {
                LockOutcome::Acquired(grant) => grants.push(grant),
                LockOutcome::Busy(busy) => return Ok(LockAllOutcome::Busy(busy)),
            }
        }
        Ok(LockAllOutcome::Acquired(grants))
    }
}

/// Releases.
pub(crate) struct Releases(pub(in crate::store::postgres) Calls);

impl Batchable for Releases {
    type Ask = LockRelease;
    type Answer = ReleaseOutcome;

    async fn call(&self, asks: Vec<LockRelease>) -> Vec<Answer<ReleaseOutcome>> {
        answers(asks.len(), self.all(&asks).await, rows::ending)
    }
}

impl Releases {
    async fn all(&self, asks: &[LockRelease]) -> Result<Vec<Row>> {
        let resources: Vec<&str> = asks.iter().map(|ask| ask.resource.as_str()).collect();
        let tokens: Vec<i64> = asks.iter().map(|ask| ask.token.0).collect();
        let holds: Vec<Option<Uuid>> = asks.iter().map(|ask| ask.hold).collect();
        let requests: Vec<Uuid> = asks.iter().map(|ask| ask.request).collect();
        self.0
            .rows(
                query!(lock_release_batch),
                &[
                    (&resources, Type::TEXT_ARRAY),
                    (&tokens, Type::INT8_ARRAY),
                    (&holds, Type::UUID_ARRAY),
                    (&requests, Type::UUID_ARRAY),
                ],
            )
            .await
    }

    pub(crate) async fn one(
        &self,
        ask: &LockRelease,
        if_locked: IfLocked<'_>,
    ) -> Result<ReleaseOutcome> {
        let row = self
            .0
            .row_if(
                if_locked,
                query!(lock_release),
                &[
                    (&ask.resource, Type::TEXT),
                    (&ask.token.0, Type::INT8),
                    (&ask.hold, Type::UUID),
                    (&ask.request, Type::UUID),
                ],
            )
            .await?;
        rows::ending(&row)
    }
}

/// Renewals.
pub(crate) struct Renewals(pub(in crate::store::postgres) Calls);

impl Batchable for Renewals {
    type Ask = LockRenew;
    type Answer = RenewOutcome;

    async fn call(&self, asks: Vec<LockRenew>) -> Vec<Answer<RenewOutcome>> {
        answers(asks.len(), self.all(&asks).await, rows::renewal)
    }
}

impl Renewals {
    async fn all(&self, asks: &[LockRenew]) -> Result<Vec<Row>> {
        let resources: Vec<&str> = asks.iter().map(|ask| ask.resource.as_str()).collect();
        let tokens: Vec<i64> = asks.iter().map(|ask| ask.token.0).collect();
        let ttls: Vec<Interval> = asks.iter().map(|ask| Interval(ask.ttl)).collect();
        self.0
            .rows(
                query!(lock_renew_batch),
                &[
                    (&resources, Type::TEXT_ARRAY),
                    (&tokens, Type::INT8_ARRAY),
                    (&ttls, Type::INTERVAL_ARRAY),
                ],
            )
            .await
    }

    pub(crate) async fn one(
        &self,
        ask: &LockRenew,
        if_locked: IfLocked<'_>,
    ) -> Result<RenewOutcome> {
        let row = self
            .0
            .row_if(
                if_locked,
                query!(lock_renew),
                &[
                    (&ask.resource, Type::TEXT),
                    (&ask.token.0, Type::INT8),
                    (&Interval(ask.ttl), Type::INTERVAL),
                ],
            )
            .await?;
        rows::renewal(&row)
    }
}

/// Sign-ins of those who wait.
pub(crate) struct SignIns(pub(in crate::store::postgres) Calls);

impl Batchable for SignIns {
    type Ask = LockWait;
    type Answer = WaitOutcome;

    async fn call(&self, asks: Vec<LockWait>) -> Vec<Answer<WaitOutcome>> {
        answers(asks.len(), self.all(&asks).await, rows::waiting)
    }
}

impl SignIns {
    async fn all(&self, asks: &[LockWait]) -> Result<Vec<Row>> {
        let column = |of: fn(&LockWait) -> Option<&str>| -> Vec<Option<&str>> {
            asks.iter().map(of).collect()
        };
        let resources = column(|ask| Some(&ask.resource));
        let owners = column(|ask| Some(&ask.owner));
        let users = column(|ask| ask.attribution.user.as_deref());
        let services = column(|ask| ask.attribution.service.as_deref());
        let descriptions = column(|ask| ask.attribution.description.as_deref());
        let fifos: Vec<bool> = asks.iter().map(is_fifo).collect();
        self.0
            .rows(
                query!(lock_waiter_register_batch),
                &[
                    (&resources, Type::TEXT_ARRAY),
                    (&owners, Type::TEXT_ARRAY),
                    (&fifos, Type::BOOL_ARRAY),
                    (&users, Type::TEXT_ARRAY),
                    (&services, Type::TEXT_ARRAY),
                    (&descriptions, Type::TEXT_ARRAY),
                ],
            )
            .await
    }

    pub(crate) async fn one(&self, ask: &LockWait, if_locked: IfLocked<'_>) -> Result<WaitOutcome> {
        let (who, fifo) = (&ask.attribution, is_fifo(ask));
        let row = self
            .0
            .row_if(
                if_locked,
                query!(lock_waiter_register),
                &[
                    (&ask.resource, Type::TEXT),
                    (&ask.owner, Type::TEXT),
                    (&fifo, Type::BOOL),
                    (&who.user, Type::TEXT),
                    (&who.service, Type::TEXT),
                    (&who.description, Type::TEXT),
                ],
            )
            .await?;
        rows::waiting(&row)
    }
}

fn is_fifo(ask: &LockWait) -> bool {
    ask.order == WaitOrder::Fifo
}

/// Each caller's answer. A database that cannot be reached is everybody's; any other error may be one
/// caller's fault, so each is asked alone and meets its own.
pub(crate) fn answers<T>(
    count: usize,
    rows: Result<Vec<Row>>,
    read: impl Fn(&Row) -> Result<T>,
) -> Vec<Answer<T>> {
    let mut answers: Vec<Answer<T>> = std::iter::repeat_with(|| Answer::Alone)
        .take(count)
        .collect();
    match rows {
        Ok(rows) => {
            for row in &rows {
                if let Some(answer) = rows::place(row).and_then(|place| answers.get_mut(place)) {
                    *answer = match rows::is_later(row) {
                        true => Answer::Locked,
                        false => Answer::Given(read(row)),
                    };
                }
            }
        }
        Err(error) if error.is_unavailable() => {
            answers.fill_with(|| Answer::Given(Err(error.clone())));
        }
        Err(_) => {}
    }
    answers
}
