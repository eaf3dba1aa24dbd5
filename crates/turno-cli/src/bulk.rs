//! Bulk input from a file, in batches. Each batch is stored all or none.

use anyhow::{Result, anyhow};

use crate::fail::{self, Usage};
use crate::ndjson::Lines;
use crate::output::Output;
use crate::progress;

/// Number of values per batch.
const BATCH: usize = 1000;

/// Words for the messages of a command.
#[derive(Debug)]
pub(crate) struct Words {
    /// The objects: `items`.
    pub(crate) things: &'static str,
    /// The verb: `push`.
    pub(crate) push: &'static str,
    /// The participle: `pushed`.
    pub(crate) pushed: &'static str,
    /// How to store a file twice without duplicates.
    pub(crate) safe: &'static str,
}

/// Reads and stores batches in turn. `store` returns the number of new values. Reading blocks the program's only thread, which
/// has nothing else to do.
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

/// Reads the next batch. It is shorter or empty at the end of the file.
fn batch<T>(lines: &mut Lines, read: impl Fn(String) -> Result<T>) -> Result<Vec<T>> {
    let mut batch = Vec::with_capacity(BATCH);
    while batch.len() < BATCH
        && let Some(line) = lines.next()?
    {
        batch.push(read(line)?);
    }
    Ok(batch)
}

/// Adds to an error the number of the invalid line, and what was stored before.
fn refused(error: anyhow::Error, lines: &Lines, words: &Words, stored: u64) -> anyhow::Error {
    let stored = format!(
        "Stored before this batch: {stored} {}; of this batch: none",
        words.things
    );
    match usage(error) {
        Ok(Usage { field, detail }) => {
            // Each value is parsed on its own, so serde's "line 1" is the line of the file that the message already has.
            let detail = detail.replace(" at line 1 column ", " at column ");
            let detail = format!("line {}: {detail}. {stored}", lines.number());
            Usage::new(field, detail).into()
        }
        Err(error) => anyhow!("{error:#}. {stored}"),
    }
}

/// Returns the usage error, from the library or the command, if the error is one.
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

/// Warns that the store was unavailable during a batch. The batches before it stay stored.
fn interrupted(output: Output, words: &Words, stored: u64, first: u64) {
    let Words {
        things, push, safe, ..
    } = words;
    fail::warn(
        &format!(
            "{things} stored: {stored}; {push} the lines from line {first} again ({safe}, none is stored twice)"
        ),
        output,
    );
}
