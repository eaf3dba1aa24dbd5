//! Outbox tables: the statements are templates in `queries/adopt.sql`, which are filled in with the names of the table.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, named_params};
use uuid::Uuid;

use super::super::classify;
use super::super::history::OperatorAction;
use super::super::rows::{exec, many, one};
use super::names::{Table, quote};
use crate::clock::{as_us, between_us, from_us};
use crate::error::{Error, Kind, Result};
use crate::store::sql_text::fill;
use crate::store::*;

/// A column, and how it is defined. The record of the adoption is the name of a constraint: SQLite keeps a definition as it was
/// written, and has no comments.
const RELAY_COLUMNS: [(&str, &str, &str); 7] = [
    (RECORD_COLUMN, "text", "default null"),
    ("relay_until", "integer", "default null"),
    ("relay_due_at", "integer", "default null"),
    ("relay_doubtful", "integer", "not null default 0"),
    ("relay_dead", "text", "default null"),
    ("relay_name", "text", "default null"),
    ("relay_at", "integer", "default null"),
];

pub(super) fn adopt(db: &Connection, ask: &AdoptOutboxTable) -> Result<AdoptedOutboxTable> {
    let (table, steps) = plan(db, ask)?;
    run(db, &steps)?;
    Ok(table)
}

pub(super) fn print(db: &Connection, ask: &AdoptOutboxTable) -> Result<String> {
    let (_, steps) = plan(db, ask)?;
    Ok(format!(
        "begin immediate;\n\n{};\n\ncommit;\n",
        steps.join(";\n\n")
    ))
}

pub(super) fn undo(db: &Connection, name: &str) -> Result<AdoptedOutboxTable> {
    let found = found(db, name)?;
    let mut adopted = adopted(&found).ok_or_else(|| not_outbox(name))?;
    adopted.added.retain(|column| is_signed(&found, column));
    let indexes = adopted.indexes.iter();
    let mut steps: Vec<String> = indexes
        .map(|index| format!("drop index if exists {}", quote(index)))
        .collect();
    let quoted = quote(&found.name);
    let columns = adopted.added.iter();
    steps.extend(columns.map(|it| format!("alter table {quoted} drop column {}", quote(it))));
    run(db, &steps)?;
    Ok(adopted)
}

pub(super) fn find(db: &Connection, name: &str) -> Result<Option<AdoptedOutboxTable>> {
    Ok(adopted(&found(db, name)?))
}

fn run(db: &Connection, steps: &[String]) -> Result<()> {
    steps
        .iter()
        .try_for_each(|step| db.execute_batch(step).map_err(classify))
}

/// Finds a table by its plain name or in quotes, as SQL writes it.
fn found(db: &Connection, name: &str) -> Result<Table> {
    let plain = || {
        let inside = name.strip_prefix('"')?.strip_suffix('"')?;
        Some(inside.replace("\"\"", "\""))
    };
    let mut found = Table::find(db, name)?;
    if found.is_none()
        && let Some(plain) = plain()
    {
        found = Table::find(db, &plain)?;
    }
    found.ok_or_else(|| no_table(name))
}

/// Returns the begin of the definition of a column that adopt added.
fn begin(name: &str, kind: &str) -> String {
    format!("{} {kind} constraint \"{SIGN}", quote(name))
}

fn is_signed(table: &Table, name: &str) -> bool {
    ["text", "integer"]
        .iter()
        .any(|kind| table.sql.contains(&begin(name, kind)))
}

/// Returns the adoption that the table has a record of.
fn adopted(table: &Table) -> Option<AdoptedOutboxTable> {
    let begin = begin(RECORD_COLUMN, "text");
    let at = table.sql.find(&begin)? + begin.len() - SIGN.len();
    let mut text = String::new();
    let mut rest = table.sql[at..].chars().peekable();
    while let Some(next) = rest.next() {
        if next == '"' && rest.next_if_eq(&'"').is_none() {
            break;
        }
        text.push(next);
    }
    Some(with(table, Record::read(&text)?))
}

