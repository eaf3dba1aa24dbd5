//! One server program under its watchdog: start, wait until ready, stop, kill.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::watchdog::{Account, Watchdog};
use crate::eventually::poll;
use crate::{port, proc};

/// Timeout until a server responds. Crash recovery on a busy machine is the slowest case.
const START_TIMEOUT: Duration = Duration::from_secs(180);

/// Timeout until a server has ended, after a stop or a kill.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// Number of ports to try: two test processes may choose the same one.
const PORT_TRIES: usize = 5;

/// Number of log lines that an error shows. RabbitMQ reports the error in one line, followed by a stack trace of seventy.
const LOG_TAIL_LINES: usize = 100;

/// Messages of servers whose port is in use, in lower case; the second is Erlang's.
const PORT_TAKEN: [&str; 2] = ["address already in use", "eaddrinuse"];

#[derive(Debug)]
pub(super) struct Supervised {
    name: &'static str,
    watchdog: Watchdog,
    running: Option<Pid>,
}

impl Supervised {
    pub(super) fn new(
        name: &'static str,
        stop_now: &str,
        account: Option<Account>,
    ) -> Result<Self> {
        let watchdog = Watchdog::start(name, stop_now, account)
            .with_context(|| format!("could not prepare a private {name} server"))?;
        Ok(Self {
            name,
            watchdog,
            running: None,
        })
    }

    pub(super) fn folder(&self) -> &Path {
        self.watchdog.folder()
    }

    pub(super) fn write(&self, file: &str, content: impl AsRef<[u8]>) -> Result<()> {
        self.watchdog.write(file, content).map(drop)
    }

    /// Runs a command that is required before the server starts.
    pub(super) fn prepare(&mut self, command: &[String]) -> Result<()> {
        self.watchdog
            .run(command)
            .map_err(|error| self.with_log(error))
    }

    /// Starts the server on a free port. `configure` gets the port and returns the command; `ready` returns whether the server
    /// responds.
    pub(super) fn start_on_free_port(
        &mut self,
        mut configure: impl FnMut(&Self, u16) -> Result<Vec<String>>,
        ready: impl Fn(&Self, u16) -> bool,
    ) -> Result<(u16, Vec<String>)> {
        for _ in 0..PORT_TRIES {
            let port = port::free().context("there is no free local port")?;
            let command = configure(self, port)?;
            match self.start(&command, |server| ready(server, port)) {
                Ok(()) => return Ok((port, command)),
                Err(Failure::PortTaken) => {}
                Err(Failure::Other(error)) => return Err(error),
            }
        }
        bail!(
            "{PORT_TRIES} ports in a row were taken before {} could bind them",
            self.name
        )
    }

    /// Starts the server again with the same command.
    pub(super) fn start_again(
        &mut self,
        command: &[String],
        ready: impl Fn(&Self) -> bool,
    ) -> Result<()> {
        match self.start(command, ready) {
            Ok(()) => Ok(()),
            Err(Failure::PortTaken) => {
                Err(self.with_log(anyhow!("another process took its port meanwhile")))
            }
            Err(Failure::Other(error)) => Err(error),
        }
    }

    fn start(&mut self, command: &[String], ready: impl Fn(&Self) -> bool) -> Result<(), Failure> {
        let log_before = self.log().len();
        let pid = self.watchdog.launch(command).map_err(Failure::Other)?;
        self.running = Some(pid);
        let started = poll(START_TIMEOUT, || {
            if !proc::is_running(pid) {
                return Some(false);
            }
            ready(self).then_some(true)
        });
        match started {
            Some(true) => Ok(()),
            Some(false) => {
                self.collect().map_err(Failure::Other)?;
                let log = self.log().to_ascii_lowercase();
                let news = log.get(log_before..).unwrap_or(&log);
                if PORT_TAKEN.iter().any(|words| news.contains(words)) {
                    return Err(Failure::PortTaken);
                }
                Err(Failure::Other(
                    self.with_log(anyhow!("it ended instead of starting")),
                ))
            }
            None => Err(Failure::Other(
                self.with_log(anyhow!("it did not answer within {START_TIMEOUT:?}")),
            )),
        }
    }

    pub(super) fn pid(&self) -> Option<Pid> {
        self.running
    }

    /// Returns whether the server was started and has ended by itself; then it can be started again.
    pub(super) fn has_crashed(&mut self) -> Result<bool> {
        match self.running {
            Some(pid) if !proc::is_running(pid) => self.collect().map(|()| true),
            _ => Ok(false),
        }
    }

    /// Requests the server to end and waits until it has. Does nothing if it is not running.
    pub(super) fn stop(&mut self, signal: Signal) -> Result<()> {
        let Some(pid) = self.running else {
            return Ok(());
        };
        send(pid, signal)?;
        self.await_end(&[pid])?;
        self.collect()
    }

    /// Freezes the server and all of its children (SIGSTOP). Does nothing if it is not running.
    pub(super) fn freeze(&mut self) -> Result<()> {
        let Some(pid) = self.running else {
            return Ok(());
        };
        freeze(pid)?;
        for child in proc::children(pid) {
            freeze(child)?;
        }
        Ok(())
    }

    /// Kills the server and all of its children, and waits until they have ended. Does nothing if it is not running.
    pub(super) fn kill_9(&mut self) -> Result<()> {
        let Some(pid) = self.running else {
            return Ok(());
        };
        // Frozen first: if not, it could start another child after the list was read.
        freeze(pid)?;
        let mut family = proc::children(pid);
        family.push(pid);
        for member in &family {
            send(*member, Signal::KILL)?;
        }
        self.await_end(&family)?;
        self.collect()
    }

    fn await_end(&self, pids: &[Pid]) -> Result<()> {
        poll(END_TIMEOUT, || {
            (!pids.iter().any(|pid| proc::is_running(*pid))).then_some(())
        })
        .ok_or_else(|| self.with_log(anyhow!("it did not end within {END_TIMEOUT:?}")))
    }

    fn collect(&mut self) -> Result<()> {
        self.running = None;
        self.watchdog.reap()
    }

    pub(super) fn log(&self) -> String {
        let bytes = fs::read(self.folder().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Adds the name of the server and the end of its log to an error.
    fn with_log(&self, error: anyhow::Error) -> anyhow::Error {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n");
        error.context(format!(
            "the private {} server failed; the end of its log:\n{tail}\n",
            self.name
        ))
    }
}

enum Failure {
    PortTaken,
    Other(anyhow::Error),
}

fn freeze(pid: Pid) -> Result<()> {
    send(pid, Signal::STOP)?;
    poll(END_TIMEOUT, || {
        (proc::is_stopped(pid) || !proc::is_running(pid)).then_some(())
    });
    Ok(())
}

fn send(pid: Pid, signal: Signal) -> Result<()> {
    match kill_process(pid, signal) {
        // Already ended: the signal's purpose is fulfilled.
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("could not signal process {pid:?}")),
    }
}
