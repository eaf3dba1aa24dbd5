//! Printing: JSON for programs, aligned tables for people, colour on a terminal only.

use std::io::{self, IsTerminal, Write as _};

use comfy_table::{
    Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Row, Table, Width,
};
use jiff::Timestamp;
use serde::Serialize;
use turno::lock::Language;

use crate::payload;

/// The space between two columns.
const BETWEEN: u16 = 2;

/// Who reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Human,
}

/// How to print.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) format: Format,
    color: bool,
    color_stderr: bool,
}

impl Output {
    pub(crate) fn new(format: Format, color: bool, color_stderr: bool) -> Self {
        Output {
            format,
            color,
            color_stderr,
        }
    }

    pub(crate) fn is_json(self) -> bool {
        self.format == Format::Json
    }

    pub(crate) fn color(self) -> bool {
        self.color
    }

    pub(crate) fn color_stderr(self) -> bool {
        self.color_stderr
    }

    /// One JSON value, on a line of its own.
    pub(crate) fn json(self, value: &impl Serialize) -> anyhow::Result<()> {
        // Payloads are printed as they were stored; a line break in one stands between its parts.
        self.line(&payload::one_line(&serde_json::to_string(value)?))
    }

    /// One line on standard output.
    pub(crate) fn line(self, text: &str) -> anyhow::Result<()> {
        writeln!(io::stdout().lock(), "{text}")?;
        Ok(())
    }

    /// Text as it is, on standard output.
    pub(crate) fn raw(self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()?;
        Ok(())
    }

    /// One line on standard error: for people, beside what programs read.
    pub(crate) fn note(self, text: &str) {
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// A word that stands out on standard error. The number is ANSI's colour.
    pub(crate) fn alert(self, word: &str, color: &str) -> String {
        if self.color_stderr {
            format!("\x1b[1;{color}m{word}\x1b[0m")
        } else {
            word.to_owned()
        }
    }

    /// Rows under a header.
    pub(crate) fn table(self, header: &[&str], rows: Vec<Vec<Cell>>) -> anyhow::Result<()> {
        let mut table = self.headed_table(header);
        table.add_rows(rows);
        self.print(table)
    }

    /// Rows of one line each: what the screen has no room for is cut, except in the first so many columns.
    pub(crate) fn short_table(
        self,
        header: &[&str],
        whole: usize,
        rows: Vec<Vec<Cell>>,
    ) -> anyhow::Result<()> {
        let mut table = self.headed_table(header);
        table.add_rows(rows.into_iter().map(|cells| {
            let mut row = Row::from(cells);
            row.max_height(1);
            row
        }));
        for (column, title) in table.column_iter_mut().zip(header) {
            column.set_constraint(if column.index < whole {
                ColumnConstraint::ContentWidth
            } else {
                // A title is never broken, however narrow the screen.
                let width = title.len() + usize::from(BETWEEN);
                let width = u16::try_from(width).unwrap_or(u16::MAX);
                ColumnConstraint::LowerBoundary(Width::Fixed(width))
            });
        }
        self.print(table)
    }

    /// Rows under a header, beside what programs read.
    pub(crate) fn note_table(self, header: &[&str], rows: Vec<Vec<Cell>>) {
        let mut table = plain_table(&io::stderr());
        table.set_header(header.iter().map(|title| Cell::new(title).fg(Color::Cyan)));
        table.add_rows(rows);
        self.note(&rendered(table, self.color_stderr));
    }

    fn headed_table(self, header: &[&str]) -> Table {
        let mut table = plain_table(&io::stdout());
        table.set_header(header.iter().map(|title| Cell::new(title).fg(Color::Cyan)));
        table
    }

    /// Names and values, one pair a line; absent values are left out.
    pub(crate) fn pairs(self, pairs: &[(&str, Option<String>)]) -> anyhow::Result<()> {
        let mut table = plain_table(&io::stdout());
        for (name, value) in pairs {
            if let Some(value) = value {
                table.add_row([Cell::new(name).fg(Color::Cyan), Cell::new(value)]);
            }
        }
        self.print(table)
    }

    fn print(self, table: Table) -> anyhow::Result<()> {
        self.line(&rendered(table, self.color))
    }
}

fn plain_table(stream: &impl IsTerminal) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    if stream.is_terminal() {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        // Said aloud: without colour the table takes its screen for none, and forgets the width.
        if let Some(width) = table.width() {
            table.set_width(width);
        }
    } else {
        // A reader that is no screen has no width: no line is broken.
        table.set_content_arrangement(ContentArrangement::Disabled);
    }
    table
}

fn rendered(mut table: Table, color: bool) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, BETWEEN));
    }
    if color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.trim_fmt()
}

/// The size of a page, as every store has it.
pub(crate) fn page(limit: u32) -> u32 {
    limit.clamp(1, turno::MAX_PAGE)
}

/// A number, aligned as numbers are.
pub(crate) fn number(value: impl ToString) -> Cell {
    Cell::new(value).set_alignment(CellAlignment::Right)
}

/// A value that may be absent.
pub(crate) fn optional(value: Option<impl ToString>) -> Cell {
    Cell::new(value.map_or_else(|| "–".to_owned(), |value| value.to_string()))
}

/// A time of day, to the second, in UTC.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// The language of the person at the terminal, as POSIX says it.
pub(crate) fn language() -> Language {
    let set = |name| {
        std::env::var(name)
            .ok()
            .filter(|value: &String| !value.is_empty())
    };
    match ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(set) {
        Some(locale) if locale.starts_with("es") => Language::Spanish,
        _ => Language::English,
    }
}
