//! A bar chart as SVG: one bar for each peer, with its name and its value as text. It brings its own background, so that it is legible
//! on light and dark pages.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Result, ensure};

use super::results::{Results, Row};

const WIDTH: usize = 680;
const MARGIN: usize = 16;
/// Length of the longest bar. The rest of the width is for its value.
const MAX_BAR: f64 = 480.0;
const TITLE_HEIGHT: usize = 44;
const ROW_HEIGHT: usize = 38;
const BAR_HEIGHT: usize = 12;
/// Characters of a title that fit the width.
const MAX_TITLE: usize = 84;
/// Longest name of a file, without its ending.
const MAX_NAME: usize = 70;

/// Units of the bars, for parts whose first rows have another unit. The first one that a subject has counts.
const UNITS: [(&str, &[&str]); 2] = [
    ("latency", &["ms p99"]),
    ("growth", &["ms p99", "MB, last minute"]),
];

const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#1f2328}
.title{font-size:15px;font-weight:600}
.page{fill:#ffffff}
.bar{fill:#8c959f}
.turno{fill:#0969da}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117}.bar{fill:#6e7681}.turno{fill:#4493f8}}";

/// Returns the charts of all subjects with at least two bars, by the names of their files.
pub fn all(results: &Results) -> Result<BTreeMap<String, String>> {
    let mut charts = BTreeMap::new();
    for run in &results.runs {
        for subject in results.subjects(&run.part) {
            let bars = bars(results, &run.part, subject);
            if bars.len() > 1 {
                let name = file(&run.part, subject);
                let known = charts.insert(name.clone(), draw(subject, &bars));
                ensure!(known.is_none(), "two subjects have the chart {name}");
            }
        }
    }
    Ok(charts)
}

/// Returns the rows that a chart shows: the first of each peer, in the unit of the part, or of the first row.
pub fn bars<'a>(results: &'a Results, part: &str, subject: &str) -> Vec<&'a Row> {
    let rows: Vec<&Row> = results.of_subject(part, subject).collect();
    let has = |unit: &&&str| rows.iter().any(|row| row.unit == **unit);
    let of_part = UNITS.iter().find(|(name, _)| *name == part);
    let unit = of_part.and_then(|(_, units)| units.iter().find(has));
    let unit = unit.copied().or(rows.first().map(|row| row.unit.as_str()));
    let mut bars: Vec<&Row> = Vec::new();
    for row in rows {
        if Some(row.unit.as_str()) == unit && bars.iter().all(|bar| bar.peer != row.peer) {
            bars.push(row);
        }
    }
    bars
}

/// Name of the file of a chart.
pub fn file(part: &str, subject: &str) -> String {
    // The subjects of calls are names of functions; the others name what they measure.
    let text = match part {
        "calls" => format!("call {subject}"),
        _ => subject.to_lowercase(),
    };
    let mut name = String::new();
    for word in text.split(|c: char| !c.is_ascii_alphanumeric()) {
        if name.len() + word.len() > MAX_NAME {
            break;
        }
        if !word.is_empty() && !name.is_empty() {
            name.push('-');
        }
        name.push_str(word);
    }
    format!("{name}.svg")
}

fn draw(subject: &str, bars: &[&Row]) -> String {
    let title = escaped(subject);
    let values: Vec<String> = bars
        .iter()
        .map(|row| format!("{}: {}", row.peer, row.text()))
        .collect();
    let description = escaped(&values.join("; "));
    let height = TITLE_HEIGHT + bars.len() * ROW_HEIGHT + MARGIN / 2;
    let largest = bars.iter().map(|row| row.value).fold(0.0, f64::max);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-labelledby=\"title description\">\n\
         <title id=\"title\">{title}</title>\n<desc id=\"description\">{description}</desc>\n\
         <style>\n{STYLE}\n</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"28\">{}</text>\n",
        escaped(&shortened(subject))
    );
    for (place, row) in bars.iter().enumerate() {
        let label = TITLE_HEIGHT + place * ROW_HEIGHT + 12;
        let top = label + 6;
        let length = if largest > 0.0 {
            (row.value / largest * MAX_BAR).max(1.0)
        } else {
            1.0
        };
        let class = if is_turno(row) { "bar turno" } else { "bar" };
        // Writing to a string does not fail.
        let _ = writeln!(
            svg,
            "<text x=\"{MARGIN}\" y=\"{label}\">{}</text>\n\
             <rect class=\"{class}\" x=\"{MARGIN}\" y=\"{top}\" width=\"{length:.1}\" height=\"{BAR_HEIGHT}\" rx=\"2\"/>\n\
             <text x=\"{:.1}\" y=\"{}\">{}</text>",
            escaped(&row.peer),
            MARGIN as f64 + length + 8.0,
            top + BAR_HEIGHT - 1,
            escaped(&row.text())
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Whether a bar is Turno's: it is named so, or something is required of it.
fn is_turno(row: &Row) -> bool {
    row.peer.starts_with("turno") || row.goal().is_some()
}

fn shortened(title: &str) -> String {
    if title.chars().count() <= MAX_TITLE {
        return title.to_owned();
    }
    let begin: String = title.chars().take(MAX_TITLE - 1).collect();
    format!("{begin}…")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::tables::tests::example;
    use super::*;

    /// `TURNO_UPDATE_GOLDEN=1` rewrites the file.
    #[test]
    fn chart_golden() {
        let chart = all(&example()).unwrap().remove("pushing-many.svg");
        let chart = chart.unwrap();
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bench/golden/chart.svg");
        if std::env::var_os("TURNO_UPDATE_GOLDEN").is_some() {
            fs::write(&golden, &chart).unwrap();
        }
        assert_eq!(chart, fs::read_to_string(golden).unwrap());
    }

    #[test]
    fn a_chart_has_one_bar_for_each_peer_in_one_unit() {
        let results = example();
        let bars = bars(&results, "calls", "inbox_push");
        let peers: Vec<&str> = bars.iter().map(|bar| bar.peer.as_str()).collect();
        let right = [
            "bare, 8 connections",
            "bare, same promise, 8 connections",
            "turno, 8 connections",
        ];
        assert_eq!(peers, right);
        assert!(bars.iter().all(|bar| bar.unit == "calls/s"));
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escaped("a <b> & \"c\""), "a &lt;b&gt; &amp; &quot;c&quot;");
    }
}
