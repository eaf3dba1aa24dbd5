//! From what the server said to the fate of each event.

use std::collections::HashMap;
use std::error::Error;

use async_nats::jetstream;
use async_nats::jetstream::context::{GetStreamByNameErrorKind, PublishError, PublishErrorKind};

use super::Nats;
use super::message::subject;
use crate::sink::{Fate, Outage, Outgoing};

/// What is known of one event.
#[derive(Debug)]
pub(super) enum Answer {
    /// It is in a stream.
    Stored,
    /// NATS has no words for it, or it is too large.
    Unfit(String),
    /// Nobody took it: no stream has its subject, or the one that has is not there at the moment.
    NoTaker,
    /// JetStream answered with an error.
    Error { code: usize, said: String },
    /// It was given to the client, and no answer came.
    Silence,
    /// It was not given to the client.
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

/// The fates of `events`.
pub(super) async fn fates(
    nats: &Nats,
    context: &jetstream::Context,
    events: &[Outgoing],
    answers: Vec<Answer>,
) -> Vec<Fate> {
    let silent = || nats.outage("it does not answer, or the connection was lost");
    let mut takers = HashMap::new();
    let mut fates = Vec::with_capacity(events.len());
    for (event, answer) in events.iter().zip(answers) {
        fates.push(match answer {
            Answer::Stored => Fate::Sent,
            Answer::Unfit(reason) => Fate::Refused(reason),
            Answer::Silence => Fate::Doubtful(silent()),
            Answer::Unsent => Fate::Unsent(silent()),
            // The stream is full, or the message is not to its liking.
            Answer::Error {
                code: 400..500,
                said,
            } => Fate::Refused(format!("JetStream will not have it: {said}")),
            Answer::Error { said, .. } => Fate::Unsent(nats.outage(said)),
            Answer::NoTaker => {
                let subject = subject(&event.kind, nats.prefix.as_deref()).unwrap_or_default();
                if !takers.contains_key(&subject) {
                    let fate = no_taker(nats, context, &subject).await;
                    takers.insert(subject.clone(), fate);
                }
                takers[&subject].clone()
            }
        });
    }
    fates
}

/// "No responders" has two meanings: there is no such stream, or its server is not up yet. JetStream knows which.
async fn no_taker(nats: &Nats, context: &jetstream::Context, subject: &str) -> Fate {
    let outage: Outage = match context.stream_by_subject(subject).await {
        Ok(stream) => nats.outage(format!("stream {stream} has no leader at the moment")),
        Err(error) if matches!(error.kind(), GetStreamByNameErrorKind::NotFound) => {
            return Fate::Refused(format!("no stream takes subject {subject}"));
        }
        Err(error) => nats.outage(format!("JetStream does not answer: {}", root(&error))),
    };
    Fate::Unsent(outage)
}

/// The innermost cause, in words.
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
