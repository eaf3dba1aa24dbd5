//! The marked tables of the documents. `<!-- results: NAME -->` begins one, and `<!-- end of results -->` ends it.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};

use super::chart;
use super::results::{Results, Row, number};

const BEGIN: &str = "<!-- results: ";
const END: &str = "<!-- end of results -->";

/// Variants of a call.
const BARE: &str = "bare";
const SAME: &str = "bare, same promise";
const TURNO: &str = "turno";

/// Parts whose rows have several values, each with its own unit: a column for each unit.
const GRIDS: [&str; 3] = ["latency", "units", "growth"];

/// A line of the summary, and what it is compared with: the name of a peer, and its name in the summary.
struct Summary {
    label: &'static str,
    part: &'static str,
    /// Begin of the subject.
    subject: &'static str,
    peer: &'static str,
    /// Ratios of the peer.
    ratios: &'static [(&'static str, &'static str)],
    /// Values of other peers.
    values: &'static [(&'static str, &'static str)],
}

const SUMMARY: &[Summary] = &[
    Summary {
        label: "lock: acquire + release, PostgreSQL, 16 clients",
        part: "postgres",
        subject: "Locks on PostgreSQL, 16 clients: acquire",
        peer: "turno",
        ratios: &[(
            "bare statements, the same two row changes",
            "two bare updates",
        )],
        values: &[],
    },
    Summary {
        label: "lock: the same by SQL, 8 connections, one call each",
        part: "calls",
        subject: "lock_acquire + lock_release",
        peer: "turno, 8 connections",
        ratios: &[
            ("bare, 8 connections", "two bare updates"),
            (
                "bare, same promise, 8 connections",
                "updates with a token and a history",
            ),
        ],
        values: &[],
    },
    Summary {
        label: "inbox: push, PostgreSQL",
        part: "inbox",
        subject: "Inbox on PostgreSQL: pushing",
        peer: "turno",
        ratios: &[("pgmq", "pgmq")],
        values: &[],
    },
    Summary {
        label: "inbox: drain, PostgreSQL",
        part: "inbox",
        subject: "Inbox on PostgreSQL: draining, until",
        peer: "turno",
        ratios: &[("graphile_worker", "graphile_worker"), ("pgmq", "pgmq")],
        values: &[],
    },
    Summary {
        label: "inbox: the same, while another session holds a snapshot open",
        part: "inbox",
        subject: "Inbox on PostgreSQL: draining, until",
        peer: "turno, a snapshot held open for four drains",
        ratios: &[("turno", "without it")],
        values: &[("pgmq, a snapshot held open, four times the items", "pgmq")],
    },
    Summary {
        label: "inbox: claim + complete by SQL, 8 connections, one item each",
        part: "calls",
        subject: "inbox_claim + inbox_complete",
        peer: "turno, 8 connections",
        ratios: &[
            ("bare, 8 connections", "a skip-locked update and a delete"),
            (
                "bare, same promise, 8 connections",
                "the same with a token and a history",
            ),
        ],
        values: &[],
    },
    Summary {
        label: "inbox: drain, SQLite",
        part: "inbox-sqlite",
        subject: "Inbox on SQLite: draining",
        peer: "turno",
        ratios: &[("effectum (synchronous = normal)", "effectum")],
        values: &[],
    },
    Summary {
        label: "inbox: from push to handler, idle, PostgreSQL",
        part: "inbox",
        subject: "Inbox on PostgreSQL: an idle worker",
        peer: "turno",
        ratios: &[],
        values: &[("graphile_worker", "graphile_worker")],
    },
    Summary {
        label: "outbox: PostgreSQL to RabbitMQ, quorum queue, confirmed",
        part: "outbox",
        subject: "Outbox to RabbitMQ",
        peer: "turno, parallel",
        ratios: &[("bare publisher, a window of 500", "a bare publisher")],
        values: &[("row by row, as it is usually done", "row by row")],
    },
    Summary {
        label: "outbox: from commit to consumer, idle, median",
        part: "outbox",
        subject: "Outbox, idle",
        peer: "median",
        ratios: &[],
        values: &[("99 of 100 within", "99 of 100 within")],
    },
    Summary {
        label: "once: new requests through the HTTP layer, PostgreSQL",
        part: "once",
        subject: "Once on PostgreSQL: new requests",
        peer: "the layer around that handler",
        ratios: &[("two row writes by hand", "two hand-written row writes")],
        values: &[],
    },
    Summary {
        label: "once: replayed answers",
        part: "once",
        subject: "Once on PostgreSQL: repeated requests",
        peer: "the layer",
        ratios: &[("one indexed read by hand", "one hand-written indexed read")],
        values: &[],
    },
    Summary {
        label: "gate: requests without a policy",
        part: "once",
        subject: "The gate in front of a service",
        peer: "the gate, its route switched off",
        ratios: &[("a bare proxy", "a bare hyper proxy")],
        values: &[],
    },
];

