//! `wrk` and its results.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

/// A load: a script and its number of connections.
pub struct Load<'a> {
    pub name: &'static str,
    pub script: &'static str,
    pub port: u16,
    pub connections: usize,
    pub seconds: f64,
    pub arguments: &'a [String],
}

impl Load<'_> {
    /// Returns the rate per second that the script counted.
    pub async fn rate(&self) -> Result<f64> {
        let folder = tempfile::tempdir()?;
        let script = folder.path().join(format!("{}.lua", self.name));
        std::fs::write(&script, self.script)?;
        let mut command = Command::new("wrk");
        command
            .arg("--threads=2")
            .arg(format!("--connections={}", self.connections))
            .arg(format!("--duration={}s", self.seconds.ceil() as u64))
            .arg("--timeout=30s")
            .arg(format!("--script={}", script.display()))
            .arg(format!("http://127.0.0.1:{}", self.port))
            .arg("--")
            .args(self.arguments)
            .stdin(Stdio::null());
        let output = command
            .output()
            .await
            .context("wrk is not there: install Debian's package wrk")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let result = text
            .lines()
            .find_map(|line| line.strip_prefix("RESULT "))
            .with_context(|| {
                let errors = String::from_utf8_lossy(&output.stderr);
                format!("wrk has counted nothing: {text}{errors}")
            })?;
        let numbers: Vec<f64> = result
            .split(' ')
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let [done, microseconds, refused] = numbers[..] else {
            anyhow::bail!("wrk has counted something else: {result}");
        };
        ensure!(
            refused == 0.0,
            "{}: {refused} requests were refused",
            self.name
        );
        Ok(done / (microseconds / 1e6))
    }
}
