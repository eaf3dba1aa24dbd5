//! What `turno doctor` says of a PostgreSQL database. Every query works for a role that may only call functions.

mod numbers;
mod relay;
mod schema;
mod tables;

use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::interval::Interval;
use super::{PostgresStore, encryption};
use crate::clock;
use crate::error::Result;
use crate::store::{Finding, SCHEMA_VERSION, Store, schema_finding};

/// A transaction open for longer than this keeps vacuum from doing its work.
const HELD_OPEN: Duration = Duration::from_secs(60);
/// Clocks further apart than this are worth a word.
const SKEW: Duration = Duration::from_secs(1);
const OLDEST_SERVER: i32 = 140_000;

pub(super) async fn diagnose(store: &PostgresStore) -> Result<Vec<Finding>> {
    let in_store = store.schema().await?;
    let before = (Instant::now(), clock::now_us());
    let row = store
        .calls
        .row(query!(diagnose), &[(&Interval(HELD_OPEN), Type::INTERVAL)])
        .await?;
    let took = before.0.elapsed();
    let text = |column: &str| row.get::<_, String>(column);

    let mut findings = vec![
        Finding::ok(
            "store",
            format!(
                "PostgreSQL {} answers in {took:.1?}, as role {}",
                text("server_version"),
                text("role")
            ),
        ),
        schema_finding(in_store),
        skew(before.1 + clock::as_us(took / 2), row.get("now")),
        durability(
            &text("fsync"),
            &text("synchronous_commit"),
            &text("full_page_writes"),
            &text("standbys"),
        ),
    ];
    if row.get::<_, i32>("server_version_num") < OLDEST_SERVER {
        findings.push(Finding::problem(
            "version",
            "PostgreSQL 14 or later is needed: upgrade the server",
        ));
    }
    findings.push(writable(row.get("standby"), &text("read_only")));
    findings.push(if store.calls.route.is_direct() {
        Finding::ok("pooler", "none between here and the server: statements are prepared, releases wake waiters")
    } else {
        Finding::warning("pooler", "there is a pooler or a proxy between here and the server: statements are not prepared, and waiters look for themselves; a direct connection is faster")
    });
    findings.push(encryption::finding(store).await?);
    findings.push(vacuum(&row));
    match super::exposed::finding(store).await {
        Ok(finding) => findings.extend(finding),
        Err(error) => findings.push(Finding::problem("anon", error.to_string())),
    }
    // The rest asks functions that a schema of another version may not have.
    if in_store.is_some_and(|schema| schema.version == SCHEMA_VERSION) {
        findings.extend(found("functions", schema::findings(store).await));
        findings.extend(found("settings", schema::settings(store).await));
        findings.extend(found("tables", tables::findings(store).await));
        findings.extend(found("numbers", numbers::findings(store).await));
        findings.extend(found("relay", relay::finding(store).await));
    }
    Ok(findings)
}

/// A check that cannot be made is a problem of its own: the other findings say why.
fn found<const N: usize>(check: &'static str, findings: Result<[Finding; N]>) -> Vec<Finding> {
    match findings {
        Ok(findings) => findings.into(),
        Err(error) => vec![Finding::problem(check, error.to_string())],
    }
}

fn writable(standby: bool, read_only: &str) -> Finding {
    if standby {
        Finding::problem(
            "writable",
            "the server is a standby, which is read-only: connect to the primary",
        )
    } else if read_only == "on" {
        Finding::problem(
            "writable",
            "default_transaction_read_only is on: end the read-only mode of the database or the role",
        )
    } else {
        Finding::ok("writable", "the database accepts writes")
    }
}

/// A transaction that is held open. An ordinary role sees its own sessions only.
fn vacuum(row: &Row) -> Finding {
    if let Some(pid) = row.get::<_, Option<i32>>("blocker_pid") {
        return Finding::warning(
            "vacuum",
            format!(
                "process {pid} ({}) has had a transaction open for {:.0?}, which keeps vacuum from cleaning up: end it, or `select pg_terminate_backend({pid})`",
                row.get::<_, Option<String>>("blocker_who")
                    .unwrap_or_default(),
                row.get::<_, Option<Interval>>("blocker_age")
                    .map_or(HELD_OPEN, |age| age.0),
            ),
        );
    }
    let hidden = match row.get::<_, i64>("hidden_sessions") {
        0 => String::new(),
        hidden => format!(
            "; {hidden} sessions of other roles cannot be seen, `grant pg_read_all_stats to {}` shows them",
            row.get::<_, String>("role_quoted")
        ),
    };
    Finding::ok(
        "vacuum",
        format!("no transaction has been open for more than {HELD_OPEN:?}{hidden}"),
    )
}

fn skew(here_us: i64, there: Timestamp) -> Finding {
    let apart = Duration::from_micros(there.as_microsecond().abs_diff(here_us));
    if apart > SKEW {
        Finding::warning(
            "clock",
            format!(
                "this machine's clock and the database's are {apart:.1?} apart: leases are not affected (the database's clock decides), but times shown here may confuse; run NTP"
            ),
        )
    } else {
        Finding::ok(
            "clock",
            format!("this machine's and the database's are within {SKEW:?}"),
        )
    }
}

fn durability(fsync: &str, commit: &str, pages: &str, standbys: &str) -> Finding {
    let mut wrong = Vec::new();
    if fsync != "on" {
        wrong.push(
            "fsync is off: a crash of the machine can lose or corrupt everything; set fsync = on",
        );
    }
    if pages != "on" {
        wrong.push("full_page_writes is off: a crash of the machine can tear pages; set it on");
    }
    if commit == "off" {
        wrong
            .push("synchronous_commit is off: a crash can forget what was acknowledged; set it on");
    }
    if !wrong.is_empty() {
        return Finding::problem("durability", wrong.join("; "));
    }
    let standby = if standbys.is_empty() {
        "no synchronous standby: a lost disk loses data"
    } else {
        "with a synchronous standby"
    };
    Finding::ok(
        "durability",
        format!("fsync on, synchronous_commit {commit}, {standby}"),
    )
}
