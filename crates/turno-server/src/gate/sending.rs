//! A request's body on its way, and when it has gone.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A body that says when it is over: sent, or given up.
pub(super) struct Sending<B> {
    body: B,
    _over: DropGuard,
}

impl<B> Sending<B> {
    /// The body, and a token that is cancelled when it is over.
    pub(super) fn new(body: B) -> (Self, CancellationToken) {
        let over = CancellationToken::new();
        let sending = Sending {
            body,
            _over: over.clone().drop_guard(),
        };
        (sending, over)
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
