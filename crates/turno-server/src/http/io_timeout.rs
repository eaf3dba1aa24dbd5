//! Timeouts of a connection: for a client that sends no request, and for one that does not read its response.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A client must read at least this bytes_written bytes per timeout period, or the connection is closed.
const MIN_BYTES_PER_TIMEOUT: usize = 64 * 1024;

/// Activity of a connection: whether a request or a response is in flight.
#[derive(Debug)]
pub(crate) struct ConnectionActivity {
    requests: AtomicUsize,
    /// Whether a response waits until the client reads.
    writing: AtomicBool,
    since: Mutex<Instant>,
}

impl ConnectionActivity {
    pub(crate) fn new() -> Self {
        ConnectionActivity {
            requests: AtomicUsize::new(0),
            writing: AtomicBool::new(false),
            since: Mutex::new(Instant::now()),
        }
    }

    /// Counts a request until the returned value is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> ActiveRequest {
        self.requests.fetch_add(1, Ordering::SeqCst);
        ActiveRequest(self.clone())
    }

    /// Resolves when nothing has been in flight for the duration of `timeout`.
    pub(crate) async fn idle(&self, timeout: Duration) {
        loop {
            let now = Instant::now();
            let is_active =
                self.requests.load(Ordering::SeqCst) > 0 || self.writing.load(Ordering::SeqCst);
            let since = if is_active { now } else { self.since() };
            if since + timeout <= now {
                return;
            }
            tokio::time::sleep_until(since + timeout).await;
        }
    }

    /// Restarts the idle time.
    pub(crate) fn restart(&self) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn since(&self) -> Instant {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_writing(&self, writing: bool) {
        if self.writing.swap(writing, Ordering::SeqCst) && !writing {
            self.restart();
        }
    }
}

/// A request in flight.
#[derive(Debug)]
pub(crate) struct ActiveRequest(Arc<ConnectionActivity>);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.restart();
        self.0.requests.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The body of a response. Its request counts as in flight until the body is dropped.
pub(crate) struct CountedBody<B> {
    body: B,
    _request: ActiveRequest,
}

impl<B> CountedBody<B> {
    pub(crate) fn new(body: B, request: ActiveRequest) -> Self {
        CountedBody {
            body,
            _request: request,
        }
    }
}

impl<B: Body + Unpin> Body for CountedBody<B> {
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

/// A stream that fails if the client does not read: unread data would stay in memory.
pub(crate) struct TimeoutStream<S> {
    stream: S,
    activity: Arc<ConnectionActivity>,
    timeout: Duration,
    /// Timer of the timeout; set only while a write is blocked.
    timer: Option<Pin<Box<Sleep>>>,
    /// Number of bytes written since the timer was set.
    written: usize,
}

impl<S> TimeoutStream<S> {
    pub(crate) fn new(stream: S, activity: Arc<ConnectionActivity>, timeout: Duration) -> Self {
        TimeoutStream {
            stream,
            activity,
            timeout,
            timer: None,
            written: 0,
        }
    }

    fn wrote(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(bytes_written)) if self.timer.is_some() => {
                self.written += bytes_written;
                if self.written >= MIN_BYTES_PER_TIMEOUT {
                    (self.timer, self.written) = (None, 0);
                }
                Poll::Ready(Ok(bytes_written))
            }
            Poll::Ready(done) => Poll::Ready(done),
            Poll::Pending => {
                self.activity.set_writing(true);
                let timeout = self.timeout;
                let timer = self
                    .timer
                    .get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
                timer.as_mut().poll(context).map(|()| {
                    Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "the client does not read its response",
                    ))
                })
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
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

    /// Called after everything has been written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            (self.timer, self.written) = (None, 0);
            self.activity.set_writing(false);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
