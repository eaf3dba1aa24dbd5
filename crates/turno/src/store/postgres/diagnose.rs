//! What `turno doctor` says of a PostgreSQL database.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio_postgres::types::Type;

use super::interval::Interval;
use super::{PostgresStore, encryption};
use crate::clock;
use crate::error::Result;
use crate::store::{Finding, Store, schema_finding};

/// A transaction open for longer than this keeps vacuum from doing its work.
const HELD_OPEN: Duration = Duration::from_secs(60);
/// Clocks further apart than this are worth a word.
const SKEW: Duration = Duration::from_secs(1);
const OLDEST_SERVER: i32 = 140_000;

pub(super) async fn diagnose(store: &PostgresStore) -> Result<Vec<Finding>> {
    let version = store.schema().await?;
    let before = (Instant::now(), clock::now_us());
    let row = store
        .calls
        .row(
            include_str!("call/diagnose.sql"),
            &[(&Interval(HELD_OPEN), Type::INTERVAL)],
        )
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
        schema_finding(version),
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
    if row.get("standby") || text("read_only") == "on" {
        findings.push(Finding::problem(
            "writable",
            "the database is read-only (a standby?): connect to the primary",
        ));
    }
    findings.push(if store.calls.route.is_direct() {
        Finding::ok("pooler", "none between here and the server: statements are prepared, releases wake waiters")
    } else {
        Finding::warning("pooler", "there is a pooler or a proxy between here and the server: statements are not prepared, and waiters look for themselves; a direct connection is faster")
    });
    findings.push(encryption::finding(store).await?);
    findings.push(match row.get::<_, Option<i32>>("blocker_pid") {
        Some(pid) => Finding::warning(
            "vacuum",
            format!(
                "process {pid} ({}) has had a transaction open for {:.0?}, which keeps vacuum from cleaning up: end it, or `select pg_terminate_backend({pid})`",
                row.get::<_, Option<String>>("blocker_who").unwrap_or_default(),
                row.get::<_, Option<Interval>>("blocker_age").map_or(HELD_OPEN, |age| age.0),
            ),
        ),
        None => Finding::ok("vacuum", format!("no transaction has been open for more than {HELD_OPEN:?}")),
    });
    findings.extend(super::exposed::finding(store).await?);
    Ok(findings)
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
        return Finding::warning("durability", wrong.join("; "));
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
