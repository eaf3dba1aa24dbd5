//! Blocks in `sql`: one statement after the other, on one connection.
//!
//! A statement may be followed by comments with its result: `-- a | b` (`-- a |` for one column), optionally first the column
//! names, and then the rows; `-- ERROR TN410` if it fails.

use tokio::runtime::Runtime;
use tokio_postgres::{Client, SimpleQueryMessage};
use turno::store::postgres::Target;

use crate::known::Known;

#[derive(Debug, PartialEq)]
struct Step {
    statement: String,
    rows: Vec<Vec<String>>,
    error: Option<String>,
}

/// Returns the statements of a block: each ends with a semicolon, at the end of its line.
fn statements(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut statement = String::new();
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("--") {
            let comment = comment.trim();
            let Some(last) = steps.last_mut().filter(|_| statement.is_empty()) else {
                continue;
            };
            if let Some(error) = comment.strip_prefix("ERROR ") {
                let code = error.split_whitespace().next();
                last.error = code.map(|code| code.trim_end_matches(':').to_owned());
            } else if comment.contains('|') {
                // A single column has a bar after it.
                let comment = comment.strip_suffix('|').unwrap_or(comment);
                let cells = comment.split('|').map(|cell| cell.trim().to_owned());
                last.rows.push(cells.collect());
            }
            continue;
        }
        let code = line.split(" --").next().unwrap_or_default().trim_end();
        statement.push_str(code);
        statement.push('\n');
        if code.ends_with(';') {
            steps.push(Step {
                statement: std::mem::take(&mut statement).trim().to_owned(),
                rows: Vec::new(),
                error: None,
            });
        }
    }
    assert!(statement.trim().is_empty(), "no semicolon: {statement}");
    steps
}

/// A connection.
pub struct Session {
    runtime: Runtime,
    client: Client,
}

impl Session {
    pub fn new(url: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (client, connection) = runtime
            .block_on(Target::parse(url).unwrap().connect())
            .unwrap();
        runtime.spawn(connection);
        Session { runtime, client }
    }

    /// Runs a block, and returns the rows as text.
    pub fn run(&self, known: &mut Known, text: &str) -> String {
        let mut printed = String::new();
        for step in statements(text) {
            let statement = known.meant(&step.statement);
            let done = self.runtime.block_on(self.client.simple_query(&statement));
            let rows = match (done, &step.error) {
                (Ok(done), None) => table(&done),
                (Err(error), Some(code)) if error.code().is_some_and(|c| c.code() == code) => {
                    continue;
                }
                (done, _) => panic!("{statement}: {done:?} and not {:?}", step.error),
            };
            compare(known, &step, &rows);
            for row in rows {
                printed.push_str(&row.join(" | "));
                printed.push('\n');
            }
        }
        printed
    }
}

/// Returns the column names and the rows; empty if the statement returns none.
fn table(messages: &[SimpleQueryMessage]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                rows.push(columns.iter().map(|c| c.name().to_owned()).collect());
            }
            SimpleQueryMessage::Row(row) => {
                let cells = (0..row.len()).map(|cell| row.get(cell).unwrap_or_default());
                rows.push(cells.map(str::to_owned).collect());
            }
            _ => {}
        }
    }
    rows
}

/// Compares the expected rows, which may be only the first ones.
fn compare(known: &mut Known, expected: &Step, actual: &[Vec<String>]) {
    let Some(first) = expected.rows.first() else {
        return;
    };
    let named = actual
        .first()
        .is_some_and(|names| first.first() == names.first());
    let rows = if named {
        actual
    } else {
        actual.get(1..).unwrap_or_default()
    };
    assert!(
        expected.rows.len() <= rows.len(),
        "{expected:?}: {actual:?}"
    );
    for (expected, actual) in expected.rows.iter().zip(rows) {
        for (position, cell) in expected.iter().enumerate() {
            if cell == "…" && position + 1 == expected.len() {
                break;
            }
            let other = actual.get(position);
            known.word(
                cell,
                other.unwrap_or_else(|| panic!("{expected:?} and not {actual:?}")),
            );
        }
    }
}

#[test]
fn statements_are_distinguished_from_answers() {
    let steps = statements(
        "-- first\nbegin;\nselect a,   -- why\n  b from t;\n--  a | b\n--  1 | …\n-- and so on\nselect f();\n-- ERROR TN410: lost\n",
    );
    let rows = vec![
        vec!["a".to_owned(), "b".to_owned()],
        vec!["1".to_owned(), "…".to_owned()],
    ];
    let statement = |statement: &str, rows: &[Vec<String>], error: Option<&str>| Step {
        statement: statement.to_owned(),
        rows: rows.to_vec(),
        error: error.map(str::to_owned),
    };
    assert_eq!(
        steps,
        [
            statement("begin;", &[], None),
            statement("select a,\n  b from t;", &rows, None),
            statement("select f();", &[], Some("TN410")),
        ]
    );
}
