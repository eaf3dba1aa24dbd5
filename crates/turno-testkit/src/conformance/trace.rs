//! Detection of writes to a store, and backup and restore of its content.

use std::fs;

use crate::conformance::test_store::TestStore;

/// Tables of a store.
pub(super) const TABLES: [&str; 8] = [
    "turno.migration",
    "turno.lock",
    "turno.lock_hold",
    "turno.lock_waiter",
    "turno.lock_history",
    "turno.lock_floor",
    "turno.once",
    "turno.operator_action",
];

/// State that any write would change. Two equal traces mean that nothing was written in between.
#[derive(Debug, PartialEq, Eq)]
pub struct Trace(Vec<String>);

/// Watches a store for writes.
#[derive(Debug)]
pub enum Watch {
    /// `data_version` changes with each commit of another connection.
    Sqlite(rusqlite::Connection),
    /// Row versions and traces of row locks.
    Postgres(tokio_postgres::Client),
}

impl Watch {
    /// Returns the current trace.
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
                    // A row lock sets xmax, even one whose transaction was rolled back.
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
                // Sequences advance even if the transaction is rolled back.
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

/// Content of a store at some moment.
#[derive(Debug)]
pub enum Backup {
    /// A copy of the file.
    Sqlite(Vec<u8>),
    /// Copies of the tables, in the database itself.
    Postgres,
}

impl TestStore {
    /// Starts to watch for writes.
    pub async fn watch(&self) -> Watch {
        self.dialect().watch().await
    }

    /// Makes a backup of the store.
    pub async fn backup(&self) -> Backup {
        self.dialect().backup().await
    }

    /// Restores a backup. All instances must have been closed.
    pub async fn restore(&self, backup: &Backup) {
        match backup {
            Backup::Sqlite(content) => {
                for log in ["-wal", "-shm"] {
                    let mut path = self.file().into_os_string();
                    path.push(log);
                    // It exists only if the last connection did not remove it.
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

pub(super) fn aside(table: &str) -> String {
    table.replace("turno.", "aside.")
}
