//! A line for each minute, and tables with some of them.

use std::time::Duration;

use anyhow::Result;

use super::sizes::Table;
use crate::latency::open_loop::Times;
use crate::operations::Kind;
use crate::record::{self, Row};

/// Smaller tables are left out of the results, in megabytes.
const MIN_MB: f64 = 0.1;

/// What happened in a minute.
pub struct Minute {
    /// Latencies of all operations that should have begun in this minute.
    all: Times,
    /// The same for each kind.
    kinds: Vec<Times>,
    /// At the end of the minute.
    pub tables: Vec<Table>,
}

impl Minute {
    pub fn new(kinds: usize) -> Result<Self> {
        let times: Result<Vec<Times>> = (0..kinds).map(|_| Times::new()).collect();
        Ok(Minute {
            all: Times::new()?,
            kinds: times?,
            tables: Vec::new(),
        })
    }

    pub fn record(&mut self, kind: usize, took: Duration) {
        self.all.record(took);
        self.kinds[kind].record(took);
    }

    fn per_second(&self) -> f64 {
        self.all.count() as f64 / super::MINUTE.as_secs_f64()
    }

    fn sum(&self, of: fn(&Table) -> f64) -> f64 {
        self.tables.iter().map(of).sum()
    }
}

fn p99(kind: Kind) -> String {
    let name = match kind {
        Kind::Lock => "lock",
        Kind::Inbox => "inbox",
        Kind::Outbox => "outbox",
        Kind::Once => "once",
    };
    format!("ms p99 {name}")
}

pub fn heading(other: &str, kinds: &[Kind]) {
    println!("\nTurno under a steady load on PostgreSQL, {other}");
    print!("  {:>6} {:>10} {:>9}", "minute", "per second", "ms p99");
    for kind in kinds {
        print!(" {:>13}", p99(*kind));
    }
    println!(
        " {:>10} {:>10} {:>10}",
        "MB tables", "MB indexes", "dead rows"
    );
}

pub fn line(number: usize, minute: &Minute) {
    let (rate, all) = (minute.per_second(), minute.all.quantile_ms(0.99));
    print!("  {number:>6} {rate:>10.0} {all:>9.2}");
    for times in &minute.kinds {
        print!(" {:>13.2}", times.quantile_ms(0.99));
    }
    println!(
        " {:>10.1} {:>10.1} {:>10.0}",
        minute.sum(|table| table.table_mb),
        minute.sum(|table| table.index_mb),
        minute.sum(|table| table.dead_rows)
    );
}

/// Prints the tables of the last minute. Records them, and the totals of the first minute and of every fifth one.
pub fn print(kinds: &[Kind], runs: &[(&str, Vec<Minute>)]) {
    let subject = "Growth under a steady load on PostgreSQL: rate, latency and size";
    for (other, minutes) in runs {
        for (number, minute) in (1_usize..).zip(minutes) {
            if number == 1 || number.is_multiple_of(5) {
                totals(subject, &format!("{other}, minute {number}"), kinds, minute);
            }
        }
    }
    for (other, minutes) in runs {
        if let (Some(first), Some(last)) = (minutes.first(), minutes.last()) {
            let subject = format!("Growth under a steady load on PostgreSQL: tables, {other}");
            tables(&subject, &first.tables, &last.tables);
        }
    }
}

fn totals(subject: &str, peer: &str, kinds: &[Kind], minute: &Minute) {
    let add = |value: f64, unit: &str| record::add(Row::new(subject, peer, value, unit));
    add(minute.per_second(), "per second");
    add(minute.all.quantile_ms(0.99), "ms p99");
    for (kind, times) in kinds.iter().zip(&minute.kinds) {
        add(times.quantile_ms(0.99), &p99(*kind));
    }
    add(minute.sum(|table| table.table_mb), "MB tables");
    add(minute.sum(|table| table.index_mb), "MB indexes");
    add(minute.sum(|table| table.dead_rows), "dead rows");
}

fn tables(subject: &str, first: &[Table], last: &[Table]) {
    println!("\n{subject}");
    println!(
        "  {:<24} {:>24} {:>24} {:>10}",
        "", "first minute, MB (index)", "last minute, MB (index)", "dead rows"
    );
    for table in last {
        if table.table_mb + table.index_mb < MIN_MB {
            continue;
        }
        let before = first.iter().find(|before| before.name == table.name);
        let (was, was_index) = before.map_or((0.0, 0.0), |t| (t.table_mb, t.index_mb));
        println!(
            "  {:<24} {was:>13.1} ({was_index:>8.1}) {:>13.1} ({:>8.1}) {:>10.0}",
            table.name, table.table_mb, table.index_mb, table.dead_rows
        );
        let add = |value: f64, unit: &str| record::add(Row::new(subject, &table.name, value, unit));
        add(was, "MB, first minute");
        add(was_index, "MB of indexes, first minute");
        add(table.table_mb, "MB, last minute");
        add(table.index_mb, "MB of indexes, last minute");
    }
}