fn with(table: &Table, record: Record) -> AdoptedOutboxTable {
    let Record {
        max_attempts,
        columns,
        added,
        indexes,
    } = record;
    let kind = |name: &str| table.column(name).map(|(_, kind)| kind.clone());
    let facts = TableFacts {
        quoted: quote(&table.name),
        id_type: kind(&columns.id).unwrap_or_default(),
        place_types: Vec::new(),
        created_type: kind(&columns.created).unwrap_or_default(),
        processed_type: kind(&columns.processed).unwrap_or_else(|| "INTEGER".to_owned()),
        error_length: ERROR_LENGTH,
    };
    AdoptedOutboxTable {
        table: table.name.clone(),
        columns,
        max_attempts,
        added,
        indexes,
        facts,
    }
}

/// Returns the adoption, and the statements that make it.
fn plan(db: &Connection, ask: &AdoptOutboxTable) -> Result<(AdoptedOutboxTable, Vec<String>)> {
    let found = found(db, &ask.table)?;
    let own: Vec<FoundColumn> = found
        .columns
        .iter()
        .filter(|(name, _)| !RELAY_COLUMNS.iter().any(|(relay, ..)| relay == name))
        .map(|(name, _)| FoundColumn { name: name.clone() })
        .collect();
    let columns = ask.columns(&own)?;
    check(db, &found, &columns)?;
    let old = adopted(&found);
    let quoted = quote(&found.name);
    let new: Vec<(&str, &str, &str)> = vec![
        (columns.processed.as_str(), "integer", "default null"),
        (columns.attempts.as_str(), "integer", "not null default 0"),
        (columns.error.as_str(), "text", "default null"),
    ];
    let (mut steps, mut added, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for column in new.into_iter().chain(RELAY_COLUMNS) {
        let (name, ..) = column;
        if found.column(name).is_none() {
            missing.push(column);
            added.push(name.to_owned());
        } else if is_signed(&found, name) {
            added.push(name.to_owned());
        } else if RELAY_COLUMNS.contains(&column) {
            return Err(Error::invalid(
                "table",
                format!(
                    "table {} has a column {name} of its own, which adopt would add: rename it",
                    found.name
                ),
            ));
        }
    }
    let mut table = with(
        &found,
        Record {
            max_attempts: ask.max_attempts,
            columns: columns.clone(),
            added,
            indexes: Vec::new(),
        },
    );
    let indexes = table.indexes(&found.name, &is_open(&table, ""));
    table.indexes = indexes.iter().map(|(name, _)| name.clone()).collect();
    let record = table.record();
    // The record is in the definition of a column, so another one needs the column anew.
    if let Some(old) = old
        && old.record() != record
    {
        let drop = |index: &String| format!("drop index if exists {}", quote(index));
        steps.extend(old.indexes.iter().map(drop));
        steps.push(format!("alter table {quoted} drop column {RECORD_COLUMN}"));
        missing.push(RELAY_COLUMNS[0]);
    }
    for (name, kind, definition) in missing {
        let sign = match name == RECORD_COLUMN {
            true => record.text()?,
            false => SIGN.to_owned(),
        };
        let (name, sign) = (quote(name), quote(&sign));
        steps.push(format!(
            "alter table {quoted} add column {name} {kind} constraint {sign} {definition}"
        ));
    }
    steps.extend(indexes.iter().map(|(name, definition)| {
        let name = quote(name);
        format!("create index if not exists {name} on {quoted} {definition}")
    }));
    Ok((table, steps))
}

/// Checks the columns that are there already.
fn check(db: &Connection, table: &Table, columns: &OutboxColumns) -> Result<()> {
    let unique: Option<bool> = db
        .query_row(query!(adopt_unique), (&table.name, &columns.id), |row| {
            row.get(0)
        })
        .map_err(classify)?;
    if unique != Some(true) {
        return Err(not_unique(&table.name, &columns.id));
    }
    match table.column(&columns.attempts) {
        Some((name, kind)) if !kind.contains("INT") => {
            Err(wrong_type("attempts", name, kind, "an integer"))
        }
        _ => Ok(()),
    }
}

fn is_open(table: &AdoptedOutboxTable, alias: &str) -> String {
    let column = quote(&table.columns.processed);
    let dot = if alias.is_empty() { "" } else { "." };
    let test = if is_flag(table) {
        "is not true"
    } else {
        "is null"
    };
    format!("{alias}{dot}{column} {test}")
}

/// Whether the column *processed* is a flag and not a time.
fn is_flag(table: &AdoptedOutboxTable) -> bool {
    table.facts.processed_type.starts_with("BOOL")
}

fn filled(table: &AdoptedOutboxTable, template: &str) -> String {
    fill(template, &|name, alias| match name {
        "open" => is_open(table, alias),
        "row" => filled(table, query!(outbox_table_row)),
        "state" => filled(table, query!(outbox_table_state)),
        "after" => {
            let places = 0..table.place().len();
            let values = places.map(|at| format!("json_extract(:after, '$[{at}]')"));
            values.collect::<Vec<_>>().join(", ")
        }
        _ => table.placeholder(name, alias),
    })
}

pub(super) fn claim(
    db: &Connection,
    table: &AdoptedOutboxTable,
    ask: &OutboxClaim,
    now: i64,
) -> Result<Vec<OutboxRow>> {
    let token = ask.token.to_string();
    let claimed = || {
        many(
            db,
            &filled(table, query!(outbox_table_claimed)),
            named_params! {":token": token},
            |row| outbox_row(row, 0, row.get(8)?, now),
        )
    };
    let again = claimed()?;
    if !again.is_empty() {
        return Ok(again);
    }
    let sql = filled(table, query!(outbox_table_claim));
    for candidates in [i64::from(CANDIDATES), -1] {
        let many = exec(
            db,
            &sql,
            named_params! {
                ":relay": ask.relay,
                ":limit": ask.limit.min(MAX_BATCH),
                ":until": now.saturating_add(as_us(ask.lease)),
                ":now": now,
                ":by_key": ask.order == Order::ByKey,
                ":token": token,
                ":candidates": candidates,
            },
        )?;
        if many > 0 {
            return claimed();
        }
    }
    Ok(Vec::new())
}

pub(super) fn settle(
    db: &Connection,
    table: &AdoptedOutboxTable,
    ask: &OutboxRowsSettle,
    now: i64,
) -> Result<OutboxSettled> {
    let token = ask.token.to_string();
    let mut settled = OutboxSettled::default();
    let (send, sent) = (
        filled(table, query!(outbox_table_send)),
        filled(table, query!(outbox_table_sent)),
    );
    let at = processed_at(table, now);
    for id in &ask.sent {
        let this = named_params! {":id": id, ":token": token};
        let done = exec(
            db,
            &send,
            named_params! {":id": id, ":token": token, ":at": at, ":now": now},
        )?;
        // A repeated call, whose response was lost, finds its own effect.
        settled.sent += match done {
            0 => u64::from(one::<bool>(db, &sent, this)?),
            done => done,
        };
    }
    let refuse = filled(table, query!(outbox_table_refuse));
    for (id, error, next) in &ask.refused {
        let (due, dead) = match next {
            AfterRefusal::Retry(pause) => (Some(now.saturating_add(as_us(*pause))), None),
            AfterRefusal::Dead(choice) => (None, Some(choice.as_str())),
        };
        let error: String = error.chars().take(ERROR_LENGTH as usize).collect();
        settled.refused += exec(
            db,
            &refuse,
            named_params! {":id": id, ":token": token, ":error": error, ":due": due, ":dead": dead, ":now": now},
        )?;
    }
    let doubt = filled(table, query!(outbox_table_doubt));
    for id in &ask.doubtful {
        exec(db, &doubt, named_params! {":id": id, ":token": token})?;
    }
    let defer = filled(table, query!(outbox_table_defer));
    for (id, delay) in &ask.deferred {
        let due = now.saturating_add(as_us(*delay));
        settled.returned += exec(
            db,
            &defer,
            named_params! {":id": id, ":token": token, ":due": due},
        )?;
    }
    let give_back = filled(table, query!(outbox_table_give_back));
    settled.returned += exec(db, &give_back, named_params! {":token": token})?;
    settled.stale = ask.settled().saturating_sub(settled.sent + settled.refused);
    Ok(settled)
}

pub(super) fn extend(
    db: &Connection,
    table: &AdoptedOutboxTable,
    token: Uuid,
    lease: Duration,
    now: i64,
) -> Result<bool> {
    let sql = filled(table, query!(outbox_table_extend));
    let until = now.saturating_add(as_us(lease));
    let extended = exec(
        db,
        &sql,
        named_params! {":token": token.to_string(), ":until": until},
    )?;
    Ok(extended > 0)
}

pub(super) fn recover(db: &Connection, table: &AdoptedOutboxTable, now: i64) -> Result<u64> {
    let sql = filled(table, query!(outbox_table_recover));
    exec(db, &sql, named_params! {":now": now})
}

pub(super) fn has_pending(db: &Connection, table: &AdoptedOutboxTable, now: i64) -> Result<bool> {
    let sql = filled(table, query!(outbox_table_has_pending));
    one(db, &sql, named_params! {":now": now})
}

pub(super) fn stats(
    db: &Connection,
    table: &AdoptedOutboxTable,
    now: i64,
) -> Result<OutboxTableStats> {
    let sql = filled(table, query!(outbox_table_stats));
    let stats = many(db, &sql, named_params! {":now": now}, |row| {
        let counted = |column| Ok::<_, rusqlite::Error>(row.get::<_, i64>(column)?.unsigned_abs());
        let oldest: Option<String> = row.get(8)?;
        let oldest = oldest.and_then(|text| read_time(&text));
        let unprocessed = counted(0)?;
        Ok(OutboxTableStats {
            unprocessed,
            more: unprocessed >= u64::from(MAX_COUNTED_ROWS),
            pending: counted(1)?,
            scheduled: counted(2)?,
            processing: counted(3)?,
            dead: counted(4)?,
            blocked: counted(5)?,
            parked_keys: counted(6)?,
            attempts: counted(7)?,
            oldest_pending: oldest.map(|at| between_us(at.as_microsecond(), now)),
        })
    })?;
    stats
        .into_iter()
        .next()
        .ok_or_else(|| Error::new(Kind::Broken, "the database counted no rows"))
}

pub(super) fn list(
    db: &Connection,
    table: &AdoptedOutboxTable,
    state: EventState,
    (after, limit): (Option<&str>, u32),
    now: i64,
) -> Result<OutboxTablePage> {
    let sql = filled(table, &list_template(query!(outbox_table_list), state));
    let rows = many(
        db,
        &sql,
        named_params! {":state": state.as_str(), ":after": after, ":limit": limit, ":now": now},
        |row| {
            let time =
                |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(from_us));
            Ok(ListedRow {
                place: row.get(0)?,
                row: outbox_row(row, 1, false, now)?,
                has_time: true,
                by: row.get(9)?,
                at: time(10)?,
                settled_at: time(11)?,
                error: row.get(12)?,
            })
        },
    )?;
    Ok(ListedRow::page(rows, table, state, limit))
}

