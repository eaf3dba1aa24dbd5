//! Adopting an existing table: notes that are transcribed and analysed once.
//!
//! - [`application`]: the original tables, and the one step that adopts them;
//! - [`note`]: a note and its two processing steps;
//! - [`service`]: transcription and analysis, each call of which costs money;
//! - [`before`]: the original processing, without locks;
//! - [`processing`]: the same with locks.
#![forbid(unsafe_code)]

pub mod application;
pub mod before;
pub mod note;
pub mod processing;
pub mod service;

use std::fmt;

/// Outcome of one note in one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The note is transcribed, analysed and marked as processed.
    Processed,
    /// Another process has locked or completed it.
    Busy,
    /// Processing took longer than the timeout, and another process has taken over the lock. Nothing was written.
    Overtaken,
    /// A step failed, with this reason.
    Failed(String),
}

/// Outcome of one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Number of abandoned locks that were found before the batch and marked as failed.
    pub cleaned: u64,
    /// The notes of the batch, by id.
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
