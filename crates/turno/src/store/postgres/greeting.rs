//! Detects a pooler by the process id that is sent while a connection is opened.
//!
//! A server sends its process id in its greeting (`BackendKeyData`). A pooler sends an id of its own, because the server behind it
//! changes; a plain proxy forwards the server's. Ports and addresses do not distinguish the two.
//!
//! Over TLS the bytes of the socket are encrypted, so the decrypted stream is read instead ([`GreetedTls`]).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// Number of bytes of a header: a type and a length, which includes itself.
const HEADER: usize = 5;
/// The message with the process id: the header, the id and a secret of at least four bytes.
const KEY_DATA: u8 = b'K';
/// The server's response to a request for TLS, a single byte, if it does not support TLS.
const NO_TLS: u8 = b'N';

/// The process id of a greeting. It is 0 until it was received.
#[derive(Debug, Clone, Default)]
pub(super) struct ProcessId(Arc<AtomicI32>);

impl ProcessId {
    pub(super) fn get(&self) -> i32 {
        self.0.load(Ordering::Acquire)
    }
}

/// A stream that remembers the process id of its greeting.
pub(super) struct Greeted<S> {
    stream: S,
    /// Bytes that were read and do not make a whole message yet; `None` once the id is known.
    unread: Option<Vec<u8>>,
    /// Whether the first byte is the response to a request for TLS.
    is_tls_asked: bool,
    process: ProcessId,
}

impl<S> Greeted<S> {
    /// A socket over which TLS is negotiated as the settings say.
    pub(super) fn socket(
        socket: S,
        mode: SslMode,
        negotiation: SslNegotiation,
        process: &ProcessId,
    ) -> Self {
        let is_tls_asked = mode != SslMode::Disable;
        // Without negotiation everything is encrypted from the first byte.
        let is_readable = !is_tls_asked || negotiation == SslNegotiation::Postgres;
        Greeted {
            stream: socket,
            unread: is_readable.then(Vec::new),
            is_tls_asked,
            process: process.clone(),
        }
    }

    fn decrypted(stream: S, process: ProcessId) -> Self {
        Greeted {
            stream,
            unread: Some(Vec::new()),
            is_tls_asked: false,
            process,
        }
    }

    fn inspect(&mut self, bytes: &[u8]) {
        let Some(unread) = &mut self.unread else {
            return;
        };
        let bytes = match bytes {
            [answer, rest @ ..] if self.is_tls_asked => {
                self.is_tls_asked = false;
                if *answer != NO_TLS {
                    // What follows is encrypted.
                    self.unread = None;
                    return;
                }
                rest
            }
            bytes => bytes,
        };
        unread.extend_from_slice(bytes);
        loop {
            let Some(header) = unread.first_chunk::<HEADER>() else {
                return;
            };
            let [kind, length @ ..] = *header;
            // A length below its own size is no message of this protocol: the rest is ignored.
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
                    .0
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
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if self.unread.is_some() {
            self.inspect(&buffer.filled()[before..]);
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
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A stream that TLS was established on.
impl<S: TlsStream + Unpin> TlsStream for Greeted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        self.stream.channel_binding()
    }
}

/// A TLS connector whose decrypted stream remembers the process id of its greeting.
pub(super) struct GreetedTls<T> {
    pub(super) connector: T,
    pub(super) process: ProcessId,
}

impl<S, T> TlsConnect<S> for GreetedTls<T>
where
    T: TlsConnect<S>,
    T::Future: Send + 'static,
{
    type Stream = Greeted<T::Stream>;
    type Error = T::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Stream, Self::Error>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let connected = self.connector.connect(stream);
        let process = self.process;
        Box::pin(async move { Ok(Greeted::decrypted(connected.await?, process)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&[kind][..], &length.to_be_bytes(), body].concat()
    }

    fn process_id_with(mode: SslMode, pieces: &[&[u8]]) -> i32 {
        let process = ProcessId::default();
        let mut greeted = Greeted::socket((), mode, SslNegotiation::Postgres, &process);
        for piece in pieces {
            greeted.inspect(piece);
        }
        process.get()
    }

    fn process_id(pieces: &[&[u8]]) -> i32 {
        process_id_with(SslMode::Disable, pieces)
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
        assert_eq!(process_id(&[&greeting]), 1234);
        let bytes: Vec<&[u8]> = greeting.chunks(1).collect();
        assert_eq!(process_id(&bytes), 1234);
    }

    #[test]
    fn a_stranger_is_not_listened_to() {
        assert_eq!(
            process_id(&[b"K\0\0\0\x01", &message(b'K', &[0, 0, 0, 1])]),
            0
        );
        assert_eq!(process_id(&[&message(b'K', b"")]), 0);
    }

    #[test]
    fn the_answer_to_a_request_for_tls_is_no_message() {
        let greeting = message(b'K', &[0, 0, 4, 210, 9, 9, 9, 9]);
        let with = |answer| process_id_with(SslMode::Prefer, &[answer, &greeting]);
        assert_eq!(with(b"N"), 1234);
        // What follows is encrypted, and only looks like a greeting.
        assert_eq!(with(b"S"), 0);
    }
}
