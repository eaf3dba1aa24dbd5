//! Noticing that a store was written to, and putting back what was there before.

use std::fs;

use super::bed::{Bed, Place};

/// The tables that a store has.
const TABLES: [&str; 8] = [
    "turno.migration",
    "turno.lock",
    "turno.lock_hold",
    "turno.lock_waiter",
    "turno.lock_history",
    "turno.lock_floor",
    "turno.once",
    "turno.deed",
];

/// What a write would change. Two that are equal mean that nothing was written between.
#[derive(Debug, PartialEq, Eq)]
pub struct Trace(Vec<String>);

/// Watches a store for writes.
#[derive(Debug)]
pub enum Watch {
    /// `data_version` moves with every commit of another connection.
    Sqlite(rusqlite::Connection),
    /// Row versions and the marks of row locks.
    Postgres(tokio_postgres::Client),
}

impl Watch {
    /// The trace at this moment.
    pub async fn look(&self) -> Trace {
        match self {
            Watch::Sqlite(db) => Trace(vec![
                db.query_row("pragma data_version", [], |row| row.get::<_, i64>(0))
                    .unwrap()
                    .to_string(),
            ]),
            Watch::Postgres(client) => {
                let mut rows = Vec::new();
                for table in TABLES {
                    // xmax is where a row lock leaves its mark, even one whose transaction was undone.
                    let sql = format!(
                        "select concat_ws(' ', '{table}', ctid, xmin, xmax) from {table} order by ctid"
                    );
                    rows.extend(
                        client
                            .query(&sql, &[])
                            .await
                            .unwrap()
                            .iter()
                            .map(|row| row.get::<_, String>(0)),
                    );
                }
                // Sequences move even when the transaction is undone.
                let sequences = "select concat_ws(' ', sequencename, last_value) from pg_sequences where schemaname = 'turno' order by 1";
                rows.extend(
                    client
                        .query(sequences, &[])
                        .await
                        .unwrap()
                        .iter()
                        .map(|row| row.get::<_, String>(0)),
                );
                Trace(rows)
            }
        }
    }
}

/// The store's content at some moment.
#[derive(Debug)]
pub enum Backup {
    /// A copy of the file.
    Sqlite(Vec<u8>),
    /// Copies of the tables, in the database itself.
    Postgres,
}

impl Bed {
    /// Begins to watch for writes.
    pub async fn watch(&self) -> Watch {
        match self.place() {
            Place::Sqlite { .. } => Watch::Sqlite(self.sqlite_connection()),
            Place::Postgres { .. } => Watch::Postgres(self.postgres_connection().await),
        }
    }

    /// Copies the store aside.
    pub async fn backup(&self) -> Backup {
        match self.place() {
            Place::Sqlite { .. } => {
                let db = self.sqlite_connection();
                db.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))
                    .unwrap();
                Backup::Sqlite(fs::read(self.file()).unwrap())
            }
            Place::Postgres { .. } => {
                let mut sql = String::from("create schema aside;");
                for table in TABLES {
                    sql.push_str(&format!("create table {} as table {table};", aside(table)));
                }
                self.postgres_connection()
                    .await
                    .batch_execute(&sql)
                    .await
                    .unwrap();
                Backup::Postgres
            }
        }
    }

    /// Puts a copy back. Every instance must have been closed.
    pub async fn restore(&self, backup: &Backup) {
        match backup {
            Backup::Sqlite(content) => {
                for log in ["-wal", "-shm"] {
                    let mut path = self.file().into_os_string();
                    path.push(log);
                    // It is there only if the last to close the file did not remove it.
                    let _ = fs::remove_file(path);
                }
                fs::write(self.file(), content).unwrap();
            }
            Backup::Postgres => {
                let mut sql = String::from("begin;");
                for table in TABLES {
                    sql.push_str(&format!(
                        "truncate {table}; insert into {table} overriding system value table {};",
                        aside(table)
                    ));
                }
                sql.push_str("commit;");
                self.postgres_connection()
                    .await
                    .batch_execute(&sql)
                    .await
                    .unwrap();
            }
        }
    }
}

fn aside(table: &str) -> String {
    table.replace("turno.", "aside.")
}
