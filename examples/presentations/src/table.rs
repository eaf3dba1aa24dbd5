//! Comparison of the document's alternatives.

use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use clap::ValueEnum;
use comfy_table::{Cell, CellAlignment, Color, Table, presets};

use crate::database::Database;
use crate::instance::Setup;
use crate::isolation::{self, Isolation, Meeting};
use crate::scene::{self, Errors, Killed, Race, Speed};
use crate::strategy::Strategy;

const HEADER: [&str; 8] = [
    "ALTERNATIVE",
    "PRESENTATIONS",
    "CALLS",
    "DOUBLED",
    "WAIT",
    "RETRIED",
    "KILLED",
    "PER SECOND",
];

/// One row of the table.
#[derive(Debug)]
pub struct TableRow {
    how: Strategy,
    /// `None` if the store does not support it.
    scenes: Option<(Race, Errors, Killed, Speed)>,
}

impl TableRow {
    /// Returns whether no presentation was doubled, lost or left.
    pub fn is_clean(&self) -> bool {
        self.scenes.as_ref().is_some_and(|(race, _, killed, _)| {
            race.doubled == 0 && killed.lost == 0 && killed.left == 0
        })
    }
}

/// The alternatives, side by side.
#[derive(Debug)]
pub struct Comparison {
    /// One row per alternative, Turno's inbox last.
    pub rows: Vec<TableRow>,
    /// Two instances at REPEATABLE READ, with the same presentation.
    same_presentation: Meeting,
    /// Two instances at REPEATABLE READ, with the same presentations in opposite order.
    opposite_order: Meeting,
}

/// Runs each scene with each alternative.
///
/// # Errors
/// Returns an error if a part does not start or a scene does not end.
pub async fn compare(setup: &Setup) -> Result<Comparison> {
    let mut lines = Vec::new();
    for how in Strategy::value_variants() {
        let mut scenes = None;
        if how.is_possible_on(&setup.store) {
            show_progress(how.name())?;
            scenes = Some((
                scene::race(setup, *how).await?,
                scene::errors(setup, *how).await?,
                scene::killed(setup, *how).await?,
                scene::speed(setup, *how).await?,
            ));
        }
        lines.push(TableRow { how: *how, scenes });
    }
    show_progress("")?;
    let database = Database::open(&setup.store, "presentations").await?;
    Ok(Comparison {
        rows: lines,
        same_presentation: isolation::same_presentation(&database, Isolation::RepeatableRead)
            .await?,
        opposite_order: isolation::opposite_order(&database).await?,
    })
}

/// Prints the table.
///
/// # Errors
/// Returns an error if standard output is closed.
pub fn print(setup: &Setup, compared: &Comparison) -> Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(HEADER);
    for column in [1, 2, 3, 4, 7] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    if !io::stdout().is_terminal() {
        table.force_no_tty();
    }
    table.add_rows(compared.rows.iter().map(row));
    // Trim spaces before the first column and after the last one.
    let table: Vec<_> = table
        .to_string()
        .lines()
        .map(|line| line.trim().to_owned())
        .collect();
    writeln!(
        io::stdout(),
        "{}\n\n\
         {} instances, each a process of its own, are given {} presentations at once, once per scene.
\
         DOUBLED, WAIT: the web service answers a call when a second one for the same presentation has come, or when
\
         none can come any more. WAIT says whether an instance could do nothing until another one's call was answered.
\
         RETRIED: the web service refuses each presentation once.
\
         KILLED: an instance is killed (kill -9) while it waits for an answer.
\
         PER SECOND: presentations that were sent and marked, with a web service that answers at once; median of three rounds.

\
         REPEATABLE READ, two instances with the same presentation: {}.
\
         REPEATABLE READ, two instances with the same two presentations, in opposite order: {}.",
        table.join("\n"),
        setup.instances,
        setup.presentations,
        compared.same_presentation,
        compared.opposite_order,
    )?;
    Ok(())
}

fn row(line: &TableRow) -> Vec<Cell> {
    let mut cells = vec![Cell::new(line.how.name())];
    let Some((race, errors, killed, speed)) = &line.scenes else {
        cells.extend(["", "", "", "", "", "not on SQLite", ""].map(Cell::new));
        return cells;
    };
    cells.extend([
        Cell::new(race.presentations),
        Cell::new(race.calls),
        colored(race.doubled, race.doubled == 0),
        Cell::new(if race.waited { "yes" } else { "no" }),
        Cell::new(format!("{} of {}", errors.retried, errors.refused)),
        match killed {
            Killed {
                lost: 0,
                left: 0,
                again,
            } => {
                let attempt = again.unwrap_or_default();
                let counted = line.how == Strategy::Turno;
                colored(
                    if counted {
                        format!("done again, as attempt {attempt}")
                    } else {
                        "done again".to_owned()
                    },
                    true,
                )
            }
            Killed { left: 0, lost, .. } => {
                colored(format!("{lost} lost: processed = true"), false)
            }
            Killed { left, .. } => colored(format!("{left} left: processed = false"), false),
        },
        Cell::new(format!("{:.0}", speed.per_second)),
    ]);
    cells
}

fn colored(text: impl ToString, is_good: bool) -> Cell {
    Cell::new(text.to_string()).fg(if is_good { Color::Green } else { Color::Red })
}

/// Shows progress, on a terminal only.
fn show_progress(name: &str) -> Result<()> {
    let mut screen = io::stderr();
    if screen.is_terminal() {
        write!(screen, "\r\x1b[K{name}")?;
        screen.flush()?;
    }
    Ok(())
}
