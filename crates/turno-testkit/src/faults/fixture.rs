//! An empty store for one test.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::sql::client;
use rusqlite::types::ValueRef;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use turno::Turno;

use crate::{PostgresServer, migrated_database};

/// How long a transaction waits for those of other processes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);

/// An empty store for one test, and an instance of the library that is independent of the tested processes.
#[derive(Debug)]
pub struct StoreFixture {
    /// URL of the store.
    pub url: String,
    /// `postgres` or `sqlite`.
    pub name: &'static str,
    /// Runtime of the test.
    pub runtime: Runtime,
    /// Instance of the library.
    pub turno: Turno,
    /// Folder of the test, with the file of a SQLite store. It is deleted at the end.
    pub folder: TempDir,
}

/// A fixture that is made from an empty store, usually with tables of an application.
pub trait FromStore: From<StoreFixture> {
    /// Creates a database on the server that all tests share.
    fn postgres() -> Self {
        StoreFixture::at("postgres", migrated_database(), folder()).into()
    }

    /// Creates a database on a server that the test may kill.
    fn on(server: &PostgresServer) -> Self {
        StoreFixture::at("postgres", server.create_database(), folder()).into()
    }

    /// Creates a file.
    fn sqlite() -> Self {
        let folder = folder();
        let url = format!("sqlite:{}", folder.path().join("turno.db").display());
        StoreFixture::at("sqlite", url, folder).into()
    }

    /// Opens a store that exists.
    fn open(url: &str) -> Self {
        let name = if url.starts_with("sqlite:") {
            "sqlite"
        } else {
            "postgres"
        };
        StoreFixture::at(name, url.to_owned(), folder()).into()
    }
}

impl<T: From<StoreFixture>> FromStore for T {}

impl StoreFixture {
    fn at(name: &'static str, url: String, folder: TempDir) -> Self {
        let runtime = runtime();
        let turno = runtime
            .block_on(Turno::connect(&url))
            .expect("the store can be opened");
        Self {
            url,
            name,
            runtime,
            turno,
            folder,
        }
    }

    /// Returns the file of a SQLite store.
    pub fn file(&self) -> Option<PathBuf> {
        self.url.strip_prefix("sqlite:").map(PathBuf::from)
    }

    /// Creates a table of the application, in the database of the store. Its first column, `n`, is the order of insertion; only
    /// this column is unique.
    pub fn create_table(&self, table: &str, columns: &str) {
        let create = |number: &str| format!("create table {table} (n {number}, {columns})");
        match self.file() {
            Some(file) => sqlite(&file)
                .execute_batch(&create("integer primary key autoincrement"))
                .expect("the table is created"),
            None => self.runtime.block_on(async {
                let create = create("bigserial primary key");
                let client = client(&self.url).await;
                client
                    .batch_execute(&create)
                    .await
                    .expect("the table is created");
            }),
        }
    }

    /// Returns the rows of a query; the names of its columns are those of the fields of `R`.
    pub fn rows<R: DeserializeOwned>(&self, query: &str) -> Vec<R> {
        let rows = match self.file() {
            Some(file) => sqlite_rows(&sqlite(&file), query).expect("the rows can be read"),
            None => self.runtime.block_on(postgres_rows(&self.url, query)),
        };
        let row = |row| serde_json::from_value(row).expect("the columns are the fields");
        rows.into_iter().map(row).collect()
    }
}

fn sqlite_rows(db: &rusqlite::Connection, query: &str) -> rusqlite::Result<Vec<Value>> {
    let mut query = db.prepare(query)?;
    let names: Vec<String> = query
        .column_names()
        .into_iter()
        .map(str::to_owned)
        .collect();
    let rows = query.query_map([], |row| {
        let mut fields = Map::new();
        for (column, name) in names.iter().enumerate() {
            let value = match row.get_ref(column)? {
                ValueRef::Integer(number) => number.into(),
                ValueRef::Text(_) => row.get::<_, String>(column)?.into(),
                other => panic!("no field has the type of {name}: {other:?}"),
            };
            fields.insert(name.clone(), value);
        }
        Ok(Value::Object(fields))
    })?;
    rows.collect()
}

async fn postgres_rows(url: &str, query: &str) -> Vec<Value> {
    let query = format!("select row_to_json(r)::text from ({query}) r");
    let rows = client(url).await.query(&query, &[]).await;
    let row = |row: &tokio_postgres::Row| serde_json::from_str(row.get(0)).expect("a row is JSON");
    rows.expect("the rows can be read")
        .iter()
        .map(row)
        .collect()
}

/// Opens a SQLite database as an application does.
pub fn sqlite(file: &Path) -> rusqlite::Connection {
    let db = rusqlite::Connection::open(file).expect("the file can be opened");
    db.busy_timeout(BUSY_TIMEOUT)
        .expect("the timeout can be set");
    // Sufficient for the faults of the tests, and faster.
    db.pragma_update(None, "synchronous", "normal")
        .expect("the mode can be set");
    db
}

/// Two threads, the minimum of the machines that run the tests.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be built")
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}
