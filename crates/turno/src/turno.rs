//! The handle that everything starts from.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::adopt::{Adopt, Adopted};
use crate::check;
use crate::error::{Error, Kind, Result};
use crate::inbox::Inbox;
use crate::lock::{Lock, LockSet};
use crate::once::AnswerKeys;
use crate::outbox::{AdoptOutbox, Outbox, OutboxTable};
use crate::schedule::Schedule;
use crate::settings::{Migrate, Retry, Settings};
use crate::store::*;
use crate::tx::Transaction;

/// A connection to a store, with the default settings of its calls. Cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
/// let turno = turno::Turno::connect("sqlite::memory:").await?;
/// let lease = turno.lock("PRESTAMO/123").acquire().await?.acquired().expect("it is free");
/// assert!(turno.lock("PRESTAMO/123").acquire().await?.is_busy());
/// lease.release().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Turno {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    settings: Settings,
    host: Option<String>,
    pid: Option<i32>,
    /// Background tasks, such as the release of a dropped lease.
    background: TaskTracker,
}

/// How long [`Turno::close`] waits for background tasks.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The least that [`Settings::idle_poll_max`] is.
const MIN_IDLE_POLL: Duration = Duration::from_millis(10);

impl Turno {
    /// Connects to `sqlite:FILE`, `sqlite::memory:` or `postgres://…`, with the default settings. Creates a missing schema, and
    /// migrates an older one.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid, the store is unavailable, or its schema is newer than this program.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::Turno;
    ///
    /// let turno = Turno::connect("sqlite::memory:").await?; // or "sqlite:app.db", or "postgres://user@host/app"
    /// assert!(!turno.lock("loan/1").acquire().await?.is_busy());
    /// let error = Turno::connect("mysql://localhost").await.unwrap_err();
    /// assert_eq!(error.field(), Some("store"));
    /// # Ok(()) }
    /// ```
    pub async fn connect(url: &str) -> Result<Self> {
        Turno::builder().connect(url).await
    }

    /// Creates a builder, to connect with other settings. [`Builder`] has an example.
    pub fn builder() -> Builder {
        Builder {
            settings: Settings::default(),
        }
    }

