//! One process per instance, as its parent sees it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::strategy::{Fleet, Strategy};

/// Line that an instance prints when it is ready.
pub const READY: &str = "ready";
/// Line that it prints after each run of its scheduler.
pub const RAN: &str = "ran";
/// Environment variable with the store. It is not an argument, because arguments are visible to all users, and a URL may
/// contain a password.
pub const STORE: &str = "PRESENTATIONS_STORE";

/// Pause between two runs of the scheduler.
const EVERY: Duration = Duration::from_millis(20);
/// Timeout, longer than any operation takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Options for starting instances.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Path of this program.
    pub program: PathBuf,
    /// The store, which is also the application's database.
    pub store: String,
    /// Number of instances.
    pub instances: u32,
    /// Number of presentations.
    pub presentations: u32,
    /// Instances that Turno's workers have to expect.
    pub fleet: Fleet,
}

/// One running instance. It is killed on drop.
#[derive(Debug)]
pub struct Instance {
    /// Number of the instance, from 0.
    pub number: u32,
    child: Child,
    /// The instance exits when this is closed, so that none outlives its parent process.
    stdin: Option<ChildStdin>,
    runs: watch::Receiver<u64>,
}

/// Returns the application name of an instance, as the database server shows it.
pub fn application_name(number: u32) -> String {
    format!("presentations instance {number}")
}

impl Instance {
    /// Starts an instance and waits until it is ready. The lease is how long Turno waits for it if it dies.
    ///
    /// # Errors
    /// Returns an error if the instance exits before it is ready; the reason is on its standard error.
    pub async fn start(
        setup: &Setup,
        how: Strategy,
        number: u32,
        service: &str,
        lease: Duration,
    ) -> Result<Self> {
        let how = how.to_possible_value().context("every way has a name")?;
        let fleet = setup.fleet.to_possible_value();
        let fleet = fleet.context("every fleet has a name")?;
        let mut command = Command::new(&setup.program);
        if std::env::var_os("RUST_LOG").is_none() {
            // Errors are expected here, and counted; they need not be logged.
            command.env("RUST_LOG", "off");
        }
        let mut child = command
            .arg("instance")
            .args(["--how", how.get_name(), "--service", service])
            .args(["--fleet", fleet.get_name()])
            .args(["--instance-partition", &number.to_string()])
            .args(["--total-instances", &setup.instances.to_string()])
            .args(["--every-ms", &EVERY.as_millis().to_string()])
            .args(["--lease-ms", &lease.as_millis().to_string()])
            .env(STORE, &setup.store)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("an instance could not be started")?;
        let stdout = child.stdout.take().context("its output is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let first = timeout(LONG, lines.next_line()).await??;
        ensure!(
            first.as_deref() == Some(READY),
            "instance {number} ended before it was ready: its message is above"
        );
        let (counter, runs) = watch::channel(0);
        // Ends with the instance's output.
        tokio::spawn(count(lines, counter));
        Ok(Instance {
            number,
            stdin: child.stdin.take(),
            child,
            runs,
        })
    }

    /// Waits until its scheduler has run `many` more times.
    ///
    /// # Errors
    /// Returns an error after a timeout.
    pub async fn more_runs(&self, many: u64) -> Result<()> {
        let mut runs = self.runs.clone();
        let enough = *runs.borrow() + many;
        timeout(LONG, runs.wait_for(|runs| *runs >= enough))
            .await
            .with_context(|| format!("instance {} does not run", self.number))??;
        Ok(())
    }

    /// Kills the instance with `kill -9` and waits until it has ended.
    ///
    /// # Errors
    /// Returns an error if it cannot be killed.
    pub async fn kill_9(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Requests the instance to exit and waits until it has.
    ///
    /// # Errors
    /// Returns an error if it does not exit.
    pub async fn stop(mut self) -> Result<()> {
        drop(self.stdin.take());
        timeout(LONG, self.child.wait())
            .await
            .with_context(|| format!("instance {} does not end", self.number))??;
        Ok(())
    }
}

async fn count(mut lines: Lines<BufReader<ChildStdout>>, counter: watch::Sender<u64>) {
    while let Ok(Some(line)) = lines.next_line().await {
        if line == RAN {
            counter.send_modify(|runs| *runs += 1);
        }
    }
}
