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
use crate::outbox::Outbox;
use crate::patience;
use crate::schedule::Schedule;
use crate::settings::{Migrate, Retry, Settings};
use crate::store::*;
use crate::tx::CallerTx;

/// A connection to a store, and the defaults of what is done with it. Cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
/// let turno = turno::Turno::connect("sqlite::memory:").await?;
/// let lease = turno.lock("PRESTAMO/123").acquire().await?.acquired().expect("nobody has it");
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
    /// What is done behind callers' backs: waiters that sign out, dropped leases that are given back.
    behind: TaskTracker,
}

/// How long closing waits for what is being done behind callers' backs.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);
/// The least that [`Settings::idle_poll_max`] is.
const MIN_IDLE_POLL: Duration = Duration::from_millis(10);
/// A sweeper that found nothing pauses so many times as long.
const IDLE_SWEEP: u32 = 3;

impl Turno {
    /// Connects to `sqlite:FILE`, `sqlite::memory:` or `postgres://…`, with the default settings.
    ///
    /// # Errors
    /// If the URL is of no known store, the store cannot be reached, or its schema is newer than this
    /// program.
    pub async fn connect(url: &str) -> Result<Self> {
        Turno::builder().connect(url).await
    }

    /// Connects with other settings.
    pub fn builder() -> Builder {
        Builder {
            settings: Settings::default(),
        }
    }

