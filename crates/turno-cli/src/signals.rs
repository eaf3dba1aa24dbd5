//! The signals that end a command, or that `turno run` forwards.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// Signals that a user, a service manager or a closing terminal sends.
pub(crate) const ENDING: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// A listener for signals, which replaces their default action.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Starts listening. From here on the signals have no default action.
    pub(crate) fn listen(signals: &[Signal]) -> io::Result<Self> {
        let streams = signals
            .iter()
            .map(|&signal| Ok((signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?)))
            .collect::<io::Result<_>>()?;
        Ok(Signals { streams })
    }

    /// Waits for the next signal. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Returns the exit code of a program that was ended by a signal, as in shells.
pub(crate) fn exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
