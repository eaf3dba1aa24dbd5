//! The seam: what a store must be able to do, as verbs.
//!
//! Each verb is one atomic step of a protocol: it takes one struct of parameters and answers with an
//! outcome. Expected contention is an outcome; `Err` means that something is broken. A store decides
//! with its own clock and knows nothing of waiting, renewing or retrying, which live above it.
//!
//! The verbs are named `noun_verb`. Those of the inbox are a trait of their own, [`InboxStore`], and so are those
//! of the outbox, [`OutboxStore`], of once, [`OnceStore`], of schedules, [`ScheduleStore`], of adopted tables,
//! [`AdoptStore`], and of access tokens, [`AccessStore`]; every [`Store`] has them all. A new store ships by passing the conformance suite.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, Kind, Result};
use crate::wake::Wakers;

mod access;
mod adopt;
mod as_ms;
mod as_optional_ms;
mod drift;
mod history;
mod inbox;
mod once;
mod outbox;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod queries;
#[cfg(test)]
mod round_trip;
mod schedule;
mod setting;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use self::access::*;
pub use self::adopt::*;
pub use self::drift::*;
pub use self::history::*;
pub use self::inbox::*;
pub use self::once::*;
pub use self::outbox::*;
pub use self::schedule::*;
pub use self::setting::*;

/// One store: a database, and the rules that live in it.
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
    /// What people call it: `sqlite`, `postgres`.
    fn name(&self) -> &'static str;

    /// Brings the schema up to this program's version; serialised between instances.
    async fn migrate(&self) -> Result<Migrated>;

    /// [`Store::migrate`] that may leave the database's roles alone, and change settings of the database. A store without roles
    /// ignores `roles`; a store without settings rejects changes to them.
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

    /// The settings of the whole database, which its owner changes with [`Store::migrate_with`]. None, where there are none.
    async fn database_settings(&self) -> Result<Vec<DatabaseSetting>> {
        Ok(Vec::new())
    }

    /// What differs from the schema that this program ships: functions and rights. Nothing, where there are neither.
    async fn schema_drift(&self) -> Result<SchemaDrift> {
        Ok(SchemaDrift::default())
    }

    /// Migrates, then re-creates the functions and re-applies the rights that differ. Safe while instances run: a call
    /// that is under way ends with the function that it began with. Answers what differed.
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

    /// Whether the store is fit for its promises: durability, clock, what blocks it.
    async fn diagnose(&self) -> Result<Vec<Finding>>;

    /// Takes a resource, enters it again, or tells who has it.
    async fn lock_acquire(&self, ask: &LockAcquire) -> Result<LockOutcome>;

    /// [`Store::lock_acquire`] for a store that can wait by itself, such as a server that answers when it is the caller's
    /// turn: busy, if that did not come in time. `None` if it cannot, as most: the library waits then.
    ///
    /// It must be safe to give up half-way: whatever it then takes is given back.
    async fn lock_acquire_waiting(
        &self,
        ask: &LockAcquire,
        wait: Duration,
        order: WaitOrder,
    ) -> Result<Option<LockOutcome>> {
        let _ = (ask, wait, order);
        Ok(None)
    }

    /// Takes several resources, all or none, in sorted order.
    async fn lock_acquire_all(&self, ask: &LockAcquireAll) -> Result<LockAllOutcome>;

    /// Lengthens a lease. Never inserts, never steals, never shortens.
    async fn lock_renew(&self, ask: &LockRenew) -> Result<RenewOutcome>;

    /// Gives back one hold.
    async fn lock_release(&self, ask: &LockRelease) -> Result<ReleaseOutcome>;

    /// Forces a lock open, for a person.
    async fn lock_break(&self, ask: &LockBreak) -> Result<BreakOutcome>;

    /// Signs a waiter in, or says that it is still there; good for [`WAITER_ALIVE`].
    async fn lock_wait(&self, ask: &LockWait) -> Result<WaitOutcome>;

    /// Signs a waiter out.
    async fn lock_leave(&self, ask: &LockLeave) -> Result<()>;

    /// Who holds a resource.
    async fn lock_status(&self, resource: &str) -> Result<LockStatus>;

    /// The locks that are held now, in order of their names.
    async fn lock_list(&self, ask: &LockList) -> Result<Vec<LockHolder>>;

    /// The audit trail, newest first: of locks, and of what people did by hand to everything else.
    async fn history(&self, ask: &History) -> Result<Vec<HistoryEntry>>;

    /// The audit trail of locks alone.
    async fn lock_history(&self, ask: &LockHistory) -> Result<Vec<HistoryEntry>> {
        self.history(&ask.clone().into()).await
    }

    /// Tidies up, within bounds.
    async fn sweep(&self, ask: &Sweep) -> Result<Swept>;

    /// How long a waiter that has signed in, for a lock or for the answer of a key, is called, and keeps its place; `None` if
    /// that lasts until the end of the holding or the run that it waits for.
    fn waiter_alive(&self) -> Option<Duration> {
        Some(WAITER_ALIVE)
    }

    /// Where waiters are woken when a lock may have become free.
    fn wakers(&self) -> &Arc<Wakers>;

    /// Ends background work; what was acknowledged is already durable.
    async fn close(&self);
}

