//! Lock operations over HTTP.

use std::time::Duration;

use turno::Result;
use turno::lock::LeaseId;
use turno::store::{
    BreakOutcome, History, HistoryEntry, LockAcquire, LockAcquireAll, LockAllOutcome, LockBreak,
    LockHolder, LockList, LockOutcome, LockRelease, LockRenew, ReleaseOutcome, RenewOutcome,
    WaitOrder,
};
use turno_api::duration::WireDuration;
use turno_api::lock::{Acquire, Renew};

use super::answer::{busy, grant};
use super::{RemoteStore, wait};
use crate::client::{Acquired, AcquiredAll, Broke, Page, Released, Renewed};

/// A cursor after every entry: the page has ended leases only, without the locks that are held now.
const LATEST: i64 = i64::MAX;

impl RemoteStore {
    pub(super) async fn acquire(
        &self,
        ask: &LockAcquire,
        wait: Option<(WireDuration, WaitOrder)>,
    ) -> Result<LockOutcome> {
        let mut question = Acquire::from(ask);
        if let Some((wait, order)) = wait {
            question.wait = Some(wait);
            question.order = Some(order);
        }
        Ok(match self.client.acquire(&question).await? {
            Acquired::Acquired(lease) => LockOutcome::Acquired(grant(lease, false)?),
            Acquired::Reentered(lease) => LockOutcome::Acquired(grant(lease, true)?),
            Acquired::Busy(problem) => LockOutcome::Busy(busy(*problem, &ask.resource)),
        })
    }

    pub(super) async fn acquire_waiting(
        &self,
        ask: &LockAcquire,
        wait: Duration,
        order: WaitOrder,
    ) -> Result<LockOutcome> {
        wait::until(
            wait,
            |slice| self.acquire(ask, Some((slice, order))),
            |outcome| matches!(outcome, LockOutcome::Busy(_)),
        )
        .await
    }

    pub(super) async fn acquire_all(&self, ask: &LockAcquireAll) -> Result<LockAllOutcome> {
        let (leases, reentered) = match self.client.acquire_all(&ask.into()).await? {
            AcquiredAll::Acquired(leases) => (leases, false),
            AcquiredAll::Reentered(leases) => (leases, true),
            AcquiredAll::Busy(problem) => {
                let first = ask.resources.first().map_or("", String::as_str);
                return Ok(LockAllOutcome::Busy(busy(*problem, first)));
            }
        };
        let grants = leases.leases.into_iter().map(|lease| {
            // Of several locks, only some may have been reentered.
            let again = reentered || lease.holds.is_some_and(|holds| holds > 1);
            grant(lease, again)
        });
        Ok(LockAllOutcome::Acquired(grants.collect::<Result<_>>()?))
    }

    pub(super) async fn renew(&self, ask: &LockRenew) -> Result<RenewOutcome> {
        if ask.token.0 < 0 {
            return Ok(RenewOutcome::Lost);
        }
        let id = LeaseId {
            resource: ask.resource.clone(),
            token: ask.token,
        };
        let ttl = Renew {
            ttl: Some(ask.ttl.into()),
        };
        Ok(match self.client.renew(&id, &ttl).await? {
            Renewed::Renewed(lease) => RenewOutcome::Renewed {
                expires_at: lease.expires_at,
                remaining: Duration::from_millis(lease.remaining_ms),
            },
            Renewed::Lost(_) => RenewOutcome::Lost,
        })
    }

    pub(super) async fn release(&self, ask: &LockRelease) -> Result<ReleaseOutcome> {
        if ask.token.0 < 0 {
            return Ok(ReleaseOutcome::Lost);
        }
        let id = LeaseId {
            resource: ask.resource.clone(),
            token: ask.token,
        };
        let released = self.client.release_as(&id, ask.hold, ask.request).await?;
        Ok(match released {
            Released::Released { holds } => ReleaseOutcome::Released { holds },
            Released::Lost(_) => ReleaseOutcome::Lost,
        })
    }

    pub(super) async fn break_lock(&self, ask: &LockBreak) -> Result<BreakOutcome> {
        Ok(match self.client.break_lock_with(ask).await? {
            Broke::Broken => BreakOutcome::Broken,
            Broke::NotHeld(_) => BreakOutcome::NotHeld,
        })
    }

    pub(super) async fn list(&self, ask: &LockList) -> Result<Vec<LockHolder>> {
        let page = Page {
            limit: Some(ask.limit),
            after: (!ask.after.is_empty()).then(|| ask.after.clone()),
        };
        Ok(self.client.locks(&ask.prefix, &page).await?.locks)
    }

    pub(super) async fn history_of(&self, ask: &History) -> Result<Vec<HistoryEntry>> {
        let page = Page {
            limit: Some(ask.limit),
            after: Some(ask.before.unwrap_or(LATEST)),
        };
        let history = self
            .client
            .history(ask.part, ask.resource.as_deref(), &ask.prefix, &page)
            .await?;
        Ok(history.history)
    }
}
