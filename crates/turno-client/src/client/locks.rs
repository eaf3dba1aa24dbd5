//! Calls of locks and leases.

use reqwest::{Method, StatusCode};
use turno::Token;
use turno::lock::LeaseId;
use turno::store::LockBreak;
use turno_api::lock::{Acquire, AcquireAll, Lease, Leases, Locks, Renew, Status};
use turno_api::problem::Problem;
use uuid::Uuid;

use super::error::{Error, Result};
use super::path::Target;
use super::send::{Answer, Call};
use super::{Client, Page};

/// Response header with the number of holds that are left.
pub(crate) const HOLDS: &str = "turno-holds";

/// Outcome of [`Client::acquire`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// The caller holds the lock now.
    Acquired(Lease),
    /// The owner held the lock already and holds it once more.
    Reentered(Lease),
    /// Another owner holds the lock.
    Busy(Box<Problem>),
}

/// Outcome of [`Client::acquire_all`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcquiredAll {
    /// The caller holds all the locks now.
    Acquired(Leases),
    /// The owner held all the locks already and holds them once more.
    Reentered(Leases),
    /// Another owner holds one of the locks. The call acquired none.
    Busy(Box<Problem>),
}

/// Outcome of [`Client::renew`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Renewed {
    /// The lease as it is after the renewal.
    Renewed(Lease),
    /// The lease has ended: it expired, was released or was broken.
    Lost(Box<Problem>),
}

/// Outcome of [`Client::release`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// One hold was released.
    Released {
        /// Number of holds that the owner still has.
        holds: u32,
    },
    /// The lease had ended before: it expired, was released or was broken.
    Lost(Box<Problem>),
}

/// Outcome of [`Client::break_lock`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broke {
    /// The lock is free now.
    Broken,
    /// This fencing token does not hold the lock.
    NotHeld(Box<Problem>),
}

impl Client {
    /// Acquires a lock, or reports its holder.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable. A busy lock is not an error.
    pub async fn acquire(&self, ask: &Acquire) -> Result<Acquired> {
        let mut ask = ask.clone();
        // A retry is recognized only if both are the same.
        ask.request.get_or_insert_with(Uuid::now_v7);
        ask.owner.get_or_insert_with(|| Uuid::new_v4().to_string());
        let call = Call::post("v1/locks", &ask)?.wait(ask.wait);
        Ok(match outcome(self.call(call).await, &["busy"])? {
            Ok(answer) if answer.status == StatusCode::CREATED => {
                Acquired::Acquired(answer.read()?)
            }
            Ok(answer) => Acquired::Reentered(answer.read()?),
            Err(problem) => Acquired::Busy(problem),
        })
    }

    /// Acquires several locks, all or none.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable. A busy lock is not an error.
    pub async fn acquire_all(&self, ask: &AcquireAll) -> Result<AcquiredAll> {
        let mut ask = ask.clone();
        ask.request.get_or_insert_with(Uuid::now_v7);
        ask.owner.get_or_insert_with(|| Uuid::new_v4().to_string());
        let call = Call::post("v1/lock-sets", &ask)?.wait(ask.wait);
        Ok(match outcome(self.call(call).await, &["busy"])? {
            Ok(answer) if answer.status == StatusCode::CREATED => {
                AcquiredAll::Acquired(answer.read()?)
            }
            Ok(answer) => AcquiredAll::Reentered(answer.read()?),
            Err(problem) => AcquiredAll::Busy(problem),
        })
    }

    /// Extends a lease. Never shortens it.
    ///
    /// # Errors
    /// Returns an error if the TTL is invalid or the server is unavailable. A lost lease is not an error.
    pub async fn renew(&self, lease: &LeaseId, ask: &Renew) -> Result<Renewed> {
        let call = Call::new(Method::PUT, lease_target(lease)?).body(ask)?;
        Ok(match outcome(self.call(call).await, &["lost"])? {
            Ok(answer) => Renewed::Renewed(answer.read()?),
            Err(problem) => Renewed::Lost(problem),
        })
    }

