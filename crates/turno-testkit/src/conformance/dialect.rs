//! What differs between the stores in a test: how to reach their tables, a few statements, and what a store cannot do.

use std::fmt::Debug;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use tempfile::TempDir;

use super::Caller;
use super::trace::{Backup, TABLES, Watch, aside};
use crate::sql;

/// One kind of store.
#[async_trait]
pub(super) trait Dialect: Debug + Send + Sync {
    /// Rewrites a statement for this store. Tables are written `turno.lock` and so on; `{now}` is the store's clock, `{us:N}` a
    /// duration of N microseconds.
    fn statement(&self, sql: &str) -> String;

    /// Runs statements.
    async fn run(&self, sql: &str);

    /// Reads one number.
    async fn number(&self, sql: &str) -> i64;

    /// Kinds of transactions that an application may have.
    fn callers(&self) -> &'static [Caller];

    /// Starts to watch for writes.
    async fn watch(&self) -> Watch;

    /// Makes a backup.
    async fn backup(&self) -> Backup;

    /// Path of the file.
    ///
    /// # Panics
    /// Panics if the store is not a file.
    fn file(&self) -> PathBuf {
        panic!("this store has no file")
    }

    /// URL that connects directly to the server.
    ///
    /// # Panics
    /// Panics if the store has no server.
    fn direct_url(&self) -> &str {
        panic!("this store has no server")
    }

    /// Whether the store is a file: it has no roles and no poolers, and one writer at a time, which blocks all others.
    fn is_file(&self) -> bool {
        false
    }

    /// Statements that make failures of items older by a duration in microseconds.
    fn age_failures(&self, us: u128) -> String;

    /// Statements after which expired claims are found, in addition to their changed times.
    fn forget_expiry(&self) -> &'static str {
        ""
    }

    /// Counts the stored items, in all states but completed.
    fn count_items(&self) -> &'static str;
}

/// An SQLite file in a folder that is deleted with the test store.
#[derive(Debug)]
pub(super) struct Sqlite(pub(super) TempDir);

impl Sqlite {
    fn connection(&self) -> rusqlite::Connection {
        let db = rusqlite::Connection::open(self.file()).unwrap();
        db.busy_timeout(Duration::from_secs(10)).unwrap();
        db
    }
}

#[async_trait]
impl Dialect for Sqlite {
    fn statement(&self, sql: &str) -> String {
        let now = turno::clock::machine().as_microsecond();
        durations(sql, |us| us.to_string())
            .replace("turno.", "turno_")
            .replace("{now}", &now.to_string())
    }

    async fn run(&self, sql: &str) {
        let sql = self.statement(sql);
        self.connection().execute_batch(&sql).unwrap();
    }

    async fn number(&self, sql: &str) -> i64 {
        let sql = self.statement(sql);
        let number = self.connection().query_row(&sql, [], |row| row.get(0));
        number.unwrap()
    }

    fn callers(&self) -> &'static [Caller] {
        &[Caller::Rusqlite, Caller::SqlxSqlite]
    }

    async fn watch(&self) -> Watch {
        Watch::Sqlite(self.connection())
    }

    async fn backup(&self) -> Backup {
        let checkpoint = "pragma wal_checkpoint(truncate)";
        self.connection()
            .query_row(checkpoint, [], |_| Ok(()))
            .unwrap();
        Backup::Sqlite(fs::read(self.file()).unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("turno.db")
    }

    fn is_file(&self) -> bool {
        true
    }

    fn age_failures(&self, us: u128) -> String {
        format!("update turno.inbox_item set run_at = run_at - {{us:{us}}} where state = 4")
    }

    fn count_items(&self) -> &'static str {
        "select count(*) from turno.inbox_item"
    }
}

/// A PostgreSQL database; the URL connects directly to the server.
#[derive(Debug)]
pub(super) struct Postgres(pub(super) String);

#[async_trait]
impl Dialect for Postgres {
    fn statement(&self, sql: &str) -> String {
        durations(sql, |us| format!("{us} * interval '1 microsecond'"))
            .replace("{now}", "clock_timestamp()")
    }

    async fn run(&self, sql: &str) {
        let client = sql::client(&self.0).await;
        client.batch_execute(&self.statement(sql)).await.unwrap();
    }

    async fn number(&self, sql: &str) -> i64 {
        let client = sql::client(&self.0).await;
        let row = client.query_one(&self.statement(sql), &[]).await.unwrap();
        row.get(0)
    }

    fn callers(&self) -> &'static [Caller] {
        &[
            Caller::TokioPostgres,
            Caller::Deadpool,
            Caller::SqlxPostgres,
        ]
    }

    async fn watch(&self) -> Watch {
        Watch::Postgres(sql::client(&self.0).await)
    }

    async fn backup(&self) -> Backup {
        let mut sql = String::from("create schema aside;");
        for table in TABLES {
            sql.push_str(&format!("create table {} as table {table};", aside(table)));
        }
        self.run(&sql).await;
        Backup::Postgres
    }

    fn direct_url(&self) -> &str {
        &self.0
    }

    fn age_failures(&self, us: u128) -> String {
        format!("update turno.inbox_failed set failed_at = failed_at - {{us:{us}}}")
    }

    /// The cursor stores a time before which no claim ends.
    fn forget_expiry(&self) -> &'static str {
        "update turno.inbox_cursor set expiry = {now} - {us:1000000};"
    }

    fn count_items(&self) -> &'static str {
        "select (select count(*) from turno.inbox_item) + (select count(*) from turno.inbox_failed)"
    }
}

/// Replaces each `{us:N}`.
fn durations(sql: &str, written: impl Fn(u64) -> String) -> String {
    let mut parts = sql.split("{us:");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (us, rest) = part.split_once('}').unwrap();
        out.push_str(&written(us.parse().unwrap()));
        out.push_str(rest);
    }
    out
}
