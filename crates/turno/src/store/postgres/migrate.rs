//! Embedded, forward-only migrations. Numbered files create the tables; the functions, which have no data, are re-created with
//! each version. All of it is one transaction under an advisory lock, so that instances that start together migrate one after the
//! other.

use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};

use super::{classify, drift};
use crate::error::{Error, Kind, Result};
use crate::store::{
    ChangedSetting, MigrateOptions, Migrated, OLDEST_PROGRAM, Roles, SCHEMA_VERSION, Schema,
    SchemaDrift, SettingChange, newer,
};

/// Every instance that migrates holds this advisory lock ("turno" in ASCII).
pub(super) const ADVISORY_LOCK: i64 = 0x0074_7572_6e6f;

/// Table changes, in order. The place of a file in the list is its version, and a released file never changes. A change to
/// functions only needs an (empty) file too, so that it reaches the databases.
pub(super) const MIGRATIONS: &[(&str, &str)] = &[
    ("0001_lock", include_str!("migrations/0001_lock.sql")),
    ("0002_inbox", include_str!("migrations/0002_inbox.sql")),
    ("0003_adopt", include_str!("migrations/0003_adopt.sql")),
    ("0004_outbox", include_str!("migrations/0004_outbox.sql")),
    ("0005_once", include_str!("migrations/0005_once.sql")),
    ("0006_access", include_str!("migrations/0006_access.sql")),
    ("0007_deed", include_str!("migrations/0007_deed.sql")),
    ("0008_batch", ""),
    ("0009_managed", include_str!("migrations/0009_managed.sql")),
    ("0010_limits", include_str!("migrations/0010_limits.sql")),
    (
        "0011_reviewed",
        include_str!("migrations/0011_reviewed.sql"),
    ),
    ("0012_rules", include_str!("migrations/0012_rules.sql")),
    ("0013_one", include_str!("migrations/0013_one.sql")),
    ("0014_short", include_str!("migrations/0014_short.sql")),
    ("0015_kinds", include_str!("migrations/0015_kinds.sql")),
    ("0016_sweep", include_str!("migrations/0016_sweep.sql")),
    ("0017_events", include_str!("migrations/0017_events.sql")),
    ("0018_settle", ""),
    ("0019_repeated_begin", ""),
    (
        "0020_settings",
        include_str!("migrations/0020_settings.sql"),
    ),
    ("0021_done", ""),
];

/// Functions, in the order of their dependencies.
pub(super) const FUNCTIONS: &[(&str, &str)] = &[
    ("common", include_str!("sql/common.sql")),
    ("lock_acquire", include_str!("sql/lock_acquire.sql")),
    ("lock_share", include_str!("sql/lock_share.sql")),
    ("lock_release", include_str!("sql/lock_release.sql")),
    ("lock_batch", include_str!("sql/lock_batch.sql")),
    ("inbox_queue", include_str!("sql/inbox_queue.sql")),
    ("inbox_push", include_str!("sql/inbox_push.sql")),
    ("inbox_attempt", include_str!("sql/inbox_attempt.sql")),
    ("inbox_claim_one", include_str!("sql/inbox_claim_one.sql")),
    ("inbox_claim", include_str!("sql/inbox_claim.sql")),
    ("inbox_settle", include_str!("sql/inbox_settle.sql")),
    ("inbox_admin", include_str!("sql/inbox_admin.sql")),
    ("outbox", include_str!("sql/outbox.sql")),
    ("outbox_admin", include_str!("sql/outbox_admin.sql")),
    ("once", include_str!("sql/once.sql")),
    ("adopt_templates", include_str!("sql/adopt_templates.sql")),
    ("adopt", include_str!("sql/adopt.sql")),
    ("admin", include_str!("sql/admin.sql")),
    // The last one, because it revokes the others from every role but the owner.
    ("rights", include_str!("sql/rights.sql")),
];

/// The roles and their rights, which [`Roles::Skip`] leaves out.
const GRANTS: &[(&str, &str)] = &[
    ("grant_roles", query!(grant_roles)),
    ("service_role", query!(grant_service_role)),
];

pub(super) const BEGIN: &str = query!(migration_table);

/// Another role may have created functions in the schemas of the owner's own path, which would then run as the owner.
const SEARCH_PATH: &str = "set local search_path = pg_catalog, pg_temp;";

/// The oldest program that may use the schema.
pub(super) const OLDEST_PROGRAM_SQL: &str = "select turno.schema_oldest_program()";

/// Returns the version of the schema in the database and the oldest program that may use it; `None` without a schema.
async fn schema(client: &impl GenericClient) -> Result<Option<Schema>> {
    let Some(version) = version(client).await? else {
        return Ok(None);
    };
    // Only for a newer schema: an older one may not have the function.
    if version <= SCHEMA_VERSION {
        return Ok(Some(Schema::for_its_program_only(version)));
    }
    let rows = client.query_typed(OLDEST_PROGRAM_SQL, &[]).await;
    Ok(Some(Schema {
        version,
        oldest_program: known(rows.map_err(classify))?.unwrap_or(version),
    }))
}

