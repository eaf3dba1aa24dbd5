//! Calls of once: requests that are processed once.

use reqwest::{Method, StatusCode};
use turno::once::{OnceClaim, OnceState, Released};
use turno::store::OnceForget;
use turno_api::once::{
    Begin, Begun, Complete, Extend, Forgotten, Keys, OnceView, Replayed, Resolve,
};
use turno_api::problem::Problem;
use uuid::Uuid;

use super::error::Result;
use super::locks::{outcome, said};
use super::path::Target;
use super::send::{Call, Repeat};
use super::{Client, Page};

/// Outcome of [`Client::begin`].
#[derive(Debug, Clone)]
pub enum Began {
    /// The caller has the run and must do the work.
    Fresh(Begun),
    /// The work is done; the stored answer.
    Replay(Replayed),
    /// Another run is in flight.
    InFlight(Box<Problem>),
    /// The key belongs to a request with another fingerprint.
    Mismatch(Box<Problem>),
    /// The lease of an earlier run expired without an answer. The work may have been done.
    Unknown(Box<Problem>),
    /// The caller has reached its quota of live keys.
    OverQuota(Box<Problem>),
}

/// Outcome of a call that ends or extends a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The change was applied.
    Done,
    /// The claim is not the newest of its key, or its run has ended. Nothing was changed.
    Stale(Box<Problem>),
}

/// Answer of [`Client::resolve`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// The key is done, with this answer.
    Done,
    /// A run of the key has a live lease; nothing was changed.
    InFlight(Box<Problem>),
    /// The key has an answer already; nothing was changed.
    Answered(Box<Problem>),
    /// The server does not know the key; nothing was changed.
    NotFound(Box<Problem>),
}

impl Client {
    /// Begins the run of a key, or reports the state of the key.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    pub async fn begin(&self, ask: &Begin) -> Result<Began> {
        let mut ask = ask.clone();
        ask.request.get_or_insert_with(Uuid::now_v7);
        let call = Call::post("v1/once", &ask)?.wait(ask.wait);
        let outcomes = ["in_flight", "mismatch", "unknown", "over_quota"];
        Ok(match outcome(self.call(call).await, &outcomes)? {
            Ok(answer) if answer.status == StatusCode::CREATED => Began::Fresh(answer.read()?),
            Ok(answer) => Began::Replay(answer.read()?),
            Err(problem) => match problem.code.as_str() {
                "in_flight" => Began::InFlight(problem),
                "mismatch" => Began::Mismatch(problem),
                "unknown" => Began::Unknown(problem),
                _ => Began::OverQuota(problem),
            },
        })
    }

    /// Ends a run with its answer. Idempotent: the first answer stays.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    pub async fn complete_once(&self, claim: &OnceClaim, ask: &Complete) -> Result<Ended> {
        let call = Call::new(Method::PUT, claim_target(claim)?).body(ask)?;
        self.end(call).await
    }

    /// Extends the lease of a run.
    ///
    /// # Errors
    /// Returns an error if the lease is invalid or the server is unavailable.
    pub async fn extend_once(&self, claim: &OnceClaim, ask: &Extend) -> Result<Ended> {
        let call = Call::new(Method::PATCH, claim_target(claim)?).body(ask)?;
        self.end(call).await
    }

    /// Ends a run without an answer: the work was not done, or its outcome is unknown.
    ///
    /// # Errors
    /// Returns an error if the server is unavailable.
    pub async fn release_once(&self, claim: &OnceClaim, released: Released) -> Result<Ended> {
        let outcome = match released {
            Released::Undone => "undone",
            Released::Unknown => "unknown",
        };
        let target = claim_target(claim)?.with("outcome", Some(outcome));
        self.end(Call::new(Method::DELETE, target)).await
    }

    async fn end(&self, call: Call) -> Result<Ended> {
        Ok(match outcome(self.call(call).await, &["stale"])? {
            Ok(_) => Ended::Done,
            Err(problem) => Ended::Stale(problem),
        })
    }

    /// Returns one page of the once keys, without their answers.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    pub async fn keys(&self, state: Option<OnceState>, prefix: &str, page: &Page) -> Result<Keys> {
        let target = Target::new("v1/once")
            .with("state", state)
            .with("prefix", said(prefix))
            .with("limit", page.limit)
            .with("after", page.after.as_deref());
        self.call(Call::get(target)).await?.read()
    }

    /// Returns the state of a once key; `None` if the key is not stored.
    ///
    /// # Errors
    /// Returns an error if the key is invalid or the server is unavailable.
    pub async fn key(&self, key: &str) -> Result<Option<OnceView>> {
        let call = Call::get(key_target(key)?);
        match outcome(self.call(call).await, &["not_found"])? {
            Ok(answer) => answer.read().map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Deletes a once key that is not in flight.
    ///
    /// # Errors
    /// Returns an error if the key is invalid or the server is unavailable.
    pub async fn forget(&self, key: &str) -> Result<Forgotten> {
        self.forget_with(&OnceForget {
            key: key.to_owned(),
            user: None,
            reason: None,
        })
        .await
    }

    /// [`Client::forget`] with a user and a reason, which are recorded in the history.
    ///
    /// # Errors
    /// Same as [`Client::forget`].
    pub async fn forget_with(&self, ask: &OnceForget) -> Result<Forgotten> {
        let target = key_target(&ask.key)?
            .with("user", ask.user.as_deref())
            .with("reason", ask.reason.as_deref());
        let call = Call::new(Method::DELETE, target).repeat(Repeat::Unbegun);
        self.call(call).await?.read()
    }

    /// Says that the work of an unknown key was done, with its answer.
    ///
    /// # Errors
    /// Returns an error if something is invalid, or the server is unavailable.
    pub async fn resolve(&self, key: &str, ask: &Resolve) -> Result<Resolved> {
        let call = Call::new(Method::PUT, key_target(key)?).body(ask)?;
        // Sent twice, the second call would be answered that the key has an answer.
        let answer = self.call(call.repeat(Repeat::Unbegun)).await;
        let refusals = ["in_flight", "answered", "not_found"];
        Ok(match outcome(answer, &refusals)? {
            Ok(_) => Resolved::Done,
            Err(problem) => match problem.code.as_str() {
                "in_flight" => Resolved::InFlight(problem),
                "answered" => Resolved::Answered(problem),
                _ => Resolved::NotFound(problem),
            },
        })
    }
}

fn claim_target(claim: &OnceClaim) -> Result<Target> {
    Target::new("v1/once").name("claim", &claim.to_string())
}

fn key_target(key: &str) -> Result<Target> {
    Target::new("v1/once-keys").name("key", key)
}
