//! A background process.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result};

/// A process that prints on standard output when it is ready. It is killed on drop.
pub struct Background {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Background {
    pub fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| {
                format!("could not start {command:?}: `cargo xtask test` builds it first")
            })?;
        let output = child.stdout.take().context("its output is piped")?;
        Ok(Background {
            child,
            output: BufReader::new(output),
        })
    }

    /// Reads lines until `says` returns a value.
    pub fn line<T>(&mut self, says: impl Fn(&str) -> Option<T>) -> Result<T> {
        (&mut self.output)
            .lines()
            .map_while(Result::ok)
            .find_map(|line| says(&line))
            .context("a process ended before it was ready: look at what it wrote")
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // The process may have ended by itself, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
