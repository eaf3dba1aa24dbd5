//! The work of a request, in a task of its own, and what becomes of its answer.

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
use super::policy::{Asked, Fails, Policy, Prober};
use super::problem::Code;
use super::{Carried, StoredResponse};
use crate::error::Result;
use crate::lock::Language;
use crate::once::{Claim, OnceSettled, Probe};
use crate::store::{Released, Token};
use crate::tx::Transaction;

/// The pause before an answer is stored again while the store is unavailable; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Content that comes bit by bit, and may never end.
const STREAMS: [&str; 4] = [
    "text/event-stream",
    "application/grpc",
    "multipart/x-mixed-replace",
    "application/x-ndjson",
];

/// What a service knows of an answer's work that its status does not say. Put it into the response's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Nothing was done: whoever asks next does it. (A reverse proxy could not connect.)
    Undone,
    /// Something may have been done. (The connection broke in the middle.)
    Unknown,
}

/// A run, for the handler of its request: in the request's extensions.
#[derive(Debug, Clone)]
pub struct Attempt {
    claim: Arc<Claim>,
    policy: Arc<Policy>,
}

impl Attempt {
    /// The request's key in the store.
    pub fn key(&self) -> &str {
        self.claim.key()
    }

    /// The fencing token: larger than that of every earlier run.
    pub fn token(&self) -> Token {
        self.claim.token()
    }

    /// How many runs began without an end, this one included: above 1, an earlier one has vanished.
    pub fn number(&self) -> u32 {
        self.claim.attempt()
    }

    /// Stores the answer in the handler's own transaction, together with its effects. The handler then returns the same
    /// response.
    ///
    /// # Errors
    /// [`Error::is_lost`](crate::Error::is_lost) if somebody else's run counts now: roll back.
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

/// A claim, and how its end is told.
pub(super) struct Work {
    pub(super) shared: Arc<Shared>,
    pub(super) policy: Arc<Policy>,
    pub(super) claim: Arc<Claim>,
    pub(super) language: Language,
}

impl Work {
    fn problem<R>(&self, code: Code) -> Response<Carried<R>> {
        problem(code, self.language, &self.policy, Some(self.claim.key()))
    }
}

/// Does the work in a task of its own: a client that goes away does not stop it. An error is a panic.
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
        let keeper = work.claim.auto_extend();
        // A panic drops the claim, which leaves the key unknown.
        let answered = call(request).await;
        let settled = match answered {
            Ok(response) => Ok(settle(&work, response).await),
            Err(error) => {
                give_back(&work, Released::Unknown).await;
                Err(error)
            }
        };
        drop(keeper);
        settled
    });
    done.await
}

/// Stores the answer, if it is to be; then it may be sent.
async fn settle<R>(work: &Work, response: Response<R>) -> Response<Carried<R>>
where
    R: Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    let policy = &work.policy;
    match response.extensions().get::<Fate>() {
        Some(Fate::Undone) => {
            give_back(work, Released::Undone).await;
            return response.map(Carried::untouched);
        }
        Some(Fate::Unknown) => {
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
        // The answer broke off; what was done, nobody knows.
        give_back(work, Released::Unknown).await;
        return work.problem(Code::Failed);
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
        // The handler has said it in its own transaction. With a TTL of zero, the next one may have begun since.
        Ok(OnceSettled::Stale) if work.claim.is_completed_in_tx() => response,
        Ok(OnceSettled::Stale) => {
            add(&work.shared.counters.stale);
            work.problem(Code::Stale)
        }
        // It was stored in the handler's own transaction.
        Err(_) if work.claim.is_completed_in_tx() => response,
        Err(_) if work.policy.store_down == Fails::Open => response,
        // Sent now, it could not be repeated: the next request with this key would be told something else.
        Err(_) => work.problem(Code::NotStored),
    }
}

/// Stores an answer, or the fact that there was one. While the store is unavailable it is tried again, for as long as the lease
/// lasts: it is the same completion each time, and counts once.
async fn store(work: &Work, answer: Option<&StoredResponse>) -> Result<OnceSettled> {
    let until = Instant::now() + work.policy.lease;
    let mut pause = FIRST_PAUSE;
    let mut is_told = false;
    loop {
        let settled = match answer {
            Some(answer) => match work.claim.complete(answer).await {
                // Written as JSON, it was too large for the store.
                Err(error) if error.is_invalid() => work.claim.complete_without().await,
                settled => settled,
            },
            None => work.claim.complete_without().await,
        };
        let Err(error) = settled else {
            return settled;
        };
        if !std::mem::replace(&mut is_told, true) {
            add(&work.shared.counters.store_down);
            tracing::error!(claim = %work.claim.id(), %error, "an answer is not stored yet");
        }
        if !error.is_unavailable()
            || work.policy.store_down == Fails::Open
            || Instant::now() + pause >= until
        {
            tracing::error!(claim = %work.claim.id(), %error, "an answer was not stored");
            return Err(error);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn give_back(work: &Work, released: Released) {
    if let Err(error) = work.claim.give_back(released).await {
        tracing::warn!(claim = %work.claim.id(), %error, "not given back; the key is unknown when the lease is over");
    }
}

/// Asks what became of an earlier run: its answer, or why there is none; nothing if the work is to be done.
pub(super) async fn ask(
    work: &Work,
    prober: &dyn Prober,
    head: &Parts,
    body: &Bytes,
) -> Option<Result<StoredResponse, Code>> {
    let keeper = work.claim.auto_extend();
    let asked = Asked {
        head,
        body,
        key: work.claim.key(),
        attempt: work.claim.attempt(),
    };
    let found = prober.probe(&asked).await;
    drop(keeper);
    match found {
        Probe::NotDone => None,
        Probe::Done(stored) => Some(match store(work, Some(&stored)).await {
            Ok(OnceSettled::Done) => Ok(stored),
            Ok(OnceSettled::Stale) => Err(Code::Stale),
            Err(_) if work.policy.store_down == Fails::Open => Ok(stored),
            Err(_) => Err(Code::NotStored),
        }),
        Probe::Unsure => {
            add(&work.shared.counters.unknown);
            give_back(work, Released::Unknown).await;
            Some(Err(Code::Unknown))
        }
    }
}

fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| STREAMS.iter().any(|stream| kind.starts_with(stream)))
}

/// Whether an answer must not be kept anywhere.
fn is_private(headers: &HeaderMap) -> bool {
    headers.get_all(CACHE_CONTROL).iter().any(|value| {
        value.to_str().is_ok_and(|value| {
            value
                .split(',')
                .any(|word| word.trim().eq_ignore_ascii_case("no-store"))
        })
    })
}
