//! What is on the screen.

mod command;

use std::time::{Duration, Instant};

use super::deed::{Deed, Told};
use super::list::{self, List, Subject};
use super::look::{Focus, Sight};
use super::memory::Memory;
use super::screen::Tone;
use crate::payload::printable;

/// The parts, in the order of their keys.
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

/// What keys mean now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    Looking,
    /// The filter is being typed.
    Filtering,
    /// A reason, or an answer, is being typed.
    Asking(Deed, String),
    Helping,
}

/// What a key leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Stay,
    Quit,
    Do(Deed, String),
}

/// Which row is selected: this very thing, or what is in its place when it is gone.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    subject: Option<Subject>,
    pub(super) index: usize,
    /// The first row that is drawn.
    pub(super) top: usize,
}

/// All that is drawn.
pub(super) struct View {
    pub(super) store: String,
    pub(super) tab: Tab,
    /// The queue whose failed items are listed.
    opened: Option<String>,
    pub(super) cursor: Cursor,
    pub(super) filter: String,
    pub(super) mode: Mode,
    pub(super) note: Option<(String, Tone)>,
    pub(super) sight: Option<Sight>,
    pub(super) memory: Memory,
    /// Why what is shown is old.
    pub(super) trouble: Option<String>,
}

impl View {
    pub(super) fn new(store: String) -> Self {
        View {
            store,
            tab: Tab::Locks,
            opened: None,
            cursor: Cursor::default(),
            filter: String::new(),
            mode: Mode::Looking,
            note: None,
            sight: None,
            memory: Memory::default(),
            trouble: None,
        }
    }

    /// What is to be looked at.
    pub(super) fn focus(&self) -> Focus {
        match (self.tab, &self.opened) {
            (Tab::Queues, Some(queue)) => Focus::Items(queue.clone()),
            (Tab::Outbox, _) => Focus::Events,
            (Tab::History, _) => Focus::History,
            _ => Focus::Nothing,
        }
    }

    /// Something was seen. What was not asked for is as it was.
    pub(super) fn see(&mut self, mut sight: Sight) {
        self.memory.see(&sight);
        if let Some(old) = self.sight.take() {
            sight.items = sight.items.or(old.items);
            sight.events = sight.events.or(old.events);
            sight.history = sight.history.or(old.history);
        }
        self.sight = Some(sight);
        self.trouble = None;
    }

    /// Nothing was seen.
    pub(super) fn miss(&mut self, why: String) {
        self.trouble = Some(printable(&why));
    }

    /// Something was done, or not.
    pub(super) fn tell(&mut self, outcome: turno::Result<Told>) {
        let (text, tone) = match outcome {
            Ok(Told::Done(text)) => (text, Tone::Good),
            Ok(Told::Nothing(text)) => (text, Tone::Warn),
            Err(error) => (error.to_string(), Tone::Bad),
        };
        self.note = Some((printable(&text), tone));
    }

    /// How old what is shown is.
    pub(super) fn age(&self) -> Duration {
        let at = self.sight.as_ref().map(|sight| sight.at);
        at.map_or(Duration::ZERO, |at| Instant::now().duration_since(at))
    }

    /// What is listed now, without what the filter leaves out; `None` if it was not looked at yet.
    pub(super) fn list(&self) -> Option<List> {
        let sight = self.sight.as_ref()?;
        let mut list = match (self.tab, &self.opened) {
            (Tab::Locks, _) => list::locks::list(&sight.locks, &self.memory, self.age()),
            (Tab::Queues, None) => list::queues::queues(&sight.queues, &self.memory),
            (Tab::Queues, Some(queue)) => {
                let (_, items) = sight.items.as_ref().filter(|(of, _)| of == queue)?;
                list::queues::items(queue, items)
            }
            (Tab::Outbox, _) => {
                let events = sight.events.as_ref()?;
                list::outbox::list(sight.outbox.as_ref(), events, &self.memory)
            }
            (Tab::Once, _) => list::once::list(&sight.once),
            (Tab::History, _) => list::history::list(sight.history.as_ref()?),
        };
        list.rows.retain(|row| row.has(&self.filter));
        Some(list)
    }

    /// Finds what is selected in what is there now.
    pub(super) fn settle(&mut self, list: &List) {
        let cursor = &mut self.cursor;
        let place = |subject: &Subject| list.rows.iter().position(|row| row.subject == *subject);
        let found = cursor.subject.as_ref().and_then(place);
        cursor.index = found.unwrap_or(cursor.index);
        cursor.index = cursor.index.min(list.rows.len().saturating_sub(1));
        cursor.subject = list.rows.get(cursor.index).map(|row| row.subject.clone());
    }

    /// Whether Enter leads somewhere.
    pub(super) fn is_openable(&self) -> bool {
        matches!(self.cursor.subject, Some(Subject::Queue(_)))
    }
}
