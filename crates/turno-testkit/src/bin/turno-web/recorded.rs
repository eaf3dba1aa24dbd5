//! Records what the layer answers, and the runs of the handler.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use axum::middleware::Next;
use axum::response::IntoResponse as _;
use turno_testkit::history::once::{Answer, Call};
use turno_testkit::history::{self, Pending, Recorder};

use crate::handler::KEY;

/// Records requests with the options of the layer.
#[derive(Clone)]
pub struct Recording {
    pub recorder: Recorder,
    pub lease: Duration,
    pub runs_again: bool,
}

/// A recorded request, for its handler: in the request's extensions.
#[derive(Clone)]
pub struct Recorded {
    recorder: Recorder,
    key: String,
    /// What is not answered yet: first the beginning, then the end of the run.
    pending: Arc<Mutex<Option<Pending>>>,
}

impl Recorded {
    /// Records that the run is about to be completed with this answer.
    pub fn complete(&self, token: i64, answer: &str) {
        let complete = Call::Complete {
            key: self.key.clone(),
            token,
            answer: answer.to_owned(),
        };
        let complete = self.recorder.call(history::Call::Once(complete));
        *self.pending() = Some(complete);
    }

    /// Records the answer of what is not answered yet.
    pub fn answer(&self, answer: Answer) {
        if let Some(pending) = self.pending().take() {
            pending.answer(history::Answer::Once(answer));
        }
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, Option<Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Around the layer: records a request and its response. Without a response, the outcome is unknown.
pub async fn record(
    State(recording): State<Recording>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    let key = request.headers().get(KEY).and_then(|key| key.to_str().ok());
    let Some(key) = key.map(str::to_owned) else {
        return next.run(request).await;
    };
    let begin = Call::Begin {
        key: key.clone(),
        lease_us: i64::try_from(recording.lease.as_micros()).unwrap_or(i64::MAX),
        runs_again: recording.runs_again,
    };
    let begin = recording.recorder.call(history::Call::Once(begin));
    let recorded = Recorded {
        recorder: recording.recorder,
        key,
        pending: Arc::new(Mutex::new(Some(begin))),
    };
    request.extensions_mut().insert(recorded.clone());
    let (head, body) = next.run(request).await.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let text = String::from_utf8_lossy(&body);
    let is_replayed = head.headers.contains_key("idempotency-replayed");
    match (head.status, problem_code(&text).as_deref()) {
        (StatusCode::OK, _) if is_replayed => recorded.answer(Answer::Replay {
            answer: text.into_owned(),
        }),
        (StatusCode::OK, _) => recorded.answer(Answer::Settled),
        (_, Some("in_flight")) => recorded.answer(Answer::InFlight),
        (_, Some("unknown")) => recorded.answer(Answer::Unknown),
        (_, Some("stale")) => recorded.answer(Answer::Lost),
        _ => {}
    }
    Response::from_parts(head, Body::from(body))
}

fn problem_code(body: &str) -> Option<String> {
    let problem: serde_json::Value = serde_json::from_str(body).ok()?;
    problem["code"].as_str().map(str::to_owned)
}
