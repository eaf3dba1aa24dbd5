//! The processes of the load: started, and started again when a fault has ended them.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use turno_testkit::{Process, set_clock};

use crate::load::{Role, outbox};

/// How long a process may take to start or to end, on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// One process, and its successors.
pub struct Slot {
    pub role: Role,
    number: usize,
    /// How often it was started.
    starts: u64,
    process: Process,
    parameters: Parameters,
}

/// Parameters of all processes.
#[derive(Debug, Clone)]
pub struct Parameters {
    pub url: String,
    pub broker: String,
    pub server: String,
    pub history: PathBuf,
    pub seed: u64,
    /// Longest pause between two operations of a task.
    pub max_pause: Duration,
    /// Whether the relays have the bug of marking events too early.
    pub marks_early: bool,
}

impl Slot {
    /// Starts a process.
    pub fn start(role: Role, number: usize, parameters: &Parameters) -> Result<Self> {
        Ok(Slot {
            role,
            number,
            starts: 1,
            process: spawn(role, number, 1, parameters, None)?,
            parameters: parameters.clone(),
        })
    }

    /// Name of the process that runs now.
    pub fn name(&self) -> String {
        name(self.role, self.number, self.starts)
    }

    /// Freezes the process.
    pub fn stop(&self) {
        self.process.stop();
    }

    /// Continues it.
    pub fn cont(&self) {
        self.process.cont();
    }

    /// Kills the process, and starts another one, with a shifted clock if there is an offset such as `+1h`.
    pub fn replace(&mut self, clock: Option<&str>) -> Result<()> {
        self.process.kill_9();
        let ended = self.process.wait_timeout(LONG);
        ended.with_context(|| format!("{} does not end", self.name()))?;
        self.starts += 1;
        self.process = spawn(self.role, self.number, self.starts, &self.parameters, clock)?;
        Ok(())
    }

    /// Asks the process to end.
    pub fn term(&self) {
        self.process.term();
    }

    /// Waits until it has ended gracefully.
    pub fn ended(&self) -> Result<()> {
        let status = self.process.wait_timeout(LONG);
        let status = status.with_context(|| format!("{} does not end", self.name()))?;
        anyhow::ensure!(status.success(), "{} ended with {status}", self.name());
        Ok(())
    }
}

fn name(role: Role, number: usize, starts: u64) -> String {
    format!("{}-{number}.{starts}", role.name())
}

fn spawn(
    role: Role,
    number: usize,
    starts: u64,
    parameters: &Parameters,
    clock: Option<&str>,
) -> Result<Process> {
    let mut command = Command::new(std::env::current_exe()?);
    let name = name(role, number, starts);
    // Each process has its own numbers, which follow from the seed of the campaign.
    let own = ((number as u64) << 32) | (starts << 8) | role as u64;
    let seed = parameters.seed.wrapping_mul(1_000_003) ^ own;
    command
        .args(["load", role.name(), &parameters.url, &parameters.broker])
        .arg(&parameters.server)
        .arg(&parameters.history)
        .args([
            &name,
            &seed.to_string(),
            &parameters.max_pause.as_millis().to_string(),
        ])
        .stdin(Stdio::piped());
    if parameters.marks_early {
        command.env(outbox::MARKS_EARLY, "1");
    }
    if let Some(offset) = clock {
        set_clock(&mut command, offset);
    }
    let process = Process::spawn(&mut command)?;
    process.lines().expect_line("ready", LONG);
    Ok(process)
}
