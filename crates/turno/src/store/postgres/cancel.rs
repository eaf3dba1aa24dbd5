//! The connection of a request to cancel a statement: it stays open until the server closes it.
//!
//! The server closes it when the request has been served. A pooler discards the request of a client that has closed its end before
//! (PgBouncer does), and tokio-postgres closes it as soon as the request is sent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream whose shutdown waits until the other side has closed it.
pub(super) struct UntilClosed<S>(pub(super) S);

impl<S: AsyncRead + Unpin> AsyncRead for UntilClosed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for UntilClosed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.0).poll_flush(context))?;
        loop {
            let mut bytes = [0; 64];
            let mut buffer = ReadBuf::new(&mut bytes);
            match ready!(Pin::new(&mut self.0).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                // Closed, in whatever way.
                Ok(()) | Err(_) => return Poll::Ready(Ok(())),
            }
        }
    }
}
