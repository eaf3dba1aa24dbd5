//! Sending a call, repeating it where that is safe, and reading what comes back.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Method, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Client;
use super::error::{Error, Result};
use super::path::Target;
use crate::wire::{Health, Problem};

/// How long a call may take, besides what it waits.
const CALL: Duration = Duration::from_secs(30);
/// How often a call is made at the most.
const TRIES: u32 = 3;
/// The first pause between two tries; it doubles.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause that a server can ask for: whoever calls has patience of its own.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The largest answer that is read.
const LARGEST: usize = 256 * 1024 * 1024;

/// Whether a call may be repeated when its answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It changes nothing the second time, and is answered the same.
    Safe,
    /// Only if the server has certainly not begun it.
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

/// What came back: it was done.
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

    /// The server answers so much later.
    pub(super) fn wait(mut self, wait: Option<crate::wire::Span>) -> Self {
        self.wait = wait.map_or(Duration::ZERO, |span| span.0);
        self
    }

    pub(super) fn repeat(mut self, repeat: Repeat) -> Self {
        self.repeat = repeat;
        self
    }
}

impl Answer {
    /// The answer itself.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Error::broken(format!(
                "the server's answer is not understood ({error}): it may be of a newer Turno; upgrade this program"
            ))
        })
    }
}

/// Why a try came to nothing.
struct Failed {
    error: Error,
    again: Again,
}

enum Again {
    Never,
    /// The server has not begun it.
    Surely(Option<Duration>),
    /// It may have been done.
    IfSafe(Option<Duration>),
}

impl Client {
    /// Makes a call, again if that is safe and makes sense.
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
        // That the store is down is what `/readyz` was asked for.
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

    /// The body, as far as it is bearable.
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

/// Says why there is no answer, in the words of whoever knows best: the innermost.
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

/// Whether it is the certificate that is wrong.
fn is_untrusted(why: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(error) = why.downcast_ref::<rustls::Error>() {
        return matches!(error, rustls::Error::InvalidCertificate(_));
    }
    // An error of a socket passes over the one that it is about when it is asked for its source.
    let inner = why.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    inner.is_some_and(|inner| is_untrusted(inner))
}

fn again(problem: &Problem, headers: &HeaderMap) -> Again {
    let after = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(Duration::from_secs);
    match problem.code.as_str() {
        // Turned away before anything was done.
        "overloaded" | "shutting_down" => Again::Surely(after),
        "unavailable" => after.map_or(Again::Never, |after| Again::IfSafe(Some(after))),
        _ => Again::Never,
    }
}
