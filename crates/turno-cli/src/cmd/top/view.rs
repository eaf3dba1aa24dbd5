//! State of the screen.

mod command;

use std::time::{Duration, Instant};

use turno::overview::Overview;

use super::action::{Action, ActionOutcome};
use super::list::{self, List, Subject};
use super::memory::Memory;
use super::poller::{Focus, Snapshot};
use super::screen::Tone;
use crate::payload::printable;

/// The tabs, in the order of their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Locks,
    Queues,
    Outbox,
    Once,
    History,
}

impl Tab {
    pub(super) const ALL: [Tab; 5] = [
        Tab::Locks,
        Tab::Queues,
        Tab::Outbox,
        Tab::Once,
        Tab::History,
    ];
}

/// Input mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    Browsing,
    /// The user types the filter.
    Filtering,
    /// The user types a reason or an answer.
    Asking(Action, String),
    Helping,
}

/// Result of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Stay,
    Quit,
    Do(Action, String),
}

/// The selected row: the same subject as before or, if it is gone, the row in its place.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    subject: Option<Subject>,
    pub(super) index: usize,
    /// First row that is drawn.
    pub(super) top: usize,
}

/// The state that is drawn.
pub(super) struct View {
    pub(super) store: String,
    pub(super) tab: Tab,
    /// Queue whose failed items are listed.
    opened: Option<String>,
    pub(super) cursor: Cursor,
    pub(super) filter: String,
    pub(super) mode: Mode,
    pub(super) note: Option<(String, Tone)>,
    pub(super) snapshot: Option<Snapshot>,
    pub(super) memory: Memory,
    /// Error of the last poll; what is shown is older.
    pub(super) poll_error: Option<String>,
}

impl View {
    pub(super) fn new(store: String) -> Self {
        View {
            store,
            tab: Tab::Locks,
            opened: None,
            cursor: Cursor::default(),
            filter: String::new(),
            mode: Mode::Browsing,
            note: None,
            snapshot: None,
            memory: Memory::default(),
            poll_error: None,
        }
    }

    /// Returns what is to be polled.
    pub(super) fn focus(&self) -> Focus {
        match (self.tab, &self.opened) {
            (Tab::Queues, Some(queue)) => Focus::Items(queue.clone()),
            (Tab::Outbox, _) => Focus::Events,
            (Tab::History, _) => Focus::History,
            _ => Focus::Nothing,
        }
    }

    /// Stores the result of a poll. Parts that were not polled stay as they were.
    pub(super) fn update(&mut self, mut snapshot: Snapshot) {
        self.memory.record(&snapshot);
        if let Some(old) = self.snapshot.take() {
            snapshot.items = snapshot.items.or(old.items);
            snapshot.events = snapshot.events.or(old.events);
            snapshot.history = snapshot.history.or(old.history);
        }
        self.snapshot = Some(snapshot);
        self.poll_error = None;
    }

    /// Stores the error of a poll.
    pub(super) fn poll_failed(&mut self, error: String) {
        self.poll_error = Some(printable(&error));
    }

    /// Shows the outcome of an action.
    pub(super) fn show_outcome(&mut self, outcome: turno::Result<ActionOutcome>) {
        let (text, tone) = match outcome {
            Ok(ActionOutcome::Done(text)) => (text, Tone::Good),
            Ok(ActionOutcome::Nothing(text)) => (text, Tone::Warn),
            Err(error) => (error.to_string(), Tone::Bad),
        };
        self.note = Some((printable(&text), tone));
    }

    pub(super) fn overview(&self) -> Option<&Overview> {
        self.snapshot.as_ref().map(|snapshot| &snapshot.overview)
    }

    /// Returns the age of the data.
    pub(super) fn age(&self) -> Duration {
        let at = self.snapshot.as_ref().map(|snapshot| snapshot.at);
        at.map_or(Duration::ZERO, |at| Instant::now().duration_since(at))
    }

    /// Returns the current list, with the filter applied; `None` before its first poll.
    pub(super) fn list(&self) -> Option<List> {
        let snapshot = self.snapshot.as_ref()?;
        let mut list = match (self.tab, &self.opened) {
            (Tab::Locks, _) => {
                list::locks::list(&snapshot.overview.locks, &self.memory, self.age())
            }
            (Tab::Queues, None) => list::queues::queues(&snapshot.overview.queues, &self.memory),
            (Tab::Queues, Some(queue)) => {
                let (_, items) = snapshot.items.as_ref().filter(|(of, _)| of == queue)?;
                list::queues::items(queue, items)
            }
            (Tab::Outbox, _) => {
                let events = snapshot.events.as_ref()?;
                list::outbox::list(snapshot.overview.outbox.as_ref(), events, &self.memory)
            }
            (Tab::Once, _) => list::once::list(&snapshot.overview.once),
            (Tab::History, _) => list::history::list(snapshot.history.as_ref()?),
        };
        list.rows.retain(|row| row.has(&self.filter));
        Some(list)
    }

    /// Finds the selected subject in the current list.
    pub(super) fn settle(&mut self, list: &List) {
        let cursor = &mut self.cursor;
        let place = |subject: &Subject| list.rows.iter().position(|row| row.subject == *subject);
        let found = cursor.subject.as_ref().and_then(place);
        cursor.index = found.unwrap_or(cursor.index);
        cursor.index = cursor.index.min(list.rows.len().saturating_sub(1));
        cursor.subject = list.rows.get(cursor.index).map(|row| row.subject.clone());
    }

    /// Whether Enter opens the selected row.
    pub(super) fn is_openable(&self) -> bool {
        matches!(self.cursor.subject, Some(Subject::Queue(_)))
    }
}
