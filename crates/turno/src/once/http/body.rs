//! A body that was looked at, and goes on its way.

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
    /// What was read of a body, and then the rest of it.
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
        /// Nobody has read of it.
        Whole {
            #[pin]
            body: B,
        },
        /// It was begun, and cannot be moved any more.
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
        // Not the content: it is not for logs.
        f.debug_struct("Carried").finish_non_exhaustive()
    }
}

impl<B> Carried<B> {
    /// Bytes, and nothing after them.
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        Carried {
            first: Some(bytes.into()),
            rest: Rest::None,
            trailers: None,
        }
    }

    /// A body that nobody has read.
    pub(super) fn untouched(body: B) -> Self {
        Carried {
            first: None,
            rest: Rest::Whole { body },
            trailers: None,
        }
    }
}

impl<B: Body<Data = Bytes>> Carried<B> {
    /// Reads a body up to a size and a time; more of it stays where it is. `None` if it breaks off.
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
                // Not copied, if it is all.
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

    /// All of it, without trailers; or the body as it was, if it is larger.
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

    /// Whether more than this was read of it.
    pub(super) fn is_over(&self, most: usize) -> bool {
        self.first.as_ref().is_some_and(|first| first.len() > most)
    }

    /// All of it, if there is no rest, and nothing after it.
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