/// Returns the version of the schema in the database; `None` without a schema.
pub(super) async fn version(client: &impl GenericClient) -> Result<Option<u32>> {
    let rows = client.query_typed("select turno.schema_version()", &[]);
    known(rows.await.map_err(classify))
}

/// Returns the version in a row; `None` if the function that returns it is missing.
pub(super) fn known(rows: Result<Vec<Row>>) -> Result<Option<u32>> {
    match rows {
        Ok(rows) => Ok(rows
            .first()
            .and_then(|row| row.get::<_, Option<i32>>(0))
            .and_then(|v| u32::try_from(v).ok())),
        Err(missing) if *missing.kind() == Kind::Schema => Ok(None),
        Err(other) => Err(other),
    }
}

pub(super) async fn migrate(
    client: &mut deadpool_postgres::ClientWrapper,
    options: &MigrateOptions,
) -> Result<Migrated> {
    options.check()?;
    // With nothing to do, a role that may only call the functions succeeds.
    let found = schema(&**client).await?;
    let up_to_date = newer(found)?.or_else(|| {
        let from = found.map(|schema| schema.version);
        (from == Some(SCHEMA_VERSION)).then_some(Migrated {
            from,
            to: SCHEMA_VERSION,
            missing_roles: Vec::new(),
            changed_settings: Vec::new(),
        })
    });
    if let Some(mut migrated) = up_to_date {
        if !options.settings.is_empty() {
            let tx = alone(client).await?;
            migrated.changed_settings = set(&*tx, options).await?;
            tx.commit().await.map_err(classify)?;
        }
        return Ok(migrated);
    }
    let tx = alone(client).await?;
    tx.batch_execute(BEGIN).await.map_err(classify)?;
    let from = tx
        .query_typed("select max(version) from turno.migration", &[])
        .await
        .map_err(classify)?
        .first()
        .and_then(|row| row.get::<_, Option<i32>>(0))
        .and_then(|version| u32::try_from(version).ok());
    // Another program may have migrated while this one waited for the lock.
    if from > Some(SCHEMA_VERSION)
        && let Some(nothing_to_do) = newer(schema(&*tx).await?)?
    {
        return Ok(nothing_to_do);
    }
    let is_old = from != Some(SCHEMA_VERSION);
    if is_old {
        tx.batch_execute(&steps(from.unwrap_or(0)))
            .await
            .map_err(classify)?;
    }
    // Before roles are created and granted to: settings name them.
    let changed_settings = set(&*tx, options).await?;
    let mut missing_roles = Vec::new();
    if is_old && options.roles == Roles::Grant {
        tx.batch_execute(&rights(Roles::Grant))
            .await
            .map_err(classify)?;
        missing_roles = drift::missing_roles(&*tx).await?;
    }
    tx.commit().await.map_err(classify)?;
    Ok(Migrated {
        from,
        to: SCHEMA_VERSION,
        missing_roles,
        changed_settings,
    })
}

/// Changes settings of the database. Returns those that had another value.
async fn set(client: &impl GenericClient, options: &MigrateOptions) -> Result<Vec<ChangedSetting>> {
    let mut changed = Vec::new();
    for change in &options.settings {
        let row = client
            .query_typed_one(
                query!(setting_set),
                &[
                    (&change.name, Type::TEXT),
                    (&change.value, Type::TEXT),
                    (&options.user, Type::TEXT),
                ],
            )
            .await
            .map_err(classify)?;
        let (before, value): (Option<String>, String) = (row.get("before"), row.get("value"));
        let before = before.unwrap_or_default();
        if before != value {
            changed.push(ChangedSetting {
                name: change.name.clone(),
                before,
                value,
            });
        }
    }
    Ok(changed)
}

/// Re-creates functions and re-applies rights that differ from what this program ships. Calls in progress are not affected:
/// PostgreSQL replaces a function without a lock on it.
pub(super) async fn repair(
    client: &mut deadpool_postgres::ClientWrapper,
    roles: Roles,
) -> Result<SchemaDrift> {
    if migrate(client, &roles.into()).await?.to > SCHEMA_VERSION {
        // This program must not replace the functions of a newer schema.
        return Ok(SchemaDrift::default());
    }
    let tx = alone(client).await?;
    let mut found = drift::drift(&*tx).await?;
    // The function files also revoke rights: after a restore without rights, every role may call every function.
    if found.is_repairable() {
        tx.batch_execute(&joined("Function file", FUNCTIONS))
            .await
            .map_err(classify)?;
    }
    if roles == Roles::Grant {
        tx.batch_execute(&rights(roles)).await.map_err(classify)?;
        found.missing_roles = drift::missing_roles(&*tx).await?;
    }
    // After a restore of data alone, or on a logical replica.
    let row = tx
        .query_one("select turno.inbox_repair_numbers()", &[])
        .await
        .map_err(classify)?;
    match row.get::<_, i64>(0) {
        0 => {}
        items => tracing::warn!(
            items,
            "items that no claim would have found can be claimed again"
        ),
    }
    tx.commit().await.map_err(classify)?;
    Ok(found)
}

