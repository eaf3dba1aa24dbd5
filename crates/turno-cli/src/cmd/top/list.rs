//! What is listed: columns, rows, and what can be done to each.

pub(super) mod history;
pub(super) mod locks;
pub(super) mod once;
pub(super) mod outbox;
pub(super) mod queues;

use jiff::Timestamp;
use turno::inbox::{AttemptError, ItemId};
use uuid::Uuid;

use super::deed::Deed;
use super::screen::Tone;
use crate::payload::printable;

/// Text in one tone.
pub(super) type Piece = (String, Tone);

/// A column, and how wide the screen must be for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) side: Side,
    pub(super) from: u16,
}

/// How a column is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Numbers: as wide as they are, and aligned as numbers are.
    Right,
    /// Short words: as wide as they are.
    Left,
    /// Texts, which share the room that is left.
    Text,
}

pub(super) const fn column(title: &'static str, side: Side, from: u16) -> Column {
    Column { title, side, from }
}

/// What is in a column.
pub(super) type Cell = Vec<Piece>;

/// One thing.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) subject: Subject,
    pub(super) cells: Vec<Cell>,
    /// More about it, for who has selected it.
    pub(super) details: Vec<(&'static str, String)>,
    pub(super) deeds: Vec<Deed>,
}

impl Row {
    /// Whether a text is somewhere in it, in capitals or not.
    pub(super) fn has(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let cells = self.cells.iter().flatten().map(|(piece, _)| piece);
        let details = self.details.iter().map(|(_, value)| value);
        cells
            .chain(details)
            .any(|part| part.to_lowercase().contains(&text))
    }
}

/// Which thing a row is about, however the rows around it change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    Lock(String, String, i64),
    Queue(String),
    Item(ItemId),
    Event(Uuid),
    Key(String),
    Entry(Option<i64>, String, Option<i64>),
}

/// A list, as it is to be drawn.
#[derive(Debug)]
pub(super) struct List {
    pub(super) columns: &'static [Column],
    /// All in one line.
    pub(super) summary: Vec<Piece>,
    pub(super) rows: Vec<Row>,
    /// What to say when there are none.
    pub(super) empty: &'static str,
    /// What would fill it.
    pub(super) fill: &'static str,
    /// What lists all of them, if there are more.
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

/// A number that should be none.
pub(super) fn alarming(count: u64) -> Cell {
    count_in(count, Tone::Bad)
}

/// A number that stands out if it is not zero.
pub(super) fn count_in(count: u64, tone: Tone) -> Cell {
    toned(count, if count > 0 { tone } else { Tone::Faint })
}

/// A number and its word, for a summary.
pub(super) fn figure(count: impl ToString, word: &str, tone: Tone) -> Piece {
    (format!("{} {word}", count.to_string()), tone)
}

/// How a number that should be none is summed up.
pub(super) fn alarm(count: u64) -> Tone {
    if count > 0 { Tone::Bad } else { Tone::Faint }
}

/// How often a second.
pub(super) fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "–".to_owned(),
        Some(rate) if rate >= 10.0 || rate == 0.0 => format!("{rate:.0}/s"),
        Some(rate) => format!("{rate:.1}/s"),
    }
}

/// A time, short: the day and the second, in UTC.
pub(super) fn at(time: Timestamp) -> String {
    time.strftime("%m-%d %H:%M:%SZ").to_string()
}

/// What went wrong, the newest first.
pub(super) fn errors(errors: &[AttemptError]) -> impl Iterator<Item = (&'static str, String)> {
    errors.iter().rev().map(|error| {
        let text = format!("{} ({}, {})", error.error, error.kind, at(error.at));
        ("error", printable(&text))
    })
}

/// What there is to say, without what is missing.
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
