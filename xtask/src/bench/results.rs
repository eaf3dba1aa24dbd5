//! The file of results.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub struct Results {
    pub runs: Vec<Run>,
    pub rows: Vec<Row>,
}

/// When and where a part was measured.
#[derive(Debug, Deserialize)]
pub struct Run {
    pub part: String,
    pub date: String,
    pub machine: String,
    /// What a reader has to know about the run.
    pub note: Option<String>,
}

/// A value, and how it compares with that of another peer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Row {
    pub part: String,
    pub subject: String,
    pub peer: String,
    pub value: f64,
    pub unit: String,
    pub ratio: Option<f64>,
    pub of: Option<String>,
    /// Required minimum and maximum of the ratio, or of the value if there is no ratio.
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
}

impl Results {
    pub fn read(file: &Path) -> Result<Self> {
        let text = fs::read(file).with_context(|| format!("no {}", file.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} has no results", file.display()))
    }

    /// Subjects of a part, in the order in which they were measured.
    pub fn subjects(&self, part: &str) -> Vec<&str> {
        let mut subjects = Vec::new();
        for row in self.rows.iter().filter(|row| row.part == part) {
            if !subjects.contains(&row.subject.as_str()) {
                subjects.push(&row.subject);
            }
        }
        subjects
    }

    pub fn of_subject(&self, part: &str, subject: &str) -> impl Iterator<Item = &Row> {
        let rows = self.rows.iter();
        rows.filter(move |row| row.part == part && row.subject == subject)
    }
}

impl Row {
    /// Returns the requirement, and whether it is met.
    pub fn goal(&self) -> Option<(String, bool)> {
        let compared = self.ratio.unwrap_or(self.value);
        match (self.at_least, self.at_most) {
            (Some(least), _) => Some((format!("at least {least}"), compared >= least)),
            (_, Some(most)) => Some((format!("at most {most}"), compared <= most)),
            _ => None,
        }
    }

    /// The value with its unit: `8,267 pairs/s`, `2.66 ms`.
    pub fn text(&self) -> String {
        format!("{} {}", number(self.value), self.unit)
            .trim_end()
            .to_owned()
    }
}

/// A number with three significant digits or more, and with separators.
pub fn number(value: f64) -> String {
    if value < 100.0 {
        let text = format!("{value:.2}");
        return text.strip_suffix(".00").unwrap_or(&text).to_owned();
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_have_separators_and_few_digits() {
        let texts = [0.834, 3.0, 99.5, 100.4, 8267.0, 177_780.0, 2_000_000.0].map(number);
        let right = ["0.83", "3", "99.50", "100", "8,267", "177,780", "2,000,000"];
        assert_eq!(texts, right);
    }
}
