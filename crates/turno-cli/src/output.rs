//! Printing: JSON for programs, aligned tables for people, colour on a terminal only.

use std::io::{self, IsTerminal, Write as _};

use comfy_table::{
    Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Row, Table, Width,
};
use jiff::Timestamp;
use serde::Serialize;
use turno::lock::Language;

use crate::payload;

/// Number of spaces between two columns.
const BETWEEN: u16 = 2;

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Human,
}

/// Output settings.
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

    /// Prints one JSON value on one line.
    pub(crate) fn json(self, value: &impl Serialize) -> anyhow::Result<()> {
        // Payloads are printed as they were stored. A line break in one can only be between its tokens.
        self.line(&payload::one_line(&serde_json::to_string(value)?))
    }

    /// Prints one line on standard output.
    pub(crate) fn line(self, text: &str) -> anyhow::Result<()> {
        writeln!(io::stdout().lock(), "{text}")?;
        Ok(())
    }

    /// Prints bytes unchanged on standard output.
    pub(crate) fn raw(self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()?;
        Ok(())
    }

    /// Prints one line on standard error: for people, while programs read standard output.
    pub(crate) fn note(self, text: &str) {
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// Highlights a word for standard error. `color` is the ANSI colour number.
    pub(crate) fn alert(self, word: &str, color: &str) -> String {
        if self.color_stderr {
            format!("\x1b[1;{color}m{word}\x1b[0m")
        } else {
            word.to_owned()
        }
    }

    /// Prints a table with a header.
    pub(crate) fn table(self, header: &[&str], rows: Vec<Vec<Cell>>) -> anyhow::Result<()> {
        let mut table = self.headed_table(header);
        table.add_rows(rows);
        self.print(table)
    }

    /// Prints a table with one line per row. Text that does not fit the screen is cut, except in the first `whole` columns.
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
                // A title is never broken, however narrow the screen is.
                let width = title.len() + usize::from(BETWEEN);
                let width = u16::try_from(width).unwrap_or(u16::MAX);
                ColumnConstraint::LowerBoundary(Width::Fixed(width))
            });
        }
        self.print(table)
    }

    /// Prints a table with a header on standard error.
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

    /// Prints names and values, one pair per line. Absent values are left out.
    pub(crate) fn pairs(self, pairs: &[(impl AsRef<str>, Option<String>)]) -> anyhow::Result<()> {
        let mut table = plain_table(&io::stdout());
        for (name, value) in pairs {
            if let Some(value) = value {
                table.add_row([Cell::new(name.as_ref()).fg(Color::Cyan), Cell::new(value)]);
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
        // Set explicitly: without colour, the table does not recognize the terminal and loses its width.
        if let Some(width) = table.width() {
            table.set_width(width);
        }
    } else {
        // Output that is not a terminal has no width, so no line is broken.
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

/// Clamps the size of a page to what stores accept.
pub(crate) fn page(limit: u32) -> u32 {
    limit.clamp(1, turno::MAX_PAGE)
}

/// A right-aligned number.
pub(crate) fn number(value: impl ToString) -> Cell {
    Cell::new(value).set_alignment(CellAlignment::Right)
}

/// An optional value; "–" if it is absent.
pub(crate) fn optional(value: Option<impl ToString>) -> Cell {
    Cell::new(value.map_or_else(|| "–".to_owned(), |value| value.to_string()))
}

/// Formats a time in UTC, to the second.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// Returns the user's language, from the POSIX locale variables.
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
