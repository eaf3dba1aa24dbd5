//! A body that was read in part, and is passed on.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use pin_project_lite::pin_project;
use tokio::time::{Instant, timeout_at};

pin_project! {
    /// The part of a body that was read, followed by the rest.
    pub struct Carried<B> {
        first: Option<Bytes>,
        #[pin]
        rest: Rest<B>,
        trailers: Option<Box<HeaderMap>>,
    }
}

pin_project! {
    #[project = RestNow]
    enum Rest<B> {
        None,
        /// Nothing of it was read.
        Whole {
            #[pin]
            body: B,
        },
        /// Reading has begun, so it is pinned.
        Begun { body: Pin<Box<B>> },
    }
}

impl<B> From<String> for Carried<B> {
    fn from(text: String) -> Self {
        Carried::whole(text)
    }
}

impl<B> fmt::Debug for Carried<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omits the content, which must not be logged.
        f.debug_struct("Carried").finish_non_exhaustive()
    }
}

impl<B> Carried<B> {
    /// Creates a body of bytes, without a rest.
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        Carried {
            first: Some(bytes.into()),
            rest: Rest::None,
            trailers: None,
        }
    }

    /// Creates a body of which nothing was read.
    pub(super) fn untouched(body: B) -> Self {
        Carried {
            first: None,
            rest: Rest::Whole { body },
            trailers: None,
        }
    }
}

impl<B: Body<Data = Bytes>> Carried<B> {
    /// Reads a body up to a size and a deadline; the rest stays unread. Returns `None` if the body fails.
    pub(super) async fn read(body: B, most: usize, until: Instant) -> Option<Self> {
        let mut body = Box::pin(body);
        let mut first = BytesMut::new();
        let mut trailers = None;
        let mut rest = Rest::None;
        loop {
            if first.len() > most {
                rest = Rest::Begun { body };
                break;
            }
            let Ok(next) = timeout_at(until, body.frame()).await else {
                rest = Rest::Begun { body };
                break;
            };
            let Some(frame) = next else {
                break;
            };
            match frame.ok()?.into_data() {
                // Not copied if it is the only chunk.
                Ok(data) if first.is_empty() => first = data.into(),
                Ok(data) => first.extend_from_slice(&data),
                Err(frame) => trailers = frame.into_trailers().ok().map(Box::new),
            }
        }
        Some(Carried {
            first: Some(first.freeze()),
            rest,
            trailers,
        })
    }

    /// Returns the whole body without trailers, or the body unchanged if it is larger than `most`.
    pub(super) fn into_bytes(self, most: usize) -> Result<Bytes, Self> {
        match self {
            Carried {
                first: Some(first),
                rest: Rest::None,
                ..
            } if first.len() <= most => Ok(first),
            larger => Err(larger),
        }
    }

    /// Returns whether more than `most` bytes of it were read.
    pub(super) fn is_over(&self, most: usize) -> bool {
        self.first.as_ref().is_some_and(|first| first.len() > most)
    }

    /// Returns the whole body if it has no rest and no trailers.
    pub(super) fn bytes(&self) -> Option<&Bytes> {
        match (&self.first, &self.rest, &self.trailers) {
            (Some(first), Rest::None, None) => Some(first),
            _ => None,
        }
    }
}

impl<B: Body<Data = Bytes>> Body for Carried<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        if let Some(first) = this.first.take().filter(|first| !first.is_empty()) {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        match this.rest.project() {
            RestNow::Whole { body } => return body.poll_frame(context),
            RestNow::Begun { body } => return body.as_mut().poll_frame(context),
            RestNow::None => {}
        }
        let trailers = this.trailers.take();
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(*trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.first.as_ref().is_none_or(Bytes::is_empty)
            && self.trailers.is_none()
            && match &self.rest {
                Rest::None => true,
                Rest::Whole { body } => body.is_end_stream(),
                Rest::Begun { body } => body.is_end_stream(),
            }
    }

    fn size_hint(&self) -> SizeHint {
        let first = self.first.as_ref().map_or(0, Bytes::len) as u64;
        let rest = match &self.rest {
            Rest::None => SizeHint::with_exact(0),
            Rest::Whole { body } => body.size_hint(),
            Rest::Begun { body } => body.size_hint(),
        };
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + first);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + first);
        }
        hint
    }
}
