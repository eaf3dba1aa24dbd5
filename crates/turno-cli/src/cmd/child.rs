//! The child process of `turno run` and `turno once`, and its signals.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ExitCode, ExitStatus, Stdio};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};
use tokio::process::{ChildStderr, ChildStdout};

use crate::cmd::exec;
use crate::signals::{ENDING, Signals, exit_code};

/// Which processes a signal is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The command only: it shares our terminal and therefore our process group.
    Child,
    /// The command and all processes that it started, in their own process group.
    Group,
}

impl Reach {
    /// Decides by whether standard input, which the command inherits, is a terminal.
    pub(super) fn here() -> Self {
        if io::stdin().is_terminal() {
            Reach::Child
        } else {
            Reach::Group
        }
    }

    /// Returns the signals to listen for. A command on the terminal gets Ctrl-C, Ctrl-\ and Ctrl-Z from the terminal itself, and
    /// must not get them twice. We listen for the first two only so that they do not end us before the command.
    pub(super) fn signals(self) -> &'static [Signal] {
        const WITH_STOP: [Signal; 6] = {
            let [int, term, hup, quit] = ENDING;
            [int, term, hup, quit, Signal::TSTP, Signal::CONT]
        };
        match self {
            Reach::Child => &ENDING,
            Reach::Group => &WITH_STOP,
        }
    }
}

/// Where the output of the command goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prints {
    /// To our own standard output and standard error.
    AsWe,
    /// To pipes that we read.
    ToUs,
}

/// Environment variables of the command, in addition to our own.
pub(super) type Variables<'a> = &'a [(&'a str, String)];

/// The running command.
#[derive(Debug)]
pub(super) struct Child {
    process: tokio::process::Child,
    pid: Pid,
    reach: Reach,
    is_terminating: bool,
}

impl Child {
    /// Starts the command through [`exec`]. Must be called from the main thread: the kernel kills the command when the thread
    /// that started it ends.
    pub(super) fn start(
        command: &[OsString],
        variables: Variables<'_>,
        reach: Reach,
        prints: Prints,
    ) -> Result<Self> {
        let mut start = std::process::Command::new(own_program()?);
        start
            .arg0("turno")
            .arg(exec::VERB)
            .arg(getpid().as_raw_nonzero().to_string())
            .args(command)
            .envs(variables.iter().map(|(name, value)| (name, value)));
        if reach == Reach::Group {
            start.process_group(0);
        }
        if prints == Prints::ToUs {
            start.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let process = tokio::process::Command::from(start)
            .spawn()
            .context("the command could not be started")?;
        let pid = process
            .id()
            .and_then(|pid| Pid::from_raw(pid.try_into().ok()?))
            .context("a started process has an id")?;
        Ok(Child {
            process,
            pid,
            reach,
            is_terminating: false,
        })
    }

    /// Returns the pipes of the output, if there are any.
    pub(super) fn take_output(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        Some((self.process.stdout.take()?, self.process.stderr.take()?))
    }

    /// Whether the command got a signal to end, from us or together with us.
    pub(super) fn is_terminating(&self) -> bool {
        self.is_terminating
    }

    /// Waits for the command and forwards signals to it; `None` if `over` resolves first. After a pause the command continues
    /// only if `may_go_on` returns true.
    pub(super) async fn watch(
        &mut self,
        signals: &mut Signals,
        over: impl Future<Output = ()>,
        may_go_on: impl AsyncFn() -> bool,
    ) -> Result<Option<ExitStatus>> {
        let mut over = std::pin::pin!(over);
        loop {
            tokio::select! {
                // The command first: if it has ended, its result counts.
                biased;
                status = self.wait() => return Ok(Some(status?)),
                () = &mut over => return Ok(None),
                signal = signals.next() => match signal {
                    Signal::TSTP => self.pause(),
                    // If the pause was too long, the command stays stopped, because its lease is gone.
                    Signal::CONT => if may_go_on().await {
                        self.signal(Signal::CONT);
                    },
                    signal => self.forward(signal),
                }
            }
        }
    }

    /// Sends TERM now, and KILL when `gone` resolves.
    pub(super) async fn stop(&mut self, gone: impl Future<Output = ()>) -> Result<()> {
        self.signal(Signal::TERM);
        tokio::select! {
            biased;
            _ = self.wait() => {}
            () = gone => {}
        }
        // Also if the command has ended: other processes of its group may still run.
        self.signal(Signal::KILL);
        self.wait().await?;
        Ok(())
    }

    /// Waits for the end of the command. Cancel-safe, and returns the same result again.
    async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// Forwards a signal that was sent to us.
    fn forward(&mut self, signal: Signal) {
        self.is_terminating = true;
        // The terminal has already sent these to the command.
        if self.reach == Reach::Group || !matches!(signal, Signal::INT | Signal::QUIT) {
            self.signal(signal);
        }
    }

    fn signal(&self, signal: Signal) {
        let sent = match self.reach {
            Reach::Group => kill_process_group(self.pid, signal),
            // After the process has been waited for, its id may belong to another process.
            Reach::Child if self.process.id().is_none() => return,
            Reach::Child => kill_process(self.pid, signal),
        };
        if let Err(error) = sent {
            tracing::debug!(%error, ?signal, "the command has ended already");
        }
    }

    /// Stops the command together with us: it must not run while its lease is not renewed.
    fn pause(&self) {
        self.signal(Signal::STOP);
        // Takes effect a moment later and on any thread, so nothing may rely on having been stopped here.
        if let Err(error) = kill_process(getpid(), Signal::STOP) {
            tracing::debug!(%error, "could not stop");
        }
    }
}

/// Returns the exit code for a status: the command's own, or that of a signal.
pub(super) fn code_of(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, signal) => exit_code(signal.unwrap_or(0)),
    }
}

/// Returns the exit code for a signal that came before any work began.
pub(super) fn stopped_by(signal: Signal) -> ExitCode {
    ExitCode::from(exit_code(signal.as_raw()))
}

/// Returns the path of this program, which is valid even if the file has been replaced since.
fn own_program() -> Result<std::path::PathBuf> {
    if cfg!(target_os = "linux") {
        return Ok("/proc/self/exe".into());
    }
    std::env::current_exe().context("the path of the turno program is not known")
}