/// Returns a document with all marked tables as the results give them.
pub fn rewrite(document: &str, results: &Results) -> Result<String> {
    let mut text = String::new();
    let mut rest = document;
    while let Some((before, marked)) = rest.split_once(BEGIN) {
        let (name, marked) = marked
            .split_once(" -->")
            .context("a marker ends with -->")?;
        let (_, after) = marked
            .split_once(END)
            .with_context(|| format!("the marker {name} has no {END}"))?;
        let table = table(name, results).with_context(|| format!("the marker {name}"))?;
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{before}{BEGIN}{name} -->\n\n{}\n\n{END}",
            table.trim_end()
        );
        rest = after;
    }
    ensure!(!text.is_empty(), "there is no marker {BEGIN}…");
    text.push_str(rest);
    Ok(text)
}

fn table(name: &str, results: &Results) -> Result<String> {
    match name {
        "runs" => Ok(runs(results)),
        "short" => Ok(short(results)),
        "summary" => summary(results, SUMMARY),
        "calls" => calls(results),
        part if GRIDS.contains(&part) => grids(results, part),
        part => subjects(results, part),
    }
}

/// When and where each part was measured.
fn runs(results: &Results) -> String {
    let mut text = "| part | measured on | machine |\n|---|---|---|\n".to_owned();
    for run in &results.runs {
        let note = run.note.as_ref().map(|note| format!("; {note}"));
        let machine = format!("{}{}", run.machine, note.unwrap_or_default());
        let _ = writeln!(text, "| {} | {} | {machine} |", run.part, run.date);
    }
    text
}

/// The requirements that are not met. A call has one line for all numbers of connections.
fn short(results: &Results) -> String {
    let mut lines: Vec<(String, Vec<String>, String)> = Vec::new();
    for row in &results.rows {
        let Some((goal, false)) = row.goal() else {
            continue;
        };
        let is = ratio(row).unwrap_or_else(|| row.text());
        let what = match row.part.as_str() {
            "calls" => format!("`{}`: {}", row.subject, row.unit),
            _ => format!("{}: {}", row.subject, row.peer),
        };
        match lines
            .iter_mut()
            .find(|line| line.0 == what && line.2 == goal)
        {
            Some((_, all, _)) => all.push(is),
            None => lines.push((what, vec![is], goal)),
        }
    }
    let mut text = "| measured | is | required |\n|---|---|---|\n".to_owned();
    for (what, is, goal) in lines {
        let _ = writeln!(text, "| {what} | {} | {goal} |", is.join("; "));
    }
    text
}

fn summary(results: &Results, lines: &[Summary]) -> Result<String> {
    let mut text = "| | Turno | compared with |\n|---|---|---|\n".to_owned();
    for line in lines {
        let rows: Vec<&Row> = results
            .rows
            .iter()
            .filter(|row| row.part == line.part && row.subject.starts_with(line.subject))
            .collect();
        let find = |peer: &str, of: Option<&str>| {
            let is_it = |row: &&&Row| row.peer == peer && (of.is_none() || row.of.as_deref() == of);
            let row = rows.iter().find(is_it);
            row.with_context(|| format!("no result for {}: {peer}, {of:?}", line.subject))
        };
        let mut compared = Vec::new();
        for (of, shown) in line.ratios {
            let ratio = find(line.peer, Some(of))?.ratio.unwrap_or_default();
            compared.push(format!("{ratio:.2} × {shown}"));
        }
        for (peer, shown) in line.values {
            compared.push(format!("{shown}: {}", find(peer, None)?.text()));
        }
        let value = find(line.peer, None)?.text();
        let _ = writeln!(
            text,
            "| {} | {value} | {} |",
            line.label,
            compared.join("; ")
        );
    }
    Ok(text)
}