/// The version of the schema that this program needs, the same in every store.
pub const SCHEMA_VERSION: u32 = 12;

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

/// The size of a page, unless said otherwise.
pub const DEFAULT_PAGE: u32 = 100;

/// How long a waiter counts after it last signed in.
pub const WAITER_ALIVE: Duration = Duration::from_secs(10);

/// The fencing token: a number that only grows for a resource, for ever.
///
/// It follows the database's clock in microseconds and is one more than the last whenever that clock
/// has not moved on, so that it keeps growing across release, expiry, purge and restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Token(pub i64);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Who holds or asks, as a person sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Attribution {
    /// The person, as the application knows them.
    pub user: Option<String>,
    /// The application.
    pub service: Option<String>,
    /// What it is doing.
    pub description: Option<String>,
    /// The machine it runs on.
    pub host: Option<String>,
    /// Its process there.
    pub pid: Option<i32>,
}

/// How many may hold a resource at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LockMode {
    /// One owner.
    #[default]
    Exclusive,
    /// Any number of owners, none of them exclusive.
    Shared,
    /// At most this many owners, none of them exclusive.
    Permits(u32),
}

/// Parameters of [`Store::lock_acquire`].
#[derive(Debug, Clone)]
pub struct LockAcquire {
    /// What to lock.
    pub resource: String,
    /// Who asks, as a machine sees it.
    pub owner: String,
    /// For how long.
    pub ttl: Duration,
    /// Alone, or with others.
    pub mode: LockMode,
    /// The least time until anybody may take it again, even if it is released sooner.
    pub min_hold: Option<Duration>,
    /// The most that renewals can add up to.
    pub max_hold: Option<Duration>,
    /// Who asks, as a person sees it.
    pub attribution: Attribution,
    /// The identity of this request: applying it twice changes nothing.
    pub request: Uuid,
}

/// Parameters of [`Store::lock_acquire_all`]: those of each, with many names.
#[derive(Debug, Clone)]
pub struct LockAcquireAll {
    /// What to lock, in any order.
    pub resources: Vec<String>,
    /// The rest; its `resource` is not looked at, and its mode is exclusive.
    pub each: LockAcquire,
}

/// A lease as the store granted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// What is locked.
    pub resource: String,
    /// Who holds it.
    pub owner: String,
    /// The fencing token.
    pub token: Token,
    /// How often the owner holds it.
    pub holds: u32,
    /// When the lease began, on the store's clock.
    pub acquired_at: Timestamp,
    /// When it ends unless renewed, on the store's clock.
    pub expires_at: Timestamp,
    /// From now until then, on the store's clock.
    pub remaining: Duration,
    /// Whether the owner held it already.
    pub reentered: bool,
}

/// Who has a resource that was asked for, as far as others may know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Holder {
    /// The person.
    pub user: Option<String>,
    /// The application.
    pub service: Option<String>,
    /// What it is doing.
    pub description: Option<String>,
    /// Since when.
    pub acquired_at: Timestamp,
    /// Until when, unless renewed.
    pub expires_at: Timestamp,
}

/// Somebody else has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    /// What was asked for.
    pub resource: String,
    /// Who has it; `None` if it is just changing hands, or others are in line.
    pub holder: Option<Holder>,
    /// How long the holder still has, unless it renews.
    pub remaining: Duration,
}

/// Answer of [`Store::lock_acquire`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockOutcome {
    /// It is held now.
    Acquired(Grant),
    /// Somebody else has it; nothing was written.
    Busy(Busy),
}

