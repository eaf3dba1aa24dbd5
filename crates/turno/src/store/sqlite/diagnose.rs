//! Findings of `turno doctor` about an SQLite database.

use std::time::Duration;

use rusqlite::Connection;

use super::open::Location;
use super::{classify, migrate};
use crate::clock;
use crate::error::Result;
use crate::store::{Finding, SCHEMA_VERSION, schema_finding, sweep_finding};

/// A longer log means that something prevents the checkpoint into the file.
const LONG_LOG: u64 = 64 << 20;

pub(super) fn diagnose(db: &Connection, location: &Location) -> Result<Vec<Finding>> {
    let ask = |sql| {
        db.query_row(sql, [], |row| row.get::<_, String>(0))
            .map_err(classify)
    };
    let mut findings = vec![match location {
        Location::File(file) => Finding::ok(
            "store",
            format!("SQLite {} on {}", rusqlite::version(), file.display()),
        ),
        Location::Memory => Finding::warning(
            "store",
            format!(
                "SQLite {} in memory: everything is gone when the process ends",
                rusqlite::version()
            ),
        ),
    }];
    let schema = migrate::schema(db)?;
    findings.push(schema_finding(schema));
    if schema.is_some_and(|schema| schema.version == SCHEMA_VERSION) {
        findings.push(sweep(db)?);
    }
    findings.push(Finding::ok(
        "clock",
        "the machine's own, asked of the kernel: the same for all processes on it",
    ));
    let Location::File(file) = location else {
        return Ok(findings);
    };
    findings.push(Finding::ok(
        "durability",
        format!(
            "journal mode {}, synchronous full: what is acknowledged is on the disk",
            ask("pragma journal_mode")?
        ),
    ));
    findings.push(match ask("pragma quick_check(1)")?.as_str() {
        "ok" => Finding::ok("integrity", "a quick check finds no damage"),
        damage => Finding::problem(
            "integrity",
            format!("the file is damaged ({damage}): restore it from a backup"),
        ),
    });
    let mut log = file.clone().into_os_string();
    log.push("-wal");
    let length = std::fs::metadata(log).map_or(0, |log| log.len());
    findings.push(if length > LONG_LOG {
        Finding::warning(
            "log",
            format!("the write-ahead log has {} MiB: a transaction held open elsewhere keeps it from being folded in; end it", length >> 20),
        )
    } else {
        Finding::ok("log", "the write-ahead log is short: no transaction is held open for long")
    });
    findings.push(Finding::ok("pooler", "none: the store is in this process"));
    Ok(findings)
}

fn sweep(db: &Connection) -> Result<Finding> {
    let (at, by): (i64, Option<String>) = db
        .query_row(query!(sweep_last), [], |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(classify)?;
    let age = Duration::from_micros(u64::try_from(clock::now_us() - at).unwrap_or(0));
    Ok(sweep_finding(age, by.as_deref(), None))
}
