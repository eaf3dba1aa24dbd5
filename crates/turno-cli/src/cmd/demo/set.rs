//! What all processes of a run share.

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::scenario::Scenario;

/// Variant of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variant {
    /// Without any coordination.
    Plain,
    /// Marked as done before the work, by a conditional update that only one process wins.
    MarkedFirst,
    /// With Turno.
    Turno,
}

impl Variant {
    /// Returns the argument for the processes.
    pub(super) fn word(self) -> &'static str {
        match self {
            Variant::Plain => "plain",
            Variant::MarkedFirst => "marked-first",
            Variant::Turno => "turno",
        }
    }

    pub(super) fn from_word(word: &str) -> Result<Self> {
        let all = [Variant::Plain, Variant::MarkedFirst, Variant::Turno];
        match all.into_iter().find(|how| how.word() == word) {
            Some(how) => Ok(how),
            None => bail!("there is no variant {word:?}"),
        }
    }
}

/// One run of a scenario.
#[derive(Debug, Clone)]
pub(super) struct Set {
    pub(super) scenario: Scenario,
    pub(super) how: Variant,
    /// The run's own folder, which stands for what the processes share besides the store.
    pub(super) folder: PathBuf,
    /// Unique id of the run.
    pub(super) run: String,
    /// Only with Turno.
    pub(super) store: Option<String>,
    pub(super) broker: Option<String>,
}

impl Set {
    /// Returns a name in the store that is unique to this run.
    pub(super) fn name(&self, what: &str) -> String {
        format!("turno-demo/{}/{what}", self.run)
    }
}

/// A group of processes with the same role, and those of them that are killed with -9.
#[derive(Debug, Clone)]
pub(super) struct Cast {
    pub(super) role: Role,
    pub(super) processes: usize,
    /// Which process, and at which of its meetings.
    pub(super) kills: Vec<(usize, u32)>,
}

/// Role of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The scenario's work.
    Work,
    /// Publishes the events of the others.
    Relay,
}

impl Role {
    pub(super) fn word(self) -> &'static str {
        match self {
            Role::Work => "work",
            Role::Relay => "relay",
        }
    }

    pub(super) fn from_word(word: &str) -> Result<Self> {
        let all = [Role::Work, Role::Relay];
        match all.into_iter().find(|role| role.word() == word) {
            Some(role) => Ok(role),
            None => bail!("there is no role {word:?}"),
        }
    }
}
