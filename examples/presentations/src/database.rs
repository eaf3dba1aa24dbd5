//! The application's own table, on PostgreSQL or SQLite.

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{PgPool, SqlitePool};
use turno::Turno;
use turno::inbox::{Inbox, Item};
use turno::store::postgres::Target;
use uuid::Uuid;

/// Size of a process's connection pool.
const CONNECTIONS: u32 = 4;
/// How long a connection waits for a transaction of another process, on SQLite. Longer than a call of the web service takes.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The table of presentations.
pub(crate) const TABLE: &str = "presentations";

/// SQLite accepts any type name. Ids are text on both databases, so that one statement works for both.
const CREATE: &str = "
    create table presentations (
        id text primary key,
        processed boolean not null default false,
        processed_at timestamptz
    )";

/// A presentation that is received and sent to the web service.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Presentation {
    /// Identity of the presentation, also for the web service.
    pub id: Uuid,
}

/// Connection pool. sqlx has one type per database.
#[derive(Debug, Clone)]
pub enum Database {
    /// `postgres://…`
    Postgres(PgPool),
    /// `sqlite:FILE`
    Sqlite(SqlitePool),
}

/// Runs the same expression on either database: both have `$1` as a parameter.
macro_rules! on_each {
    ($database:expr, $pool:ident => $body:expr) => {
        match $database {
            Database::Postgres($pool) => $body,
            Database::Sqlite($pool) => $body,
        }
    };
}

impl Database {
    /// Opens the store's database for the application. The database server shows `name` for this process.
    ///
    /// # Errors
    /// Returns an error if the URL is of neither database, or if the database is unreachable.
    pub async fn open(store: &str, name: &str) -> Result<Self> {
        if store.starts_with("postgres") {
            let options = Target::parse(store)?.sqlx_options()?;
            let options = options.application_name(name);
            let pool = PgPoolOptions::new().max_connections(CONNECTIONS);
            return Ok(Database::Postgres(pool.connect_with(options).await?));
        }
        ensure!(
            store.starts_with("sqlite:") && !store.contains(":memory:"),
            "{store:?} cannot be shared by several processes: use sqlite:FILE or postgres://…"
        );
        let options = SqliteConnectOptions::from_str(store)?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(TIMEOUT);
        let pool = SqlitePoolOptions::new().max_connections(CONNECTIONS);
        Ok(Database::Sqlite(pool.connect_with(options).await?))
    }

    /// Creates the table.
    ///
    /// # Errors
    /// Returns an error if the table exists: it would be another application's, and here each row is sent to a web service.
    pub async fn create(&self) -> Result<()> {
        on_each!(self, pool => sqlx::query(CREATE).execute(pool).await.map(drop)).context(
            "the table presentations could not be made: name a store that has none, or drop what an earlier run left",
        )
    }

    /// Adopts the table, and lets instances with the document's statements work on it beside Turno's workers.
    ///
    /// # Errors
    /// Returns an error if the database rejects a statement.
    pub async fn prepare_mixed_fleet(&self, turno: &Turno) -> Result<()> {
        turno.adopt(TABLE).id("id").apply().await?;
        let (postgres, sqlite) = (
            include_str!("../sql/mixed_fleet_postgres.sql"),
            include_str!("../sql/mixed_fleet_sqlite.sql"),
        );
        match self {
            Database::Postgres(pool) => sqlx::raw_sql(postgres).execute(pool).await.map(drop)?,
            Database::Sqlite(pool) => sqlx::raw_sql(sqlite).execute(pool).await.map(drop)?,
        }
        Ok(())
    }

    /// Drops the table.
    ///
    /// # Errors
    /// Returns an error if the database rejects the statement.
    pub async fn drop_table(&self) -> Result<()> {
        on_each!(self, pool => sqlx::query("drop table presentations").execute(pool).await.map(drop))?;
        Ok(())
    }

    /// Empties the table.
    ///
    /// # Errors
    /// Returns an error if the database rejects the statement.
    pub async fn clear(&self) -> Result<()> {
        on_each!(self, pool => sqlx::query("delete from presentations").execute(pool).await.map(drop))?;
        Ok(())
    }

    /// Inserts presentations, all in one transaction. With Turno's inbox, they are pushed in the same transaction.
    ///
    /// # Errors
    /// Returns an error if the database rejects a statement; then nothing was inserted.
    pub async fn receive(&self, ids: &[Uuid], inbox: Option<&Inbox>) -> Result<()> {
        on_each!(self, pool => {
            let mut tx = pool.begin().await?;
            for id in ids {
                sqlx::query("insert into presentations (id) values ($1)")
                    .bind(id.to_string())
                    .execute(&mut *tx)
                    .await?;
                if let Some(inbox) = inbox {
                    // The unique key: a presentation that is received twice is pushed once.
                    let item = Item::new(&Presentation { id: *id }).unique_key(id.to_string());
                    inbox.push_many_in(&mut *tx, [item]).await?;
                }
            }
            Ok(tx.commit().await?)
        })
    }

    /// Returns the presentations that are marked as processed.
    ///
    /// # Errors
    /// Returns an error if the database rejects the query.
    pub async fn processed(&self) -> Result<Vec<Uuid>> {
        let select = "select id from presentations where processed = true order by id";
        self.ids(select).await
    }

    /// Returns the presentations that a run of the scheduler begins with: `WHERE processed = false`.
    ///
    /// # Errors
    /// Returns an error if the database rejects the query.
    pub async fn unprocessed(&self) -> Result<Vec<Uuid>> {
        let select = "select id from presentations where processed = false order by id";
        self.ids(select).await
    }

    async fn ids(&self, select: &'static str) -> Result<Vec<Uuid>> {
        let ids: Vec<String> =
            on_each!(self, pool => sqlx::query_scalar(select).fetch_all(pool).await)?;
        ids.iter().map(|id| Ok(id.parse()?)).collect()
    }

    /// Returns whether the database has detected the end of a process and ended its transactions.
    ///
    /// # Errors
    /// Returns an error if the database rejects the query.
    pub async fn has_forgotten(&self, name: &str) -> Result<bool> {
        let Database::Postgres(pool) = self else {
            // The kernel released the locks on the file when the process ended.
            return Ok(true);
        };
        let select = "
            select count(*)
            from pg_stat_activity
            where datname = current_database()
            and application_name = $1";
        let connections: i64 = sqlx::query_scalar(select)
            .bind(name)
            .fetch_one(pool)
            .await?;
        Ok(connections == 0)
    }
}
