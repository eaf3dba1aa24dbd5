//! The calls of requests that are answered once.

use reqwest::{Method, StatusCode};
use turno::once::{OnceClaim, OnceForget, OnceState, Released};
use uuid::Uuid;

use super::error::Result;
use super::locks::{outcome, said};
use super::path::Target;
use super::send::{Call, Repeat};
use super::{Client, Page};
use crate::wire::{
    Begin, Begun, Complete, Extend, Forgotten, Keys, Known, Problem, Replayed, Resolve,
};

/// Answer of [`Client::begin`].
#[derive(Debug, Clone)]
pub enum Began {
    /// The work is the caller's now.
    Fresh(Begun),
    /// It is done.
    Replay(Replayed),
    /// Somebody does it.
    InFlight(Box<Problem>),
    /// The key is that of a request with other content.
    Mismatch(Box<Problem>),
    /// Somebody did it, and vanished half-way.
    Unknown(Box<Problem>),
    /// The caller has as many live keys as it may.
    OverQuota(Box<Problem>),
}

/// Answer to a run that is ended or lengthened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// As asked.
    Done,
    /// The claim is not the newest, or not running any more; nothing was changed.
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
    /// Takes the work of a key, or says what became of it.
    ///
    /// # Errors
    /// If something is out of rule, or the server does not answer.
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

    /// Ends the work with its answer. Said twice, it is the same; the first answer stays.
    ///
    /// # Errors
    /// If something is out of rule, or the server does not answer.
    pub async fn complete_once(&self, claim: &OnceClaim, ask: &Complete) -> Result<Ended> {
        let call = Call::new(Method::PUT, claim_target(claim)?).body(ask)?;
        self.end(call).await
    }

    /// Says that the work still goes on.
    ///
    /// # Errors
    /// If the lease is out of rule, or the server does not answer.
    pub async fn extend_once(&self, claim: &OnceClaim, ask: &Extend) -> Result<Ended> {
        let call = Call::new(Method::PATCH, claim_target(claim)?).body(ask)?;
        self.end(call).await
    }

    /// Gives the work back: undone, or perhaps done.
    ///
    /// # Errors
    /// If the server does not answer.
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

    /// One page of the keys, without their answers.
    ///
    /// # Errors
    /// If something is out of rule, or the server does not answer.
    pub async fn keys(&self, state: Option<OnceState>, prefix: &str, page: &Page) -> Result<Keys> {
        let target = Target::new("v1/once")
            .with("state", state)
            .with("prefix", said(prefix))
            .with("limit", page.limit)
            .with("after", page.after.as_deref());
        self.call(Call::get(target)).await?.read()
    }

    /// What is known of a key.
    ///
    /// # Errors
    /// If the key is out of rule, or the server does not answer.
    pub async fn key(&self, key: &str) -> Result<Option<Known>> {
        let call = Call::get(key_target(key)?);
        match outcome(self.call(call).await, &["not_found"])? {
            Ok(answer) => answer.read().map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Forgets a key that is not in flight.
    ///
    /// # Errors
    /// If the key is out of rule, or the server does not answer.
    pub async fn forget(&self, key: &str) -> Result<Forgotten> {
        self.forget_with(&OnceForget {
            key: key.to_owned(),
            user: None,
            reason: None,
        })
        .await
    }

    /// [`Client::forget`] in somebody's name and with a reason, for the history.
    ///
    /// # Errors
    /// As there.
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