    /// Releases one hold of a lease. `hold` is the request id that acquired it. Default: the newest hold.
    ///
    /// # Errors
    /// Returns an error if the server is unavailable. A lost lease is not an error.
    pub async fn release(&self, lease: &LeaseId, hold: Option<Uuid>) -> Result<Released> {
        self.release_as(lease, hold, Uuid::now_v7()).await
    }

    /// [`Client::release`] with the caller's own request id. Repeated with the same id, it releases nothing more.
    ///
    /// # Errors
    /// Same as [`Client::release`].
    pub async fn release_as(
        &self,
        lease: &LeaseId,
        hold: Option<Uuid>,
        request: Uuid,
    ) -> Result<Released> {
        let target = lease_target(lease)?
            .with("hold", hold)
            .with("request", Some(request));
        let answer = self.call(Call::new(Method::DELETE, target)).await;
        match outcome(answer, &["lost"])? {
            Ok(answer) => {
                let holds = answer
                    .headers
                    .get(HOLDS)
                    .and_then(|holds| holds.to_str().ok());
                let holds = holds.and_then(|holds| holds.parse().ok()).ok_or_else(|| {
                    Error::broken("the server has not said how many holds are left")
                })?;
                Ok(Released::Released { holds })
            }
            Err(problem) => Ok(Released::Lost(problem)),
        }
    }

    /// Returns the holders of a resource.
    ///
    /// # Errors
    /// Returns an error if the name is invalid or the server is unavailable.
    pub async fn lock_status(&self, resource: &str) -> Result<Status> {
        let target = Target::new("v1/locks").name("resource", resource)?;
        self.call(Call::get(target)).await?.read()
    }

    /// Returns one page of the held locks whose names begin with a prefix.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    pub async fn locks(&self, prefix: &str, page: &Page) -> Result<Locks> {
        let target = Target::new("v1/locks")
            .with("prefix", said(prefix))
            .with("limit", page.limit)
            .with("after", page.after.as_deref());
        self.call(Call::get(target)).await?.read()
    }

    /// Breaks a lock: ends the lease with this fencing token. For operators; the reason is recorded in the history.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    pub async fn break_lock(
        &self,
        resource: &str,
        token: Token,
        reason: &str,
        user: Option<&str>,
    ) -> Result<Broke> {
        self.break_lock_with(&LockBreak {
            resource: resource.to_owned(),
            token,
            reason: reason.to_owned(),
            user: user.map(str::to_owned),
            request: Uuid::now_v7(),
        })
        .await
    }

    /// [`Client::break_lock`] with the caller's own request id.
    ///
    /// # Errors
    /// Same as [`Client::break_lock`].
    pub async fn break_lock_with(&self, ask: &LockBreak) -> Result<Broke> {
        let target = Target::new("v1/locks")
            .name("resource", &ask.resource)?
            .with("token", Some(ask.token))
            .with("reason", Some(&ask.reason))
            .with("user", ask.user.as_deref())
            .with("request", Some(ask.request));
        let answer = self.call(Call::new(Method::DELETE, target)).await;
        Ok(match outcome(answer, &["not_held"])? {
            Ok(_) => Broke::Broken,
            Err(problem) => Broke::NotHeld(problem),
        })
    }
}

fn lease_target(lease: &LeaseId) -> Result<Target> {
    Target::new("v1/leases").name("lease", &lease.to_string())
}

/// Returns a query parameter's value; `None` if it is empty, which leaves the parameter out.
pub(super) fn said(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Separates the problems that are outcomes from those that are errors.
pub(super) fn outcome(
    answer: Result<Answer>,
    outcomes: &[&str],
) -> Result<std::result::Result<Answer, Box<Problem>>> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(error) => match error.problem() {
            Some(problem) if outcomes.contains(&problem.code.as_str()) => {
                Ok(Err(Box::new(problem.clone())))
            }
            _ => Err(error),
        },
    }
}
