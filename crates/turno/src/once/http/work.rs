//! Runs the work of a request in a spawned task, and stores its answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap};
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use tokio::task::JoinError;
use tokio::time::Instant;

use super::counts::add;
use super::layer::{BoxError, Shared, problem};
use super::policy::{Fails, Policy, ProbeRequest, Prober};
use super::{Carried, StoredResponse};
use crate::backoff::Backoff;
use crate::error::Result;
use crate::lock::Language;
use crate::once::{Claim, OnceSettled, Probe};
use crate::problem::ProblemCode;
use crate::store::{Released, Token};
use crate::tx::Transaction;

/// Pauses before an answer is stored again while the store is unavailable.
const RETRY: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
/// Content types of streams, which may never end.
const STREAMS: [&str; 4] = [
    "text/event-stream",
    "application/grpc",
    "multipart/x-mixed-replace",
    "application/x-ndjson",
];

/// What a service knows about the work beyond the status. Put it into the response's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkOutcome {
    /// Nothing was done: the next caller does the work. (Example: a reverse proxy could not connect.)
    Undone,
    /// Some of the work may have been done. (Example: the connection broke during the request.)
    Unknown,
}

/// A run, for the handler of its request: in the request's extensions.
#[derive(Debug, Clone)]
pub struct Attempt {
    claim: Arc<Claim>,
    policy: Arc<Policy>,
}

impl Attempt {
    /// Returns the request's key in the store.
    pub fn key(&self) -> &str {
        self.claim.key()
    }

    /// Returns the fencing token: larger than that of every earlier run.
    pub fn token(&self) -> Token {
        self.claim.token()
    }

    /// Returns the number of runs that began without an end, including this one. Above 1, an earlier run is unknown.
    pub fn number(&self) -> u32 {
        self.claim.attempt()
    }

    /// Stores the answer in the handler's own transaction, together with its effects. The handler then returns the same
    /// response.
    ///
    /// # Errors
    /// Returns an error with [`Error::is_lost`](crate::Error::is_lost) if another run has taken over: roll back.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// # use axum::{Extension, Router, body::{Body, Bytes}, routing::post};
    /// # use http::{Request, Response};
    /// # use tower::ServiceExt;
    /// use turno::once::http::{Attempt, OnceLayer, Policy};
    ///
    /// let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
    /// # let pay = move |Extension(attempt): Extension<Attempt>| { let file = file.clone(); pay(attempt, file) };
    /// async fn pay(attempt: Attempt, file: std::path::PathBuf) -> Response<Body> {
    ///     let response = Response::new(Bytes::from("receipt 1"));
    ///     let mut connection = rusqlite::Connection::open(&file).unwrap();
    ///     let mut tx = turno::tx::SqliteTransaction::begin(&mut connection).unwrap();
    ///     attempt.complete_in(&mut tx, &response).await.unwrap(); // after your own statements
    ///     tx.commit().unwrap();
    ///     response.map(Body::from)
    /// }
    /// let app = Router::new().route("/pagos", post(pay)).layer(OnceLayer::new(turno, Policy::new("pagos")));
    /// # let request = || Request::post("/pagos").header("idempotency-key", "77").body(Body::empty());
    /// # assert_eq!(app.clone().oneshot(request()?).await?.status(), 200);
    /// assert_eq!(app.oneshot(request()?).await?.headers()["idempotency-replayed"], "true");
    /// # Ok(()) }
    /// ```
    pub async fn complete_in(
        &self,
        tx: &mut impl Transaction,
        response: &Response<Bytes>,
    ) -> Result<()> {
        let stored = StoredResponse::new(
            response.status(),
            response.headers(),
            &self.policy.headers,
            response.body(),
        );
        self.claim.complete_in(tx, &stored).await
    }
}

/// A claim, and the data to build its response.
pub(super) struct Work {
    pub(super) shared: Arc<Shared>,
    pub(super) policy: Arc<Policy>,
    pub(super) claim: Arc<Claim>,
    pub(super) language: Language,
}

impl Work {
    fn problem<R>(&self, code: ProblemCode) -> Response<Carried<R>> {
        problem(code, self.language, &self.policy, Some(self.claim.key()))
    }
}

/// Runs the work in a spawned task, so that it continues if the client disconnects. An error means a panic.
pub(super) async fn spawn<B, R, E, F>(
    work: Work,
    call: impl FnOnce(Request<Carried<B>>) -> F + Send + 'static,
    mut request: Request<Carried<B>>,
) -> Result<Result<Response<Carried<R>>, E>, JoinError>
where
    B: Send + 'static,
    F: Future<Output = Result<Response<R>, E>> + Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
    E: Send + 'static,
{
    request.extensions_mut().insert(Attempt {
        claim: work.claim.clone(),
        policy: work.policy.clone(),
    });
    let works = work.shared.works.clone();
    let done = works.spawn(async move {
        let renewal = work.claim.auto_extend();
        // A panic drops the claim, which makes the key unknown.
        let answered = call(request).await;
        let settled = match answered {
            Ok(response) => Ok(settle(&work, response).await),
            Err(error) => {
                give_back(&work, Released::Unknown).await;
                Err(error)
            }
        };
        drop(renewal);
        settled
    });
    done.await
}