    /// Uses a store that is already open, such as an implementation of [`Store`] of your own. Neither migrates nor checks its
    /// schema.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::Turno;
    ///
    /// let turno = Turno::connect("sqlite::memory:").await?;
    /// let mut settings = turno.settings().clone();
    /// settings.user = Some("ana".to_owned());
    /// let ana = Turno::with_store(turno.store().clone(), settings); // the same store, with other defaults
    /// let _lease = ana.lock("loan/1").acquire().await?;
    /// let status = turno.lock("loan/1").status().await?;
    /// assert_eq!(status.holders[0].attribution.user.as_deref(), Some("ana"));
    /// # Ok(()) }
    /// ```
    pub fn with_store(store: Arc<dyn Store>, settings: Settings) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
            .ok()
            .map(|name| name.trim().to_owned())
            .filter(|name| check::name("host", name).is_ok());
        let pid = i32::try_from(std::process::id()).ok();
        let settings = Settings {
            // With none at all, waiters would ask without a pause.
            idle_poll_max: settings.idle_poll_max.max(MIN_IDLE_POLL),
            ..settings
        };
        Turno {
            inner: Arc::new(Inner {
                store,
                settings,
                host,
                pid,
                background: TaskTracker::new(),
            }),
        }
    }

    /// Returns the handle of a lock: [`Lock::acquire`], [`Lock::run`], [`Lock::status`]. The name of a resource has at most 255
    /// bytes.
    pub fn lock(&self, resource: impl Into<String>) -> Lock {
        Lock::new(self.clone(), resource.into())
    }

    /// Returns the handle of several locks, at most 100, that are acquired together, all or none. [`LockSet`] has an example.
    pub fn locks<R: Into<String>>(&self, resources: impl IntoIterator<Item = R>) -> LockSet {
        LockSet::new(
            self.clone(),
            resources.into_iter().map(Into::into).collect(),
        )
    }

    /// Returns the handle of a queue: [`Inbox::push`], [`Inbox::worker`]. The name of a queue has at most 255 bytes, and does not
    /// begin with `$`. The first push creates the queue.
    pub fn inbox(&self, queue: impl Into<String>) -> Inbox {
        Inbox::new(self.clone(), queue.into())
    }

    /// Returns the handle of the outbox: [`Outbox::emit_in`], [`Outbox::relay`].
    pub fn outbox(&self) -> Outbox {
        Outbox::new(self.clone())
    }

    /// Marks an event as processed by a consumer, in the consumer's own [transaction](crate::tx). Returns true the first time:
    /// only then must the consumer handle the event. If the transaction rolls back, the mark is gone too.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("billing.db");
    /// let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
    /// let mut yours = rusqlite::Connection::open(&file)?;
    /// let event = uuid::Uuid::now_v7(); // the message id of what was delivered
    /// for first in [true, false] {
    ///     let mut tx = yours.transaction()?;
    ///     assert_eq!(turno.mark_processed(&mut tx, "billing", event).await?, first);
    ///     tx.commit()?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the consumer's name is invalid, or the database fails: the caller must roll back.
    pub async fn mark_processed(
        &self,
        tx: &mut impl Transaction,
        consumer: &str,
        event: Uuid,
    ) -> Result<bool> {
        check::name("consumer", consumer)?;
        tx.mark_processed(consumer, event).await
    }

    /// Creates a schedule, which pushes an item at each tick of a cron pattern, once for all instances. The pattern has five fields,
    /// or six if it begins with seconds. Nothing happens before [`Schedule::run`]. See [`schedule`](crate::schedule).
    pub fn schedule(&self, name: impl Into<String>, cron: impl Into<String>) -> Schedule {
        Schedule::new(self.clone(), name.into(), cron.into())
    }

    /// Returns the number of items per state, for all queues whose names begin with a prefix.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// turno.inbox("mail/welcome").push("to ana").await?;
    /// turno.inbox("reports").push("monthly").await?;
    /// let stats = turno.inbox_stats("mail/").await?;
    /// assert_eq!((stats.len(), stats[0].pending), (1, 1));
    /// # Ok(()) }
    /// ```
    pub async fn inbox_stats(&self, prefix: &str) -> Result<Vec<QueueStats>> {
        let ask = InboxStats {
            queue: None,
            prefix: prefix.to_owned(),
        };
        self.store().inbox_stats(&ask).await
    }

    /// Returns the options to adopt a table of your own. Nothing happens before [`Adopt::apply`]. See [`adopt`](crate::adopt).
    pub fn adopt(&self, table: impl Into<String>) -> Adopt {
        Adopt::new(self.clone(), table.into())
    }

    /// Returns the handle of an adopted table: [`Adopted::acquire`], [`Adopted::next`].
    pub fn adopted(&self, table: impl Into<String>) -> Adopted {
        Adopted::new(self.clone(), table.into())
    }

    /// Adopts a table of events of your own as an outbox, so that a relay can publish its rows.
    pub fn adopt_outbox(&self, table: impl Into<String>) -> AdoptOutbox {
        AdoptOutbox::new(self.clone(), table.into())
    }

    /// Returns the handle of a table that was adopted as an outbox.
    pub fn outbox_table(&self, table: impl Into<String>) -> OutboxTable {
        OutboxTable::new(self.clone(), table.into())
    }

    /// Removes the columns, indexes and functions that [`Turno::adopt`] added to a table, with the data in those columns. Columns
    /// that existed before are not changed. Returns what was removed.
    ///
    /// # Errors
    /// Returns an error if the table is not adopted, something else depends on what was added (the message names it, and nothing
    /// is changed), or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// # rusqlite::Connection::open(&file)?.execute_batch("create table notes (id integer primary key, body text); insert into notes (body) values ('one'), ('two')")?;
    /// # let url = format!("sqlite:{}", file.display());
    /// let turno = turno::Turno::connect(&url).await?;
    /// let added = turno.adopt("notes").apply().await?;
    /// let removed = turno.unadopt("notes").await?;
    /// assert_eq!(removed.columns, added.columns);
    /// assert!(turno.adopted("notes").stats(None).await.is_err());
    /// # Ok(()) }
    /// ```
    pub async fn unadopt(&self, table: &str) -> Result<Adoption> {
        check::name("table", table)?;
        self.store().adopt_undo(table).await
    }

    /// The default name of a worker: host and process.
    pub(crate) fn worker_name(&self) -> String {
        let host = self.inner.host.as_deref().unwrap_or("unknown host");
        format!("{host}/{}", std::process::id())
    }

    /// Returns one page of the locks that are held and begin with a prefix, in the order of their names. The page size is 1 to 1000.
    /// Default: 100.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::lock::LockList;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let _leases = [turno.lock("loan/1").acquire().await?, turno.lock("report").acquire().await?];
    /// let loans = turno.lock_list(LockList { prefix: "loan/".into(), ..LockList::default() }).await?;
    /// assert_eq!((loans.len(), loans[0].resource.as_str()), (1, "loan/1"));
    /// # Ok(()) }
    /// ```
    pub async fn lock_list(&self, mut ask: LockList) -> Result<Vec<LockHolder>> {
        ask.limit = ask.limit.clamp(1, check::MAX_PAGE);
        self.store().lock_list(&ask).await
    }

    /// Returns one page of the history, newest first: the leases of locks, beginning with the current holders, and the operator
    /// actions on queues, events and once keys.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::Turno;
    /// use turno::history::{History, HistoryEvent, Part};
    ///
    /// let turno = Turno::connect("sqlite::memory:").await?;
    /// turno.once("pago/77").run(async || Ok::<_, turno::Error>(7)).await?;
    /// turno.once("pago/77").forget().await?;
    /// let entries = turno.history(History::default()).await?;
    /// assert_eq!((entries[0].part, entries[0].event), (Part::Once, HistoryEvent::Forgotten));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the name is invalid, or the store is unavailable.
    pub async fn history(&self, mut ask: History) -> Result<Vec<HistoryEntry>> {
        ask.limit = ask.limit.clamp(1, check::MAX_PAGE);
        check::optional_name("resource", ask.resource.as_deref())?;
        let mut entries = Vec::new();
        if ask.before.is_none() && ask.part.is_none_or(|part| part == Part::Lock) {
            let held = match &ask.resource {
                Some(resource) => self.store().lock_status(resource).await?.holders,
                None => {
                    let list = LockList {
                        prefix: ask.prefix.clone(),
                        after: String::new(),
                        limit: ask.limit,
                    };
                    self.store().lock_list(&list).await?
                }
            };
            entries.extend(held.into_iter().map(held_now));
            entries.sort_by_key(|entry| std::cmp::Reverse(entry.at));
        }
        entries.extend(self.store().history(&ask).await?);
        Ok(entries)
    }

    /// Sweeps once: records expired leases, and deletes what is older than its retention. Only the size of the tables depends
    /// on it. [`Turno::sweeper`] sweeps regularly.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// assert!(turno.sweep(&turno::lock::Sweep::default()).await?.is_empty());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    pub async fn sweep(&self, ask: &Sweep) -> Result<Swept> {
        let mut all = Swept::default();
        loop {
            let swept = self.store().sweep(ask).await?;
            all += swept;
            // Not until nothing is found: under a steady load, records become old all the time, and it would never end.
            if !swept.is_full(ask.batch) {
                return Ok(all);
            }
        }
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// The default attribution of a lock: this process.
    pub(crate) fn attribution(&self) -> Attribution {
        let settings = self.settings();
        Attribution {
            user: settings.user.clone(),
            service: settings.service.clone(),
            description: None,
            host: self.inner.host.clone(),
            pid: self.inner.pid,
        }
    }

    /// Spawns a background task. [`Turno::close`] waits for it. Outside a runtime nothing is spawned: the task's lease or
    /// claim then expires.
    pub(crate) fn spawn_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            self.inner.background.spawn_on(work, &runtime);
        }
    }

    /// Waits up to two seconds for background tasks, then closes Turno's connections. Call it before the program ends: the leases
    /// and claims of tasks that have not ended then expire.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// use turno::Turno;
    ///
    /// let url = format!("sqlite:{}", file.display());
    /// let turno = Turno::connect(&url).await?;
    /// let lease = turno.lock("loan/1").acquire().await?;
    /// drop(lease); // released in the background
    /// turno.close().await;
    /// assert!(!Turno::connect(&url).await?.lock("loan/1").acquire().await?.is_busy());
    /// # Ok(()) }
    /// ```
    pub async fn close(&self) {
        self.inner.background.close();
        // What does not end in time lapses by itself.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.inner.background.wait()).await;
        self.store().close().await;
    }
}

