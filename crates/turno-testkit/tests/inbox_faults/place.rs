//! An empty store for one test, with the application's table, and what an observer asks of both.

use std::path::PathBuf;

use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;
use turno::Turno;
use turno::inbox::{Inbox, Item, ItemId, ItemState, ItemView, QueueStats};
use turno_testkit::{PostgresServer, eventually};

use crate::LONG;

/// The one queue of every test.
pub const QUEUE: &str = "presentations";
/// So many attempts that faults never use them up.
pub const MANY_ATTEMPTS: u16 = 1000;
/// The most that is pushed at once.
const PUSH: usize = 10_000;
/// The largest page that a list answers with.
const PAGE: u32 = 1000;

pub struct Place {
    pub url: String,
    pub name: &'static str,
    pub runtime: Runtime,
    turno: Turno,
    /// For a store that is a file: where it is, until the test ends.
    _folder: Option<TempDir>,
}

/// What a handler left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    pub item: i64,
    pub payload: String,
    pub pid: i64,
    pub attempt: i64,
}

impl Place {
    /// A database of its own on the server that all tests share.
    pub fn postgres() -> Self {
        Self::on(PostgresServer::shared())
    }

    /// A database of its own on a server that the test may kill.
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

    /// The application's own table, in the database that the queue is in. Nothing in it is unique but the order.
    fn make_table(&self) {
        let columns = "item bigint not null, payload text not null, pid bigint not null, attempt bigint not null";
        match self.file() {
            Some(file) => rusqlite::Connection::open(file)
                .and_then(|db| {
                    db.execute_batch(&format!(
                        "create table effect (n integer primary key autoincrement, {columns})"
                    ))
                })
                .unwrap(),
            None => self.runtime.block_on(async {
                let client = client(&self.url).await;
                let make = format!("create table effect (n bigserial primary key, {columns})");
                client.batch_execute(&make).await.unwrap();
            }),
        }
    }

    pub fn file(&self) -> Option<PathBuf> {
        self.url.strip_prefix("sqlite:").map(PathBuf::from)
    }

    pub fn inbox(&self) -> Inbox {
        self.turno.inbox(QUEUE)
    }

    /// Pushes items; answers their ids, in order.
    pub fn push(&self, items: impl IntoIterator<Item = Item>) -> Vec<ItemId> {
        let items: Vec<Item> = items.into_iter().collect();
        let mut ids = Vec::with_capacity(items.len());
        for some in items.chunks(PUSH) {
            let push = self.inbox();
            let pushed = self.runtime.block_on(push.push_many(some.to_vec()));
            ids.extend(pushed.unwrap().into_iter().map(|pushed| pushed.id));
        }
        ids
    }

    pub fn stats(&self) -> QueueStats {
        match self.runtime.block_on(self.inbox().stats()) {
            // Nothing was pushed yet.
            Err(error) if error.is_no_queue() => QueueStats::default(),
            stats => stats.unwrap(),
        }
    }

    pub fn list(&self, state: ItemState) -> Vec<ItemView> {
        self.runtime
            .block_on(self.inbox().list(state, None, PAGE))
            .unwrap()
    }

    #[track_caller]
    pub fn await_stats(&self, what: &str, condition: impl Fn(&QueueStats) -> bool) -> QueueStats {
        eventually(LONG, what, || {
            let stats = self.stats();
            condition(&stats).then_some(stats)
        })
    }

    /// All effects, in the order in which they happened.
    pub fn effects(&self) -> Vec<Effect> {
        let read = "select item, payload, pid, attempt from effect order by n";
        let Some(file) = self.file() else {
            return self.runtime.block_on(async {
                let rows = client(&self.url).await.query(read, &[]).await.unwrap();
                let effect = |row: &tokio_postgres::Row| Effect {
                    item: row.get(0),
                    payload: row.get(1),
                    pid: row.get(2),
                    attempt: row.get(3),
                };
                rows.iter().map(effect).collect()
            });
        };
        let db = rusqlite::Connection::open(file).unwrap();
        let mut read = db.prepare(read).unwrap();
        let rows = read.query_map([], |row| {
            Ok(Effect {
                item: row.get(0)?,
                payload: row.get(1)?,
                pid: row.get(2)?,
                attempt: row.get(3)?,
            })
        });
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    }

    /// The items whose completion the store has recorded, as often as it has recorded it.
    pub fn completions(&self) -> Vec<i64> {
        let Some(file) = self.file() else {
            let read = "select i
                from turno.inbox_done d
                cross join lateral unnest(d.ids) r
                cross join lateral generate_series(lower(r), upper(r) - 1) i
                order by i";
            return self.runtime.block_on(async {
                let rows = client(&self.url).await.query(read, &[]).await.unwrap();
                rows.iter().map(|row| row.get(0)).collect()
            });
        };
        let db = rusqlite::Connection::open(file).unwrap();
        let mut read = db
            .prepare("select id from turno_inbox_done order by id")
            .unwrap();
        let ids = read.query_map([], |row| row.get(0)).unwrap();
        ids.collect::<Result<_, _>>().unwrap()
    }
}

pub async fn client(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    // Ends with its client.
    tokio::spawn(connection);
    client
}

/// An item whose handler does what the first word says, and that is tried again for as long as it takes.
pub fn item(payload: &str) -> Item {
    Item::new(payload).max_attempts(MANY_ATTEMPTS)
}
