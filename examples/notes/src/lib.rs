//! Adopting an existing table: notes that are transcribed and analysed once (seed 002).
//!
//! - [`application`]: the tables as they were, and the one step that adopts them;
//! - [`note`]: a note, and the two steps that it goes through;
//! - [`service`]: transcription and analysis, which cost money each time they are asked;
//! - [`before`]: the processing as it was, without locks;
//! - [`processing`]: the same with locks.
#![forbid(unsafe_code)]

pub mod application;
pub mod before;
pub mod note;
pub mod processing;
pub mod service;

use std::fmt;

/// What became of one note in one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is transcribed, analysed and marked as processed.
    Processed,
    /// Somebody else has it, or has completed it.
    Busy,
    /// It took longer than the timeout, and somebody else has it now. Nothing was written.
    Overtaken,
    /// A step failed; this is why.
    Failed(String),
}

/// What became of the notes of one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// How many abandoned locks were found before it began, and marked as failed.
    pub cleaned: u64,
    /// The notes that it took, by id.
    pub notes: Vec<(String, Outcome)>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Processed => f.write_str("processed"),
            Outcome::Busy => f.write_str("Note is currently being processed"),
            Outcome::Overtaken => f.write_str("overtaken by another process"),
            Outcome::Failed(error) => write!(f, "failed: {error}"),
        }
    }
}
