//! The interface between the library and a database: the traits that a store implements.
//!
//! Each method is one atomic step of a protocol: it takes one struct of parameters and returns an outcome. Contention is an
//! outcome; `Err` means that a call failed. A store decides by its own clock. Waiting, renewal and retries are above it. The
//! parameters and outcomes are defined in the crate `turno-api`, which the HTTP interfaces share.
//!
//! Methods are named `noun_verb`. [`InboxStore`], [`OutboxStore`], [`OnceStore`], [`ScheduleStore`], [`AdoptStore`] and
//! [`AccessStore`] are traits of their own, and every [`Store`] implements them all. A store is complete when it passes the
//! conformance suite.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
pub use turno_api::admin::{Finding, Severity, Sweep, Swept};
pub use turno_api::history::{History, HistoryEntry, HistoryEvent, Part, SWEPT_FAILED};
pub use turno_api::ids::Token;
pub use turno_api::lock::{
    Attribution, BreakOutcome, Busy, Grant, Holder, LockAcquire, LockAcquireAll, LockAllOutcome,
    LockBreak, LockHolder, LockLeave, LockList, LockMode, LockOutcome, LockRelease, LockRenew,
    LockStatus, LockWait, ReleaseOutcome, RenewOutcome, WAITER_ALIVE, WaitOrder, WaitOutcome,
};
pub use turno_api::page::DEFAULT_PAGE;
pub use turno_api::schema::*;

use crate::error::{Error, Kind, Result};
use crate::wake::Wakers;

mod access;
mod adopt;
mod inbox;
mod once;
mod outbox;
#[cfg_attr(
    not(any(feature = "postgres", feature = "sqlite")),
    allow(dead_code, reason = "only stores generate statements")
)]
mod outbox_table;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod queries;
mod schedule;
#[cfg_attr(
    not(any(feature = "postgres", feature = "sqlite")),
    allow(dead_code, reason = "only stores generate statements")
)]
mod sql_text;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use self::access::*;
pub use self::adopt::*;
pub use self::inbox::*;
pub use self::once::*;
pub use self::outbox::*;
pub use self::outbox_table::*;
pub use self::schedule::*;

/// A store: a database with the rules of Turno.
#[async_trait]
pub trait Store:
    InboxStore
    + OutboxStore
    + OnceStore
    + ScheduleStore
    + AdoptStore
    + AccessStore
    + fmt::Debug
    + Send
    + Sync
    + 'static
{
    /// Its name: `sqlite`, `postgres`.
    fn name(&self) -> &'static str;

    /// Migrates the schema to this program's version. Concurrent migrations run one after the other.
    async fn migrate(&self) -> Result<Migrated>;

    /// [`Store::migrate`] with options: roles and settings of the database. A store without roles ignores `roles`; a store
    /// without settings rejects changes to them.
    async fn migrate_with(&self, options: &MigrateOptions) -> Result<Migrated> {
        match options.settings.first() {
            None => self.migrate().await,
            Some(change) => Err(Error::invalid(
                "setting",
                format!(
                    "setting {} is one of a PostgreSQL database, and this store is {}: use turno.toml or the library's Settings",
                    change.name,
                    self.name()
                ),
            )),
        }
    }

    /// Returns the settings of the database, which its owner changes with [`Store::migrate_with`]. Default: none.
    async fn database_settings(&self) -> Result<Vec<DatabaseSetting>> {
        Ok(Vec::new())
    }

    /// Returns the differences from the schema that this program ships: functions and rights. Default: none.
    async fn schema_drift(&self) -> Result<SchemaDrift> {
        Ok(SchemaDrift::default())
    }

    /// Migrates, then re-creates the functions and re-applies the rights that differ. Safe while instances run: a call
    /// in progress ends with the function that it began with. Returns what differed.
    async fn repair(&self, roles: Roles) -> Result<SchemaDrift> {
        self.migrate_with(&roles.into()).await?;
        Ok(SchemaDrift::default())
    }

    /// The version of the schema in the store, `None` if there is none yet.
    async fn schema_version(&self) -> Result<Option<u32>>;

    /// The schema in the store and the oldest program that may use it, `None` if there is none yet.
    async fn schema(&self) -> Result<Option<Schema>> {
        let version = self.schema_version().await?;
        Ok(version.map(Schema::for_its_program_only))
    }

    /// Returns an error if the store does not accept writes, such as a standby. Writes nothing.
    async fn check_writable(&self) -> Result<()> {
        Ok(())
    }

    /// Checks the store: durability, clock, blocking transactions.
    async fn diagnose(&self) -> Result<Vec<Finding>>;

    /// Acquires a lock, enters it again, or returns its holder.
    async fn lock_acquire(&self, ask: &LockAcquire) -> Result<LockOutcome>;

    /// [`Store::lock_acquire`] for a store that waits itself, such as a server: busy, if the lock was not granted in time.
    /// Default: `None`, the library waits.
    ///
    /// If the call is cancelled, the implementation must release a lock that it still acquires.
    async fn lock_acquire_waiting(
        &self,
        ask: &LockAcquire,
        wait: Duration,
        order: WaitOrder,
    ) -> Result<Option<LockOutcome>> {
        let _ = (ask, wait, order);
        Ok(None)
    }

    /// Acquires several locks, all or none, in sorted order.
    async fn lock_acquire_all(&self, ask: &LockAcquireAll) -> Result<LockAllOutcome>;

    /// Renews a lease. Never acquires a lock and never shortens a lease.
    async fn lock_renew(&self, ask: &LockRenew) -> Result<RenewOutcome>;

    /// Releases one hold.
    async fn lock_release(&self, ask: &LockRelease) -> Result<ReleaseOutcome>;

    /// Breaks a lock, for an operator.
    async fn lock_break(&self, ask: &LockBreak) -> Result<BreakOutcome>;

    /// Registers a waiter, or renews its registration, for [`WAITER_ALIVE`].
    async fn lock_wait(&self, ask: &LockWait) -> Result<WaitOutcome>;

    /// Removes a waiter's registration.
    async fn lock_leave(&self, ask: &LockLeave) -> Result<()>;

    /// Returns the holders of a resource.
    async fn lock_status(&self, resource: &str) -> Result<LockStatus>;

    /// Returns the locks that are held now, in order of their names.
    async fn lock_list(&self, ask: &LockList) -> Result<Vec<LockHolder>>;

    /// Returns the history, newest first: of locks, and of operator actions.
    async fn history(&self, ask: &History) -> Result<Vec<HistoryEntry>>;

    /// Closes expired leases and deletes old rows, up to a maximum number per call.
    async fn sweep(&self, ask: &Sweep) -> Result<Swept>;

    /// How long the registration of a waiter, for a lock or for the answer of a once key, is valid; `None` if it is valid until
    /// the end of the lease or the run that it waits for.
    fn waiter_alive(&self) -> Option<Duration> {
        Some(WAITER_ALIVE)
    }

    /// Wakes waiters when a lock may have become free.
    fn wakers(&self) -> &Arc<Wakers>;

    /// Ends background tasks. Acknowledged writes are durable already.
    async fn close(&self);
}

