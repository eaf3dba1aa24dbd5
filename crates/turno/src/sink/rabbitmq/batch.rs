//! Publishes many events on one channel: all are passed to the client library first, then their confirms are awaited.

use std::collections::{HashSet, VecDeque};
use std::pin::Pin;
use std::task::Poll;

use futures_util::poll;
use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{Channel, Confirmation, PublisherConfirm};
use uuid::Uuid;

use super::message::Message;
use super::response_timeout::ResponseTimeout;
use crate::amqp::fault;
use crate::sink::Outgoing;

/// Maximum number of bytes that may wait to be written: more than the socket takes at once, but bounded.
const AHEAD_BYTES: usize = 8 << 20;

/// The broker returns a message that no queue takes, instead of dropping it.
const MANDATORY: BasicPublishOptions = BasicPublishOptions {
    mandatory: true,
    immediate: false,
};

/// Result of publishing one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// AMQP cannot represent it.
    Unfit(String),
    /// The broker confirmed it.
    Acked,
    /// The broker rejected it.
    Nacked,
    /// It was not passed to the client library, or was not written completely.
    Unwritten,
    /// It was written, or may have been, and no confirm arrived.
    Unanswered,
}

/// Why a batch ended before all confirms arrived.
#[derive(Debug)]
pub(super) enum End {
    /// The channel or the connection failed.
    Failed(lapin::Error),
    /// No confirm arrived within the timeout.
    Silent,
    /// The broker blocks publishers, for this reason.
    Blocked(String),
}

/// Result of a batch.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Answers of the events that were processed. The others are [`Answer::Unwritten`].
    pub(super) answers: Vec<Answer>,
    /// Messages that the broker returned because no queue took them.
    ///
    /// The client library attaches a returned message to whichever confirm it handles next, so only the message id identifies
    /// it. It does arrive with a confirm of its own batch, because the broker returns a message before it
    /// confirms it, and batches do not overlap on a channel.
    pub(super) returned: HashSet<Uuid>,
    /// Whether everything was written while the channel was open. If not, data could follow the channel's close, and the
    /// broker would then close the connection.
    pub(super) tidy: bool,
}

type Writing<'a> = Pin<Box<dyn Future<Output = lapin::Result<PublisherConfirm>> + Send + 'a>>;

/// A batch in progress. It has its channel to itself.
pub(super) struct Batch<'a> {
    channel: &'a Channel,
    exchange: &'a ShortString,
    frame_bytes: usize,
    timeout: ResponseTimeout,
    outcome: Outcome,
    failure: Option<lapin::Error>,
    writing: VecDeque<(usize, usize, Writing<'a>)>,
    written: VecDeque<(usize, PublisherConfirm)>,
    ahead_bytes: usize,
}

impl<'a> Batch<'a> {
    pub(super) fn new(
        channel: &'a Channel,
        exchange: &'a ShortString,
        frame_bytes: usize,
        timeout: ResponseTimeout,
    ) -> Self {
        Batch {
            channel,
            exchange,
            frame_bytes,
            timeout,
            outcome: Outcome {
                answers: Vec::new(),
                returned: HashSet::new(),
                tidy: true,
            },
            failure: None,
            writing: VecDeque::new(),
            written: VecDeque::new(),
            ahead_bytes: 0,
        }
    }

    pub(super) fn into_outcome(self) -> Outcome {
        self.outcome
    }

    /// Publishes events and waits for the confirm of each.
    ///
    /// Not cancel-safe: if the future is dropped, confirms are outstanding, and the channel must not be used again.
    pub(super) async fn publish(&mut self, events: &'a [Outgoing]) -> Result<(), End> {
        self.outcome.tidy = false;
        self.outcome.answers.reserve(events.len());
        for event in events {
            self.hand_over(event).await?;
            if self.failure.is_some() {
                break;
            }
        }
        while !self.writing.is_empty() {
            self.write().await?;
        }
        self.outcome.tidy = self.channel.status().connected();
        while let Some((place, confirm)) = self.written.pop_front() {
            let heard = self.timeout.wait_for(confirm).await?;
            self.confirmed(place, heard);
        }
        match self.failure.take() {
            Some(error) => Err(End::Failed(error)),
            None => Ok(()),
        }
    }

    /// Passes one event to the client library. The first poll of `basic_publish` queues the message, so polling each future
    /// once sends the messages in order without waiting for any of them.
    async fn hand_over(&mut self, event: &'a Outgoing) -> Result<(), End> {
        let place = self.outcome.answers.len();
        let message = match Message::new(event, self.frame_bytes) {
            Ok(message) => message,
            Err(reason) => {
                self.outcome.answers.push(Answer::Unfit(reason));
                return Ok(());
            }
        };
        self.outcome.answers.push(Answer::Unanswered);
        let payload = event.payload.as_bytes();
        let mut writing: Writing<'a> = Box::pin(self.channel.basic_publish(
            self.exchange.clone(),
            message.routing_key,
            MANDATORY,
            payload,
            message.properties,
        ));
        match poll!(writing.as_mut()) {
            Poll::Ready(done) => self.wrote(place, done),
            Poll::Pending => {
                self.ahead_bytes += payload.len();
                self.writing.push_back((place, payload.len(), writing));
            }
        }
        while self.ahead_bytes > AHEAD_BYTES {
            self.write().await?;
        }
        Ok(())
    }

    /// Waits until the oldest message is written.
    async fn write(&mut self) -> Result<(), End> {
        if let Some((place, bytes, writing)) = self.writing.pop_front() {
            self.ahead_bytes -= bytes;
            let done = self.timeout.wait_for(writing).await?;
            self.wrote(place, done);
        }
        Ok(())
    }

    fn wrote(&mut self, place: usize, done: lapin::Result<PublisherConfirm>) {
        match done {
            Ok(confirm) => self.written.push_back((place, confirm)),
            Err(error) => {
                self.outcome.answers[place] = Answer::Unwritten;
                self.failed(error);
            }
        }
    }

    fn confirmed(&mut self, place: usize, heard: lapin::Result<Confirmation>) {
        let returned = match heard {
            Ok(Confirmation::Ack(returned)) => {
                self.outcome.answers[place] = Answer::Acked;
                returned
            }
            Ok(Confirmation::Nack(returned)) => {
                self.outcome.answers[place] = Answer::Nacked;
                returned
            }
            // Only on a channel without confirms; the result is unknown.
            Ok(Confirmation::NotRequested) => None,
            Err(error) => {
                self.failed(error);
                None
            }
        };
        if let Some(returned) = returned
            && let Some(id) = returned.delivery.properties.message_id()
            && let Ok(id) = Uuid::try_parse(id.as_str())
        {
            self.outcome.returned.insert(id);
        }
    }

    /// Records an error. If there are several, one with a reason from the broker is the cause of the others.
    fn failed(&mut self, error: lapin::Error) {
        let better = match &self.failure {
            None => true,
            Some(known) => fault::is_reason(&error) && !fault::is_reason(known),
        };
        if better {
            self.failure = Some(error);
        }
    }
}
