//! Batched calls of locks.

use tokio_postgres::types::Type;

use super::batcher::{Batchable, CallAlone, Reply, column, replies};
use crate::error::Result;
use crate::store::postgres::calls::{Calls, IfLocked};
use crate::store::postgres::interval::Interval;
use crate::store::postgres::rows;
use crate::store::*;

fn acquire_lock(resource: &str) -> String {
    format!("the acquires of resource {resource:?}")
}

fn lease_lock(resource: &str) -> String {
    format!("the lease on resource {resource:?}")
}

/// Acquires. Exclusive ones without a limit on the hold time share batches.
pub(crate) struct Acquires(pub(in crate::store::postgres) Calls);

impl Batchable for Acquires {
    type Ask = LockAcquire;
    type Answer = LockOutcome;

    async fn call(&self, asks: Vec<LockAcquire>) -> Vec<Reply<LockOutcome>> {
        let who = || asks.iter().map(|ask| &ask.attribution);
        let users: Vec<_> = who().map(|who| who.user.as_deref()).collect();
        let services: Vec<_> = who().map(|who| who.service.as_deref()).collect();
        let descriptions: Vec<_> = who().map(|who| who.description.as_deref()).collect();
        let hosts: Vec<_> = who().map(|who| who.host.as_deref()).collect();
        let pids: Vec<_> = who().map(|who| who.pid).collect();
        let rows = self
            .0
            .rows(
                query!(lock_acquire_batch),
                &[
                    (&column(&asks, |ask| &*ask.resource), Type::TEXT_ARRAY),
                    (&column(&asks, |ask| &*ask.owner), Type::TEXT_ARRAY),
                    (
                        &column(&asks, |ask| Interval(ask.ttl)),
                        Type::INTERVAL_ARRAY,
                    ),
                    (&users, Type::TEXT_ARRAY),
                    (&services, Type::TEXT_ARRAY),
                    (&descriptions, Type::TEXT_ARRAY),
                    (&hosts, Type::TEXT_ARRAY),
                    (&pids, Type::INT4_ARRAY),
                    (&column(&asks, |ask| ask.request), Type::UUID_ARRAY),
                ],
            )
            .await;
        replies(asks.len(), rows, rows::outcome)
    }
}

impl CallAlone for Acquires {
    fn lock(ask: &LockAcquire) -> String {
        acquire_lock(&ask.resource)
    }

    fn is_small(ask: &LockAcquire) -> bool {
        ask.mode == LockMode::Exclusive && ask.min_hold.is_none() && ask.max_hold.is_none()
    }

    async fn one(&self, ask: &LockAcquire, if_locked: IfLocked<'_>) -> Result<LockOutcome> {
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
}

impl Acquires {
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

pub(crate) struct Releases(pub(in crate::store::postgres) Calls);

impl Batchable for Releases {
    type Ask = LockRelease;
    type Answer = ReleaseOutcome;

    async fn call(&self, asks: Vec<LockRelease>) -> Vec<Reply<ReleaseOutcome>> {
        let rows = self
            .0
            .rows(
                query!(lock_release_batch),
                &[
                    (&column(&asks, |ask| &*ask.resource), Type::TEXT_ARRAY),
                    (&column(&asks, |ask| ask.token.0), Type::INT8_ARRAY),
                    (&column(&asks, |ask| ask.hold), Type::UUID_ARRAY),
                    (&column(&asks, |ask| ask.request), Type::UUID_ARRAY),
                ],
            )
            .await;
        replies(asks.len(), rows, rows::ending)
    }
}

impl CallAlone for Releases {
    fn lock(ask: &LockRelease) -> String {
        lease_lock(&ask.resource)
    }

    async fn one(&self, ask: &LockRelease, if_locked: IfLocked<'_>) -> Result<ReleaseOutcome> {
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

pub(crate) struct Renewals(pub(in crate::store::postgres) Calls);

impl Batchable for Renewals {
    type Ask = LockRenew;
    type Answer = RenewOutcome;

    async fn call(&self, asks: Vec<LockRenew>) -> Vec<Reply<RenewOutcome>> {
        let rows = self
            .0
            .rows(
                query!(lock_renew_batch),
                &[
                    (&column(&asks, |ask| &*ask.resource), Type::TEXT_ARRAY),
                    (&column(&asks, |ask| ask.token.0), Type::INT8_ARRAY),
                    (
                        &column(&asks, |ask| Interval(ask.ttl)),
                        Type::INTERVAL_ARRAY,
                    ),
                ],
            )
            .await;
        replies(asks.len(), rows, rows::renewal)
    }
}

impl CallAlone for Renewals {
    fn lock(ask: &LockRenew) -> String {
        lease_lock(&ask.resource)
    }

    async fn one(&self, ask: &LockRenew, if_locked: IfLocked<'_>) -> Result<RenewOutcome> {
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

/// Registrations of waiters.
pub(crate) struct Registrations(pub(in crate::store::postgres) Calls);

impl Batchable for Registrations {
    type Ask = LockWait;
    type Answer = WaitOutcome;

    async fn call(&self, asks: Vec<LockWait>) -> Vec<Reply<WaitOutcome>> {
        let who = || asks.iter().map(|ask| &ask.attribution);
        let users: Vec<_> = who().map(|who| who.user.as_deref()).collect();
        let services: Vec<_> = who().map(|who| who.service.as_deref()).collect();
        let descriptions: Vec<_> = who().map(|who| who.description.as_deref()).collect();
        let rows = self
            .0
            .rows(
                query!(lock_waiter_register_batch),
                &[
                    (&column(&asks, |ask| &*ask.resource), Type::TEXT_ARRAY),
                    (&column(&asks, |ask| &*ask.owner), Type::TEXT_ARRAY),
                    (&column(&asks, is_fifo), Type::BOOL_ARRAY),
                    (&users, Type::TEXT_ARRAY),
                    (&services, Type::TEXT_ARRAY),
                    (&descriptions, Type::TEXT_ARRAY),
                ],
            )
            .await;
        replies(asks.len(), rows, rows::waiting)
    }
}

impl CallAlone for Registrations {
    fn lock(ask: &LockWait) -> String {
        acquire_lock(&ask.resource)
    }

    async fn one(&self, ask: &LockWait, if_locked: IfLocked<'_>) -> Result<WaitOutcome> {
        let who = &ask.attribution;
        let row = self
            .0
            .row_if(
                if_locked,
                query!(lock_waiter_register),
                &[
                    (&ask.resource, Type::TEXT),
                    (&ask.owner, Type::TEXT),
                    (&is_fifo(ask), Type::BOOL),
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
