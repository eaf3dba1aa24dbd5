//! The body of the service's response.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Sleep;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A response body that fails if the service sends nothing for too long.
pub(super) struct Answering {
    body: Incoming,
    /// Timeout for the next part.
    longest_silence: Duration,
    /// Timer; set only while the body waits for a part.
    over: Option<Pin<Box<Sleep>>>,
}

impl Answering {
    pub(super) fn new(body: Incoming, longest_silence: Duration) -> Self {
        Answering {
            body,
            longest_silence,
            over: None,
        }
    }
}

impl Body for Answering {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.over = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let longest = self.longest_silence;
        let over = self
            .over
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(longest)));
        over.as_mut().poll(context).map(|()| {
            let silent = format!("the service sent nothing for {longest:?}");
            Some(Err(silent.into()))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