/// The calls: a chart for each, and a table for each number of connections.
fn calls(results: &Results) -> Result<String> {
    let subjects = results.subjects("calls");
    ensure!(!subjects.is_empty(), "there are no results of calls");
    let mut levels: Vec<&str> = Vec::new();
    for row in results.rows.iter().filter(|row| row.part == "calls") {
        let (_, level) = row
            .peer
            .rsplit_once(", ")
            .context("a peer has connections")?;
        if !levels.contains(&level) {
            levels.push(level);
        }
    }
    let mut text = String::new();
    for level in levels {
        let _ = writeln!(
            text,
            "{level}:\n\n| call | calls/s | × bare | × same promise | CPU | × same promise | WAL | × same promise | buffers | × same promise | statements |\n\
             |---|---|---|---|---|---|---|---|---|---|---|"
        );
        for subject in &subjects {
            let rows: Vec<&Row> = results.of_subject("calls", subject).collect();
            let find = |unit: &str, of: &str| {
                let (peer, of) = (format!("{TURNO}, {level}"), format!("{of}, {level}"));
                let is_it = |row: &&&Row| {
                    row.unit == unit && row.peer == peer && row.of.as_deref() == Some(&of)
                };
                rows.iter().find(is_it).copied()
            };
            let value = |unit: &str, shown: &str| {
                find(unit, SAME)
                    .map_or(String::new(), |row| format!("{}{shown}", number(row.value)))
            };
            let compared = |unit: &str, of: &str| find(unit, of).map_or(String::new(), bold_ratio);
            let cells = [
                value("calls/s", ""),
                compared("calls/s", BARE),
                compared("calls/s", SAME),
                value("µs CPU", " µs"),
                compared("µs CPU", SAME),
                value("bytes WAL", " B"),
                compared("bytes WAL", SAME),
                value("buffers", ""),
                compared("buffers", SAME),
                value("statements", ""),
            ];
            let _ = writeln!(text, "| `{subject}` | {} |", cells.join(" | "));
        }
        text.push('\n');
    }
    for subject in &subjects {
        text.push_str(&image(results, "calls", subject));
    }
    Ok(text)
}

/// The subjects of a part: a chart and a table for each.
fn subjects(results: &Results, part: &str) -> Result<String> {
    let subjects = results.subjects(part);
    ensure!(!subjects.is_empty(), "there are no results of {part}");
    let mut text = String::new();
    for subject in subjects {
        text.push_str(&image(results, part, subject));
        let _ = writeln!(text, "| {subject} | | compared with |\n|---|---|---|");
        let rows: Vec<&Row> = results.of_subject(part, subject).collect();
        for (place, row) in rows.iter().enumerate() {
            if rows[..place].iter().any(|other| other.peer == row.peer) {
                continue;
            }
            let same = rows.iter().filter(|other| other.peer == row.peer);
            let compared: Vec<String> = same.filter_map(|row| comparison(row)).collect();
            let compared = compared.join("; ");
            let _ = writeln!(text, "| {} | {} | {compared} |", row.peer, row.text());
        }
        text.push('\n');
    }
    Ok(text)
}

/// The subjects of a part: a chart for each, and a table with a column for each unit.
fn grids(results: &Results, part: &str) -> Result<String> {
    let subjects = results.subjects(part);
    ensure!(!subjects.is_empty(), "there are no results of {part}");
    let mut text = String::new();
    for subject in subjects {
        text.push_str(&image(results, part, subject));
        let (mut peers, mut units): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
        let rows: Vec<&Row> = results.of_subject(part, subject).collect();
        for row in &rows {
            if !peers.contains(&row.peer.as_str()) {
                peers.push(&row.peer);
            }
            if !units.contains(&row.unit.as_str()) {
                units.push(&row.unit);
            }
        }
        let _ = writeln!(text, "| {subject} | {} |", units.join(" | "));
        let _ = writeln!(text, "|---|{}", "---|".repeat(units.len()));
        for peer in peers {
            let value = |unit: &&str| {
                let row = rows
                    .iter()
                    .find(|row| row.peer == peer && row.unit == **unit);
                row.map_or(String::new(), |row| number(row.value))
            };
            let values: Vec<String> = units.iter().map(value).collect();
            let _ = writeln!(text, "| {peer} | {} |", values.join(" | "));
        }
        text.push('\n');
    }
    Ok(text)
}

fn image(results: &Results, part: &str, subject: &str) -> String {
    if chart::bars(results, part, subject).len() < 2 {
        return String::new();
    }
    let file = chart::file(part, subject);
    format!("![Bar chart of {subject}](benchmarks/{file})\n\n")
}

fn ratio(row: &Row) -> Option<String> {
    Some(format!("{:.2} × {}", row.ratio?, row.of.as_deref()?))
}

