//! A number in a plain file, of fixed width: a reader never meets a half-written one.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

pub(crate) fn read(file: &Path) -> Result<u32> {
    let text = std::fs::read_to_string(file).context("the counter cannot be read")?;
    text.trim().parse().context("the counter is no number")
}

pub(crate) fn write(file: &Path, value: u32) -> Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(file)?;
    write!(file, "{}", format_args!("{value:010}\n"))?;
    Ok(())
}
