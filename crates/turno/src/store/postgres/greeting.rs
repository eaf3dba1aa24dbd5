//! Overhears, while a connection is opened, which process the other side says it is.
//!
//! A server sends its process id in its greeting (`BackendKeyData`). A pooler sends one of its own
//! making there, because the server behind it changes; a plain proxy passes the server's on. That
//! tells the two apart, which ports and addresses do not.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A header is a type and a length, which counts itself.
const HEADER: usize = 5;
/// The message with the process id: the header, the id and a secret of at least four bytes.
const KEY_DATA: u8 = b'K';

/// A socket that remembers the process id of its greeting.
pub(super) struct Greeted<S> {
    socket: S,
    /// What has been read and is not yet understood; `None` once the id is known.
    unread: Option<Vec<u8>>,
    process: Arc<AtomicI32>,
}

impl<S> Greeted<S> {
    /// The socket, and where the process id will be; it is 0 until then.
    pub(super) fn new(socket: S) -> (Self, Arc<AtomicI32>) {
        let process = Arc::new(AtomicI32::new(0));
        let greeted = Self {
            socket,
            unread: Some(Vec::new()),
            process: process.clone(),
        };
        (greeted, process)
    }

    fn overhear(&mut self, bytes: &[u8]) {
        let Some(unread) = &mut self.unread else {
            return;
        };
        unread.extend_from_slice(bytes);
        loop {
            let Some(header) = unread.first_chunk::<HEADER>() else {
                return;
            };
            let [kind, length @ ..] = *header;
            // A length below its own size is no message of this protocol: listen no further.
            let whole = match u32::from_be_bytes(length) {
                length @ 4.. => length as usize + 1,
                _ => break,
            };
            if unread.len() < whole {
                return;
            }
            if kind == KEY_DATA
                && let Some(id) = unread[HEADER..whole].first_chunk::<4>()
            {
                self.process
                    .store(i32::from_be_bytes(*id), Ordering::Release);
                break;
            }
            unread.drain(..whole);
        }
        self.unread = None;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Greeted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(context, buffer);
        if self.unread.is_some() {
            self.overhear(&buffer.filled()[before..]);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Greeted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&[kind][..], &length.to_be_bytes(), body].concat()
    }

    fn heard(pieces: &[&[u8]]) -> i32 {
        let (mut greeted, process) = Greeted::new(());
        for piece in pieces {
            greeted.overhear(piece);
        }
        process.load(Ordering::Acquire)
    }

    #[test]
    fn the_process_id_is_found_however_the_bytes_arrive() {
        let greeting = [
            message(b'R', &[0, 0, 0, 0]),
            message(b'S', b"server_version\x0015.1\0"),
            message(b'K', &[0, 0, 4, 210, 9, 9, 9, 9]),
            message(b'Z', b"I"),
        ]
        .concat();
        assert_eq!(heard(&[&greeting]), 1234);
        let bytes: Vec<&[u8]> = greeting.chunks(1).collect();
        assert_eq!(heard(&bytes), 1234);
    }

    #[test]
    fn a_stranger_is_not_listened_to() {
        assert_eq!(heard(&[b"K\0\0\0\x01", &message(b'K', &[0, 0, 0, 1])]), 0);
        assert_eq!(heard(&[&message(b'K', b"")]), 0);
    }
}
