//! What happens to events that no queue is bound for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// What happens to an event that no queue is bound for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Unroutable {
    /// It is refused: retried with backoff, and finally dead.
    #[default]
    Dead,
    /// It is kept until a queue is bound: no attempt is counted, and only events of the same type wait.
    Keep,
    /// It is dropped, and counts as dispatched.
    Drop,
}

impl Unroutable {
    /// Returns the choice as text: `dead`, `keep` or `drop`.
    pub fn as_str(self) -> &'static str {
        match self {
            Unroutable::Dead => "dead",
            Unroutable::Keep => "keep",
            Unroutable::Drop => "drop",
        }
    }
}

impl fmt::Display for Unroutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Unroutable {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        [Unroutable::Dead, Unroutable::Keep, Unroutable::Drop]
            .into_iter()
            .find(|choice| choice.as_str() == word)
            .ok_or_else(|| Error::invalid("unroutable", "unroutable must be dead, keep or drop"))
    }
}
