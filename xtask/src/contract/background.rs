//! A process that runs beside.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result};

/// A process that says on its standard output when it is ready. It is killed when this is dropped.
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

    /// What the first line says that says something.
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
        // It may have ended by itself, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
