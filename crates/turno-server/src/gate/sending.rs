//! The body of a request to the service, and the time when it was sent.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The error of a body whose client sends nothing for too long.
#[derive(Debug, thiserror::Error)]
#[error("the client sent nothing of its body for {0:?}")]
pub(super) struct SilentClient(Duration);

/// Limits on how long a client may send nothing of its body.
#[derive(Debug, Clone)]
pub(super) struct Silence {
    /// Before the response begins.
    pub(super) unanswered: Duration,
    /// After the response has begun: then both sides may stream for as long as they like.
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

/// A body that reports when it has ended, sent or abandoned. It fails if its client sends nothing for too long.
pub(super) struct Sending<B> {
    body: B,
    over: Option<oneshot::Sender<Instant>>,
    silence: Silence,
    /// When the client's silence began, and the timer of the next check. `None` unless the body waits for the client.
    silent: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<B> Sending<B> {
    /// Returns the body, and a receiver of the time at which it ended.
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

    /// Ready if the client has been silent for too long.
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
            // The response has begun meanwhile, so the limit is another one.
            timer.as_mut().reset(end);
        }
    }
}

impl<B> Drop for Sending<B> {
    fn drop(&mut self) {
        if let Some(over) = self.over.take() {
            // The receiver may have been dropped.
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
