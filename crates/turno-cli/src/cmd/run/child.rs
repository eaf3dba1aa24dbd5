//! The command that runs under the lock, and whom its signals reach.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::ExitStatus;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};
use turno::lock::Lease;

use crate::cmd::exec;

/// Whom a signal reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The command alone: it shares our terminal, and so our process group.
    Child,
    /// The command and all that it started, in a process group of their own.
    Group,
}

/// The command, started.
#[derive(Debug)]
pub(super) struct Child {
    process: tokio::process::Child,
    pid: Pid,
    reach: Reach,
}

impl Child {
    /// Starts the command, by way of [`exec`]. Must be called from the main thread: when the thread
    /// that started it ends, the kernel kills the command.
    pub(super) fn start(command: &[OsString], lease: &Lease, reach: Reach) -> Result<Self> {
        let mut start = std::process::Command::new(own_program()?);
        start
            .arg0("turno")
            .arg(exec::VERB)
            .arg(getpid().as_raw_nonzero().to_string())
            .args(command)
            .env("TURNO_RESOURCE", lease.resource())
            .env("TURNO_TOKEN", lease.token().to_string())
            .env("TURNO_LEASE", lease.id().to_string())
            .env("TURNO_OWNER", lease.owner());
        if reach == Reach::Group {
            start.process_group(0);
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
        })
    }

    /// Waits for its end. Cancel-safe, and answers the same again.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// Hands on a signal that was sent to us.
    pub(super) fn forward(&self, signal: Signal) {
        // The terminal has sent these to the command already.
        if self.reach == Reach::Group || !matches!(signal, Signal::INT | Signal::QUIT) {
            self.signal(signal);
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
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

    /// Stops together with us: it must not run on while nobody renews its lease.
    pub(super) fn pause(&self) {
        self.signal(Signal::STOP);
        // Takes hold in a moment, on whichever thread: nothing may rely on having been stopped here.
        if let Err(error) = kill_process(getpid(), Signal::STOP) {
            tracing::debug!(%error, "could not stop");
        }
    }

    /// Goes on together with us. If the pause was too long, it is not woken up to work without a lease.
    pub(super) fn go_on(&self, lease: &Lease) {
        if !lease.remaining().is_zero() {
            self.signal(Signal::CONT);
        }
    }
}

/// This very program, even if its file has been replaced since.
fn own_program() -> Result<std::path::PathBuf> {
    if cfg!(target_os = "linux") {
        return Ok("/proc/self/exe".into());
    }
    std::env::current_exe().context("the path of turno itself is not known")
}
