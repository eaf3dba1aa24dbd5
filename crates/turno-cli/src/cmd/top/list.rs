//! Lists: columns, rows, and the actions on each row.

pub(super) mod history;
pub(super) mod locks;
pub(super) mod once;
pub(super) mod outbox;
pub(super) mod queues;

use jiff::Timestamp;
use turno::inbox::{AttemptError, ItemId};
use uuid::Uuid;

use super::action::Action;
use super::screen::Tone;
use crate::payload::printable;

/// Text in one tone.
pub(super) type Piece = (String, Tone);

/// A column, and the screen width from which it is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) side: Side,
    pub(super) from: u16,
}

/// Alignment and width of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Numbers: right-aligned, as wide as needed.
    Right,
    /// Short words: left-aligned, as wide as needed.
    Left,
    /// Texts, which share the remaining width.
    Text,
}

pub(super) const fn column(title: &'static str, side: Side, from: u16) -> Column {
    Column { title, side, from }
}

/// Content of a cell.
pub(super) type Cell = Vec<Piece>;

/// A row.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) subject: Subject,
    pub(super) cells: Vec<Cell>,
    /// Details that are shown when the row is selected.
    pub(super) details: Vec<(&'static str, String)>,
    pub(super) actions: Vec<Action>,
}

impl Row {
    /// Whether the row contains a text, ignoring case.
    pub(super) fn has(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let cells = self.cells.iter().flatten().map(|(piece, _)| piece);
        let details = self.details.iter().map(|(_, value)| value);
        cells
            .chain(details)
            .any(|part| part.to_lowercase().contains(&text))
    }
}

/// Identity of a row, which stays the same when other rows change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    Lock(String, String, i64),
    Queue(String),
    Item(ItemId),
    Event(Uuid),
    Key(String),
    Entry(Option<i64>, String, Option<i64>),
}

/// A list to be drawn.
#[derive(Debug)]
pub(super) struct List {
    pub(super) columns: &'static [Column],
    /// Summary on one line.
    pub(super) summary: Vec<Piece>,
    pub(super) rows: Vec<Row>,
    /// Text for an empty list.
    pub(super) empty: &'static str,
    /// Command that would fill the list.
    pub(super) fill: &'static str,
    /// Command that lists all entries, if there are more.
    pub(super) beyond: Option<&'static str>,
}

pub(super) fn normal(text: impl ToString) -> Cell {
    vec![(printable(&text.to_string()), Tone::Normal)]
}

pub(super) fn toned(text: impl ToString, tone: Tone) -> Cell {
    vec![(printable(&text.to_string()), tone)]
}

pub(super) fn optional(text: Option<impl ToString>) -> Cell {
    text.map_or_else(|| toned("–", Tone::Faint), normal)
}

/// A count that should be zero.
pub(super) fn alarming(count: u64) -> Cell {
    count_in(count, Tone::Bad)
}

/// A count that is highlighted if it is not zero.
pub(super) fn count_in(count: u64, tone: Tone) -> Cell {
    toned(count, if count > 0 { tone } else { Tone::Faint })
}

/// A count with its label, for a summary.
pub(super) fn figure(count: impl ToString, word: &str, tone: Tone) -> Piece {
    (format!("{} {word}", count.to_string()), tone)
}

/// Returns the tone of a count that should be zero, in a summary.
pub(super) fn alarm(count: u64) -> Tone {
    if count > 0 { Tone::Bad } else { Tone::Faint }
}

/// Formats a rate per second.
pub(super) fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "–".to_owned(),
        Some(rate) if rate >= 10.0 || rate == 0.0 => format!("{rate:.0}/s"),
        Some(rate) => format!("{rate:.1}/s"),
    }
}

/// Formats a time with day and second, in UTC.
pub(super) fn at(time: Timestamp) -> String {
    time.strftime("%m-%d %H:%M:%SZ").to_string()
}

/// Returns the errors, newest first.
pub(super) fn errors(errors: &[AttemptError]) -> impl Iterator<Item = (&'static str, String)> {
    errors.iter().rev().map(|error| {
        let text = format!("{} ({}, {})", error.error, error.kind, at(error.at));
        ("error", printable(&text))
    })
}

/// Returns the details that have a value.
pub(super) fn details<const N: usize>(
    all: [(&'static str, Option<String>); N],
) -> Vec<(&'static str, String)> {
    let known = all
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    known
        .map(|(name, value)| (name, printable(&value)))
        .collect()
}
