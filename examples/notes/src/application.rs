//! The application's tables as they were before, and their adoption.

use anyhow::{Context, Result};
use sqlx::PgPool;
use turno::Turno;
use turno::adopt::{Adopt, Adoption};
use turno::store::postgres::Target;

/// Owner of the notes with odd numbers.
pub const ANA: &str = "a0000000-0000-4000-8000-000000000000";
/// Owner of the notes with even numbers.
pub const EVA: &str = "e0000000-0000-4000-8000-000000000000";

/// Returns the id of the note with this number.
pub fn note_id(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// Connects to the application's database as Turno does: with the same TLS settings, variables and files.
///
/// # Errors
/// Returns an error if the URL is invalid or the database is unavailable.
pub async fn connect(url: &str) -> Result<PgPool> {
    let options = Target::parse(url)?.sqlx_options()?;
    Ok(PgPool::connect_with(options).await?)
}

/// Creates the application's tables, as they were before locks.
///
/// # Errors
/// Returns an error if the tables exist or the database is unavailable.
pub async fn create(db: &PgPool) -> Result<()> {
    sqlx::raw_sql(include_str!("../sql/application.sql"))
        .execute(db)
        .await
        .context("could not make the tables notes and charges: is the database empty?")?;
    Ok(())
}

/// Inserts the initial rows: twelve notes, two of which were attempted before. There are no charges.
///
/// # Errors
/// Returns an error if the database is unavailable.
pub async fn fill(db: &PgPool) -> Result<()> {
    sqlx::raw_sql("truncate notes, charges").execute(db).await?;
    sqlx::raw_sql(include_str!("../sql/rows.sql"))
        .execute(db)
        .await?;
    Ok(())
}

/// The migration: adds missing columns, indexes and functions of the processing lock. Equivalent to `turno adopt notes --id
/// id`.
///
/// # Errors
/// Returns an error if there is no such table or the role has no right to change it.
pub async fn adopt(turno: &Turno) -> Result<Adoption> {
    Ok(adoption(turno).apply().await?)
}

/// The same for a table that has functions of these names already: they are replaced, in one transaction. `turno adopt notes
/// --undo` restores them.
///
/// # Errors
/// As [`adopt`], and if another role owns one of the functions, or something depends on it.
pub async fn adopt_over(turno: &Turno) -> Result<Adoption> {
    Ok(adoption(turno).replace().apply().await?)
}

fn adoption(turno: &Turno) -> Adopt {
    turno.adopt("notes").id("id").user("user_id")
}
