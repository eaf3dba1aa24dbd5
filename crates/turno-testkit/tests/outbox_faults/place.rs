//! An empty store for one test, with the consumer's table in the same database.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;
use turno::Turno;
use turno::outbox::{Event, EventState, EventView, OutboxStats};
use turno_testkit::server::RabbitMq;
use turno_testkit::{PostgresServer, eventually};

use crate::LONG;

/// How long a transaction waits for those of other processes.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Place {
    pub url: String,
    pub name: &'static str,
    pub runtime: Runtime,
    pub turno: Turno,
    /// For a store that is a file: where it is, until the test ends.
    _folder: Option<TempDir>,
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Commit,
    RollBack,
}

/// What a consumer has handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handled {
    pub event: String,
    pub key: String,
    pub number: i64,
}

/// A broker that no test breaks.
pub fn shared_broker() -> &'static RabbitMq {
    static BROKER: OnceLock<RabbitMq> = OnceLock::new();
    BROKER.get_or_init(|| RabbitMq::start().expect("RabbitMQ starts"))
}

impl Place {
    /// A database of its own on the server that all tests share.
    pub fn postgres() -> Self {
        Self::on(PostgresServer::shared())
    }

    /// A database of its own on a server that the test may restart.
    pub fn on(server: &PostgresServer) -> Self {
        Self::new("postgres", server.create_database(), None)
    }

    /// A file of its own.
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
        let place = Self {
            url,
            name,
            runtime,
            turno,
            _folder: folder,
        };
        place.make_table();
        place
    }

    /// The consumer's own table. Nothing in it is unique but the order.
    fn make_table(&self) {
        let columns = "event text not null, key text not null, number bigint not null";
        match self.file() {
            Some(file) => rusqlite::Connection::open(file)
                .and_then(|db| {
                    db.execute_batch(&format!(
                        "create table handled (n integer primary key autoincrement, {columns})"
                    ))
                })
                .unwrap(),
            None => self.runtime.block_on(async {
                let client = client(&self.url).await.unwrap();
                let make = format!("create table handled (n bigserial primary key, {columns})");
                client.batch_execute(&make).await.unwrap();
            }),
        }
    }

    pub fn file(&self) -> Option<PathBuf> {
        self.url.strip_prefix("sqlite:").map(PathBuf::from)
    }

    /// Emits events in one transaction of an application's own.
    pub fn emit(&self, events: &[Event], end: End) {
        let outbox = self.turno.outbox();
        match self.file() {
            Some(file) => {
                let mut db = sqlite(&file);
                let mut tx = db.transaction().unwrap();
                let emit = outbox.emit_many_in(&mut tx, events);
                self.runtime.block_on(emit).unwrap();
                match end {
                    End::Commit => tx.commit().unwrap(),
                    End::RollBack => tx.rollback().unwrap(),
                }
            }
            None => self.runtime.block_on(async {
                let mut client = client(&self.url).await.unwrap();
                let mut tx = client.transaction().await.unwrap();
                outbox.emit_many_in(&mut tx, events).await.unwrap();
                match end {
                    End::Commit => tx.commit().await.unwrap(),
                    End::RollBack => tx.rollback().await.unwrap(),
                }
            }),
        }
    }

    /// The counts; `None` while the store does not answer.
    pub fn try_stats(&self) -> Option<OutboxStats> {
        self.runtime.block_on(self.turno.outbox().stats()).ok()
    }

    pub fn stats(&self) -> OutboxStats {
        self.try_stats().expect("the store answers")
    }

    pub fn list(&self, state: EventState) -> Vec<EventView> {
        let mut all: Vec<EventView> = Vec::new();
        loop {
            let after = all.last().map(|event| event.seq);
            let page = self.turno.outbox();
            let page = self
                .runtime
                .block_on(page.list(state, after, 1000))
                .unwrap();
            if page.is_empty() {
                return all;
            }
            all.extend(page);
        }
    }

    #[track_caller]
    pub fn await_stats(&self, what: &str, condition: impl Fn(&OutboxStats) -> bool) -> OutboxStats {
        eventually(LONG, what, || {
            let stats = self.try_stats()?;
            condition(&stats).then_some(stats)
        })
    }

    /// All that was handled, in the order in which it was.
    pub fn handled(&self) -> Vec<Handled> {
        let read = "select event, key, number from handled order by n";
        let Some(file) = self.file() else {
            return self.runtime.block_on(async {
                let client = client(&self.url).await.unwrap();
                let rows = client.query(read, &[]).await.unwrap();
                rows.iter()
                    .map(|row| Handled {
                        event: row.get(0),
                        key: row.get(1),
                        number: row.get(2),
                    })
                    .collect()
            });
        };
        let db = sqlite(&file);
        let mut read = db.prepare(read).unwrap();
        let rows = read.query_map([], |row| {
            Ok(Handled {
                event: row.get(0)?,
                key: row.get(1)?,
                number: row.get(2)?,
            })
        });
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    }
}

pub async fn client(url: &str) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // Ends with its client.
    tokio::spawn(connection);
    Ok(client)
}

pub fn sqlite(file: &PathBuf) -> rusqlite::Connection {
    let db = rusqlite::Connection::open(file).unwrap();
    db.busy_timeout(PATIENCE).unwrap();
    // The application's choice, for its own transactions: enough against what happens here, and quicker.
    db.pragma_update(None, "synchronous", "normal").unwrap();
    db
}
