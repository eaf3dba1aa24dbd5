//! A test store: a store for one test, with direct access to its tables.
//!
//! The direct access shifts stored times, so that no test has to sleep until a lease expires.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use turno::{Token, Turno};

use super::dialect::{Dialect, Postgres, Sqlite};
use crate::migrated::migrated_database;
use crate::server::{PgBouncer, PoolMode, PostgresServer};

/// Creates an instance on a store, given its URL.
pub type Connect = fn(String) -> Pin<Box<dyn Future<Output = Turno> + Send>>;

/// A store for one test.
#[derive(Debug)]
pub struct TestStore {
    url: String,
    dialect: Box<dyn Dialect>,
    /// Default: connects directly to the store.
    connect: Connect,
}

impl TestStore {
    /// Creates an SQLite file in a temporary folder.
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        TestStore {
            url: format!("sqlite:{}", folder.path().join("turno.db").display()),
            dialect: Box::new(Sqlite(folder)),
            connect: straight,
        }
    }

    /// Creates a database with the schema on this process's PostgreSQL server.
    pub fn postgres() -> Self {
        Self::in_database(migrated_database())
    }

    /// Creates an empty database on this process's PostgreSQL server.
    pub fn empty_postgres() -> Self {
        Self::in_database(PostgresServer::shared().create_database())
    }

    fn in_database(url: String) -> Self {
        TestStore {
            url: url.clone(),
            dialect: Box::new(Postgres(url)),
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
            let pooler = match PgBouncer::start_with(server, PoolMode::Transaction, &settings) {
                Ok(pooler) => pooler,
                Err(error) => panic!("{error:#}"),
            };
            std::thread::spawn(|| keep_running(&POOLER));
            pooler
        });
        let direct = migrated_database();
        let database = direct.rsplit('/').next().unwrap();
        TestStore {
            url: pooler.url(database),
            dialect: Box::new(Postgres(direct)),
            connect: straight,
        }
    }

    /// Makes instances reach the same store in another way: through a server.
    #[must_use = "it is another test store"]
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

    /// Returns whether the store is an SQLite file: it has no roles, and one writer at a time, which blocks all others.
    pub fn is_sqlite(&self) -> bool {
        self.dialect.is_file()
    }

    /// Returns whether the URL connects directly to the store, and not to a pooler.
    pub fn is_direct(&self) -> bool {
        self.dialect.is_file() || self.dialect.direct_url() == self.url
    }

    /// Path of the SQLite file.
    ///
    /// # Panics
    /// Panics on another store.
    pub fn file(&self) -> PathBuf {
        self.dialect.file()
    }

    /// Address of the store for a transaction of the caller: a path or a URL.
    pub(super) fn caller_address(&self) -> String {
        match self.is_sqlite() {
            true => self.file().display().to_string(),
            false => self.url.clone(),
        }
    }

    pub(super) fn dialect(&self) -> &dyn Dialect {
        &*self.dialect
    }

    /// Opens an application's own connection to the SQLite file.
    pub fn sqlite_connection(&self) -> rusqlite::Connection {
        let db = rusqlite::Connection::open(self.file()).unwrap();
        db.busy_timeout(Duration::from_secs(10)).unwrap();
        db
    }

    /// Opens an application's own connection, directly to the PostgreSQL server.
    pub async fn postgres_connection(&self) -> tokio_postgres::Client {
        crate::sql::client(self.dialect.direct_url()).await
    }

    /// Returns the URL of this test store's database on the PostgreSQL server, as another role: `app`, `operator`, or the
    /// superuser `postgres`. It connects directly to the server.
    ///
    /// # Panics
    /// Panics on another store.
    pub fn url_as(&self, role: &str) -> String {
        let direct = self.dialect.direct_url();
        direct.replace("owner@", &format!("{role}@"))
    }

    /// Opens a connection directly to the PostgreSQL server, as another role; see [`TestStore::url_as`].
    pub async fn postgres_connection_as(&self, role: &str) -> tokio_postgres::Client {
        crate::sql::client(&self.url_as(role)).await
    }

    /// Replaces a text in a function of Turno, in this store's database only: a control, without the guard that its rule is
    /// about. Only for PostgreSQL.
    pub(super) async fn replace_in_function(&self, function: &str, from: &str, to: &str) {
        let client = self.postgres_connection().await;
        let replaced = crate::sql::replace_in_function(&client, function, from, to).await;
        replaced.unwrap();
    }

    /// Runs the same statement on either store; see [`Dialect::statement`].
    pub(super) async fn run(&self, sql: &str) {
        self.dialect.run(sql).await;
    }

    /// Reads one number from the store.
    pub(super) async fn number(&self, sql: &str) -> i64 {
        self.dialect.number(sql).await
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

/// Restarts a pooler that crashes. PgBouncer 1.18 does so now and then when statements are cancelled (its issues 801 and 822);
/// in production systemd restarts it, and the library repeats its calls.
fn keep_running(pooler: &OnceLock<PgBouncer>) {
    loop {
        std::thread::sleep(Duration::from_millis(50));
        match pooler.get().map(|pooler| pooler.restart_after_crash()) {
            Some(Ok(true)) => eprintln!("PgBouncer has crashed, and was started again"),
            Some(Err(error)) => panic!("{error:#}"),
            Some(Ok(false)) | None => {}
        }
    }
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

fn straight(url: String) -> Pin<Box<dyn Future<Output = Turno> + Send>> {
    Box::pin(async move {
        let until = Instant::now() + CONNECT_TIMEOUT;
        loop {
            match Turno::connect(&url).await {
                // A pooler that has crashed is available again in a moment.
                Err(error) if error.is_unavailable() && Instant::now() < until => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                connected => return connected.unwrap(),
            }
        }
    })
}

pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
