//! A file to which many processes append lines. Each line is one write, so lines are never mixed.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};

pub(super) fn append(file: &Path, line: &str) -> Result<()> {
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)
        .context("a file of the demonstration cannot be opened")?;
    file.write_all(format!("{line}\n").as_bytes())
        .context("a file of the demonstration cannot be written")
}

/// Returns all lines; none if the file does not exist.
pub(super) fn lines(file: &Path) -> Result<Vec<String>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).context("a file of the demonstration cannot be read"),
    }
}

/// Returns the number of lines, and the number of distinct first words.
pub(super) fn tally(file: &Path) -> Result<(u32, u32)> {
    let lines = lines(file)?;
    let first = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
    let different: BTreeSet<String> = lines.iter().map(first).collect();
    Ok((number(lines.len()), number(different.len())))
}

pub(super) fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
