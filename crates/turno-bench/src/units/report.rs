//! The table of costs.

use super::meter::Reading;
use crate::inbox::work::median;
use crate::record::{self, Row};

/// A unit, and its value in a reading.
type Column = (&'static str, fn(&Reading) -> f64);

const COLUMNS: [Column; 4] = [
    ("bytes WAL", |cost| cost.wal_bytes),
    ("dead rows", |cost| cost.dead_rows),
    ("buffers written", |cost| cost.buffers_written),
    ("µs CPU", |cost| cost.cpu_seconds * 1e6),
];

/// Prints and records the medians. Turno is the last one, and is compared with the one before it.
pub fn print(title: &str, measured: &[(&str, Vec<Reading>)]) {
    let subject = format!("Cost per unit on PostgreSQL: {title}");
    println!("\n{subject}");
    print!("  {:<38}", "");
    for (unit, _) in COLUMNS {
        print!(" {unit:>15}");
    }
    println!();
    let value = |costs: &[Reading], of: fn(&Reading) -> f64| median(costs.iter().map(of).collect());
    for (at, (name, costs)) in measured.iter().enumerate() {
        print!("  {name:<38}");
        for (unit, of) in COLUMNS {
            let cost = value(costs, of);
            let digits = if cost < 100.0 { 2 } else { 0 };
            print!(" {cost:>15.digits$}");
            let row = Row::new(&subject, name, cost, unit);
            let is_last = at + 1 == measured.len();
            record::add(match measured.get(at.wrapping_sub(1)) {
                Some((other, costs)) if is_last => {
                    row.against(other, cost / value(costs, of), None)
                }
                _ => row,
            });
        }
        println!();
    }
}
