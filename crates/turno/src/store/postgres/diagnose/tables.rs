//! How large the tables are, how many dead rows they have, and when they were last swept.

use std::time::Duration;

use super::super::PostgresStore;
use super::super::interval::Interval;
use crate::error::Result;
use crate::store::{Finding, Store, sweep_finding};

/// Fewer dead rows than this are not worth a word: autovacuum waits for some before it starts.
const DEAD_ROWS_WORTH_A_WARNING: i64 = 100_000;

/// A table with its size.
struct Table {
    name: String,
    bytes: i64,
    live: i64,
    dead: i64,
}

pub(super) async fn findings(store: &PostgresStore) -> Result<[Finding; 2]> {
    let rows = store.calls.rows(query!(diagnose_tables), &[]).await?;
    let tables: Vec<Table> = rows
        .iter()
        .map(|row| Table {
            name: row.get("name"),
            bytes: row.get("bytes"),
            live: row.get("live"),
            dead: row.get("dead"),
        })
        .collect();
    Ok([sizes(&tables), last_sweep(store).await?])
}

fn sizes(tables: &[Table]) -> Finding {
    let bloated = tables
        .iter()
        .filter(|table| table.dead > DEAD_ROWS_WORTH_A_WARNING && table.dead > table.live)
        .max_by_key(|table| table.dead);
    if let Some(table) = bloated {
        return Finding::warning(
            "tables",
            format!(
                "turno.{} has {} dead rows and {} live ones in {}: autovacuum does not keep up; look for a transaction that is held open, then `vacuum turno.{}`",
                table.name,
                table.dead,
                table.live,
                size(table.bytes),
                table.name
            ),
        );
    }
    let total: i64 = tables.iter().map(|table| table.bytes).sum();
    let dead: i64 = tables.iter().map(|table| table.dead).sum();
    let largest = tables.iter().max_by_key(|table| table.bytes);
    Finding::ok(
        "tables",
        format!(
            "{} in all, with indexes; {dead} dead rows{}",
            size(total),
            largest.map_or(String::new(), |table| format!(
                "; the largest is turno.{} with {}",
                table.name,
                size(table.bytes)
            ))
        ),
    )
}

fn size(bytes: i64) -> String {
    match bytes {
        0..1_048_576 => format!("{} KiB", bytes / 1024),
        1_048_576..1_073_741_824 => format!("{} MiB", bytes / 1_048_576),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

async fn last_sweep(store: &PostgresStore) -> Result<Finding> {
    let row = store.calls.row(query!(sweep_last), &[]).await?;
    let age = row.get::<_, Option<Interval>>("age").map(|age| age.0);
    let by: Option<String> = row.get("by");
    let settings = store.database_settings().await?;
    let role = settings
        .iter()
        .find(|setting| setting.name == "operator_role");
    Ok(sweep_finding(
        age.unwrap_or(Duration::ZERO),
        by.as_deref(),
        role.map(|setting| setting.value.as_str()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Severity;

    fn table(live: i64, dead: i64) -> Table {
        Table {
            name: "inbox_item".into(),
            bytes: 3 << 20,
            live,
            dead,
        }
    }

    #[test]
    fn many_dead_rows_are_a_warning_and_few_are_not() {
        for (live, dead, severity) in [
            (10, 99_000, Severity::Ok),
            (1_000_000, 200_000, Severity::Ok),
            (10, 200_000, Severity::Warning),
        ] {
            let finding = sizes(&[table(live, dead), table(1, 1)]);
            assert_eq!(finding.severity, severity, "{finding:?}");
        }
        assert!(sizes(&[table(1, 1)]).detail.contains("3 MiB"));
    }
}