    /// Uses a store that is open already: one of your own, perhaps.
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
                behind: TaskTracker::new(),
            }),
        }
    }

    /// A lock on one resource, to be taken with [`Lock::acquire`] or [`Lock::run`].
    pub fn lock(&self, resource: impl Into<String>) -> Lock {
        Lock::new(self.clone(), resource.into())
    }

    /// Locks on several resources, taken all or none.
    pub fn locks<R: Into<String>>(&self, resources: impl IntoIterator<Item = R>) -> LockSet {
        LockSet::new(
            self.clone(),
            resources.into_iter().map(Into::into).collect(),
        )
    }

    /// A queue of work, to push to and to work on.
    pub fn inbox(&self, queue: impl Into<String>) -> Inbox {
        Inbox::new(self.clone(), queue.into())
    }

    /// The outbox: events that are published if and only if their transaction commits.
    pub fn outbox(&self) -> Outbox {
        Outbox::new(self.clone())
    }

    /// In a consumer's own transaction: true if this consumer sees the event for the first time. The event is remembered
    /// if the transaction commits; handle it only if the answer is true.
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
    ///     assert_eq!(turno.seen(&mut tx, "billing", event).await?, first);
    ///     tx.commit()?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the consumer's name is out of rule, or the database refuses: roll back.
    pub async fn seen(&self, tx: &mut impl CallerTx, consumer: &str, event: Uuid) -> Result<bool> {
        check::name("consumer", consumer)?;
        tx.seen(consumer, event).await
    }

    /// A schedule: pushes an item at every tick of a cron pattern, once for all instances.
    pub fn schedule(&self, name: impl Into<String>, cron: impl Into<String>) -> Schedule {
        Schedule::new(self.clone(), name.into(), cron.into())
    }

    /// How many items are in which state, for all queues whose names begin with a prefix.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn inbox_stats(&self, prefix: &str) -> Result<Vec<QueueStats>> {
        let ask = InboxStats {
            queue: None,
            prefix: prefix.to_owned(),
        };
        self.store().inbox_stats(&ask).await
    }

    /// Adopts a table of your own: see [`adopt`](crate::adopt).
    pub fn adopt(&self, table: impl Into<String>) -> Adopt {
        Adopt::new(self.clone(), table.into())
    }

    /// A table that was adopted, to take its rows from.
    pub fn adopted(&self, table: impl Into<String>) -> Adopted {
        Adopted::new(self.clone(), table.into())
    }

    /// Takes away what [`Turno::adopt`] added to a table, and nothing else: columns that were there before stay.
    /// Answers what was taken away. What the added columns said is lost.
    ///
    /// # Errors
    /// If the table is not adopted, something else depends on what was added (the message names it, and nothing is
    /// changed), or the store does not answer.
    pub async fn unadopt(&self, table: &str) -> Result<Adoption> {
        check::name("table", table)?;
        self.store().adopt_undo(table).await
    }

    /// Who works on items, as people see it, when nobody says.
    pub(crate) fn worker_name(&self) -> String {
        let host = self.inner.host.as_deref().unwrap_or("unknown host");
        format!("{host}/{}", std::process::id())
    }

    /// Who holds a resource.
    ///
    /// # Errors
    /// If the name is out of rule or the store does not answer.
    pub async fn lock_status(&self, resource: &str) -> Result<LockStatus> {
        check::name("resource", resource)?;
        self.store().lock_status(resource).await
    }

    /// One page of the locks that are held now and begin with a prefix, in order of their names.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn lock_list(&self, mut ask: LockList) -> Result<Vec<LockHolder>> {
        ask.limit = ask.limit.clamp(1, check::MAX_PAGE);
        self.store().lock_list(&ask).await
    }

    /// One page of the audit trail of locks, newest first; the first page begins with what is held now.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn lock_history(&self, ask: LockHistory) -> Result<Vec<HistoryEntry>> {
        self.history(ask.into()).await
    }

    /// One page of the audit trail, newest first: what became of locks, beginning with those that are held now, and what
    /// people did by hand to queues, events and once keys.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::Turno;
    /// use turno::history::{History, HistoryEvent, Part};
    ///
    /// let turno = Turno::connect("sqlite::memory:").await?;
    /// turno.once("pago/77").run(async || Ok::<_, turno::Error>(7)).await?;
    /// turno.once_forget("pago/77").await?;
    /// let entries = turno.history(History::default()).await?;
    /// assert_eq!((entries[0].part, entries[0].event), (Part::Once, HistoryEvent::Forgotten));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the name is out of rule, or the store does not answer.
    pub async fn history(&self, mut ask: History) -> Result<Vec<HistoryEntry>> {
        ask.limit = ask.limit.clamp(1, check::MAX_PAGE);
        check::optional_name("resource", ask.resource.as_deref())?;
        let mut entries = Vec::new();
        if ask.before.is_none() && ask.part.is_none_or(|part| part == Part::Lock) {
            let held = match &ask.resource {
                Some(resource) => self.lock_status(resource).await?.holders,
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

    /// Forces a lock open: names the token that is broken, and why. For a person, not for a program.
    ///
    /// # Errors
    /// If the name or the reason is out of rule, or the store does not answer.
    pub async fn lock_break(
        &self,
        resource: &str,
        token: Token,
        reason: &str,
    ) -> Result<BreakOutcome> {
        self.lock_break_as(resource, token, reason, self.settings().user.as_deref())
            .await
    }

    /// [`Turno::lock_break`] in somebody's name.
    ///
    /// # Errors
    /// As there.
    pub async fn lock_break_as(
        &self,
        resource: &str,
        token: Token,
        reason: &str,
        user: Option<&str>,
    ) -> Result<BreakOutcome> {
        self.lock_break_with(&LockBreak {
            resource: resource.to_owned(),
            token,
            reason: reason.to_owned(),
            user: user.map(str::to_owned),
            request: Uuid::now_v7(),
        })
        .await
    }

    /// [`Turno::lock_break`] with a request of the caller's own: sent again with the same, it changes nothing and is
    /// answered as the first time.
    ///
    /// # Errors
    /// As there.
    pub async fn lock_break_with(&self, ask: &LockBreak) -> Result<BreakOutcome> {
        check::name("resource", &ask.resource)?;
        check::text("reason", &ask.reason, check::TEXT_BYTES)?;
        check::optional_name("user", ask.user.as_deref())?;
        let outcome = self.store().lock_break(ask).await?;
        self.store().wakers().wake(&ask.resource);
        Ok(outcome)
    }

    /// Lengthens a lease that is known by its resource and token only.
    ///
    /// # Errors
    /// If the time to live is out of rule or the store does not answer.
    pub async fn lock_renew(
        &self,
        resource: &str,
        token: Token,
        ttl: Duration,
    ) -> Result<RenewOutcome> {
        check::name("resource", resource)?;
        check::ttl(ttl, self.settings().max_ttl)?;
        self.store()
            .lock_renew(&LockRenew {
                resource: resource.to_owned(),
                token,
                ttl,
            })
            .await
    }

    /// Gives back one hold of a lease that is known by its resource and token only.
    ///
    /// # Errors
    /// If the name is out of rule or the store does not answer.
    pub async fn lock_release(&self, resource: &str, token: Token) -> Result<ReleaseOutcome> {
        self.lock_release_with(&LockRelease {
            resource: resource.to_owned(),
            token,
            hold: None,
            request: Uuid::now_v7(),
        })
        .await
    }

    /// [`Turno::lock_release`] of a certain hold, or with a request of the caller's own: sent again with the same, it
    /// gives back nothing more and is answered as the first time.
    ///
    /// # Errors
    /// As there.
    pub async fn lock_release_with(&self, ask: &LockRelease) -> Result<ReleaseOutcome> {
        check::name("resource", &ask.resource)?;
        let outcome = self.store().lock_release(ask).await?;
        self.store().wakers().wake(&ask.resource);
        Ok(outcome)
    }

    /// Tidies up until there is nothing left to do: expired holdings are closed and recorded; resources long
    /// unused, old history and old records of completed items are forgotten. Nothing depends on it but the size of the tables.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn sweep(&self, ask: &Sweep) -> Result<Swept> {
        let mut all = Swept::default();
        loop {
            let swept = self.store().sweep(ask).await?;
            if swept.is_empty() {
                return Ok(all);
            }
            all += swept;
        }
    }

    /// Sweeps every `interval`, jittered, until the future is dropped; after a sweep that found nothing the next pause is three
    /// times as long, within [`Settings::idle_poll_max`]. Several instances may do so.
    pub async fn sweep_every(&self, interval: Duration, ask: &Sweep) -> std::convert::Infallible {
        self.sweep_telling(interval, ask, drop).await
    }

    /// [`Turno::sweep_every`] that tells after each sweep what it did, also if that was nothing.
    pub async fn sweep_telling(
        &self,
        interval: Duration,
        ask: &Sweep,
        mut tell: impl FnMut(Swept),
    ) -> std::convert::Infallible {
        let mut refused = None;
        let when_idle = (interval * IDLE_SWEEP)
            .min(self.settings().idle_poll_max)
            .max(interval);
        let mut pause = interval;
        loop {
            tokio::time::sleep(patience::jittered(pause)).await;
            match self.sweep(ask).await {
                Ok(swept) => {
                    refused = None;
                    pause = if swept.is_empty() {
                        when_idle
                    } else {
                        interval
                    };
                    if !swept.is_empty() {
                        tracing::info!(?swept, "swept");
                    }
                    tell(swept);
                }
                // A role without the right to sweep does not get it by asking: one warning is enough.
                Err(error) if error.is_refused() => {
                    let said = error.to_string();
                    if refused.as_ref() == Some(&said) {
                        tracing::debug!(%error, "the sweep is still refused");
                    } else {
                        tracing::warn!(%error, "the sweep is refused; it is tried again without further warnings");
                        refused = Some(said);
                    }
                }
                Err(error) => tracing::warn!(%error, "the sweep failed; it is tried again later"),
            }
        }
    }

    /// The store underneath.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// The settings that were given.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Who this process is, before a call says more.
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

    /// Does something behind the caller's back; [`Turno::close`] waits for it. Outside a runtime nothing
    /// is done: whatever it was ends by itself in time.
    pub(crate) fn behind(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            self.inner.behind.spawn_on(work, &runtime);
        }
    }

    /// Ends background work and closes the connections.
    pub async fn close(&self) {
        self.inner.behind.close();
        // What does not end in time lapses by itself.
        let _ = tokio::time::timeout(CLOSE_PATIENCE, self.inner.behind.wait()).await;
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

/// Settings on their way to a [`Turno`].
#[derive(Debug, Clone)]
#[must_use = "nothing happens before connect"]
pub struct Builder {
    settings: Settings,
}

impl Builder {
    /// All settings at once.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The time to live of a lease that names none; 30 seconds otherwise.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self
    }

    /// The longest time to live that is accepted; 24 hours otherwise.
    pub fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.settings.max_ttl = max_ttl;
        self
    }

    /// How a busy lock is tried again; once, otherwise.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.settings.retry = retry;
        self
    }

    /// The application, when a call names none.
    pub fn service(mut self, service: impl Into<String>) -> Self {
        self.settings.service = Some(service.into());
        self
    }

    /// The person, when a call names none.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.settings.user = Some(user.into());
        self
    }

    /// Connections to the store, where it has many.
    pub fn connections(mut self, connections: usize) -> Self {
        self.settings.connections = connections;
        self
    }

    /// The age after which a connection is not used again; half an hour otherwise.
    pub fn connection_max_age(mut self, connection_max_age: Duration) -> Self {
        self.settings.connection_max_age = connection_max_age;
        self
    }

    /// The longest that one call waits for the store, where it is a server ([`Settings::call_timeout`]). Default: 10 seconds.
    pub fn call_timeout(mut self, call_timeout: Duration) -> Self {
        self.settings.call_timeout = call_timeout;
        self
    }

    /// The largest payload of an item, in bytes; 1 MiB otherwise.
    pub fn max_payload(mut self, max_payload: usize) -> Self {
        self.settings.max_payload = max_payload;
        self
    }

    /// The most bytes that the payloads of one claim have together ([`Settings::max_claim_bytes`]). Default: 16 MiB.
    pub fn max_claim_bytes(mut self, max_claim_bytes: usize) -> Self {
        self.settings.max_claim_bytes = max_claim_bytes;
        self
    }

    /// The longest time for which an idle worker, relay, sweeper or waiter asks the store nothing; a quarter of an hour
    /// otherwise ([`Settings::idle_poll_max`]).
    pub fn idle_poll_max(mut self, idle_poll_max: Duration) -> Self {
        self.settings.idle_poll_max = idle_poll_max;
        self
    }

    /// With which keys stored answers are sealed; they are stored as they are, otherwise.
    pub fn answer_keys(mut self, keys: AnswerKeys) -> Self {
        self.settings.answer_keys = Some(keys);
        self
    }

    /// Whether calls that arrive together go to the store together; they do, otherwise. For measuring.
    pub fn gather(mut self, gather: Batching) -> Self {
        self.settings.gather = gather;
        self
    }

    /// Whether connecting brings the schema up to date; it does, otherwise.
    pub fn migrate(mut self, migrate: Migrate) -> Self {
        self.settings.migrate = migrate;
        self
    }

    /// Whether migrating creates the database's roles and grants them their functions. Default: [`Roles::Grant`].
    pub fn roles(mut self, roles: Roles) -> Self {
        self.settings.roles = roles;
        self
    }

    /// Opens the store.
    ///
    /// # Errors
    /// As [`Turno::connect`].
    pub async fn connect(self, url: &str) -> Result<Turno> {
        let store = open(url, &self.settings).await?;
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

async fn open(url: &str, settings: &Settings) -> Result<Arc<dyn Store>> {
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
