//! A request's body on its way, and when it has gone.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A body that says when it is over: sent, or given up.
pub(super) struct Sending<B> {
    body: B,
    over: Option<oneshot::Sender<Instant>>,
}

impl<B> Sending<B> {
    /// The body, and since when it is over.
    pub(super) fn new(body: B) -> (Self, oneshot::Receiver<Instant>) {
        let (say, over) = oneshot::channel();
        let body = Sending {
            body,
            over: Some(say),
        };
        (body, over)
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

impl<B: Body + Unpin> Body for Sending<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