pub(super) fn requeue(
    db: &Connection,
    table: &AdoptedOutboxTable,
    ask: &OutboxRequeue,
    now: i64,
) -> Result<u64> {
    let ids = ask.ids.as_deref().map(|ids| row_ids(table, ids));
    let sql = filled(table, query!(outbox_table_requeue));
    let many = exec(db, &sql, named_params! {":ids": ids, ":limit": ask.limit})?;
    OperatorAction {
        part: Part::Outbox,
        event: HistoryEvent::Requeued,
        resource: &table.table,
        count: many,
        user: ask.user.as_deref(),
        reason: ask.reason.as_deref(),
    }
    .record(db, now)
}

pub(super) fn discard(
    db: &Connection,
    table: &AdoptedOutboxTable,
    ask: &OutboxDiscard,
    now: i64,
) -> Result<u64> {
    let sql = filled(table, query!(outbox_table_discard));
    let many = exec(
        db,
        &sql,
        named_params! {
            ":ids": row_ids(table, &ask.ids),
            ":at": processed_at(table, now),
            ":error": discard_error(ask),
            ":now": now,
        },
    )?;
    OperatorAction {
        part: Part::Outbox,
        event: HistoryEvent::Discarded,
        resource: &table.table,
        count: many,
        user: Some(&ask.user),
        reason: ask.reason.as_deref(),
    }
    .record(db, now)
}

