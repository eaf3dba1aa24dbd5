//! One server program under its watchdog: started, awaited, stopped, killed.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::watchdog::{Account, Watchdog};
use crate::eventually::poll;
use crate::{port, proc};

/// How long a server may take until it answers. Crash recovery on a busy machine is the slowest case.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a server may take to end, asked or killed.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// How many ports to try: two test processes may draw the same one.
const PORT_TRIES: usize = 5;

/// How much of the log an error shows. RabbitMQ says what is wrong in one line, and then where in seventy.
const LOG_TAIL_LINES: usize = 100;

/// What servers say, in some case, when somebody else has their port; the second is Erlang's word.
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

    pub(super) fn write(&self, file: &str, content: &str) -> Result<()> {
        self.watchdog.write(file, content).map(drop)
    }

    /// Runs a command that has to be done before the server starts.
    pub(super) fn prepare(&mut self, command: &[String]) -> Result<()> {
        self.watchdog
            .run(command)
            .map_err(|error| self.with_log(error))
    }

    /// Starts the server on a free port: `configure` is told the port and answers the command, `ready` says whether it answers.
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

    /// Starts the server again with the command that it had.
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

    /// Asks the server to end and waits until it has. Does nothing if it is not running.
    pub(super) fn stop(&mut self, signal: Signal) -> Result<()> {
        let Some(pid) = self.running else {
            return Ok(());
        };
        send(pid, signal)?;
        self.await_end(&[pid])?;
        self.collect()
    }

    /// Stops the server and all of its children where they are (SIGSTOP). Does nothing if it is not running.
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

    /// Kills the server and all of its children, and waits until they are gone. Does nothing if it is not running.
    pub(super) fn kill_9(&mut self) -> Result<()> {
        let Some(pid) = self.running else {
            return Ok(());
        };
        // Frozen first: else it could start another child after they were counted.
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

    /// The error as a person needs it: which server it was, and the end of what it logged.
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
        // Gone already: what the signal was for has happened.
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("could not signal process {pid:?}")),
    }
}
