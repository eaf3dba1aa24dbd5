//! An answer's body on its way back.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body that breaks off if the service falls silent, where somebody holds a claim for it.
pub(super) struct Answering {
    body: Incoming,
    patience: Option<Patience>,
}

/// How long it is waited for the next part.
struct Patience {
    each: Duration,
    over: Pin<Box<Sleep>>,
}

impl Answering {
    /// However long it takes: its client goes away when it has waited long enough.
    pub(super) fn patient(body: Incoming) -> Self {
        Answering {
            body,
            patience: None,
        }
    }

    /// With so much time for each part: the work goes on when the client has gone, and must end.
    pub(super) fn within(body: Incoming, each: Duration) -> Self {
        let over = Box::pin(tokio::time::sleep(each));
        Answering {
            body,
            patience: Some(Patience { each, over }),
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
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let Some(patience) = &mut self.patience else {
            return frame.map(|frame| frame.map(|frame| frame.map_err(Into::into)));
        };
        match frame {
            Poll::Ready(frame) => {
                patience.over.as_mut().reset(Instant::now() + patience.each);
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending => patience.over.as_mut().poll(context).map(|()| {
                let silent = format!("the service sent nothing for {:?}", patience.each);
                Some(Err(silent.into()))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
