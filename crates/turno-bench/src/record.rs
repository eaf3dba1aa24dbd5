//! The results as rows, for `--json`: one object for each line of a table.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// A value of one program or statement, and how it compares with another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The benchmark, as it is named on the command line.
    pub part: String,
    /// Title of the table.
    pub subject: String,
    /// What was measured.
    pub peer: String,
    pub value: f64,
    pub unit: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// The peer that the ratio refers to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Required minimum of the ratio, or of the value if there is no ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// Required maximum of the ratio, or of the value if there is no ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
}

/// A requirement.
#[derive(Debug, Clone, Copy)]
pub enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Row {
    pub fn new(subject: &str, peer: &str, value: f64, unit: &str) -> Self {
        Row {
            part: String::new(),
            subject: subject.to_owned(),
            peer: peer.to_owned(),
            value: rounded(value),
            unit: unit.to_owned(),
            ratio: None,
            of: None,
            at_least: None,
            at_most: None,
        }
    }

    /// Adds a ratio to another peer, if that one could be measured.
    pub fn against(mut self, of: &str, ratio: f64, goal: Option<Goal>) -> Self {
        if !ratio.is_finite() {
            return self;
        }
        self.of = Some(of.to_owned());
        self.ratio = Some(rounded(ratio));
        self.required(goal)
    }

    pub fn required(mut self, goal: Option<Goal>) -> Self {
        match goal {
            Some(Goal::AtLeast(least)) => self.at_least = Some(rounded(least)),
            Some(Goal::AtMost(most)) => self.at_most = Some(rounded(most)),
            None => {}
        }
        self
    }

    /// Returns the requirement, and whether it is met.
    pub fn goal(&self) -> Option<impl fmt::Display> {
        let compared = self.ratio.unwrap_or(self.value);
        let (text, limit, is_met) = match (self.at_least, self.at_most) {
            (Some(least), _) => ("at least", least, compared >= least),
            (_, Some(most)) => ("at most", most, compared <= most),
            _ => return None,
        };
        let is_met = if is_met { "yes" } else { "NO" };
        Some(format!("{text} {limit}: {is_met}"))
    }
}

/// Two digits after the point are more than a measurement has.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// When and where a part was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Run {
    part: String,
    date: String,
    machine: String,
    /// What a reader has to know, such as other programs that ran at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// The file of results. A part that is measured again replaces its rows.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Results {
    runs: Vec<Run>,
    rows: Vec<Row>,
}

/// Rows of the part that is measured now.
static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());

fn recorded() -> MutexGuard<'static, Vec<Row>> {
    ROWS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn add(row: Row) {
    recorded().push(row);
}

/// Moves the rows that were added to the file, as results of this part, to the place of its earlier ones.
pub fn write(file: &Path, part: &str, note: Option<&str>) -> Result<()> {
    let mut results: Results = match fs::read(file) {
        Ok(text) => serde_json::from_slice(&text)
            .with_context(|| format!("{} has no results", file.display()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Results::default(),
        Err(error) => return Err(error).with_context(|| format!("no {}", file.display())),
    };
    let (runs, rows) = (&mut results.runs, &mut results.rows);
    let at_run = runs.iter().position(|run| run.part == part);
    let at_row = rows.iter().position(|row| row.part == part);
    runs.retain(|run| run.part != part);
    rows.retain(|row| row.part != part);
    let run = Run {
        part: part.to_owned(),
        date: date()?,
        machine: machine(),
        note: note.map(str::to_owned),
    };
    runs.insert(at_run.unwrap_or(runs.len()), run);
    let measured = std::mem::take(&mut *recorded()).into_iter();
    let measured = measured.filter(|row| row.value.is_finite());
    let measured = measured.map(|row| Row {
        part: part.to_owned(),
        ..row
    });
    let at_row = at_row.unwrap_or(rows.len());
    rows.splice(at_row..at_row, measured);
    fs::write(file, lines(&results)?).with_context(|| format!("could not write {}", file.display()))
}

/// One line for each object, so that a changed value is a changed line.
fn lines(results: &Results) -> Result<String> {
    let runs: Result<Vec<String>, _> = results.runs.iter().map(serde_json::to_string).collect();
    let rows: Result<Vec<String>, _> = results.rows.iter().map(serde_json::to_string).collect();
    Ok(format!(
        "{{\n\"runs\": [\n{}\n],\n\"rows\": [\n{}\n]\n}}\n",
        runs?.join(",\n"),
        rows?.join(",\n")
    ))
}

fn date() -> Result<String> {
    let output = Command::new("date").args(["-u", "+%F"]).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Number of cores, processor and memory.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let field = |file: &str, name: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_once(':'));
        value.map(|(_, value)| value.trim().to_owned())
    };
    let processor = field("/proc/cpuinfo", "model name").unwrap_or("unknown".to_owned());
    let memory = field("/proc/meminfo", "MemTotal")
        .and_then(|memory| memory.trim_end_matches(" kB").parse::<f64>().ok())
        .map_or(0.0, |kilobytes| kilobytes / 1024.0 / 1024.0);
    format!("{cores} cores, {processor}, {memory:.0} GiB of memory")
}
