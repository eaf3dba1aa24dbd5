//! The output of a command: passed on as it comes, and captured for the stored answer.

use std::cell::RefCell;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::task::unconstrained;
use tokio_util::sync::CancellationToken;

use super::answer::{Answer, Output};
use crate::fail;

/// Size of a read, in bytes.
const CHUNK: usize = 16 * 1024;
/// Capacity of a pipe: a command that has ended has left at most this many bytes in it.
const PIPE: usize = 64 * 1024;
/// Minimum number of bytes that are held for inspection, even if fewer are to be stored.
const AT_LEAST: usize = 8 * 1024;

/// The output so far.
#[derive(Debug)]
pub(super) struct Captured {
    most: usize,
    bytes: u64,
    held: Output,
    /// Whether the last line on standard error is not ended yet.
    pub(super) is_mid_line: bool,
}

/// One of the two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stdout,
    Stderr,
}

/// Signals of when to stop.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// Read what is in the pipes, and wait for no more.
    pub(super) cut: CancellationToken,
    /// Pass no more output on.
    pub(super) mute: CancellationToken,
    /// Set when both streams have ended.
    pub(super) over: CancellationToken,
}

impl Captured {
    pub(super) fn new(most: usize) -> Self {
        Captured {
            most,
            bytes: 0,
            held: Output::default(),
            is_mid_line: false,
        }
    }

    fn add(&mut self, stream: Stream, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if stream == Stream::Stderr {
            self.is_mid_line = bytes.last() != Some(&b'\n');
        }
        if self.bytes > self.most.max(AT_LEAST) as u64 {
            // Too large: no output is better than a part that looks like the whole.
            self.held = Output::default();
            return;
        }
        match stream {
            Stream::Stdout => self.held.stdout.extend_from_slice(bytes),
            Stream::Stderr => self.held.stderr.extend_from_slice(bytes),
        }
    }

    /// Returns standard error, as far as it is held.
    pub(super) fn stderr(&self) -> &[u8] {
        &self.held.stderr
    }

    pub(super) fn answer(self, exit_code: u8) -> Answer {
        let is_kept = self.bytes <= self.most as u64;
        Answer {
            exit_code,
            output_bytes: self.bytes,
            output: is_kept.then_some(self.held),
        }
    }
}

/// Reads both streams to their end, or until `ends` says to stop.
pub(super) async fn both(
    (stdout, stderr): (ChildStdout, ChildStderr),
    captured: &RefCell<Captured>,
    ends: &Ends,
    output: crate::output::Output,
) -> io::Result<()> {
    let out = one(stdout, tokio::io::stdout(), Stream::Stdout, captured, ends);
    let err = one(stderr, tokio::io::stderr(), Stream::Stderr, captured, ends);
    let done = tokio::join!(out, err);
    ends.over.cancel();
    for (stream, trouble) in [("standard output", done.0?), ("standard error", done.1?)] {
        if let Some(error) = trouble {
            fail::warn(&format!("{stream} could not be passed on: {error}"), output);
        }
    }
    Ok(())
}

/// Copies one stream. Returns the error of passing output on, if it is relevant.
async fn one(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    stream: Stream,
    captured: &RefCell<Captured>,
    ends: &Ends,
) -> io::Result<Option<io::Error>> {
    let mut chunk = vec![0; CHUNK];
    let mut passes = true;
    let mut trouble = None;
    let mut left = PIPE;
    while left > 0 {
        let length = tokio::select! {
            // Read first whatever is there. Unconstrained by tokio's budget: "pending" must mean that the pipe is empty.
            biased;
            length = unconstrained(from.read(&mut chunk)) => length?,
            () = ends.cut.cancelled() => break,
        };
        let Some(bytes) = chunk.get(..length).filter(|bytes| !bytes.is_empty()) else {
            break;
        };
        captured.borrow_mut().add(stream, bytes);
        if ends.cut.is_cancelled() {
            left = left.saturating_sub(length);
        }
        if passes {
            let passed = tokio::select! {
                passed = pass(&mut to, bytes) => passed,
                () = ends.mute.cancelled() => Err(io::ErrorKind::BrokenPipe.into()),
            };
            if let Err(error) = passed {
                passes = false;
                // The reader of our output has closed the pipe. The output is still captured for a replay.
                trouble = (error.kind() != io::ErrorKind::BrokenPipe).then_some(error);
            }
        }
    }
    Ok(trouble)
}

/// Writes and flushes.
pub(super) async fn pass(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_much_is_counted_and_not_kept() {
        let mut captured = Captured::new(3);
        captured.add(Stream::Stdout, b"abc");
        assert!(!captured.is_mid_line);
        captured.add(Stream::Stderr, b"d");
        assert!(captured.is_mid_line);
        assert_eq!(captured.stderr(), b"d", "a little is held to look at");
        captured.add(Stream::Stdout, &[b'e'; AT_LEAST]);
        assert!(captured.stderr().is_empty() && captured.held.stdout.is_empty());
        let answer = captured.answer(7);
        assert_eq!(
            (answer.output, answer.output_bytes),
            (None, 4 + AT_LEAST as u64)
        );
    }

    #[test]
    fn just_enough_is_kept() {
        let mut captured = Captured::new(3);
        captured.add(Stream::Stdout, b"ab");
        captured.add(Stream::Stderr, b"\n");
        let output = captured.answer(0).output.unwrap();
        assert_eq!((&*output.stdout, &*output.stderr), (&b"ab"[..], &b"\n"[..]));
    }
}
