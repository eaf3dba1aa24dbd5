//! A load of pgbench, which is paused and resumed: its connections and their plans outlast the turns of other loads.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::queries::query;

/// Folder in which Debian installs the programs of each PostgreSQL version, outside the `PATH`.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Longest duration of a load, in seconds. A signal ends it earlier.
const MAX_SECONDS: u32 = 600;

/// What pgbench runs, and where.
pub struct Load<'a> {
    pub script: &'a str,
    pub url: &'a str,
    pub connections: usize,
    /// Application name of its connections.
    pub name: &'a str,
}

impl Load<'_> {
    /// Starts it with an empty log.
    pub fn start(&self) -> Result<Running> {
        let folder = tempfile::tempdir()?;
        let seconds = MAX_SECONDS.to_string();
        let log = folder.path().join("log").display().to_string();
        let output = File::create(folder.path().join("output"))?;
        let child = self
            .command(folder.path(), 0)?
            .args(["--log", "--log-prefix", &log, "--time", &seconds])
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("could not start pgbench")?;
        Ok(Running { child, folder })
    }

    /// Runs the script this many times on each connection, and waits for its end. Numbers of calls begin after `skipped` of
    /// them. `options` are settings of its sessions.
    pub fn run(&self, calls: usize, skipped: usize, options: &str) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let output = self
            .command(folder.path(), skipped)?
            .args(["--transactions", &calls.to_string()])
            .env("PGOPTIONS", options)
            .output()
            .context("could not start pgbench")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "pgbench failed: {errors}");
        Ok(())
    }

    fn command(&self, folder: &Path, skipped: usize) -> Result<Command> {
        let script = folder.join("script");
        fs::write(
            &script,
            format!("{}\n{}\n", query("calls_next"), self.script),
        )?;
        let connections = self.connections.to_string();
        let threads = self.connections.min(2).to_string();
        let mut command = Command::new(program()?);
        command
            .args(["--no-vacuum", "--protocol", "prepared"])
            .args(["--client", &connections, "--jobs", &threads])
            .args(["--define", &format!("i={skipped}")])
            .args(["--define", &format!("connections={connections}")])
            .arg("--file")
            .arg(script)
            .arg(self.url)
            .env("PGAPPNAME", self.name)
            .stdin(Stdio::null());
        Ok(command)
    }
}

/// A load that was started. Dropping it kills it.
pub struct Running {
    child: Child,
    folder: TempDir,
}

impl Running {
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Ends it, and returns the times at which its calls ended, in seconds since 1970.
    pub fn end(mut self) -> Result<Vec<f64>> {
        self.resume()?;
        // pgbench ends a timed run with this signal, as if its time was over.
        self.signal(Signal::ALARM)?;
        let status = self.child.wait()?;
        let output = fs::read_to_string(self.folder.path().join("output"))?;
        let mut times = Vec::new();
        for entry in fs::read_dir(self.folder.path())? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("log.") {
                for line in fs::read_to_string(entry.path())?.lines() {
                    times.push(ended_at(line).with_context(|| format!("not a log line: {line}"))?);
                }
            }
        }
        let errors: Vec<&str> = output.lines().filter(|l| l.contains("error:")).collect();
        ensure!(
            status.success() && errors.is_empty(),
            "pgbench ended with {status} after {} calls: {}",
            times.len(),
            errors.join(", ")
        );
        Ok(times)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?).context("pgbench has a pid")?;
        kill_process(pid, signal).context("pgbench has ended early")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended, and there is nothing to do about a failure.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the end of a call from pgbench's log: `client transaction latency script seconds microseconds`.
fn ended_at(line: &str) -> Option<f64> {
    let mut fields = line.split(' ').skip(4);
    let seconds: f64 = fields.next()?.parse().ok()?;
    let microseconds: f64 = fields.next()?.parse().ok()?;
    Some(seconds + microseconds / 1e6)
}

/// Returns the time in seconds since 1970, as in pgbench's log.
#[allow(clippy::disallowed_methods, reason = "pgbench's log has this clock")]
pub fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// Returns pgbench of the newest installed version, or the one in the `PATH`.
fn program() -> Result<PathBuf> {
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|version| {
            let number: u32 = version.file_name().to_str()?.parse().ok()?;
            Some((number, version.path().join("bin/pgbench")))
        })
        .filter(|(_, program)| program.is_file())
        .max();
    Ok(newest.map_or_else(|| PathBuf::from("pgbench"), |(_, program)| program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_log_of_pgbench() {
        assert_eq!(
            ended_at("0 199 2241 0 1175850568 995598"),
            Some(1_175_850_568.995_598)
        );
        assert_eq!(ended_at("0 199 2241 0 1175850568"), None);
    }
}
