//! A test store: a store for one test, with direct access to its tables.
//!
//! The direct access shifts stored times, so that no test has to sleep until a lease expires.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;
use turno::{Token, Turno};

use crate::server::{PgBouncer, PoolMode, PostgresServer};

/// Creates an instance on a store, given its URL.
pub type Connect = fn(String) -> Pin<Box<dyn Future<Output = Turno> + Send>>;

/// A store for one test.
#[derive(Debug)]
pub struct TestStore {
    url: String,
    tables: Tables,
    /// Default: connects directly to the store.
    connect: Connect,
}

/// Location of the store's tables.
#[derive(Debug)]
pub(super) enum Tables {
    /// A file in a folder that is deleted with the test store.
    Sqlite { folder: TempDir },
    /// A database; the URL connects directly to the server.
    Postgres { direct: String },
}

impl TestStore {
    /// Creates an SQLite file in a temporary folder.
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        TestStore {
            url: format!("sqlite:{}", folder.path().join("turno.db").display()),
            tables: Tables::Sqlite { folder },
            connect: straight,
        }
    }

    /// Creates a database with the schema on this process's PostgreSQL server.
    pub fn postgres() -> Self {
        Self::in_database(migrated(PostgresServer::shared()))
    }

    /// Creates an empty database on this process's PostgreSQL server.
    pub fn empty_postgres() -> Self {
        Self::in_database(PostgresServer::shared().create_database())
    }

    fn in_database(url: String) -> Self {
        TestStore {
            url: url.clone(),
            tables: Tables::Postgres { direct: url },
            connect: straight,
        }
    }

    /// Creates a database with the schema behind a pooler in transaction mode.
    pub fn pgbouncer() -> Self {
        static POOLER: OnceLock<PgBouncer> = OnceLock::new();
        let server = PostgresServer::shared();
        let pooler = POOLER.get_or_init(|| {
            // Few and short-lived server connections: each test has its own database, and so its own pool.
            let settings = [("default_pool_size", "10"), ("server_idle_timeout", "1")];
            match PgBouncer::start_with(server, PoolMode::Transaction, &settings) {
                Ok(pooler) => pooler,
                Err(error) => panic!("{error:#}"),
            }
        });
        let direct = migrated(server);
        let database = direct.rsplit('/').next().unwrap();
        TestStore {
            url: pooler.url(database),
            tables: Tables::Postgres { direct },
            connect: straight,
        }
    }

    /// Makes instances reach the same store in another way: through a server.
    #[must_use = "it is another bed"]
    pub fn through(mut self, connect: Connect) -> Self {
        self.connect = connect;
        self
    }

    /// The store's URL, as an application has it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Creates an instance on this store. Two calls represent two machines.
    pub async fn turno(&self) -> Turno {
        (self.connect)(self.url.clone()).await
    }

    /// Returns whether the store is an SQLite file.
    pub fn is_sqlite(&self) -> bool {
        matches!(self.tables, Tables::Sqlite { .. })
    }

    /// Returns whether the URL connects directly to the store, and not to a pooler.
    pub fn is_direct(&self) -> bool {
        match &self.tables {
            Tables::Sqlite { .. } => true,
            Tables::Postgres { direct } => *direct == self.url,
        }
    }

    /// Path of the SQLite file.
    ///
    /// # Panics
    /// Panics on another store.
    pub fn file(&self) -> PathBuf {
        match &self.tables {
            Tables::Sqlite { folder } => folder.path().join("turno.db"),
            Tables::Postgres { .. } => panic!("this bed has no file"),
        }
    }

    pub(super) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Opens an application's own connection to the SQLite file.
    pub fn sqlite_connection(&self) -> rusqlite::Connection {
        let db = rusqlite::Connection::open(self.file()).unwrap();
        db.busy_timeout(Duration::from_secs(10)).unwrap();
        db
    }

    /// Opens an application's own connection, directly to the PostgreSQL server.
    pub async fn postgres_connection(&self) -> tokio_postgres::Client {
        match &self.tables {
            Tables::Postgres { direct } => connect(direct).await,
            Tables::Sqlite { .. } => panic!("this bed has no server"),
        }
    }

    /// Returns the URL of this test store's database on the PostgreSQL server, as another role: `app`, `operator`, or the
    /// superuser `postgres`. It connects directly to the server.
    ///
    /// # Panics
    /// Panics on another store.
    pub fn url_as(&self, role: &str) -> String {
        match &self.tables {
            Tables::Postgres { direct } => direct.replace("owner@", &format!("{role}@")),
            Tables::Sqlite { .. } => panic!("this bed has no server"),
        }
    }

    /// Opens a connection directly to the PostgreSQL server, as another role; see [`TestStore::url_as`].
    pub async fn postgres_connection_as(&self, role: &str) -> tokio_postgres::Client {
        connect(&self.url_as(role)).await
    }

    /// Runs the same statement on either store. Tables are written `turno.lock` and so on; `{now}` is the store's clock,
    /// `{us:N}` a duration of N microseconds.
    pub(super) async fn run(&self, sql: &str) {
        match &self.tables {
            Tables::Sqlite { .. } => {
                let now = turno::clock::machine().as_microsecond();
                let sql = lengths(sql, |us| us.to_string())
                    .replace("turno.", "turno_")
                    .replace("{now}", &now.to_string());
                self.sqlite_connection().execute_batch(&sql).unwrap();
            }
            Tables::Postgres { direct } => {
                let sql = lengths(sql, |us| format!("{us} * interval '1 microsecond'"))
                    .replace("{now}", "clock_timestamp()");
                connect(direct).await.batch_execute(&sql).await.unwrap();
            }
        }
    }

    /// Reads one number from the store.
    pub(super) async fn number(&self, sql: &str) -> i64 {
        match &self.tables {
            Tables::Sqlite { .. } => {
                let sql = sql.replace("turno.", "turno_");
                self.sqlite_connection()
                    .query_row(&sql, [], |row| row.get(0))
                    .unwrap()
            }
            Tables::Postgres { direct } => connect(direct)
                .await
                .query_one(sql, &[])
                .await
                .unwrap()
                .get(0),
        }
    }

    /// Shifts the times of one resource until all of its holds have expired.
    pub async fn expire(&self, resource: &str) {
        let name = quoted(resource);
        // Shift all times by the same duration, so that their distances stay the same.
        for table in ["turno.lock_hold", "turno.lock"] {
            let by = format!(
                "(select max(expires_at) from turno.lock where resource = {name}) - {{now}} + {{us:1000000}}"
            );
            self.run(&format!(
                "update {table} set acquired_at = acquired_at - ({by}), min_until = min_until - ({by}), \
                 max_until = max_until - ({by}), expires_at = expires_at - ({by}) where resource = {name} and holds > 0"
            ))
            .await;
        }
    }

    /// Shifts the times of one shared hold until it has expired.
    pub async fn expire_hold(&self, resource: &str, token: Token) {
        let name = quoted(resource);
        let by = "(expires_at - {now} + {us:1000000})";
        self.run(&format!(
            "update turno.lock_hold set acquired_at = acquired_at - {by}, min_until = min_until - {by}, \
             max_until = max_until - {by}, expires_at = expires_at - {by} \
             where resource = {name} and token = {token}; \
             update turno.lock set expires_at = \
               (select max(expires_at) from turno.lock_hold where resource = {name}) where resource = {name}"
        ))
        .await;
    }

    /// Makes one resource older by this duration.
    pub async fn age(&self, resource: &str, by: Duration) {
        let (name, by) = (quoted(resource), format!("{{us:{}}}", by.as_micros()));
        for table in ["turno.lock", "turno.lock_hold"] {
            self.run(&format!(
                "update {table} set acquired_at = acquired_at - {by}, expires_at = expires_at - {by}, \
                 min_until = min_until - {by}, max_until = max_until - {by} where resource = {name}"
            ))
            .await;
        }
    }

    /// Makes the history older by this duration.
    pub async fn age_history(&self, by: Duration) {
        for table in ["turno.lock_history", "turno.operator_action"] {
            let by = by.as_micros();
            self.run(&format!("update {table} set at = at - {{us:{by}}}"))
                .await;
        }
    }

    /// Makes a waiter's registration outdated.
    pub async fn kill_waiter(&self, resource: &str, owner: &str) {
        let (resource, owner) = (quoted(resource), quoted(owner));
        self.run(&format!(
            "update turno.lock_waiter set alive_until = {{now}} - {{us:1000000}} where resource = {resource} and owner = {owner}"
        ))
        .await;
    }

    /// Sets a resource's last token, as if the clock had been ahead.
    pub async fn set_token(&self, resource: &str, token: Token) {
        let name = quoted(resource);
        self.run(&format!(
            "update turno.lock set token = {token} where resource = {name}"
        ))
        .await;
    }

    /// Number of lock rows, held or not.
    pub async fn rows(&self) -> i64 {
        self.number("select count(*) from turno.lock").await
    }
}

fn straight(url: String) -> Pin<Box<dyn Future<Output = Turno> + Send>> {
    Box::pin(async move { Turno::connect(&url).await.unwrap() })
}

/// Returns a new database with the schema. It is copied, because creating the schema takes longer than most tests.
fn migrated(server: &PostgresServer) -> String {
    static TEMPLATE: OnceLock<String> = OnceLock::new();
    let template = TEMPLATE.get_or_init(|| {
        let url = server.create_database();
        let migrate = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let migrate = async { Turno::connect(&url).await.unwrap().close().await };
            runtime.unwrap().block_on(migrate);
        };
        // On a separate thread, because the first caller may be in a runtime already.
        std::thread::scope(|scope| scope.spawn(migrate).join().unwrap());
        url
    });
    server.copy_database(template)
}

/// Opens a connection that lives as long as its client.
pub(super) async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
}

pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Replaces each `{us:N}`.
fn lengths(sql: &str, written: impl Fn(u64) -> String) -> String {
    let mut parts = sql.split("{us:");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (us, rest) = part.split_once('}').unwrap();
        out.push_str(&written(us.parse().unwrap()));
        out.push_str(rest);
    }
    out
}