/// A current holding, as the audit trail shows it.
fn held_now(holder: LockHolder) -> HistoryEntry {
    HistoryEntry {
        id: None,
        at: holder.acquired_at,
        part: Part::Lock,
        event: HistoryEvent::Acquired,
        resource: holder.resource,
        count: None,
        token: Some(holder.token),
        mode: Some(holder.mode),
        owner: Some(holder.owner),
        attribution: holder.attribution,
        acquired_at: Some(holder.acquired_at),
        expires_at: Some(holder.expires_at),
        actor: None,
        reason: None,
    }
}

/// Builder of a [`Turno`]: settings, then [`connect`](Builder::connect) or [`from_pool`](Builder::from_pool).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
/// use std::time::Duration;
/// use turno::Turno;
///
/// let turno = Turno::builder().ttl(Duration::from_secs(60)).service("billing").connect("sqlite::memory:").await?;
/// assert_eq!(turno.settings().ttl, Duration::from_secs(60));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing happens before connect"]
pub struct Builder {
    settings: Settings,
}

impl Builder {
    /// Replaces all settings. Default: [`Settings::default`].
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets the TTL of leases and claims for calls that give none. Default: 30 seconds.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self
    }

    /// Sets the longest TTL that is accepted. Default: 24 hours.
    pub fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.settings.max_ttl = max_ttl;
        self
    }

    /// Sets the retry policy for a busy lock. Default: one attempt.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.settings.retry = retry;
        self
    }

    /// Sets the application, for calls that name none. Default: none.
    pub fn service(mut self, service: impl Into<String>) -> Self {
        self.settings.service = Some(service.into());
        self
    }

    /// Sets the user, for calls that name none. Default: none.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.settings.user = Some(user.into());
        self
    }

    /// Sets the maximum number of connections to a PostgreSQL server. Default: 16.
    pub fn connections(mut self, connections: usize) -> Self {
        self.settings.connections = connections;
        self
    }

    /// Sets the age after which a connection is replaced. Default: 30 minutes.
    pub fn connection_max_age(mut self, connection_max_age: Duration) -> Self {
        self.settings.connection_max_age = connection_max_age;
        self
    }

    /// Sets the timeout of one call to a database server ([`Settings::call_timeout`]). Default: 10 seconds.
    pub fn call_timeout(mut self, call_timeout: Duration) -> Self {
        self.settings.call_timeout = call_timeout;
        self
    }

    /// Sets the maximum size of a payload, in bytes. Default: 1 MiB.
    pub fn max_payload(mut self, max_payload: usize) -> Self {
        self.settings.max_payload = max_payload;
        self
    }

    /// Sets the maximum total size of the payloads of one claim, in bytes ([`Settings::max_claim_bytes`]). Default: 16 MiB.
    pub fn max_claim_bytes(mut self, max_claim_bytes: usize) -> Self {
        self.settings.max_claim_bytes = max_claim_bytes;
        self
    }

    /// Sets the longest pause between two polls of an idle worker, relay, sweeper or waiter
    /// ([`Settings::idle_poll_max`]). Default: 15 minutes.
    pub fn idle_poll_max(mut self, idle_poll_max: Duration) -> Self {
        self.settings.idle_poll_max = idle_poll_max;
        self
    }

    /// Sets the keys with which stored answers are encrypted. Default: they are stored in plain text.
    pub fn answer_keys(mut self, keys: AnswerKeys) -> Self {
        self.settings.answer_keys = Some(keys);
        self
    }

    /// Sets whether concurrent calls are batched. Default: they are. For measurements.
    pub fn batching(mut self, batching: Batching) -> Self {
        self.settings.batching = batching;
        self
    }

    /// Sets whether connecting migrates the schema. Default: [`Migrate::Auto`].
    pub fn migrate(mut self, migrate: Migrate) -> Self {
        self.settings.migrate = migrate;
        self
    }

    /// Sets whether a migration creates the database's roles and grants rights to them. Default: [`Roles::Grant`].
    pub fn roles(mut self, roles: Roles) -> Self {
        self.settings.roles = roles;
        self
    }

    /// Connects to `sqlite:FILE`, `sqlite::memory:` or `postgres://…`.
    ///
    /// # Errors
    /// As [`Turno::connect`].
    pub async fn connect(self, url: &str) -> Result<Turno> {
        let store = open(url, &self.settings).await?;
        self.open(store).await
    }

    pub(crate) fn given_settings(&self) -> &Settings {
        &self.settings
    }

    /// Migrates or checks a store, as the settings say.
    pub(crate) async fn open(self, store: Arc<dyn Store>) -> Result<Turno> {
        match self.settings.migrate {
            Migrate::Auto => {
                let migrated = store.migrate_with(&self.settings.roles.into()).await?;
                if !migrated.missing_roles.is_empty() {
                    tracing::warn!(
                        missing = ?migrated.missing_roles,
                        "database roles do not exist and this role may not create them: only the owner can use the schema; \
                         an administrator creates them with `create role NAME nologin`, then `turno migrate --repair` grants"
                    );
                }
            }
            Migrate::Never => ready(&*store).await?,
            Migrate::Unchecked => {}
        }
        Ok(Turno::with_store(store, self.settings))
    }
}

