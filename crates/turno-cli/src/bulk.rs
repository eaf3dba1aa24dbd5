//! Many things from a file: read and stored by turns, all or none of each batch.

use anyhow::{Result, anyhow};

use crate::fail::{self, Usage};
use crate::ndjson::Lines;
use crate::output::Output;
use crate::progress;

/// How many things of a file are stored at a time, all or none.
const BATCH: usize = 1000;

/// What a command does, in words.
#[derive(Debug)]
pub(crate) struct Words {
    /// What it stores: `items`.
    pub(crate) things: &'static str,
    /// What it does: `push`.
    pub(crate) push: &'static str,
    /// What it has done: `pushed`.
    pub(crate) pushed: &'static str,
    /// How a file may be stored twice without harm.
    pub(crate) safe: &'static str,
}

/// Reads and stores by turns; `store` answers how many are new. Reading blocks the program's one thread, which has
/// nothing else to do.
pub(crate) async fn store<T>(
    output: Output,
    mut lines: Lines,
    words: &Words,
    read: impl Fn(String) -> Result<T>,
    mut store: impl AsyncFnMut(Vec<T>) -> turno::Result<u64>,
) -> Result<()> {
    let progress = match lines.length() {
        Some(length) => progress::bar(output, length),
        None => progress::spinner(output, ""),
    };
    let mut stored: Option<u64> = None;
    loop {
        let first = lines.number() + 1;
        let batch = batch(&mut lines, &read)
            .map_err(|error| refused(error, &lines, words, stored.unwrap_or(0)))?;
        if batch.is_empty() {
            return Ok(());
        }
        match store(batch).await {
            Ok(new) => stored = Some(stored.unwrap_or(0) + new),
            Err(error) => {
                progress.finish_and_clear();
                if let Some(stored) = stored {
                    interrupted(output, words, stored, first);
                }
                return Err(error.into());
            }
        }
        progress.set_position(lines.bytes());
        progress.set_message(format!("{} {}", stored.unwrap_or(0), words.pushed));
    }
}

/// The next things; fewer or none at the end of the file.
fn batch<T>(lines: &mut Lines, read: impl Fn(String) -> Result<T>) -> Result<Vec<T>> {
    let mut batch = Vec::with_capacity(BATCH);
    while batch.len() < BATCH
        && let Some(line) = lines.next()?
    {
        batch.push(read(line)?);
    }
    Ok(batch)
}

/// Names the line that is wrong, and says what the lines before it have come to.
fn refused(error: anyhow::Error, lines: &Lines, words: &Words, stored: u64) -> anyhow::Error {
    let stored = format!(
        "What was stored before this batch: {stored} {}; of this batch: none",
        words.things
    );
    match usage(error) {
        Ok(Usage { field, detail }) => {
            // Each value is one line: its own first line is the file's.
            let detail = detail.replace(" at line 1 column ", " at column ");
            let detail = format!("line {}: {detail}. {stored}", lines.number());
            Usage::new(field, detail).into()
        }
        Err(error) => anyhow!("{error:#}. {stored}"),
    }
}

/// The error, if something was asked for wrongly; whoever found that out.
fn usage(error: anyhow::Error) -> Result<Usage> {
    let error = match error.downcast::<turno::Error>() {
        Ok(known) if known.is_invalid() => {
            let field = known.field().unwrap_or("file").to_owned();
            return Ok(Usage::new(field, known.to_string()));
        }
        Ok(known) => known.into(),
        Err(error) => error,
    };
    error.downcast()
}

/// The store has not answered for a batch. What was stored before stays.
fn interrupted(output: Output, words: &Words, stored: u64, first: u64) {
    let Words {
        things, push, safe, ..
    } = words;
    fail::warn(
        &format!(
            "{things} that were stored: {stored}; {push} the lines from {first} on again ({safe}, none is stored twice)"
        ),
        output,
    );
}
