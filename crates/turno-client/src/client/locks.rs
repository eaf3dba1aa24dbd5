//! Calls of locks and leases.

use reqwest::Method;
use turno_api::ids::{LeaseId, Token};
use turno_api::lock::{
    Acquire, AcquireAll, BreakOutcome, Lease, Leases, LockAllOutcome, LockBreak, LockOutcome,
    LockStatus, Locks, ReleaseOutcome, Renew, RenewOutcome, RenewedLease,
};
use turno_api::problem::Problem;
use uuid::Uuid;

use super::error::{Error, Result};
use super::path::Target;
use super::send::{Answer, Call};
use super::{Client, Page};

/// Response header with the number of holds that are left.
pub(crate) const HOLDS: &str = "turno-holds";

impl Client {
    /// Acquires a lock, or reports its holder.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable. A busy lock is not an error.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno_client::Client;
    /// use turno_client::api::lock::{Acquire, LockOutcome};
    ///
    /// let client = Client::new("http://127.0.0.1:7117")?;
    /// let ask = Acquire { resource: "PRESTAMO/123".into(), user: Some("ana".into()), ..Acquire::default() };
    /// match client.acquire(&ask).await? {
    ///     LockOutcome::Acquired(grant) => drop(client.release(&grant.id(), None).await?),
    ///     LockOutcome::Busy(busy) => println!("held by {:?}", busy.holder.and_then(|holder| holder.user)),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn acquire(&self, ask: &Acquire) -> Result<LockOutcome> {
        let mut ask = ask.clone();
        // A retry is recognized only if both are the same.
        ask.request.get_or_insert_with(Uuid::now_v7);
        ask.owner.get_or_insert_with(|| Uuid::new_v4().to_string());
        let call = Call::post("v1/locks", &ask)?.wait(ask.wait);
        Ok(match outcome(self.call(call).await, &["busy"])? {
            Ok(answer) => LockOutcome::Acquired(answer.read::<Lease>()?.grant),
            Err(problem) => LockOutcome::Busy(problem.into_busy(&ask.resource)),
        })
    }

    /// Acquires several locks, all or none.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable. A busy lock is not an error.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno_client::Client;
    /// use turno_client::api::lock::{AcquireAll, LockAllOutcome};
    ///
    /// let client = Client::new("http://127.0.0.1:7117")?;
    /// let ask = AcquireAll { resources: vec!["PRESTAMO/1".into(), "PRESTAMO/2".into()], ..AcquireAll::default() };
    /// if let LockAllOutcome::Acquired(grants) = client.acquire_all(&ask).await? {
    ///     assert_eq!(grants.len(), 2);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn acquire_all(&self, ask: &AcquireAll) -> Result<LockAllOutcome> {
        let mut ask = ask.clone();
        ask.request.get_or_insert_with(Uuid::now_v7);
        ask.owner.get_or_insert_with(|| Uuid::new_v4().to_string());
        let call = Call::post("v1/lock-sets", &ask)?.wait(ask.wait);
        Ok(match outcome(self.call(call).await, &["busy"])? {
            Ok(answer) => {
                let leases = answer.read::<Leases>()?.leases.into_iter();
                LockAllOutcome::Acquired(leases.map(|lease| lease.grant).collect())
            }
            Err(problem) => {
                let first = ask.resources.first().map_or("", String::as_str);
                LockAllOutcome::Busy(problem.into_busy(first))
            }
        })
    }

    /// Renews a lease: it expires one TTL from now, or as before, if that is later. Without a TTL, the server's default applies, 30
    /// seconds unless it is configured.
    ///
    /// # Errors
    /// Returns an error if the TTL is invalid or the server is unavailable. A lost lease is not an error.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use turno_client::Client;
    /// use turno_client::api::lock::{Renew, RenewOutcome};
    ///
    /// let client = Client::new("http://127.0.0.1:7117")?;
    /// let lease = "PRESTAMO/123@1794708000000000".parse()?;
    /// let ask = Renew { ttl: Some(Duration::from_secs(60).into()) };
    /// if client.renew(&lease, &ask).await? == RenewOutcome::Lost {
    ///     println!("another caller may have the lock: stop");
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn renew(&self, lease: &LeaseId, ask: &Renew) -> Result<RenewOutcome> {
        let call = Call::new(Method::PUT, lease_target(lease)?).body(ask)?;
        Ok(match outcome(self.call(call).await, &["lost"])? {
            Ok(answer) => {
                let renewed: RenewedLease = answer.read()?;
                RenewOutcome::Renewed {
                    expires_at: renewed.expires_at,
                    remaining: renewed.remaining,
                }
            }
            Err(_) => RenewOutcome::Lost,
        })
    }

    /// Releases one hold of a lease. `hold` is the request id that acquired it. Default: the newest hold.
    ///
    /// # Errors
    /// Returns an error if the server is unavailable. A lost lease is not an error.
    pub async fn release(&self, lease: &LeaseId, hold: Option<Uuid>) -> Result<ReleaseOutcome> {
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
    ) -> Result<ReleaseOutcome> {
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
                Ok(ReleaseOutcome::Released { holds })
            }
            Err(_) => Ok(ReleaseOutcome::Lost),
        }
    }

    /// Returns the holders of a resource.
    ///
    /// # Errors
    /// Returns an error if the name is invalid or the server is unavailable.
    pub async fn lock_status(&self, resource: &str) -> Result<LockStatus> {
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
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno_client::Client;
    /// use turno_client::api::lock::BreakOutcome;
    ///
    /// let client = Client::new("http://127.0.0.1:7117")?;
    /// for holder in client.lock_status("PRESTAMO/123").await?.holders {
    ///     let broken = client.break_lock("PRESTAMO/123", holder.token, "it hangs", Some("ana")).await?;
    ///     assert_eq!(broken, BreakOutcome::Broken);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn break_lock(
        &self,
        resource: &str,
        token: Token,
        reason: &str,
        user: Option<&str>,
    ) -> Result<BreakOutcome> {
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
    pub async fn break_lock_with(&self, ask: &LockBreak) -> Result<BreakOutcome> {
        let target = Target::new("v1/locks")
            .name("resource", &ask.resource)?
            .with("token", Some(ask.token))
            .with("reason", Some(&ask.reason))
            .with("user", ask.user.as_deref())
            .with("request", Some(ask.request));
        let answer = self.call(Call::new(Method::DELETE, target)).await;
        Ok(match outcome(answer, &["not_held"])? {
            Ok(_) => BreakOutcome::Broken,
            Err(_) => BreakOutcome::NotHeld,
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
) -> Result<std::result::Result<Answer, Problem>> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(error) => match error.problem() {
            Some(problem) if outcomes.contains(&problem.code.as_str()) => Ok(Err(problem.clone())),
            _ => Err(error),
        },
    }
}