/// Stores the answer if it qualifies, and returns the response to send.
async fn settle<R>(work: &Work, response: Response<R>) -> Response<Carried<R>>
where
    R: Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    let policy = &work.policy;
    match response.extensions().get::<WorkOutcome>() {
        Some(WorkOutcome::Undone) => {
            give_back(work, Released::Undone).await;
            return response.map(Carried::untouched);
        }
        Some(WorkOutcome::Unknown) => {
            give_back(work, Released::Unknown).await;
            return response.map(Carried::untouched);
        }
        None => {}
    }
    if !policy.statuses.has(response.status()) {
        give_back(work, policy.unstored).await;
        return response.map(Carried::untouched);
    }
    if is_stream(response.headers())
        || response.body().size_hint().lower() > policy.max_answer as u64
    {
        return complete(work, None, response.map(Carried::untouched)).await;
    }
    let (head, body) = response.into_parts();
    let until = Instant::now() + policy.body_timeout;
    let Some(body) = Carried::read(body, policy.max_answer, until).await else {
        // The response body failed, so it is unknown what was done.
        give_back(work, Released::Unknown).await;
        return work.problem(ProblemCode::Failed);
    };
    let stored = body
        .bytes()
        .filter(|bytes| bytes.len() <= policy.max_answer && !is_private(&head.headers))
        .map(|bytes| StoredResponse::new(head.status, &head.headers, &policy.headers, bytes));
    complete(work, stored, Response::from_parts(head, body)).await
}

async fn complete<R>(
    work: &Work,
    stored: Option<StoredResponse>,
    response: Response<Carried<R>>,
) -> Response<Carried<R>> {
    match store(work, stored.as_ref()).await {
        Ok(OnceSettled::Done) => response,
        // The handler has completed it in its own transaction. With a TTL of zero, the next run may have begun since.
        Ok(OnceSettled::Stale) if work.claim.is_completed_in_tx() => response,
        Ok(OnceSettled::Stale) => {
            add(&work.shared.counters.stale);
            work.problem(ProblemCode::AnswerStale)
        }
        // It was stored in the handler's own transaction.
        Err(_) if work.claim.is_completed_in_tx() => response,
        Err(_) if work.policy.store_down == Fails::Open => response,
        // If it were sent, it could not be replayed: the next request with this key would get a different response.
        Err(_) => work.problem(ProblemCode::AnswerNotStored),
    }
}

/// Stores an answer, or only the fact that there was one. While the store is unavailable it retries until the lease
/// expires: each attempt is the same completion, which counts once.
async fn store(work: &Work, answer: Option<&StoredResponse>) -> Result<OnceSettled> {
    let until = Instant::now() + work.policy.lease;
    let mut attempts = RETRY.attempts();
    let mut is_logged = false;
    loop {
        let settled = match answer {
            Some(answer) => match work.claim.complete(answer).await {
                // As JSON, it was too large for the store.
                Err(error) if error.is_invalid() => work.claim.complete_without().await,
                settled => settled,
            },
            None => work.claim.complete_without().await,
        };
        let Err(error) = settled else {
            return settled;
        };
        if !std::mem::replace(&mut is_logged, true) {
            add(&work.shared.counters.store_down);
            tracing::error!(claim = %work.claim.id(), %error, "an answer is not stored yet");
        }
        if !error.is_unavailable()
            || work.policy.store_down == Fails::Open
            || Instant::now() + attempts.longest_next() >= until
        {
            tracing::error!(claim = %work.claim.id(), %error, "an answer was not stored");
            return Err(error);
        }
        attempts.pause().await;
    }
}

async fn give_back(work: &Work, released: Released) {
    if let Err(error) = work.claim.give_back(released).await {
        tracing::warn!(claim = %work.claim.id(), %error, "not given back; the key is unknown when the lease is over");
    }
}

/// Calls the probe about an earlier run. Returns its answer or the reason why there is none, or `None` if the work must be
/// done.
pub(super) async fn ask(
    work: &Work,
    prober: &dyn Prober,
    head: &Parts,
    body: &Bytes,
) -> Option<Result<StoredResponse, ProblemCode>> {
    let renewal = work.claim.auto_extend();
    let asked = ProbeRequest {
        head,
        body,
        key: work.claim.key(),
        attempt: work.claim.attempt(),
    };
    let found = prober.probe(&asked).await;
    drop(renewal);
    match found {
        Probe::NotDone => None,
        Probe::Done(stored) => Some(match store(work, Some(&stored)).await {
            Ok(OnceSettled::Done) => Ok(stored),
            Ok(OnceSettled::Stale) => Err(ProblemCode::AnswerStale),
            Err(_) if work.policy.store_down == Fails::Open => Ok(stored),
            Err(_) => Err(ProblemCode::AnswerNotStored),
        }),
        Probe::Unsure => {
            add(&work.shared.counters.unknown);
            give_back(work, Released::Unknown).await;
            Some(Err(ProblemCode::RequestUnknown))
        }
    }
}

fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| STREAMS.iter().any(|stream| kind.starts_with(stream)))
}

/// Returns whether the response has `Cache-Control: no-store`.
fn is_private(headers: &HeaderMap) -> bool {
    headers.get_all(CACHE_CONTROL).iter().any(|value| {
        value.to_str().is_ok_and(|value| {
            value
                .split(',')
                .any(|word| word.trim().eq_ignore_ascii_case("no-store"))
        })
    })
}
