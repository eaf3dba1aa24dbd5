//! The table of the calls: three lines for each subject, and how they compare.

use super::subjects::Subject;
use super::{Cost, Inside, VARIANTS};
use crate::record::{self, Goal, Row};

/// Largest ratios of Turno to the bare statements with the same promise.
const MAX_CPU: f64 = 1.5;
const MAX_WAL: f64 = 2.0;

pub fn heading(connections: usize) {
    println!("\nThe cost of one call on PostgreSQL, connections: {connections}");
    println!(
        "  {:<29} {:<20} {:>9} {:>9} {:>9} {:>9} {:>11}",
        "", "", "calls/s", "CPU µs", "WAL bytes", "buffers", "statements"
    );
}

/// Prints and records the variants of a subject.
pub fn print(
    subject: &Subject,
    connections: usize,
    costs: &[Cost; 3],
    inside: Option<&[Inside; 3]>,
) {
    for (at, variant) in VARIANTS.iter().enumerate() {
        let name = if at == 0 { subject.name } else { "" };
        let cost = costs[at];
        let counted = inside.map_or(String::new(), |inside| {
            let Inside {
                statements,
                buffers,
            } = inside[at];
            format!(" {buffers:>9.1} {statements:>11.1}")
        });
        println!(
            "  {name:<29} {variant:<20} {:>9.0} {:>9.1} {:>9.0}{counted}",
            cost.per_second, cost.cpu_us, cost.wal_bytes
        );
    }
    let mut comparisons = Vec::new();
    for row in rows(subject, connections, costs, inside) {
        if let (Some(ratio), Some(goal)) = (row.ratio, row.goal()) {
            comparisons.push(format!("{} × {ratio:.2} ({goal})", row.unit));
        }
        record::add(row);
    }
    println!("  {:<29} {}", "", comparisons.join(", "));
}

/// Returns the results of a subject, one for each value and comparison.
fn rows(
    subject: &Subject,
    connections: usize,
    costs: &[Cost; 3],
    inside: Option<&[Inside; 3]>,
) -> Vec<Row> {
    let peer = |at: usize| match connections {
        1 => format!("{}, 1 connection", VARIANTS[at]),
        _ => format!("{}, {connections} connections", VARIANTS[at]),
    };
    let value =
        |at: usize, unit: &'static str, value: f64| Row::new(subject.name, &peer(at), value, unit);
    let mut rows = Vec::new();
    let mut compare = |unit: &'static str, values: [f64; 3], goals: [Option<Goal>; 2]| {
        rows.extend((0..2).map(|at| value(at, unit, values[at])));
        for (of, goal) in goals.into_iter().enumerate() {
            let turno = value(2, unit, values[2]);
            rows.push(turno.against(&peer(of), values[2] / values[of], goal));
        }
    };
    let floor = subject.floor.map(Goal::AtLeast);
    compare("calls/s", costs.map(|c| c.per_second), [floor, None]);
    let cpu = Some(Goal::AtMost(MAX_CPU));
    compare("µs CPU", costs.map(|c| c.cpu_us), [None, cpu]);
    let wal = Some(Goal::AtMost(MAX_WAL));
    compare("bytes WAL", costs.map(|c| c.wal_bytes), [None, wal]);
    if let Some(inside) = inside {
        compare("buffers", inside.map(|i| i.buffers), [None, None]);
        compare("statements", inside.map(|i| i.statements), [None, None]);
    }
    rows
}
