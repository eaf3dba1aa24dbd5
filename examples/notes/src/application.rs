//! The application's tables as they were before, and how they are adopted.

use anyhow::{Context, Result};
use sqlx::PgPool;
use turno::Turno;
use turno::adopt::Adoption;
use turno::store::postgres::Target;

/// The owner of the notes with odd numbers.
pub const ANA: &str = "a0000000-0000-4000-8000-000000000000";
/// The owner of the notes with even numbers.
pub const EVA: &str = "e0000000-0000-4000-8000-000000000000";

/// The id of the note with this number.
pub fn note_id(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// Connects to the application's database the way Turno does: with the same TLS settings, variables and files.
///
/// # Errors
/// If the URL is invalid, or the database does not answer.
pub async fn connect(url: &str) -> Result<PgPool> {
    let options = Target::parse(url)?.sqlx_options()?;
    Ok(PgPool::connect_with(options).await?)
}

/// Makes the application's tables, as they were before anybody thought of locks.
///
/// # Errors
/// If they are there already, or the database does not answer.
pub async fn create(db: &PgPool) -> Result<()> {
    sqlx::raw_sql(include_str!("../sql/application.sql"))
        .execute(db)
        .await
        .context("could not make the tables notes and charges: is the database empty?")?;
    Ok(())
}

/// Makes the rows as they were: twelve notes, two of which were tried before; nothing charged.
///
/// # Errors
/// If the database does not answer.
pub async fn fill(db: &PgPool) -> Result<()> {
    sqlx::raw_sql("truncate notes, charges").execute(db).await?;
    sqlx::raw_sql(include_str!("../sql/rows.sql"))
        .execute(db)
        .await?;
    Ok(())
}

/// The migration: adds the columns, indexes and functions of the processing lock, as far as they are missing. The same as
/// `turno adopt notes --id id`.
///
/// # Errors
/// If there is no such table, or the role may not change it.
pub async fn adopt(turno: &Turno) -> Result<Adoption> {
    Ok(turno
        .adopt("notes")
        .id("id")
        .user("user_id")
        .apply()
        .await?)
}