/// Answer of [`Store::lock_acquire_all`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockAllOutcome {
    /// All are held now, in order of their names.
    Acquired(Vec<Grant>),
    /// Somebody else has one of them; none is held.
    Busy(Busy),
}

/// Parameters of [`Store::lock_renew`].
#[derive(Debug, Clone)]
pub struct LockRenew {
    /// What is locked.
    pub resource: String,
    /// The lease's token.
    pub token: Token,
    /// For how long from now.
    pub ttl: Duration,
}

/// Answer of [`Store::lock_renew`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewOutcome {
    /// The lease now ends later (or at its `max_hold`).
    Renewed {
        /// When it ends, on the store's clock.
        expires_at: Timestamp,
        /// From now until then.
        remaining: Duration,
    },
    /// The token is no longer the holder's.
    Lost,
}

/// Parameters of [`Store::lock_release`].
#[derive(Debug, Clone)]
pub struct LockRelease {
    /// What is locked.
    pub resource: String,
    /// The lease's token.
    pub token: Token,
    /// The hold that is given back, by the request that took it; the newest one, if it is not known.
    pub hold: Option<Uuid>,
    /// The identity of this request: applying it twice changes nothing.
    pub request: Uuid,
}

/// Answer of [`Store::lock_release`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// One hold was given back.
    Released {
        /// How many the owner still has.
        holds: u32,
    },
    /// The token is no longer the holder's.
    Lost,
}

/// Parameters of [`Store::lock_break`].
#[derive(Debug, Clone)]
pub struct LockBreak {
    /// What is locked.
    pub resource: String,
    /// The token that is broken.
    pub token: Token,
    /// Why.
    pub reason: String,
    /// Who does it.
    pub user: Option<String>,
    /// The identity of this request: applying it twice changes nothing.
    pub request: Uuid,
}

/// Answer of [`Store::lock_break`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakOutcome {
    /// It is free now.
    Broken,
    /// That token does not hold it.
    NotHeld,
}

/// Parameters of [`Store::lock_wait`].
#[derive(Debug, Clone)]
pub struct LockWait {
    /// What is waited for.
    pub resource: String,
    /// Who waits.
    pub owner: String,
    /// Whether those who come later must stand behind.
    pub order: WaitOrder,
    /// Who waits, as a person sees it.
    pub attribution: Attribution,
}

/// Answer of [`Store::lock_wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitOutcome {
    /// A release will call.
    SignedIn,
    /// The lock was just changing, and its holder may not know that somebody waits: sign in again soon.
    Overlooked,
}

/// In which order waiters are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WaitOrder {
    /// Whoever is quickest.
    #[default]
    Any,
    /// Nobody who comes later is served first.
    Fifo,
}

/// Parameters of [`Store::lock_leave`].
#[derive(Debug, Clone)]
pub struct LockLeave {
    /// What was waited for.
    pub resource: String,
    /// Who waited.
    pub owner: String,
}

/// Who holds a resource, for operators: with owner and token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LockHolder {
    /// What is locked.
    pub resource: String,
    /// `exclusive` or `shared`.
    pub mode: String,
    /// Who holds it.
    pub owner: String,
    /// The fencing token.
    pub token: Token,
    /// How often.
    pub holds: u32,
    /// The person, application, work, machine and process.
    #[serde(flatten)]
    pub attribution: Attribution,
    /// Since when.
    pub acquired_at: Timestamp,
    /// Until when, unless renewed.
    pub expires_at: Timestamp,
    /// From now until then, in milliseconds.
    #[serde(rename = "remaining_ms", with = "as_ms")]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub remaining: Duration,
    /// How many wait for it.
    pub waiters: u64,
}

/// Answer of [`Store::lock_status`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockStatus {
    /// What was asked about.
    pub resource: String,
    /// Who holds it: none, one, or several that share it.
    pub holders: Vec<LockHolder>,
    /// How many wait for it.
    pub waiters: u64,
}

/// Parameters of [`Store::lock_list`]; the first page of all of them, unless said otherwise.
#[derive(Debug, Clone)]
pub struct LockList {
    /// The beginning of the names.
    pub prefix: String,
    /// The last name of the page before; empty for the first.
    pub after: String,
    /// The size of the page.
    pub limit: u32,
}

impl Default for LockList {
    fn default() -> Self {
        LockList {
            prefix: String::new(),
            after: String::new(),
            limit: DEFAULT_PAGE,
        }
    }
}