/// Begins a transaction that excludes other migrations.
async fn alone(
    client: &mut deadpool_postgres::ClientWrapper,
) -> Result<deadpool_postgres::Transaction<'_>> {
    let tx = client.transaction().await.map_err(classify)?;
    // Without a lock timeout, other users of the tables would queue behind a migration that waits for a lock.
    tx.batch_execute(&format!(
        "set local lock_timeout = '10s'; set local statement_timeout = 0; set local client_min_messages = warning; {SEARCH_PATH} \
         select pg_advisory_xact_lock({ADVISORY_LOCK})"
    ))
    .await
    .map_err(classify)?;
    refuse_other_owner(&*tx).await?;
    Ok(tx)
}

/// Functions of two owners could not call each other, and one owner could run code with the other's rights.
async fn refuse_other_owner(client: &impl GenericClient) -> Result<()> {
    let rows = client
        .query_typed(query!(schema_other_owner), &[])
        .await
        .map_err(classify)?;
    match rows.first() {
        None => Ok(()),
        Some(row) => Err(Error::new(
            Kind::Refused,
            format!(
                "schema turno belongs to role {}, and this is role {}: migrate as the owner, or run `set role` first (options=-crole=… in the URL)",
                row.get::<_, String>("owner"),
                row.get::<_, String>("role"),
            ),
        )),
    }
}

/// Returns the SQL from one version to the latest, without the rights.
fn steps(from: u32) -> String {
    let mut sql = String::new();
    for (version, (name, text)) in (1u32..)
        .zip(MIGRATIONS)
        .filter(|(version, _)| *version > from)
    {
        sql.push_str(&format!("-- Migration {name}\n\n{text}\n"));
        sql.push_str(&format!(
            "insert into turno.migration (version, name) values ({version}, '{name}');\n\n"
        ));
    }
    sql.push_str(&latest());
    sql
}

/// Returns the SQL that each version repeats: functions, and the oldest program that may use them.
pub(super) fn latest() -> String {
    let mut sql = joined("Function file", FUNCTIONS);
    sql.push_str(&format!(
        "update turno.migration\nset oldest_program = {OLDEST_PROGRAM}\nwhere version = {SCHEMA_VERSION};\n\n"
    ));
    sql
}

/// Returns the SQL that creates the roles and grants to them, as the settings name them.
pub(super) fn rights(roles: Roles) -> String {
    match roles {
        Roles::Grant => joined("Rights", GRANTS),
        Roles::Skip => String::new(),
    }
}

fn joined(what: &str, files: &[(&str, &str)]) -> String {
    files
        .iter()
        .map(|(name, text)| format!("-- {what} {name}\n\n{text}\n"))
        .collect()
}

/// Returns the whole schema as one SQL script, to read it or to run it with another program.
pub fn script() -> String {
    script_with(Roles::Grant)
}

/// Returns the [`script`], with or without the roles and their rights.
pub fn script_with(roles: Roles) -> String {
    script_of(&roles.into())
}

/// Returns the [`script`] with settings of the database.
///
/// # Errors
/// Returns an error if the options contradict each other. The database checks names and values of settings.
pub fn script_with_settings(options: &MigrateOptions) -> Result<String> {
    options.check()?;
    Ok(script_of(options))
}

fn script_of(options: &MigrateOptions) -> String {
    let settings: String = options.settings.iter().map(setting_sql).collect();
    format!(
        "begin;\n{SEARCH_PATH}\n\n{BEGIN}\n{}{settings}{}commit;\n",
        steps(0),
        rights(options.roles)
    )
}

/// Returns the statement that changes a setting.
fn setting_sql(change: &SettingChange) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    format!(
        "select turno.setting_set({}, {});\n\n",
        quoted(&change.name),
        quoted(change.value.as_deref().unwrap_or("default"))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions reach a database only with a new schema version. After a change to a function, add a migration, and write the
    /// sum that this test prints to `migrations/sum`.
    #[test]
    fn a_changed_function_needs_a_new_version() {
        // FNV-1a: short, and sufficient to detect a change.
        let sum = (steps(0) + &rights(Roles::Grant))
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
                (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
        assert_eq!(MIGRATIONS.len(), SCHEMA_VERSION as usize);
        assert_eq!(
            (SCHEMA_VERSION, format!("{sum:016x}")),
            (21, include_str!("migrations/sum").trim().to_owned())
        );
    }
}
