//! Converts the server's responses to the result of each event.

use std::collections::HashMap;
use std::error::Error;

use async_nats::jetstream;
use async_nats::jetstream::context::{GetStreamByNameErrorKind, PublishError, PublishErrorKind};
use serde::Deserialize;

use super::Nats;
use super::message::subject;
use crate::sink::{Outage, Outgoing, PublishResult};

/// Returns the error in a JetStream response, if it is one. The other fields of the response differ between versions.
pub(super) fn denied(answer: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Denial {
        error: Option<Reason>,
    }
    #[derive(Deserialize)]
    struct Reason {
        description: String,
    }
    match serde_json::from_slice::<Denial>(answer) {
        Ok(denial) => denial.error.map(|reason| reason.description),
        Err(_) => Some("its answer cannot be read".to_owned()),
    }
}

/// Result of publishing one event.
#[derive(Debug)]
pub(super) enum Answer {
    /// It is stored in a stream.
    Stored,
    /// NATS cannot represent it, or it is too large.
    Unfit(String),
    /// No responders: no stream has its subject, or the stream that has it is unavailable.
    NoTaker,
    /// JetStream responded with an error.
    Error { code: usize, said: String },
    /// It was passed to the client library, and no response arrived.
    Silence,
    /// It was not passed to the client library.
    Unsent,
}

impl From<PublishError> for Answer {
    fn from(error: PublishError) -> Self {
        match error.kind() {
            PublishErrorKind::StreamNotFound => Answer::NoTaker,
            PublishErrorKind::MaxPayloadExceeded => Answer::Unfit(root(&error)),
            PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe => Answer::Silence,
            _ => match cause(&error).downcast_ref::<jetstream::Error>() {
                Some(jetstream) => Answer::Error {
                    code: jetstream.code(),
                    said: jetstream.to_string(),
                },
                None => Answer::Silence,
            },
        }
    }
}

/// Returns the fates of `events`.
pub(super) async fn fates(
    nats: &Nats,
    context: &jetstream::Context,
    events: &[Outgoing],
    answers: Vec<Answer>,
) -> Vec<PublishResult> {
    let silent = || nats.outage("it does not answer, or the connection was lost");
    let mut takers = HashMap::new();
    let mut fates = Vec::with_capacity(events.len());
    for (event, answer) in events.iter().zip(answers) {
        fates.push(match answer {
            Answer::Stored => PublishResult::Sent,
            Answer::Unfit(reason) => PublishResult::Refused(reason),
            Answer::Silence => PublishResult::Doubtful(silent()),
            Answer::Unsent => PublishResult::Unsent(silent()),
            Answer::Error { said, .. } if is_full(&said) => {
                PublishResult::Busy(nats.outage(format!(
                    "the stream does not take subject {}: {said}",
                    subject(&event.kind, nats.prefix.as_deref()).unwrap_or_default()
                )))
            }
            Answer::Error { code, said } if is_refusal(code) => {
                PublishResult::Refused(format!("JetStream will not have it: {said}"))
            }
            Answer::Error { said, .. } => PublishResult::Unsent(nats.outage(said)),
            Answer::NoTaker => {
                let subject = subject(&event.kind, nats.prefix.as_deref()).unwrap_or_default();
                if !takers.contains_key(&subject) {
                    let result = no_taker(nats, context, &subject).await;
                    takers.insert(subject.clone(), result);
                }
                takers[&subject].clone()
            }
        });
    }
    fates
}

/// Returns whether a stream is full. It responds "maximum messages exceeded" or "maximum bytes exceeded", with a code that
/// usually means an internal error of the server. That is an outage of the stream: the event is not the cause.
fn is_full(said: &str) -> bool {
    said.starts_with("maximum ")
}

/// Returns whether the stream rejected the event itself.
fn is_refusal(code: usize) -> bool {
    (400..500).contains(&code)
}

/// Finds the cause of "no responders": either there is no such stream, or its server is not up yet. JetStream knows which.
async fn no_taker(nats: &Nats, context: &jetstream::Context, subject: &str) -> PublishResult {
    let outage: Outage = match context.stream_by_subject(subject).await {
        Ok(stream) => nats.outage(format!("stream {stream} has no leader at the moment")),
        Err(error) if matches!(error.kind(), GetStreamByNameErrorKind::NotFound) => {
            return PublishResult::Refused(format!("no stream takes subject {subject}"));
        }
        Err(error) => nats.outage(format!("JetStream does not answer: {}", root(&error))),
    };
    PublishResult::Unsent(outage)
}

/// Returns the message of the innermost cause.
pub(super) fn root(error: &(dyn Error + 'static)) -> String {
    cause(error).to_string()
}

fn cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause
}
