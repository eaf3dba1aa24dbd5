//! How long a client is waited for: one that asks nothing, and one that does not read its answer.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A client that does not read so much of its answer while it is waited for does not read it.
const SOME: usize = 64 * 1024;

/// Whether something of a connection is in flight.
#[derive(Debug)]
pub(crate) struct Busy {
    requests: AtomicUsize,
    /// Whether an answer waits for its reader.
    writing: AtomicBool,
    since: Mutex<Instant>,
}

impl Busy {
    pub(crate) fn new() -> Self {
        Busy {
            requests: AtomicUsize::new(0),
            writing: AtomicBool::new(false),
            since: Mutex::new(Instant::now()),
        }
    }

    /// Counts a request, until this is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> InFlight {
        self.requests.fetch_add(1, Ordering::SeqCst);
        InFlight(self.clone())
    }

    /// Resolves when nothing has been in flight for so long.
    pub(crate) async fn idle(&self, patience: Duration) {
        loop {
            let now = Instant::now();
            let is_busy =
                self.requests.load(Ordering::SeqCst) > 0 || self.writing.load(Ordering::SeqCst);
            let since = if is_busy { now } else { self.since() };
            if since + patience <= now {
                return;
            }
            tokio::time::sleep_until(since + patience).await;
        }
    }

    /// Begins anew to count the time in which nothing is in flight.
    pub(crate) fn restart(&self) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn since(&self) -> Instant {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_writing(&self, writing: bool) {
        if self.writing.swap(writing, Ordering::SeqCst) && !writing {
            self.restart();
        }
    }
}

/// One request in flight.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Busy>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.restart();
        self.0.requests.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The body of an answer: its request is in flight until it has gone.
pub(crate) struct Counted<B> {
    body: B,
    _counted: InFlight,
}

impl<B> Counted<B> {
    pub(crate) fn new(body: B, counted: InFlight) -> Self {
        Counted {
            body,
            _counted: counted,
        }
    }
}

impl<B: Body + Unpin> Body for Counted<B> {
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

/// A stream that breaks off if its other end does not read: what is written for it would stay in memory.
pub(crate) struct Patient<S> {
    stream: S,
    busy: Arc<Busy>,
    patience: Duration,
    /// When the patience ends; only while something cannot be written.
    over: Option<Pin<Box<Sleep>>>,
    /// How much was written since.
    written: usize,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S, busy: Arc<Busy>, patience: Duration) -> Self {
        Patient {
            stream,
            busy,
            patience,
            over: None,
            written: 0,
        }
    }

    fn wrote(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(many)) if self.over.is_some() => {
                self.written += many;
                if self.written >= SOME {
                    (self.over, self.written) = (None, 0);
                }
                Poll::Ready(Ok(many))
            }
            Poll::Ready(done) => Poll::Ready(done),
            Poll::Pending => {
                self.busy.is_writing(true);
                let patience = self.patience;
                let over = self
                    .over
                    .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
                over.as_mut().poll(context).map(|()| {
                    Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "the client does not read",
                    ))
                })
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.wrote(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called when all has been written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            (self.over, self.written) = (None, 0);
            self.busy.is_writing(false);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