/// The ratio, bold if its requirement is not met.
fn bold_ratio(row: &Row) -> String {
    let ratio = row.ratio.unwrap_or_default();
    match row.goal() {
        Some((_, false)) => format!("**{ratio:.2}**"),
        _ => format!("{ratio:.2}"),
    }
}

/// The ratio of a row, and what is required.
fn comparison(row: &Row) -> Option<String> {
    let goal = row
        .goal()
        .map(|(goal, is_met)| format!("({goal}: {})", if is_met { "yes" } else { "**no**" }));
    match (ratio(row), goal) {
        (Some(ratio), Some(goal)) => Some(format!("{ratio} {goal}")),
        (ratio, goal) => ratio.or(goal),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Results of two parts.
    pub fn example() -> Results {
        serde_json::from_str(include_str!("golden/results.json")).unwrap()
    }

    const MARKED: &str =
        "Before.\n\n<!-- results: inbox -->\nold\n<!-- end of results -->\n\nAfter.\n";

    #[test]
    fn a_marked_table_is_rewritten_and_the_rest_is_not() {
        let text = rewrite(MARKED, &example()).unwrap();
        assert!(
            text.starts_with("Before.\n\n<!-- results: inbox -->\n\n![Bar chart of Pushing, many]")
        );
        assert!(text.ends_with("<!-- end of results -->\n\nAfter.\n"));
        assert!(!text.contains("old"));
        assert!(text.contains("| pgmq | 123,159 items/s |  |"), "{text}");
        let turno = "| turno | 142,507 items/s | 1.16 × pgmq (at least 1: yes); 1.53 × skip_locked (at least 2: **no**) |";
        assert!(text.contains(turno), "{text}");
        assert_eq!(rewrite(&text, &example()).unwrap(), text);
    }

    #[test]
    fn calls_have_a_table_for_each_number_of_connections() {
        let text = table("calls", &example()).unwrap();
        let line = "| `inbox_push` | 6,000 | 0.67 | 0.75 | 95.30 µs | 1.36 | 500 B | **2.10** | 20 | 1.67 | 3 |";
        assert!(text.contains("8 connections:\n"), "{text}");
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn a_part_with_several_units_has_a_column_for_each() {
        let row = |peer: &str, value: f64, unit: &str| {
            let text = format!(
                r#"{{"part":"latency","subject":"Lock","peer":"{peer}","value":{value},"unit":"{unit}"}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let results = Results {
            runs: Vec::new(),
            rows: vec![
                row("turno, 50 %", 2048.0, "per second"),
                row("turno, 50 %", 1.5, "ms p50"),
                row("turno, maximum", 4096.0, "per second"),
            ],
        };
        let text = table("latency", &results).unwrap();
        let right = "| Lock | per second | ms p50 |\n|---|---|---|\n\
                     | turno, 50 % | 2,048 | 1.50 |\n| turno, maximum | 4,096 |  |\n";
        assert!(text.contains(right), "{text}");
    }

    #[test]
    fn runs_have_their_date_machine_and_note() {
        let right =
            "| inbox | 2026-01-02 | 2 cores |\n| calls | 2026-01-03 | 2 cores; a busy machine |\n";
        assert!(runs(&example()).ends_with(right));
    }

    #[test]
    fn unmet_requirements_are_listed() {
        let text = short(&example());
        let calls =
            "| `inbox_push`: bytes WAL | 2.10 × bare, same promise, 8 connections | at most 2 |";
        assert!(text.contains(calls), "{text}");
        assert_eq!(text.lines().count(), 2 + 2, "{text}");
    }

    #[test]
    fn a_summary_without_its_result_is_an_error() {
        let line = |of| Summary {
            label: "push",
            part: "inbox",
            subject: "Pushing",
            peer: "turno",
            ratios: of,
            values: &[("pgmq", "pgmq")],
        };
        let text = summary(&example(), &[line(&[("pgmq", "the peer")])]).unwrap();
        let right = "| push | 142,507 items/s | 1.16 × the peer; pgmq: 123,159 items/s |";
        assert!(text.contains(right), "{text}");
        assert!(summary(&example(), &[line(&[("effectum", "effectum")])]).is_err());
    }

    #[test]
    fn a_document_without_a_marker_or_with_an_unknown_one_is_an_error() {
        for text in [
            "no marker",
            "<!-- results: inbox -->\n",
            "<!-- results: nothing -->\n<!-- end of results -->",
        ] {
            assert!(rewrite(text, &example()).is_err(), "{text}");
        }
    }
}
