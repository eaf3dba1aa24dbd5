//! The calls that are made for many callers at once.

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::calls::Calls;
use super::gather::{Answer, Together};
use super::interval::Interval;
use super::rows;
use crate::error::Result;
use crate::store::*;

/// Exclusive acquires.
pub(super) struct Acquires(pub(super) Calls);

/// Whether an acquire can share a call with others: the plain ones can.
pub(super) fn is_plain(ask: &LockAcquire) -> bool {
    ask.mode == LockMode::Exclusive && ask.min_hold.is_none() && ask.max_hold.is_none()
}

impl Together for Acquires {
    type Ask = LockAcquire;
    type Answer = LockOutcome;

    async fn call(&self, asks: Vec<LockAcquire>) -> Vec<Answer<LockOutcome>> {
        let order = sorted(&asks, |ask| &ask.resource);
        answers(&order, self.all(&asks, &order).await, rows::outcome)
    }
}

impl Acquires {
    /// One row for each, in the given order.
    async fn all(&self, asks: &[LockAcquire], order: &[usize]) -> Result<Vec<Row>> {
        let column = |of: fn(&LockAcquire) -> Option<&str>| -> Vec<Option<&str>> {
            order.iter().map(|&at| of(&asks[at])).collect()
        };
        let resources = column(|ask| Some(&ask.resource));
        let owners = column(|ask| Some(&ask.owner));
        let users = column(|ask| ask.attribution.user.as_deref());
        let services = column(|ask| ask.attribution.service.as_deref());
        let descriptions = column(|ask| ask.attribution.description.as_deref());
        let hosts = column(|ask| ask.attribution.host.as_deref());
        let ttls: Vec<Interval> = order.iter().map(|&at| Interval(asks[at].ttl)).collect();
        let pids: Vec<Option<i32>> = order.iter().map(|&at| asks[at].attribution.pid).collect();
        let requests: Vec<Uuid> = order.iter().map(|&at| asks[at].request).collect();
        self.0
            .rows(
                include_str!("call/lock_acquire_batch.sql"),
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

    pub(super) async fn one(&self, ask: &LockAcquire) -> Result<LockOutcome> {
        let (mode, permits) = rows::mode(ask.mode);
        let (who, pid) = (&ask.attribution, ask.attribution.pid);
        let row = self
            .0
            .row(
                include_str!("call/lock_acquire.sql"),
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

/// Releases.
pub(super) struct Releases(pub(super) Calls);

impl Together for Releases {
    type Ask = LockRelease;
    type Answer = ReleaseOutcome;

    async fn call(&self, asks: Vec<LockRelease>) -> Vec<Answer<ReleaseOutcome>> {
        let order = sorted(&asks, |ask| &ask.resource);
        answers(&order, self.all(&asks, &order).await, rows::ending)
    }
}

impl Releases {
    async fn all(&self, asks: &[LockRelease], order: &[usize]) -> Result<Vec<Row>> {
        let resources: Vec<&str> = order.iter().map(|&at| asks[at].resource.as_str()).collect();
        let tokens: Vec<i64> = order.iter().map(|&at| asks[at].token.0).collect();
        let holds: Vec<Option<Uuid>> = order.iter().map(|&at| asks[at].hold).collect();
        let requests: Vec<Uuid> = order.iter().map(|&at| asks[at].request).collect();
        self.0
            .rows(
                include_str!("call/lock_release_batch.sql"),
                &[
                    (&resources, Type::TEXT_ARRAY),
                    (&tokens, Type::INT8_ARRAY),
                    (&holds, Type::UUID_ARRAY),
                    (&requests, Type::UUID_ARRAY),
                ],
            )
            .await
    }

    pub(super) async fn one(&self, ask: &LockRelease) -> Result<ReleaseOutcome> {
        let row = self
            .0
            .row(
                include_str!("call/lock_release.sql"),
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

/// Each caller's answer. A database that cannot be reached is everybody's; any other error may be one
/// caller's fault, so each is asked alone and meets its own.
fn answers<T>(order: &[usize], rows: Result<Vec<Row>>, read: impl Fn(&Row) -> Result<T>) -> Vec<Answer<T>> {
    let mut answers: Vec<Answer<T>> = order.iter().map(|_| Answer::Alone).collect();
    match rows {
        Ok(rows) => {
            for (&place, row) in order.iter().zip(&rows) {
                if !rows::is_later(row) {
                    answers[place] = Answer::Given(read(row));
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

/// The places of all, in the order of their resources: two batches then lock rows in one order.
fn sorted<T>(asks: &[T], resource: impl Fn(&T) -> &str) -> Vec<usize> {
    let mut order: Vec<usize> = (0..asks.len()).collect();
    order.sort_by(|&a, &b| resource(&asks[a]).cmp(resource(&asks[b])));
    order
}
