//! The alerts and the dashboard: their metrics exist, and Prometheus understands their queries.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::{accepts, path, read};

const ALERTS: &str = "packaging/prometheus-alerts.yml";
const DASHBOARD: &str = "packaging/grafana-dashboard.json";

/// Returns the names of metrics in a text. Queries use the parts of a histogram.
fn names(text: &str) -> BTreeSet<&str> {
    let is_other = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    text.split(is_other)
        .filter(|word| word.starts_with("turno_") || word.starts_with("ticketflow_"))
        .map(|word| word.strip_suffix("_bucket").unwrap_or(word))
        .collect()
}

/// Returns the names of the server's metrics; its own tests check that these are correct.
fn counted(golden: &str) -> BTreeSet<&str> {
    let names = golden.lines().filter_map(|line| line.split(' ').next());
    names.collect()
}

/// Checks that label values in rules are documented for their metric.
fn label_values_are_documented(text: &str, documented: &str) -> usize {
    let mut looked_at = 0;
    for part in text.split("turno_").skip(1) {
        let Some((name, rest)) = part.split_once('{') else {
            continue;
        };
        let Some((labels, _)) = rest.split_once('}') else {
            continue;
        };
        if !name.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
            continue;
        }
        let row = format!("| `turno_{}` |", name.trim_end_matches("_bucket"));
        let row = documented
            .lines()
            .find(|line| line.starts_with(&row))
            .unwrap_or_else(|| panic!("turno_{name} is not documented"));
        for label in labels.split(',').filter(|label| !label.contains("$job")) {
            let (key, values) = label.split_once('=').unwrap();
            assert!(row.contains(&format!("`{}`", key.trim())), "{label}: {row}");
            // If a row does not list them, they are those of another row.
            let said = if row.contains(&format!("`{}`:", key.trim())) {
                row
            } else {
                documented
            };
            for value in values.trim_matches(['~', '"']).split('|') {
                assert!(said.contains(&format!("`{value}`")), "{value}: {row}");
                looked_at += 1;
            }
        }
    }
    looked_at
}

#[test]
fn what_is_alerted_on_and_plotted_is_counted() {
    let golden = read("crates/turno-server/tests/golden/metrics.txt");
    let documented = read("docs/metrics.md");
    // The example TicketFlow has metrics of its own; its own tests check the list.
    let example = read("examples/ticketflow/tests/golden/metrics.txt");
    let counted: BTreeSet<_> = counted(&golden)
        .union(&counted(&example))
        .copied()
        .collect();
    let (alerts, dashboard) = (read(ALERTS), read(DASHBOARD));
    for text in [&alerts, &dashboard] {
        let asked = names(text);
        let unknown: Vec<_> = asked.difference(&counted).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
    let left_out: Vec<_> = counted.difference(&names(&dashboard)).copied().collect();
    assert_eq!(left_out, [""; 0], "the dashboard shows everything");
    let looked_at = label_values_are_documented(&alerts, &documented)
        + label_values_are_documented(&dashboard.replace("\\\"", "\""), &documented);
    assert!(looked_at > 8, "{looked_at}");
}

/// The alerts that docs/operating.md recommends exist.
#[test]
fn each_condition_in_the_guide_has_an_alert() {
    let guide = read("docs/operating.md");
    let (_, table) = guide.split_once("## What to alert on").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let conditions = names(table);
    assert!(conditions.len() > 6, "{conditions:?}");
    let alerts = read(ALERTS);
    let missing: Vec<_> = conditions.difference(&names(&alerts)).copied().collect();
    assert_eq!(missing, [""; 0]);
}

/// `promtool test rules`: each alert fires when everything fails, and none when everything works.
#[test]
fn each_alert_fires_when_it_should_and_not_when_all_is_well() {
    let test = "packaging/prometheus-alerts.test.yml";
    accepts(
        Command::new("promtool")
            .args(["test", "rules"])
            .arg(path(test)),
    );
    let (alerts, tested) = (read(ALERTS), read(test));
    for line in alerts.lines() {
        if let Some((_, name)) = line.split_once("- alert: ") {
            let both = tested.matches(&format!("alertname: {name}\n")).count();
            assert_eq!(both, 1, "{name} is seen to fire");
            let silent = format!("alertname: {name} }}");
            assert!(tested.contains(&silent), "{name} is seen to be silent");
        }
    }
    // The control: without alerts, the test fails.
    let folder = tempfile::tempdir().unwrap();
    let never = alerts.replace("> 60\n", "> 6000\n");
    assert_ne!(never, alerts);
    fs::write(folder.path().join("prometheus-alerts.yml"), never).unwrap();
    let copy = folder.path().join("test.yml");
    fs::write(&copy, tested).unwrap();
    let refused = Command::new("promtool")
        .args(["test", "rules"])
        .arg(copy)
        .output()
        .unwrap();
    assert!(!refused.status.success());
}

/// All queries of the dashboard, as rules, which Prometheus's own tool reads.
#[test]
fn the_queries_of_the_dashboard_are_understood() {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut rules = String::from("groups:\n- name: dashboard\n  rules:\n");
    let mut count = 0;
    for panel in panels {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().unwrap();
            assert!(!names(query).is_empty(), "no metric in {query}");
            let query = query.replace("$__rate_interval", "5m");
            assert!(query.contains("job=~\"$job\""), "of one store: {query}");
            count += 1;
            // A JSON string is valid YAML.
            let query = Value::from(query);
            rules += &format!("  - record: query_{count}\n    expr: {query}\n");
        }
    }
    assert!(count > 20, "{count}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yml");
    fs::write(&file, rules).unwrap();
    accepts(Command::new("promtool").args(["check", "rules"]).arg(&file));
}

#[test]
fn no_panel_lies_on_another() {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let mut taken = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = &panel["title"];
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        let side = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(side("x") + side("w") <= 24, "{title}");
        for x in side("x")..side("x") + side("w") {
            for y in side("y")..side("y") + side("h") {
                assert!(taken.insert((x, y)), "{title} at {x}, {y}");
            }
        }
    }
}
