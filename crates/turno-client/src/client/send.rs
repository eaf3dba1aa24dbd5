//! Sends a call, retries it where that is safe, and reads the response.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Method, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use turno_api::admin::Health;
use turno_api::problem::Problem;

use super::Client;
use super::error::{Error, Result};
use super::path::Target;

/// Timeout of a call, without the wait of the request.
const CALL: Duration = Duration::from_secs(30);
/// Maximum number of attempts of a call.
const TRIES: u32 = 3;
/// Backoff before the first retry. It doubles with each retry and is jittered by ±50 %.
const PAUSE: Duration = Duration::from_millis(100);
/// Upper limit of a pause, also of one that the server requests: callers have their own timeouts.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Maximum size of a response body, in bytes.
const LARGEST: usize = 256 * 1024 * 1024;

/// When a call may be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// Always: a repeat changes nothing and gets the same response.
    Safe,
    /// Only if the server has certainly not begun to process the call.
    Unbegun,
}

/// One call.
#[derive(Debug)]
pub(super) struct Call {
    method: Method,
    target: Target,
    body: Option<Bytes>,
    wait: Duration,
    repeat: Repeat,
}

/// A successful response.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: Bytes,
}

impl Call {
    pub(super) fn new(method: Method, target: Target) -> Self {
        Call {
            method,
            target,
            body: None,
            wait: Duration::ZERO,
            repeat: Repeat::Safe,
        }
    }

    pub(super) fn get(target: Target) -> Self {
        Call::new(Method::GET, target)
    }

    pub(super) fn post(path: &str, body: &impl Serialize) -> Result<Self> {
        Call::new(Method::POST, Target::new(path)).body(body)
    }

    pub(super) fn body(mut self, body: &impl Serialize) -> Result<Self> {
        let text = serde_json::to_vec(body)
            .map_err(|error| Error::broken(format!("a question cannot be written: {error}")))?;
        self.body = Some(text.into());
        Ok(self)
    }

    /// Adds the wait of the request to the timeout.
    pub(super) fn wait(mut self, wait: Option<turno_api::duration::WireDuration>) -> Self {
        self.wait = wait.map_or(Duration::ZERO, |span| span.0);
        self
    }

    pub(super) fn repeat(mut self, repeat: Repeat) -> Self {
        self.repeat = repeat;
        self
    }
}

impl Answer {
    /// Deserializes the body.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Error::broken(format!(
                "the server's answer is not understood ({error}): it may be of a newer Turno; upgrade this program"
            ))
        })
    }
}

/// A failed attempt.
struct Failed {
    error: Error,
    again: Again,
}

enum Again {
    Never,
    /// The server has not begun to process the call. Contains the pause that the server requested.
    Surely(Option<Duration>),
    /// The server may have processed the call. Contains the pause that the server requested.
    IfSafe(Option<Duration>),
}

impl Client {
    /// Makes a call, and retries it if that is safe and may help.
    pub(super) async fn call(&self, call: Call) -> Result<Answer> {
        let mut pause = PAUSE;
        let mut tries = 1;
        loop {
            let Failed { error, again } = match self.once(&call).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            let asked = match (again, call.repeat) {
                (Again::Surely(asked), _) | (Again::IfSafe(asked), Repeat::Safe) => asked,
                _ => return Err(error),
            };
            if tries == TRIES {
                return Err(error);
            }
            tries += 1;
            tracing::debug!(%error, method = %call.method, "not answered; asking again");
            let jittered = pause.mul_f64(0.5 + fastrand::f64());
            tokio::time::sleep(asked.unwrap_or_default().max(jittered).min(LONGEST_PAUSE)).await;
            pause *= 2;
        }
    }

    async fn once(&self, call: &Call) -> Result<Answer, Failed> {
        let never = |error| Failed {
            error,
            again: Again::Never,
        };
        let url = call.target.on(&self.url).map_err(never)?;
        let mut request = self
            .request(call.method.clone(), url)
            .timeout(CALL.saturating_add(call.wait));
        if let Some(body) = &call.body {
            request = request
                .header(CONTENT_TYPE, "application/json")
                .body(body.clone());
        }
        let response = request
            .send()
            .await
            .map_err(|error| self.unanswered(error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = self.bounded(response).await?;
        // A 503 of `/readyz` is a regular response: the store is unavailable.
        let is_health =
            || status.as_u16() == 503 && serde_json::from_slice::<Health>(&body).is_ok();
        if status.is_success() || is_health() {
            return Ok(Answer {
                status,
                headers,
                body,
            });
        }
        let Ok(problem) = serde_json::from_slice::<Problem>(&body) else {
            return Err(never(Error::broken(format!(
                "{} answered {status}, and not as Turno does: is it the address of `turno serve`?",
                self.url()
            ))));
        };
        let again = again(&problem, &headers);
        Err(Failed {
            error: Error::problem_of(problem),
            again,
        })
    }

    /// Reads the body, up to [`LARGEST`] bytes.
    async fn bounded(&self, mut response: Response) -> Result<Bytes, Failed> {
        let mut body = BytesMut::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| self.unanswered(error))?
        {
            if body.len() + chunk.len() > LARGEST {
                return Err(Failed {
                    error: Error::broken(format!(
                        "the answer has more than {LARGEST} bytes: ask for fewer at a time"
                    )),
                    again: Again::Never,
                });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    fn unanswered(&self, error: reqwest::Error) -> Failed {
        let again = if error.is_connect() {
            Again::Surely(None)
        } else {
            Again::IfSafe(None)
        };
        Failed {
            error: unanswered(self.url(), error),
            again,
        }
    }
}

/// Builds the error of a call without a response. The text has the innermost cause, which is the most specific one.
pub(super) fn unanswered(server: &str, error: reqwest::Error) -> Error {
    let error = error.without_url();
    let mut why: &(dyn std::error::Error + 'static) = &error;
    while let Some(inner) = why.source() {
        why = inner;
    }
    let text = if is_untrusted(why) {
        format!(
            "{server} is not trusted ({why}): check the address, and name the file of its authority as ca_file"
        )
    } else if error.is_connect() {
        format!(
            "{server} cannot be reached ({why}): check the address, and that `turno serve` is running"
        )
    } else if error.is_timeout() {
        format!("{server} has not answered in time: try again, or see how it is at {server}/readyz")
    } else {
        format!("{server} has not answered ({why}): try again")
    };
    Error::unanswered(text, error)
}

/// Whether the cause is an invalid certificate.
fn is_untrusted(why: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(error) = why.downcast_ref::<rustls::Error>() {
        return matches!(error, rustls::Error::InvalidCertificate(_));
    }
    // `io::Error::source` skips the error that it wraps; `get_ref` returns it.
    let inner = why.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    inner.is_some_and(|inner| is_untrusted(inner))
}

fn again(problem: &Problem, headers: &HeaderMap) -> Again {
    let after = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(Duration::from_secs);
    match problem.code.as_str() {
        // Rejected before any processing.
        "overloaded" | "shutting_down" => Again::Surely(after),
        "unavailable" => after.map_or(Again::Never, |after| Again::IfSafe(Some(after))),
        _ => Again::Never,
    }
}
