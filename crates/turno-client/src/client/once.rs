//! Calls of once: requests that are processed once.

use reqwest::{Method, StatusCode};
use turno_api::ids::OnceClaim;
use turno_api::once::{
    Begin, Begun, Complete, Extend, Forgotten, Keys, OnceForget, OnceOutcome, OnceResolved,
    OnceRun, OnceSettled, OnceState, OnceView, Released, Replayed, Resolve,
};
use turno_api::problem::Problem;
use uuid::Uuid;

use super::error::{Error, Result};
use super::locks::{outcome, said};
use super::path::Target;
use super::send::{Call, Repeat};
use super::{Client, Page};

impl Client {
    /// Begins the run of a key, or reports the state of the key.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno_client::Client;
    /// use turno_client::api::once::{Begin, Complete, OnceOutcome};
    ///
    /// let client = Client::new("http://127.0.0.1:7117")?;
    /// match client.begin(&Begin { key: "pago/77".into(), ..Begin::default() }).await? {
    ///     OnceOutcome::Fresh(grant) => {
    ///         let ask = Complete { answer: Some(r#"{"receipt": 1}"#.into()), ttl: None };
    ///         client.complete_once(&grant.claim, &ask).await?;
    ///     }
    ///     OnceOutcome::Replay { answer } => println!("{answer:?}"),
    ///     other => println!("try again later: {other:?}"),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn begin(&self, ask: &Begin) -> Result<OnceOutcome> {
        let mut ask = ask.clone();
        ask.request.get_or_insert_with(Uuid::now_v7);
        let call = Call::post("v1/once", &ask)?.wait(ask.wait);
        let outcomes = ["in_flight", "mismatch", "unknown", "over_quota"];
        Ok(match outcome(self.call(call).await, &outcomes)? {
            Ok(answer) if answer.status == StatusCode::CREATED => {
                OnceOutcome::Fresh(answer.read::<Begun>()?.grant)
            }
            Ok(answer) => OnceOutcome::Replay {
                answer: answer.read::<Replayed>()?.into_answer(),
            },
            Err(problem) => match problem.code.as_str() {
                "in_flight" => OnceOutcome::InFlight(run(problem)?),
                "mismatch" => OnceOutcome::Mismatch,
                "unknown" => OnceOutcome::Unknown(run(problem)?),
                _ => OnceOutcome::OverQuota,
            },
        })
    }

    /// Ends a run with its answer. Idempotent: the first answer stays.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    pub async fn complete_once(&self, claim: &OnceClaim, ask: &Complete) -> Result<OnceSettled> {
        let call = Call::new(Method::PUT, claim_target(claim)?).body(ask)?;
        self.end(call).await
    }

    /// Extends the lease of a run.
    ///
    /// # Errors
    /// Returns an error if the lease is invalid or the server is unavailable.
    pub async fn extend_once(&self, claim: &OnceClaim, ask: &Extend) -> Result<OnceSettled> {
        let call = Call::new(Method::PATCH, claim_target(claim)?).body(ask)?;
        self.end(call).await
    }

    /// Ends a run without an answer: the work was not done, or its outcome is unknown.
    ///
    /// # Errors
    /// Returns an error if the server is unavailable.
    pub async fn release_once(&self, claim: &OnceClaim, released: Released) -> Result<OnceSettled> {
        let target = claim_target(claim)?.with("outcome", Some(released));
        self.end(Call::new(Method::DELETE, target)).await
    }

    async fn end(&self, call: Call) -> Result<OnceSettled> {
        Ok(match outcome(self.call(call).await, &["stale"])? {
            Ok(_) => OnceSettled::Done,
            Err(_) => OnceSettled::Stale,
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

    /// Reports that the work of an unknown key was done, with its answer.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    pub async fn resolve(&self, key: &str, ask: &Resolve) -> Result<OnceResolved> {
        let call = Call::new(Method::PUT, key_target(key)?).body(ask)?;
        // A repeat would report that the key has an answer.
        let answer = self.call(call.repeat(Repeat::Unbegun)).await;
        let refusals = ["in_flight", "answered", "not_found"];
        Ok(match outcome(answer, &refusals)? {
            Ok(_) => OnceResolved::Resolved,
            Err(problem) => match problem.code.as_str() {
                "in_flight" => OnceResolved::InFlight(run(problem)?),
                "answered" => OnceResolved::Answered,
                _ => OnceResolved::NotFound,
            },
        })
    }
}

/// Returns the run of another caller.
fn run(problem: Problem) -> Result<OnceRun> {
    problem.into_run().ok_or_else(|| {
        Error::broken("the server has not described the run: use the same version on both sides")
    })
}

fn claim_target(claim: &OnceClaim) -> Result<Target> {
    Target::new("v1/once").name("claim", &claim.to_string())
}

fn key_target(key: &str) -> Result<Target> {
    Target::new("v1/once-keys").name("key", key)
}
