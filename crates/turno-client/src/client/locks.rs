//! The calls of locks and leases.

use reqwest::{Method, StatusCode};
use turno::Token;
use turno::lock::LeaseId;
use turno::store::LockBreak;
use uuid::Uuid;

use super::error::{Error, Result};
use super::path::Target;
use super::send::{Answer, Call};
use super::{Client, Page};
use crate::wire::{Acquire, AcquireAll, Lease, Leases, Locks, Problem, Renew, Status};

/// The header that tells how many holds are left.
pub(crate) const HOLDS: &str = "turno-holds";

/// Answer of [`Client::acquire`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// It is the caller's now.
    Acquired(Lease),
    /// It was the owner's already.
    Reentered(Lease),
    /// Somebody else has it.
    Busy(Box<Problem>),
}

/// Answer of [`Client::acquire_all`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcquiredAll {
    /// All are the caller's now.
    Acquired(Leases),
    /// All were the owner's already.
    Reentered(Leases),
    /// Somebody else has one of them; none is held.
    Busy(Box<Problem>),
}

/// Answer of [`Client::renew`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Renewed {
    /// It ends later now.
    Renewed(Lease),
    /// It is not the holder's any more.
    Lost(Box<Problem>),
}

/// Answer of [`Client::release`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// One hold was given back.
    Released {
        /// How many the owner still has.
        holds: u32,
    },
    /// It is not the holder's any more.
    Lost(Box<Problem>),
}

/// Answer of [`Client::break_lock`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broke {
    /// It is free now.
    Broken,
    /// That token does not hold it.
    NotHeld(Box<Problem>),
}

impl Client {
    /// Takes a lock, or tells who has it.
    ///
    /// # Errors
    /// If something is out of rule, or the server does not answer.
    pub async fn acquire(&self, ask: &Acquire) -> Result<Acquired> {
        let mut ask = ask.clone();
        // With both the same, a repeated call is the same one.
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

    /// Takes several locks, all or none.
    ///
    /// # Errors
    /// If something is out of rule, or the server does not answer.
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

    /// Lengthens a lease; never shortens it.
    ///
    /// # Errors
    /// If the time is out of rule, or the server does not answer.
    pub async fn renew(&self, lease: &LeaseId, ask: &Renew) -> Result<Renewed> {
        let call = Call::new(Method::PUT, lease_target(lease)?).body(ask)?;
        Ok(match outcome(self.call(call).await, &["lost"])? {
            Ok(answer) => Renewed::Renewed(answer.read()?),
            Err(problem) => Renewed::Lost(problem),
        })
    }

    /// Gives one hold of a lease back: the one that this request took, or the newest.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn release(&self, lease: &LeaseId, hold: Option<Uuid>) -> Result<Released> {
        self.release_as(lease, hold, Uuid::now_v7()).await
    }

    /// [`Client::release`] with a request of the caller's own: sent again with the same, it gives back nothing more.
    ///
    /// # Errors
    /// As there.
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

    /// Who holds a resource.
    ///
    /// # Errors
    /// If the name is out of rule, or the server does not answer.
    pub async fn lock_status(&self, resource: &str) -> Result<Status> {
        let target = Target::new("v1/locks").name("resource", resource)?;
        self.call(Call::get(target)).await?.read()
    }

    /// One page of the locks that are held and begin with a prefix.
    ///
    /// # Errors
    /// If something is out of rule, or the server does not answer.
    pub async fn locks(&self, prefix: &str, page: &Page) -> Result<Locks> {
        let target = Target::new("v1/locks")
            .with("prefix", said(prefix))
            .with("limit", page.limit)
            .with("after", page.after.as_deref());
        self.call(Call::get(target)).await?.read()
    }

    /// Forces a lock open, for a person: names the token that is broken, and why.
    ///
    /// # Errors
    /// If something is out of rule, or the server does not answer.
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

    /// [`Client::break_lock`] with a request of the caller's own.
    ///
    /// # Errors
    /// As there.
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

/// A parameter that is not worth saying when it is empty.
pub(super) fn said(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Tells the problems that are outcomes from those that are errors.
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
