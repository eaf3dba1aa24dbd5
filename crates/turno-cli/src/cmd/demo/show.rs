//! Output of the scenarios and their results.

use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum as _;
use comfy_table::{Cell, Color};
use serde_json::{Value, json};

use super::figures::{Figures, Run, Shown};
use super::scenario::Scenario;
use super::set::Variant;
use crate::output::{Output, number};

const HEADER: [&str; 8] = [
    "SCENARIO",
    "HOW",
    "OPERATIONS",
    "DUPLICATES",
    "LOST UPDATES",
    "LOST ITEMS",
    "LOST EVENTS",
    "TIME",
];

/// Prints the scenarios.
pub(super) fn list(output: Output) -> Result<()> {
    let all = Scenario::value_variants();
    if output.is_json() {
        let object = |one: &Scenario| json!({"scenario": one.name(), "primitive": one.primitive(), "story": one.story()});
        return output.json(&json!({"scenarios": all.iter().map(object).collect::<Vec<_>>()}));
    }
    let row = |one: &Scenario| {
        let words = [one.name(), one.primitive(), one.story()];
        words.map(Cell::new).to_vec()
    };
    output.table(
        &["SCENARIO", "PRIMITIVE", "WHAT HAPPENS"],
        all.iter().map(row).collect(),
    )
}

/// Prints the results of all runs. The exit code says whether all runs with Turno are clean.
pub(super) fn table(output: Output, shown: &[Shown]) -> Result<ExitCode> {
    let is_clean = shown.iter().all(Shown::is_clean);
    if output.is_json() {
        let scenarios: Vec<Value> = shown.iter().map(object).collect();
        output.json(&json!({"scenarios": scenarios, "clean": is_clean}))?;
    } else {
        output.table(&HEADER, shown.iter().flat_map(rows).collect())?;
        for one in shown {
            output.line(&story(one))?;
        }
    }
    Ok(if is_clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn object(shown: &Shown) -> Value {
    let run = |run: &Run| {
        let figures = &run.count.figures;
        json!({
            "how": shown.scenario.label(run.how),
            "turno": run.how == Variant::Turno,
            "processes": run.processes,
            "killed": run.killed,
            "operations": figures.operations,
            "duplicates": figures.duplicates,
            "lost_updates": figures.lost_updates,
            "lost_items": figures.lost_items,
            "lost_events": figures.lost_events,
            "remark": run.count.remark,
            "took_ms": u64::try_from(run.took.as_millis()).unwrap_or(u64::MAX),
        })
    };
    json!({
        "scenario": shown.scenario.name(),
        "primitive": shown.scenario.primitive(),
        "runs": shown.runs.iter().map(run).collect::<Vec<_>>(),
    })
}

/// Returns one row per variant. The scenario is named once.
fn rows(shown: &Shown) -> Vec<Vec<Cell>> {
    let row = |(place, run): (usize, &Run)| {
        let name = if place == 0 {
            shown.scenario.name()
        } else {
            ""
        };
        let Figures {
            operations,
            duplicates,
            lost_updates,
            lost_items,
            lost_events,
        } = run.count.figures;
        vec![
            Cell::new(name),
            Cell::new(shown.scenario.label(run.how)),
            number(operations),
            figure(duplicates),
            figure(lost_updates),
            figure(lost_items),
            figure(lost_events),
            number(format!("{:.1} s", run.took.as_secs_f32())),
        ]
    };
    shown.runs.iter().enumerate().map(row).collect()
}

/// Red if it is bad, green if it is good, and a dash if it cannot happen in the scenario.
fn figure(value: Option<u32>) -> Cell {
    match value {
        None => number("–"),
        Some(0) => number(0).fg(Color::Green),
        Some(bad) => number(bad).fg(Color::Red),
    }
}

/// Returns a description of the results.
fn story(shown: &Shown) -> String {
    let Shown { scenario, runs } = shown;
    let mut text = format!(
        "\n{}, {}: {}",
        scenario.name(),
        scenario.primitive(),
        scenario.story()
    );
    for run in runs {
        let label = scenario.label(run.how);
        text.push_str(&format!("\n  {label:12}  {}", run.count.remark));
    }
    text
}