pub(crate) async fn open(url: &str, settings: &Settings) -> Result<Arc<dyn Store>> {
    let scheme = url.split(':').next().unwrap_or_default();
    match scheme {
        #[cfg(feature = "sqlite")]
        "sqlite" => {
            let path = url.trim_start_matches("sqlite:");
            if settings.migrate == Migrate::Never
                && let Some(missing) = sqlite::SqliteStore::missing(path)?
            {
                return Err(missing);
            }
            Ok(Arc::new(
                sqlite::SqliteStore::open_with(path, settings).await?,
            ))
        }
        #[cfg(feature = "postgres")]
        scheme
            if matches!(scheme, "postgres" | "postgresql")
                || postgres::is_connection_string(url) =>
        {
            Ok(Arc::new(
                postgres::PostgresStore::connect_with(url, settings).await?,
            ))
        }
        _ => {
            // Only the scheme is shown: the rest may hold a password.
            let shown: String = scheme
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
                .take(20)
                .collect();
            Err(Error::invalid(
                "store",
                format!(
                    "unknown store {shown:?}: give sqlite:FILE, sqlite::memory: or postgres://user@host/database; postgres:// alone uses the PG* variables"
                ),
            ))
        }
    }
}

/// Refuses a store whose schema is missing, older or newer.
async fn ready(store: &dyn Store) -> Result<()> {
    match store.schema().await? {
        Some(schema) if schema.is_usable() => Ok(()),
        Some(Schema { version, .. }) => Err(Error::new(
            Kind::Schema,
            format!(
                "the store's schema is version {version} and this program needs {SCHEMA_VERSION}: {}",
                if version > SCHEMA_VERSION {
                    "upgrade this program"
                } else {
                    "run `turno migrate`"
                }
            ),
        )),
        None => Err(Error::new(
            Kind::Schema,
            "the store has no schema yet: run `turno migrate`",
        )),
    }
}
