//! A request's body on its way, and when it has gone.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body of a client that sends nothing for too long.
#[derive(Debug, thiserror::Error)]
#[error("the client sent nothing of its body for {0:?}")]
pub(super) struct SilentClient(Duration);

/// How long a client may send nothing of its body.
#[derive(Debug, Clone)]
pub(super) struct Silence {
    /// Before the answer has begun.
    pub(super) unanswered: Duration,
    /// After that: both sides may have something to say for as long as they like.
    pub(super) answered: Duration,
    pub(super) is_answered: Arc<AtomicBool>,
}

impl Silence {
    fn longest(&self) -> Duration {
        match self.is_answered.load(Ordering::Relaxed) {
            true => self.answered,
            false => self.unanswered,
        }
    }
}

/// A body that says when it is over: sent, or given up. It breaks off when its client is silent for too long.
pub(super) struct Sending<B> {
    body: B,
    over: Option<oneshot::Sender<Instant>>,
    silence: Silence,
    /// Since when the client is silent, and when to look at that again. Only a body that is waited for has a timer.
    silent: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<B> Sending<B> {
    /// The body, and since when it is over.
    pub(super) fn new(body: B, silence: Silence) -> (Self, oneshot::Receiver<Instant>) {
        let (say, over) = oneshot::channel();
        let body = Sending {
            body,
            over: Some(say),
            silence,
            silent: None,
        };
        (body, over)
    }

    /// Whether the client has been silent for too long.
    fn poll_silent(&mut self, context: &mut Context<'_>) -> Poll<SilentClient> {
        loop {
            let longest = self.silence.longest();
            let (since, timer) = self.silent.get_or_insert_with(|| {
                let now = Instant::now();
                (now, Box::pin(tokio::time::sleep_until(now + longest)))
            });
            std::task::ready!(timer.as_mut().poll(context));
            let end = *since + longest;
            if end <= Instant::now() {
                return Poll::Ready(SilentClient(longest));
            }
            // The answer has begun meanwhile.
            timer.as_mut().reset(end);
        }
    }
}

impl<B> Drop for Sending<B> {
    fn drop(&mut self) {
        if let Some(over) = self.over.take() {
            // Nobody may be left to hear it.
            let _ = over.send(Instant::now());
        }
    }
}

impl<B> Body for Sending<B>
where
    B: Body + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.silent = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        self.poll_silent(context)
            .map(|silent| Some(Err(silent.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
