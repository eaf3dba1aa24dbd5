//! A file to which many processes append lines, each in one write: no two of them mix.

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

/// All lines; none if nobody has written any.
pub(super) fn lines(file: &Path) -> Result<Vec<String>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).context("a file of the demonstration cannot be read"),
    }
}

/// How many lines there are, and how many different first words they have.
pub(super) fn tally(file: &Path) -> Result<(u32, u32)> {
    let lines = lines(file)?;
    let first = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
    let different: BTreeSet<String> = lines.iter().map(first).collect();
    Ok((number(lines.len()), number(different.len())))
}

pub(super) fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
