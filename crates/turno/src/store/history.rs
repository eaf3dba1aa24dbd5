//! The audit trail: what became of locks, and what people did by hand to everything else.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Attribution, DEFAULT_PAGE, Token, unexpected};
use crate::error::{Error, Result};

/// What an entry of the history is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A lock: its resource is named.
    #[default]
    Lock,
    /// A queue of the inbox: that is named.
    Inbox,
    /// The outbox, which has no name: the entry's resource is empty.
    Outbox,
    /// A once key: that is named.
    Once,
    /// A setting of the database: that is named.
    Setting,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 5] = [
        Part::Lock,
        Part::Inbox,
        Part::Outbox,
        Part::Once,
        Part::Setting,
    ];

    /// The word that stores and faces use.
    pub fn as_str(self) -> &'static str {
        match self {
            Part::Lock => "lock",
            Part::Inbox => "inbox",
            Part::Outbox => "outbox",
            Part::Once => "once",
            Part::Setting => "setting",
        }
    }

    pub(crate) fn parse(word: &str) -> Result<Self> {
        word.parse().map_err(|_| unexpected("history part", word))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Part {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        Part::ALL
            .into_iter()
            .find(|part| part.as_str() == word)
            .ok_or_else(|| {
                Error::invalid("part", "part must be lock, inbox, outbox, once or setting")
            })
    }
}

/// Parameters of [`Store::history`](super::Store::history); a page of everything, unless said otherwise.
#[derive(Debug, Clone)]
pub struct History {
    /// Of locks, of the inbox, of the outbox, of once or of settings; of all, if not said.
    pub part: Option<Part>,
    /// One resource, queue or key, or all.
    pub resource: Option<String>,
    /// The beginning of the names, when none is named. The outbox has no name, and is left out by any.
    pub prefix: String,
    /// The last id of the page before.
    pub before: Option<i64>,
    /// The size of the page.
    pub limit: u32,
}

impl Default for History {
    fn default() -> Self {
        History {
            part: None,
            resource: None,
            prefix: String::new(),
            before: None,
            limit: DEFAULT_PAGE,
        }
    }
}

/// Parameters of [`Store::lock_history`](super::Store::lock_history); a page of all locks, unless said otherwise.
#[derive(Debug, Clone)]
pub struct LockHistory {
    /// One resource, or all.
    pub resource: Option<String>,
    /// The beginning of the names, when no resource is named.
    pub prefix: String,
    /// The last id of the page before.
    pub before: Option<i64>,
    /// The size of the page.
    pub limit: u32,
}

impl Default for LockHistory {
    fn default() -> Self {
        LockHistory {
            resource: None,
            prefix: String::new(),
            before: None,
            limit: DEFAULT_PAGE,
        }
    }
}

impl From<LockHistory> for History {
    fn from(ask: LockHistory) -> Self {
        History {
            part: Some(Part::Lock),
            resource: ask.resource,
            prefix: ask.prefix,
            before: ask.before,
            limit: ask.limit,
        }
    }
}

/// The reason of the entry for failed items that a sweep deletes: one entry for each queue and batch.
pub const SWEPT_FAILED: &str = "swept: failed longer ago than keep_failed";

/// How a holding ended, what came late, or what a person did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum HistoryEvent {
    /// Held now; it has not ended.
    Acquired,
    /// Renewed after its expiry, before anybody else took it.
    RenewedLate,
    /// Given back.
    Released,
    /// Its time was up, and a sweep closed it.
    Expired,
    /// Its time was up, and somebody else took it.
    TakenOver,
    /// A person forced it open.
    Broken,
    /// A release or a renewal with a stale token arrived; `reason` tells which.
    Late,
    /// A person revived failed items, or dead events.
    Requeued,
    /// A person took items away from workers that hung.
    Reset,
    /// A person discarded failed items, or dead events; or a sweep deleted items that had failed longer ago than
    /// `keep_failed` ([`SWEPT_FAILED`] is its reason).
    Discarded,
    /// A person had a key forgotten.
    Forgotten,
    /// A person said that the work of an unknown key was done.
    Resolved,
    /// The owner changed a setting of the database; `reason` has both values.
    Changed,
}

impl HistoryEvent {
    /// All of them.
    pub const ALL: [HistoryEvent; 13] = [
        HistoryEvent::Acquired,
        HistoryEvent::RenewedLate,
        HistoryEvent::Released,
        HistoryEvent::Expired,
        HistoryEvent::TakenOver,
        HistoryEvent::Broken,
        HistoryEvent::Late,
        HistoryEvent::Requeued,
        HistoryEvent::Reset,
        HistoryEvent::Discarded,
        HistoryEvent::Forgotten,
        HistoryEvent::Resolved,
        HistoryEvent::Changed,
    ];

    /// The word that stores and faces use.
    pub fn as_str(self) -> &'static str {
        match self {
            HistoryEvent::Acquired => "acquired",
            HistoryEvent::RenewedLate => "renewed_late",
            HistoryEvent::Released => "released",
            HistoryEvent::Expired => "expired",
            HistoryEvent::TakenOver => "taken_over",
            HistoryEvent::Broken => "broken",
            HistoryEvent::Late => "late",
            HistoryEvent::Requeued => "requeued",
            HistoryEvent::Reset => "reset",
            HistoryEvent::Discarded => "discarded",
            HistoryEvent::Forgotten => "forgotten",
            HistoryEvent::Resolved => "resolved",
            HistoryEvent::Changed => "changed",
        }
    }

    pub(crate) fn parse(word: &str) -> Result<Self> {
        HistoryEvent::ALL
            .into_iter()
            .find(|event| event.as_str() == word)
            .ok_or_else(|| unexpected("history event", word))
    }
}

impl fmt::Display for HistoryEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One line of the audit trail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HistoryEntry {
    /// Grows with time; `None` for what is held now.
    pub id: Option<i64>,
    /// When it happened, on the store's clock.
    pub at: Timestamp,
    /// To what kind of thing.
    #[serde(default)]
    pub part: Part,
    /// What happened.
    pub event: HistoryEvent,
    /// To what: a resource, a queue, a once key; empty for the outbox.
    pub resource: String,
    /// To how many items, events or keys; `None` for locks.
    #[serde(default)]
    pub count: Option<u64>,
    /// With which token; only locks have one.
    pub token: Option<Token>,
    /// `exclusive` or `shared`; only of locks.
    pub mode: Option<String>,
    /// Whose holding it was.
    pub owner: Option<String>,
    /// The person, application, work, machine and process.
    #[serde(flatten)]
    pub attribution: Attribution,
    /// When the holding began.
    pub acquired_at: Option<Timestamp>,
    /// When it was to end.
    pub expires_at: Option<Timestamp>,
    /// The person who broke, requeued, reset, discarded, forgot or resolved.
    pub actor: Option<String>,
    /// Why that was done, or what came late.
    pub reason: Option<String>,
}