/// Returns the ids of rows as JSON.
fn row_ids(table: &AdoptedOutboxTable, events: &[Uuid]) -> String {
    serde_json::Value::from(table.row_ids(events)).to_string()
}

/// Reads a row whose columns begin at `first`.
fn outbox_row(row: &Row<'_>, first: usize, parked: bool, now: i64) -> rusqlite::Result<OutboxRow> {
    let created: Option<String> = row.get(first + 5)?;
    Ok(OutboxRow {
        id: row.get(first)?,
        kind: row.get::<_, Option<String>>(first + 1)?.unwrap_or_default(),
        key: row.get(first + 2)?,
        correlation_id: row.get(first + 3)?,
        payload: row.get::<_, Option<String>>(first + 4)?.unwrap_or_default(),
        emitted_at: created
            .and_then(|text| read_time(&text))
            .unwrap_or_else(|| from_us(now)),
        refused: row.get(first + 6)?,
        doubtful: row.get(first + 7)?,
        parked,
    })
}

/// Reads a time: a text with or without an offset (UTC), as Entity Framework writes it, or microseconds since 1970.
fn read_time(text: &str) -> Option<Timestamp> {
    if let Ok(us) = text.parse::<i64>() {
        return Some(from_us(us));
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time);
    }
    let civil: DateTime = text.parse().ok()?;
    Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// Returns the value of the column *processed*, in the column's format.
