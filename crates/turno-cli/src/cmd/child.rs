//! A command that runs on somebody's behalf, under `turno run` or `turno once`, and whom its signals reach.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ExitCode, ExitStatus, Stdio};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};
use tokio::process::{ChildStderr, ChildStdout};

use crate::cmd::exec;
use crate::signals::{ENDING, Signals, exit_code};

/// Whom a signal reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The command alone: it shares our terminal, and so our process group.
    Child,
    /// The command and all that it started, in a process group of their own.
    Group,
}

impl Reach {
    /// As the standard input says, which the command inherits.
    pub(super) fn here() -> Self {
        if io::stdin().is_terminal() {
            Reach::Child
        } else {
            Reach::Group
        }
    }

    /// The signals to listen for. Ctrl-C, Ctrl-\ and Ctrl-Z reach a command on the terminal by
    /// themselves, and twice would be once too often; they only must not end us before it.
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

/// Where the command prints to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prints {
    /// Where we do.
    AsWe,
    /// Into pipes, which we read.
    ToUs,
}

/// What the command finds in its environment, beside what we have found in ours.
pub(super) type Variables<'a> = &'a [(&'a str, String)];

/// The command, started.
#[derive(Debug)]
pub(super) struct Child {
    process: tokio::process::Child,
    pid: Pid,
    reach: Reach,
    is_told_to_end: bool,
}

impl Child {
    /// Starts the command, by way of [`exec`]. Must be called from the main thread: when the thread
    /// that started it ends, the kernel kills the command.
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
            is_told_to_end: false,
        })
    }

    /// What it prints, if that is for us.
    pub(super) fn take_output(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        Some((self.process.stdout.take()?, self.process.stderr.take()?))
    }

    /// Whether a signal that ends commands has reached it through us, or together with us.
    pub(super) fn is_told_to_end(&self) -> bool {
        self.is_told_to_end
    }

    /// Waits for the command, and hands signals on to it; `None` if `over` came first. After a pause it only goes on if
    /// it may.
    pub(super) async fn watch(
        &mut self,
        signals: &mut Signals,
        over: impl Future<Output = ()>,
        may_go_on: impl AsyncFn() -> bool,
    ) -> Result<Option<ExitStatus>> {
        let mut over = std::pin::pin!(over);
        loop {
            tokio::select! {
                // The command first: what is finished is finished.
                biased;
                status = self.wait() => return Ok(Some(status?)),
                () = &mut over => return Ok(None),
                signal = signals.next() => match signal {
                    Signal::TSTP => self.pause(),
                    // Where the pause was too long, it is not woken up to work for nobody.
                    Signal::CONT => if may_go_on().await {
                        self.signal(Signal::CONT);
                    },
                    signal => self.forward(signal),
                }
            }
        }
    }

    /// TERM now, KILL when `gone` comes.
    pub(super) async fn stop(&mut self, gone: impl Future<Output = ()>) -> Result<()> {
        self.signal(Signal::TERM);
        tokio::select! {
            biased;
            _ = self.wait() => {}
            () = gone => {}
        }
        // Also when the command has ended: others of its group may not have.
        self.signal(Signal::KILL);
        self.wait().await?;
        Ok(())
    }

    /// Waits for its end. Cancel-safe, and answers the same again.
    async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// Hands on a signal that was sent to us.
    fn forward(&mut self, signal: Signal) {
        self.is_told_to_end = true;
        // The terminal has sent these to the command already.
        if self.reach == Reach::Group || !matches!(signal, Signal::INT | Signal::QUIT) {
            self.signal(signal);
        }
    }

    fn signal(&self, signal: Signal) {
        let sent = match self.reach {
            Reach::Group => kill_process_group(self.pid, signal),
            // Once it has been waited for, its id may be somebody else's.
            Reach::Child if self.process.id().is_none() => return,
            Reach::Child => kill_process(self.pid, signal),
        };
        if let Err(error) = sent {
            tracing::debug!(%error, ?signal, "the command has ended already");
        }
    }

    /// Stops together with us: it must not run on while nobody keeps its lease.
    fn pause(&self) {
        self.signal(Signal::STOP);
        // Takes hold in a moment, on whichever thread: nothing may rely on having been stopped here.
        if let Err(error) = kill_process(getpid(), Signal::STOP) {
            tracing::debug!(%error, "could not stop");
        }
    }
}

/// The exit code that says the same: the command's own, or that of a signal.
pub(super) fn code_of(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, signal) => exit_code(signal.unwrap_or(0)),
    }
}

/// What a signal says when nothing was begun yet.
pub(super) fn stopped_by(signal: Signal) -> ExitCode {
    ExitCode::from(exit_code(signal.as_raw()))
}

/// This very program, even if its file has been replaced since.
fn own_program() -> Result<std::path::PathBuf> {
    if cfg!(target_os = "linux") {
        return Ok("/proc/self/exe".into());
    }
    std::env::current_exe().context("the path of turno itself is not known")
}
