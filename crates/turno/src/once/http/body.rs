//! A body that was looked at, and goes on its way.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

/// What was read of a body, and then the rest of it.
pub struct Carried<B> {
    first: Option<Bytes>,
    rest: Option<Pin<Box<B>>>,
    trailers: Option<Box<HeaderMap>>,
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
            rest: None,
            trailers: None,
        }
    }

    /// A body that nobody has read.
    pub(super) fn untouched(body: B) -> Self {
        Carried {
            first: None,
            rest: Some(Box::pin(body)),
            trailers: None,
        }
    }
}

impl<B: Body<Data = Bytes>> Carried<B> {
    /// Reads a body up to a size; more of it stays where it is. `None` if it breaks off.
    pub(super) async fn read(body: B, most: usize) -> Option<Self> {
        let mut body = Box::pin(body);
        let mut first = BytesMut::new();
        let mut trailers = None;
        let mut rest = None;
        loop {
            if first.len() > most {
                rest = Some(body);
                break;
            }
            let Some(frame) = body.frame().await else {
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
                rest: None,
                ..
            } if first.len() <= most => Ok(first),
            larger => Err(larger),
        }
    }

    /// All of it, if there is no rest, and nothing after it.
    pub(super) fn bytes(&self) -> Option<&Bytes> {
        match (&self.first, &self.rest, &self.trailers) {
            (Some(first), None, None) => Some(first),
            _ => None,
        }
    }
}

impl<B: Body<Data = Bytes>> Body for Carried<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(first) = self.first.take().filter(|first| !first.is_empty()) {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if let Some(rest) = &mut self.rest {
            return rest.as_mut().poll_frame(context);
        }
        let trailers = self.trailers.take();
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(*trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.first.as_ref().is_none_or(Bytes::is_empty)
            && self.trailers.is_none()
            && self.rest.as_ref().is_none_or(|rest| rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let first = self.first.as_ref().map_or(0, Bytes::len) as u64;
        let rest = match &self.rest {
            Some(rest) => rest.size_hint(),
            None => SizeHint::with_exact(0),
        };
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + first);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + first);
        }
        hint
    }
}