fn processed_at(table: &AdoptedOutboxTable, now: i64) -> Value {
    if is_flag(table) {
        return Value::Integer(1);
    }
    if table.facts.processed_type.contains("INT") {
        return Value::Integer(now);
    }
    let time = from_us(now).to_zoned(TimeZone::UTC);
    // As Entity Framework writes it: without an offset, which it would convert to local time.
    Value::Text(time.strftime("%Y-%m-%d %H:%M:%S.%6f").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the steps of all statements of a relay that read the table without an index.
    fn scans(db: &Connection, table: &AdoptedOutboxTable) -> Vec<String> {
        let templates = [
            query!(outbox_table_claim),
            query!(outbox_table_claimed),
            query!(outbox_table_discard),
            query!(outbox_table_extend),
            query!(outbox_table_has_pending),
            query!(outbox_table_recover),
            query!(outbox_table_refuse),
            query!(outbox_table_requeue),
            query!(outbox_table_send),
            query!(outbox_table_sent),
            query!(outbox_table_stats),
        ];
        let mut scans = Vec::new();
        for template in templates {
            let sql = format!("explain query plan {}", filled(table, template));
            let mut statement = db.prepare(&sql).unwrap();
            // The parameters stay null: a plan does not depend on them.
            let mut found = statement.raw_query();
            let mut steps: Vec<String> = Vec::new();
            while let Some(row) = found.next().unwrap() {
                steps.push(row.get("detail").unwrap());
            }
            let of_table = |step: &&String| {
                ["t", "d", "e"]
                    .iter()
                    .any(|alias| step.starts_with(&format!("SCAN {alias}")))
            };
            let scan = steps
                .iter()
                .filter(of_table)
                .filter(|step| !step.contains("_turno_"));
            scans.extend(scan.map(|step| format!("{step} in {sql}")));
        }
        scans
    }

    #[test]
    fn a_relay_reads_no_processed_rows() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch("create table outbox (id text not null primary key, type text, payload text, created text, processed text, key text)").unwrap();
        let ask = AdoptOutboxTable {
            table: "outbox".to_owned(),
            key: Some("key".to_owned()),
            max_attempts: 5,
            ..AdoptOutboxTable::default()
        };
        let table = adopt(&db, &ask).unwrap();
        assert_eq!(scans(&db, &table), [""; 0]);
        // The control: without the indexes of adopt, the rows are found one by one.
        for index in &table.indexes {
            db.execute_batch(&format!("drop index {}", quote(index)))
                .unwrap();
        }
        assert!(scans(&db, &table).len() > 5);
    }

    #[test]
    fn a_time_is_read_as_entity_framework_writes_it() {
        let expected: Timestamp = "2026-11-17T04:48:22.5Z".parse().unwrap();
        for text in [
            "2026-11-17 04:48:22.5",
            "2026-11-17 04:48:22.5000000",
            "2026-11-17 05:48:22.5+01:00",
            "2026-11-17T04:48:22.5Z",
            "1794890902500000",
        ] {
            assert_eq!(read_time(text), Some(expected), "{text}");
        }
        assert_eq!(read_time("yesterday"), None);
    }
}
