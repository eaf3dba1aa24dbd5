//! A process of its own for each instance, seen from outside.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::how::How;

/// What an instance says when it is about to work.
pub const READY: &str = "ready";
/// What it says after each run of its scheduler.
pub const RAN: &str = "ran";
/// Where it is told the store: not in an argument, which everybody can see, and which may hold a password.
pub const STORE: &str = "PRESENTATIONS_STORE";

/// The pause between two runs of its scheduler.
const EVERY: Duration = Duration::from_millis(20);
/// Longer than anything takes that ends at all.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// How instances are started.
#[derive(Debug, Clone)]
pub struct Setup {
    /// This program.
    pub program: PathBuf,
    /// The store, and the application's database.
    pub store: String,
    /// How many instances.
    pub instances: u32,
    /// How many presentations they are given.
    pub presentations: u32,
}

/// One running instance. It is killed when dropped.
#[derive(Debug)]
pub struct Instance {
    /// Which one, from 0.
    pub number: u32,
    child: Child,
    /// It ends when this does, so that none outlives whoever started it.
    stdin: Option<ChildStdin>,
    runs: watch::Receiver<u64>,
}

/// What a database server shows as the name of an instance.
pub fn application_name(number: u32) -> String {
    format!("presentations instance {number}")
}

impl Instance {
    /// Starts one, and goes on when it is about to work. The lease is how long Turno waits for it, should it die.
    ///
    /// # Errors
    /// If it ends before that; it has said why on standard error.
    pub async fn start(
        setup: &Setup,
        how: How,
        number: u32,
        service: &str,
        lease: Duration,
    ) -> Result<Self> {
        let how = how.to_possible_value().context("every way has a name")?;
        let mut command = Command::new(&setup.program);
        if std::env::var_os("RUST_LOG").is_none() {
            // The errors that are to be seen here are counted.
            command.env("RUST_LOG", "off");
        }
        let mut child = command
            .arg("instance")
            .args(["--how", how.get_name(), "--service", service])
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

    /// Waits until its scheduler has run so many times more.
    ///
    /// # Errors
    /// If it does not.
    pub async fn more_runs(&self, many: u64) -> Result<()> {
        let mut runs = self.runs.clone();
        let enough = *runs.borrow() + many;
        timeout(LONG, runs.wait_for(|runs| *runs >= enough))
            .await
            .with_context(|| format!("instance {} does not run", self.number))??;
        Ok(())
    }

    /// `kill -9`, and goes on when it is gone.
    ///
    /// # Errors
    /// If it cannot be killed.
    pub async fn kill_9(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Asks it to end, and goes on when it has.
    ///
    /// # Errors
    /// If it does not.
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
