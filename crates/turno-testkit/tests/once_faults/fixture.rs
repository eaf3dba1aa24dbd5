//! An empty store for one test, with the application's tables, and the queries of an observer.

use std::path::PathBuf;

use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;
use turno::Turno;
use turno::once::{OnceList, OnceState, OnceView};
use turno_testkit::{PostgresServer, eventually};

use crate::LONG;

pub struct Fixture {
    pub url: String,
    pub name: &'static str,
    pub runtime: Runtime,
    turno: Turno,
    /// Folder of a store that is a file, until the test ends.
    _folder: Option<TempDir>,
}

/// A run of the handler, or its effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub key: String,
    pub pid: i64,
    pub attempt: i64,
}

impl Fixture {
    /// Creates a database on the server that all tests share.
    pub fn postgres() -> Self {
        Self::on(PostgresServer::shared())
    }

    /// Creates a database on a server that the test may kill.
    pub fn on(server: &PostgresServer) -> Self {
        Self::new("postgres", server.create_database(), None)
    }

    /// Creates a file.
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let url = format!("sqlite:{}", folder.path().join("turno.db").display());
        Self::new("sqlite", url, Some(folder))
    }

    fn new(name: &'static str, url: String, folder: Option<TempDir>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime can be built");
        let turno = runtime
            .block_on(Turno::connect(&url))
            .expect("the store can be opened");
        let fixture = Self {
            url,
            name,
            runtime,
            turno,
            _folder: folder,
        };
        fixture.make_tables();
        fixture
    }

    /// Creates the application's tables, in the database of the store. Only their order columns are unique.
    fn make_tables(&self) {
        let columns = "key text not null, pid bigint not null, attempt bigint not null";
        let make = |number: &str| {
            format!(
                "create table ran (n {number}, {columns});
                create table effect (n {number}, {columns}, answer text not null);"
            )
        };
        match self.file() {
            Some(file) => rusqlite::Connection::open(file)
                .and_then(|db| db.execute_batch(&make("integer primary key autoincrement")))
                .unwrap(),
            None => self.runtime.block_on(async {
                let client = client(&self.url).await;
                let make = make("bigserial primary key");
                client.batch_execute(&make).await.unwrap();
            }),
        }
    }

    fn file(&self) -> Option<PathBuf> {
        self.url.strip_prefix("sqlite:").map(PathBuf::from)
    }

    /// Returns all runs of handlers, in the order in which they began.
    pub fn ran(&self) -> Vec<Row> {
        self.rows("ran")
    }

    /// Returns all effects, in the order in which they happened.
    pub fn effects(&self) -> Vec<Row> {
        self.rows("effect")
    }

    fn rows(&self, table: &str) -> Vec<Row> {
        let read = format!("select key, pid, attempt from {table} order by n");
        let Some(file) = self.file() else {
            return self.runtime.block_on(async {
                let rows = client(&self.url).await.query(&read, &[]).await.unwrap();
                let row = |row: &tokio_postgres::Row| Row {
                    key: row.get(0),
                    pid: row.get(1),
                    attempt: row.get(2),
                };
                rows.iter().map(row).collect()
            });
        };
        let db = rusqlite::Connection::open(file).unwrap();
        let mut read = db.prepare(&read).unwrap();
        let rows = read.query_map([], |row| {
            Ok(Row {
                key: row.get(0)?,
                pid: row.get(1)?,
                attempt: row.get(2)?,
            })
        });
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    }

    /// Returns the state of the only key in the store.
    pub fn known(&self) -> OnceView {
        let ask = OnceList {
            limit: 2,
            ..OnceList::default()
        };
        let mut known = self.runtime.block_on(self.turno.once_list(ask)).unwrap();
        assert_eq!(known.len(), 1, "{known:?}");
        known.remove(0)
    }

    #[track_caller]
    pub fn await_state(&self, state: OnceState) -> OnceView {
        eventually(LONG, state.as_str(), || {
            Some(self.known()).filter(|known| known.state == state)
        })
    }
}

pub async fn client(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    // Ends with its client.
    tokio::spawn(connection);
    client
}
