//! Table of rates and their ratios.

use crate::record::{self, Goal, Row};

pub struct Table {
    subject: String,
    rows: Vec<Row>,
    unit: &'static str,
}

impl Table {
    pub fn new(subject: &str, unit: &'static str) -> Self {
        println!("\n{subject}");
        Table {
            subject: subject.to_owned(),
            rows: Vec::new(),
            unit,
        }
    }

    pub fn add(&mut self, name: &str, rate: f64) {
        self.print(self.row(name, rate));
    }

    /// Prints a rate, its ratio to an earlier one if that was measured, and the required minimum.
    pub fn against(&mut self, name: &str, rate: f64, other: &str, floor: Option<f64>) {
        let base = self
            .rows
            .iter()
            .find(|row| row.peer == other)
            .map_or(f64::NAN, |row| row.value);
        let row = self.row(name, rate);
        self.print(row.against(other, rate / base, floor.map(Goal::AtLeast)));
    }

    /// Prints a peer's rate, if it could be measured.
    pub fn maybe(&mut self, name: &str, rate: Option<f64>) {
        if let Some(rate) = rate {
            self.add(name, rate);
        }
    }

    /// Prints a value with its upper limit.
    pub fn limited(&mut self, name: &str, value: f64, most: f64) {
        let row = self.row(name, value);
        self.print(row.required(Some(Goal::AtMost(most))));
    }

    fn row(&self, name: &str, value: f64) -> Row {
        Row::new(&self.subject, name, value, self.unit)
    }

    fn print(&mut self, row: Row) {
        let digits = if row.value < 100.0 { 2 } else { 0 };
        let (peer, value, unit) = (&row.peer, row.value, self.unit);
        let ratio = match (row.ratio, &row.of) {
            (Some(ratio), Some(of)) => format!("{ratio:.2} × {of} "),
            _ => String::new(),
        };
        let goal = row.goal().map_or(String::new(), |goal| format!("({goal})"));
        println!("  {peer:<58} {value:>10.digits$} {unit:<8} {ratio}{goal}");
        record::add(row.clone());
        self.rows.push(row);
    }
}
