//! Embedded, forward-only migrations, in the writer's transaction: the lock of the file makes instances that start together
//! migrate one after the other.

use rusqlite::Connection;

use super::classify;
use crate::clock;
use crate::error::{Kind, Result};
use crate::store::{Migrated, OLDEST_PROGRAM, SCHEMA_VERSION, Schema, newer};

/// Table changes, in order. The place of a file in the list is its version, and a released file never changes.
const MIGRATIONS: &[(&str, &str)] = &[
    ("0001_lock", include_str!("migrations/0001_lock.sql")),
    ("0002_inbox", include_str!("migrations/0002_inbox.sql")),
    ("0003_adopt", include_str!("migrations/0003_adopt.sql")),
    ("0004_outbox", include_str!("migrations/0004_outbox.sql")),
    ("0005_once", include_str!("migrations/0005_once.sql")),
    ("0006_access", include_str!("migrations/0006_access.sql")),
    ("0007_deed", include_str!("migrations/0007_deed.sql")),
    // An empty one is of PostgreSQL alone: see its migration of the same number.
    ("0008_batch", ""),
    ("0009_managed", include_str!("migrations/0009_managed.sql")),
    ("0010_limits", include_str!("migrations/0010_limits.sql")),
    ("0011_reviewed", ""),
    ("0012_rules", include_str!("migrations/0012_rules.sql")),
    ("0013_one", ""),
    ("0014_short", ""),
    ("0015_kinds", ""),
    ("0016_sweep", ""),
    ("0017_events", ""),
    ("0018_settle", ""),
    ("0019_repeated_begin", ""),
    (
        "0020_settings",
        include_str!("migrations/0020_settings.sql"),
    ),
    ("0021_done", include_str!("migrations/0021_done.sql")),
];

const BEGIN: &str = query!(migration_table);

/// Returns the version of the schema in the database; `None` without a schema.
pub(super) fn version(db: &Connection) -> Result<Option<u32>> {
    match db.query_row("select max(version) from turno_migration", [], |row| {
        row.get(0)
    }) {
        Ok(version) => Ok(version),
        Err(error) => match classify(error) {
            missing if *missing.kind() == Kind::Schema => Ok(None),
            other => Err(other),
        },
    }
}

/// Returns the version of the schema in the database and the oldest program that may use it; `None` without a schema.
pub(super) fn schema(db: &Connection) -> Result<Option<Schema>> {
    let Some(version) = version(db)? else {
        return Ok(None);
    };
    // Only for a newer schema: an older one may not have the column.
    if version <= SCHEMA_VERSION {
        return Ok(Some(Schema::for_its_program_only(version)));
    }
    let oldest_program = db
        .query_row(
            "select coalesce(oldest_program, version) from turno_migration where version = ?1",
            [version],
            |row| row.get(0),
        )
        .map_err(classify)?;
    Ok(Some(Schema {
        version,
        oldest_program,
    }))
}

/// Returns the outcome if there is nothing to migrate.
pub(super) fn done(db: &Connection) -> Result<Option<Migrated>> {
    let found = schema(db)?;
    if let Some(nothing_to_do) = newer(found)? {
        return Ok(Some(nothing_to_do));
    }
    let from = found.map(|schema| schema.version);
    Ok((from == Some(SCHEMA_VERSION)).then_some(Migrated {
        from,
        to: SCHEMA_VERSION,
        missing_roles: Vec::new(),
        changed_settings: Vec::new(),
    }))
}

pub(super) fn migrate(db: &Connection) -> Result<Migrated> {
    let found = schema(db)?;
    if let Some(nothing_to_do) = newer(found)? {
        return Ok(nothing_to_do);
    }
    let from = found.map(|schema| schema.version);
    if from != Some(SCHEMA_VERSION) {
        db.execute_batch(BEGIN).map_err(classify)?;
        for (version, (name, sql)) in numbered().filter(|(version, _)| Some(*version) > from) {
            db.execute_batch(sql).map_err(classify)?;
            db.execute(
                "insert into turno_migration (version, name, applied_at) values (?1, ?2, ?3)",
                (version, name, clock::now_us()),
            )
            .map_err(classify)?;
        }
        db.execute(
            "update turno_migration set oldest_program = ?1 where version = ?2",
            (OLDEST_PROGRAM, SCHEMA_VERSION),
        )
        .map_err(classify)?;
    }
    Ok(Migrated {
        from,
        to: SCHEMA_VERSION,
        missing_roles: Vec::new(),
        changed_settings: Vec::new(),
    })
}

fn numbered() -> impl Iterator<Item = (u32, &'static (&'static str, &'static str))> {
    (1..).zip(MIGRATIONS)
}

/// Returns the whole schema as one SQL script, to read it or to run it with another program.
pub fn script() -> String {
    let mut sql = format!("begin immediate;\n\n{BEGIN}\n");
    for (version, (name, text)) in numbered() {
        sql.push_str(&format!("-- Migration {name}\n\n{text}\n"));
        sql.push_str(&format!(
            "insert into turno_migration (version, name, applied_at)\nvalues ({version}, '{name}', unixepoch() * 1000000);\n\n"
        ));
    }
    sql.push_str(&format!(
        "update turno_migration\nset oldest_program = {OLDEST_PROGRAM}\nwhere version = {SCHEMA_VERSION};\n\n"
    ));
    sql + "commit;\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_migration_for_each_version() {
        assert_eq!(MIGRATIONS.len(), SCHEMA_VERSION as usize);
    }
}
