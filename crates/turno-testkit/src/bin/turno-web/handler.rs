//! The handler: it processes a payment, and can be paused on the way.

use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use tokio::sync::Semaphore;
use turno::once::http::{Attempt, WorkOutcome};
use turno_testkit::history::once::Answer;

use crate::application::{Application, Payment};
use crate::recorded::Recorded;
use crate::say;

pub const KEY: &str = "idempotency-key";
/// Header in which a gate sends the number of the attempt.
const GATES_ATTEMPT: &str = "turno-attempt";

/// How a payment ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ending {
    Effect,
    Plain,
    Naive,
}

impl FromStr for Ending {
    type Err = anyhow::Error;

    fn from_str(word: &str) -> Result<Self> {
        match word {
            "effect" => Ok(Self::Effect),
            "plain" => Ok(Self::Plain),
            "naive" => Ok(Self::Naive),
            _ => bail!("{word:?} is neither effect nor plain nor naive"),
        }
    }
}

pub struct Web {
    application: Arc<Application>,
    ending: Ending,
    /// One permit per handler that may continue.
    go: Semaphore,
}

impl Web {
    pub fn new(application: Arc<Application>, ending: Ending) -> Self {
        Self {
            application,
            ending,
            go: Semaphore::new(0),
        }
    }

    pub fn go(&self) {
        self.go.add_permits(1);
    }

    /// Returns `None` if another run has taken over and nothing was paid.
    async fn pay(&self, request: Request) -> Result<Option<Response<Bytes>>> {
        let headers = request.headers();
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let key = text(KEY).context("there is no key")?;
        let run = request.extensions().get::<Attempt>();
        let attempt = match (run, text(GATES_ATTEMPT)) {
            (Some(run), _) => run.number(),
            (None, Some(number)) => number.parse()?,
            (None, None) => 1,
        };
        let recorded = request.extensions().get::<Recorded>().zip(run);
        if let Some((recorded, run)) = recorded {
            let token = run.token().0;
            recorded.answer(Answer::Fresh { token });
        }
        self.application.ran(key, attempt).await?;

        let hold = match (attempt, request.uri().query()) {
            (1, Some(query)) => query,
            _ => "",
        };
        if hold == "hold=before" {
            self.hold(key).await?;
        }
        let answer = format!(
            r#"{{"paid": "{key}", "by": {}, "attempt": {attempt}}}"#,
            std::process::id()
        );
        if let Some((recorded, run)) = recorded {
            recorded.complete(run.token().0, &answer);
        }
        let payment = Payment {
            key: key.to_owned(),
            attempt,
            response: Response::new(Bytes::from(answer)),
            run: run.cloned(),
            ending: self.ending,
        };
        let paid = self.application.pay(payment).await?;
        match (recorded, self.ending, &paid) {
            // The layer completes the run, after the handler.
            (None, ..) | (_, Ending::Plain, _) => {}
            (Some((recorded, _)), _, Some(_)) => recorded.answer(Answer::Settled),
            (Some((recorded, _)), _, None) => recorded.answer(Answer::Lost),
        }
        if hold == "hold=after" {
            self.hold(key).await?;
        }
        Ok(paid)
    }

    async fn hold(&self, key: &str) -> Result<()> {
        say(&format!("held {key}"))?;
        self.go.acquire().await?.forget();
        Ok(())
    }
}

pub async fn pay(State(web): State<Arc<Web>>, request: Request) -> axum::response::Response {
    const FAILED: StatusCode = StatusCode::INTERNAL_SERVER_ERROR;
    match web.pay(request).await {
        Ok(Some(response)) => response.map(axum::body::Body::from),
        Ok(None) => (FAILED, Extension(WorkOutcome::Undone)).into_response(),
        // Perhaps a commit whose response was lost.
        Err(error) => (
            FAILED,
            Extension(WorkOutcome::Unknown),
            format!("{error:#}"),
        )
            .into_response(),
    }
}
