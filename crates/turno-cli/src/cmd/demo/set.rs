//! What all processes of one run share.

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::scenario::Scenario;

/// How the work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// As if nobody else were there.
    Plain,
    /// Marked as done before it is done, by a conditional update: one wins.
    MarkedFirst,
    /// With Turno.
    Turno,
}

impl How {
    /// The word by which the processes are told.
    pub(super) fn word(self) -> &'static str {
        match self {
            How::Plain => "plain",
            How::MarkedFirst => "marked-first",
            How::Turno => "turno",
        }
    }

    pub(super) fn from_word(word: &str) -> Result<Self> {
        let all = [How::Plain, How::MarkedFirst, How::Turno];
        match all.into_iter().find(|how| how.word() == word) {
            Some(how) => Ok(how),
            None => bail!("there is no way {word:?}"),
        }
    }
}

/// One run of a scenario: what is done, how, and where.
#[derive(Debug, Clone)]
pub(super) struct Set {
    pub(super) scenario: Scenario,
    pub(super) how: How,
    /// A folder of its own, which stands for whatever the processes share beside the store.
    pub(super) folder: PathBuf,
    /// Nobody else's, ever.
    pub(super) run: String,
    /// Only with Turno.
    pub(super) store: Option<String>,
    pub(super) broker: Option<String>,
}

impl Set {
    /// A name on the store that is nobody else's.
    pub(super) fn name(&self, what: &str) -> String {
        format!("turno-demo/{}/{what}", self.run)
    }
}

/// Some processes that do the same, and those of them that are killed with -9.
#[derive(Debug, Clone)]
pub(super) struct Cast {
    pub(super) role: Role,
    pub(super) processes: usize,
    /// Which process, and at which of its meetings.
    pub(super) kills: Vec<(usize, u32)>,
}

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The scenario's work.
    Work,
    /// Publishes what others have emitted.
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