/// Parameters of [`Store::sweep`].
#[derive(Debug, Clone)]
pub struct Sweep {
    /// Resources unused for this long are forgotten (their tokens are not).
    pub purge_after: Duration,
    /// History older than this is forgotten.
    pub keep_history: Duration,
    /// The record of items completed longer ago than this is forgotten, and their keys with it.
    pub keep_completed: Duration,
    /// Failed items older than this are deleted, as [`InboxStore::inbox_discard`] does. Default: `None`, they are kept until
    /// a person decides. Dead events of the outbox are always kept.
    pub keep_failed: Option<Duration>,
    /// Archived events that were dispatched longer ago than this are forgotten.
    pub keep_archive: Duration,
    /// What consumers saw longer ago than this is forgotten; longer than any broker delivers a message again.
    pub keep_seen: Duration,
    /// At most this many of each kind at a time.
    pub batch: u32,
}

impl Default for Sweep {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Sweep {
            purge_after: DAY,
            keep_history: 90 * DAY,
            keep_completed: 7 * DAY,
            keep_failed: None,
            keep_archive: 365 * DAY,
            keep_seen: 30 * DAY,
            batch: 1000,
        }
    }
}

/// Answer of [`Store::sweep`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Swept {
    /// Holdings that were closed because their time was up.
    pub expired: u64,
    /// Rows of resources long unused.
    pub purged: u64,
    /// Waiters that had died.
    pub waiters: u64,
    /// Rows of old history.
    pub history: u64,
    /// Records of completed items and dispatched events, and of requests that nobody repeats any more.
    pub completed: u64,
    /// Archived events.
    pub archived: u64,
    /// What consumers had seen.
    pub seen: u64,
    /// Answers whose time was up.
    pub once: u64,
    /// Failed items, if [`Sweep::keep_failed`] is set.
    #[serde(default)]
    pub failed: u64,
}

impl Swept {
    /// Whether there was nothing left to do.
    pub fn is_empty(&self) -> bool {
        *self == Swept::default()
    }
}

impl std::ops::AddAssign for Swept {
    fn add_assign(&mut self, more: Self) {
        self.expired += more.expired;
        self.purged += more.purged;
        self.waiters += more.waiters;
        self.history += more.history;
        self.completed += more.completed;
        self.archived += more.archived;
        self.seen += more.seen;
        self.once += more.once;
        self.failed += more.failed;
    }
}

/// Answer of [`Store::migrate`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migrated {
    /// The version before; `None` if there was no schema.
    pub from: Option<u32>,
    /// The version now.
    pub to: u32,
    /// Roles that this migration should have created and was not allowed to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_roles: Vec<String>,
    /// Settings of the database that it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_settings: Vec<ChangedSetting>,
}

/// How good or bad a [`Finding`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Works, with less than the full promise.
    Warning,
    /// Does not work.
    Problem,
}

/// One thing that was looked at, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Finding {
    /// What was looked at: `schema`, `clock`, `durability`, …
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub check: Cow<'static, str>,
    /// How good or bad it is.
    pub severity: Severity,
    /// What was found, and what to do next.
    pub detail: String,
}

impl Finding {
    pub(crate) fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Finding {
            check: check.into(),
            severity: Severity::Ok,
            detail: detail.into(),
        }
    }

    pub(crate) fn warning(check: &'static str, detail: impl Into<String>) -> Self {
        Finding {
            check: check.into(),
            severity: Severity::Warning,
            detail: detail.into(),
        }
    }

    pub(crate) fn problem(check: &'static str, detail: impl Into<String>) -> Self {
        Finding {
            check: check.into(),
            severity: Severity::Problem,
            detail: detail.into(),
        }
    }
}

/// A word that the store answered and this program does not know: a schema of another version.
pub(crate) fn unexpected(what: &str, word: &str) -> Error {
    Error::new(
        Kind::Schema,
        format!(
            "the store answered an unknown {what}, {word:?}: it may be of a newer Turno; upgrade this program"
        ),
    )
}

/// Refuses a schema that this program may not use because it is newer. A migration has nothing to do if it is newer and
/// compatible; then that is the answer.
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

/// What `doctor` says of a schema.
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

/// A store that was not swept for this long is not swept at all: servers sweep every five minutes.
const SWEEP_OVERDUE: Duration = Duration::from_secs(24 * 60 * 60);

/// What `doctor` says of the last sweep; `by` is `None` before the first one, and `age` is then that of the schema.
/// `role` is what the sweeper's role must be a member of, where there are roles.
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
