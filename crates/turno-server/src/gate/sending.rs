//! A request's body on its way, and when it has gone.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use tokio::sync::oneshot;

/// A body that says when it is over: sent, or given up.
pub(super) struct Sending<B> {
    body: B,
    _over: oneshot::Sender<Never>,
}

/// Nothing is ever said: that its sender is dropped says enough.
enum Never {}

/// When a body is over.
pub(super) struct Over(oneshot::Receiver<Never>);

impl Over {
    /// Waits until it is.
    pub(super) async fn wait(self) {
        let _ = self.0.await;
    }
}

impl<B> Sending<B> {
    /// The body, and when it is over.
    pub(super) fn new(body: B) -> (Self, Over) {
        let (_over, over) = oneshot::channel();
        (Sending { body, _over }, Over(over))
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