/// The version of the schema that this program needs, the same in every store.
pub const SCHEMA_VERSION: u32 = 21;

/// The lowest schema version for which a program may have been built, to use the schema of [`SCHEMA_VERSION`]. It is raised when
/// a migration changes something that older programs rely on; otherwise they keep working while servers are replaced.
pub const OLDEST_PROGRAM: u32 = 12;

/// The schema in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema {
    /// The number of the last migration.
    pub version: u32,
    /// Programs that were built for this version or a later one may use the schema.
    pub oldest_program: u32,
}

impl Schema {
    /// A schema that only programs of its own version may use.
    pub fn for_its_program_only(version: u32) -> Self {
        Schema {
            version,
            oldest_program: version,
        }
    }

    /// Whether this program may use it: the schema is its own, or newer and compatible.
    pub fn is_usable(&self) -> bool {
        self.version == SCHEMA_VERSION || self.is_newer_and_usable()
    }

    /// Whether it is newer than this program and compatible.
    pub fn is_newer_and_usable(&self) -> bool {
        self.version > SCHEMA_VERSION && self.oldest_program <= SCHEMA_VERSION
    }
}

/// The error for a word of the store that this program does not know.
pub(crate) fn unexpected(what: &str, word: &str) -> Error {
    Error::unexpected(what, word)
}

/// Returns an error for a newer schema that this program may not use, and the outcome of a migration for one that is newer and
/// compatible.
pub(crate) fn newer(found: Option<Schema>) -> Result<Option<Migrated>> {
    match found {
        Some(schema) if schema.is_newer_and_usable() => Ok(Some(Migrated {
            from: Some(schema.version),
            to: schema.version,
            missing_roles: Vec::new(),
            changed_settings: Vec::new(),
        })),
        Some(Schema { version, .. }) if version > SCHEMA_VERSION => Err(Error::new(
            Kind::Schema,
            format!(
                "the store's schema is version {version} and this program knows version {SCHEMA_VERSION}: upgrade this program"
            ),
        )),
        _ => Ok(None),
    }
}

/// The finding of `doctor` about the schema.
pub(crate) fn schema_finding(found: Option<Schema>) -> Finding {
    match found {
        Some(Schema {
            version: SCHEMA_VERSION,
            ..
        }) => Finding::ok(
            "schema",
            format!("version {SCHEMA_VERSION}, as this program needs"),
        ),
        Some(schema) if schema.is_newer_and_usable() => Finding::warning(
            "schema",
            format!(
                "version {} is newer than this program knows ({SCHEMA_VERSION}), and compatible: upgrade this program",
                schema.version
            ),
        ),
        Some(Schema { version, .. }) if version > SCHEMA_VERSION => Finding::problem(
            "schema",
            format!(
                "version {version} is newer than this program knows ({SCHEMA_VERSION}): upgrade this program"
            ),
        ),
        Some(Schema { version, .. }) => Finding::problem(
            "schema",
            format!(
                "version {version} is older than this program needs ({SCHEMA_VERSION}): run `turno migrate`"
            ),
        ),
        None => Finding::problem("schema", "there is none yet: run `turno migrate`"),
    }
}

/// Without a sweep for this long, `doctor` warns: servers sweep every five minutes.
const SWEEP_OVERDUE: Duration = Duration::from_secs(24 * 60 * 60);

/// The finding of `doctor` about the last sweep. Before the first one, `by` is `None` and `age` is that of the schema.
/// `role` is the role that a sweep needs, on a store with roles.
pub(crate) fn sweep_finding(age: Duration, by: Option<&str>, role: Option<&str>) -> Finding {
    let role = role.map_or(String::new(), |role| {
        format!(" with a role that is a member of {role}")
    });
    let next =
        format!("run `turno serve` or `turno sweep --every 5m`{role}; without it the tables grow");
    match by {
        _ if age > SWEEP_OVERDUE => Finding::warning(
            "sweep",
            format!(
                "no sweep in the last {:.0} hours: {next}",
                age.as_secs_f64() / 3600.0
            ),
        ),
        Some(by) => Finding::ok("sweep", format!("the last was {age:.0?} ago, by {by}")),
        None => Finding::ok("sweep", "none yet; the schema is not a day old"),
    }
}
