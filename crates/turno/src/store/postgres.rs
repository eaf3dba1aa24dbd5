//! PostgreSQL: the rules are functions in schema `turno`, and this module calls them.
//!
//! Each verb is one statement, hence one round trip and one transaction, and works behind a transaction pooler. Concurrent
//! calls share a statement (`batching`).

#[macro_use]
pub(crate) mod queries;

mod access;
mod adopt;
mod batching;
mod calls;
mod cancel;
mod connect;
mod conninfo;
mod diagnose;
mod dial;
mod drift;
mod encryption;
mod error;
mod exposed;
mod greeting;
mod inbox;
mod interval;
mod json;
mod lead;
mod listen;
mod lock_queues;
mod migrate;
mod once;
mod outbox;
mod outbox_table;
mod overlap;
mod refusal;
mod rights;
mod rows;
mod schedule;
mod shipped;
#[cfg(feature = "sqlx-postgres")]
mod sqlx_options;
mod supabase;
mod tls;

use std::sync::Arc;

use async_trait::async_trait;
use tokio_postgres::types::Type;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::adopt::AdoptedCalls;
use self::batching::{
    Acquires, Batcher, Claims, Completions, Pushes, Registrations, Releases, Renewals, Turns,
};
use self::calls::{Argument, Calls};
pub(crate) use self::conninfo::is_connection_string;
pub use self::conninfo::{Environment, Target};
pub(crate) use self::error::classify;
#[cfg(feature = "sqlx-postgres")]
pub(crate) use self::error::classify_code;
#[cfg(feature = "sqlx-postgres")]
pub(crate) use self::inbox::in_order;
pub(crate) use self::inbox::{INBOX_COMPLETE_IN, INBOX_PUSH_IN, PushColumns, pushed, settled};
use self::interval::Interval;
use self::lock_queues::LockQueues;
pub use self::migrate::{script, script_with, script_with_settings};
use self::once::{Begins, OnceCompletions};
pub(crate) use self::once::{ONCE_COMPLETE_IN, ttl_text};
pub(crate) use self::outbox::{EmitColumns, OUTBOX_EMIT, SEEN, emitted};
pub use self::supabase::script_for_supabase;
pub use self::tls::{Tls, TlsStream};
use super::*;
use crate::settings::Settings;

/// Default number of connections.
pub const POOL_SIZE: usize = 16;

pub(crate) const LOCK_GUARD: &str = query!(lock_guard);

/// A PostgreSQL database.
pub struct PostgresStore {
    calls: Calls,
    acquires: Batcher<Acquires>,
    releases: Batcher<Releases>,
    renewals: Batcher<Renewals>,
    registrations: Batcher<Registrations>,
    pushes: Batcher<Pushes>,
    /// Separate, because a push with a unique key may wait for another transaction with the same key.
    keyed_pushes: Batcher<Pushes>,
    claims: Batcher<Claims>,
    completions: Batcher<Completions>,
    turns: Batcher<Turns>,
    once_begins: Batcher<Begins>,
    once_completions: Batcher<OnceCompletions>,
    adopted: AdoptedCalls,
    wakers: Arc<Wakers>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the URL: it may hold a password.
        f.debug_struct("PostgresStore")
            .field("pool", &self.calls.pool.status())
            .finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Connects to `postgres://…`, with at most `connections` connections. Concurrent calls share statements.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid or the database is unavailable.
    pub async fn connect(url: &str, connections: usize) -> Result<Self> {
        let settings = Settings {
            connections,
            ..Settings::default()
        };
        PostgresStore::connect_with(url, &settings).await
    }

    /// Connects with these settings.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid or the database is unavailable.
    pub async fn connect_with(url: &str, settings: &Settings) -> Result<Self> {
        let (pool, route) = connect::open(url, settings).await?;
        Ok(PostgresStore::on(pool, route, settings))
    }

    /// Uses a pool of the caller. See [`Turno::from_pool`](crate::Turno::from_pool) for what it must allow.
    ///
    /// # Errors
    /// Returns an error if the pool gives no connection.
    pub async fn from_pool(pool: deadpool_postgres::Pool, settings: &Settings) -> Result<Self> {
        let settings = Settings {
            connections: pool.status().max_size,
            ..settings.clone()
        };
        let (pool, route) = connect::given(pool).await?;
        Ok(PostgresStore::on(pool, route, &settings))
    }

    fn on(pool: connect::Pool, route: Arc<connect::Route>, settings: &Settings) -> Self {
        let batching = settings.batching;
        let calls = Calls {
            pool,
            route,
            locks: Arc::new(LockQueues::new(settings.connections)),
            timeout: settings.call_timeout,
            max_claim_bytes: i32::try_from(settings.max_claim_bytes).unwrap_or(i32::MAX),
        };
        let store = PostgresStore {
            acquires: Batcher::new(Acquires(calls.clone()), batching),
            releases: Batcher::new(Releases(calls.clone()), batching),
            renewals: Batcher::new(Renewals(calls.clone()), batching),
            registrations: Batcher::new(Registrations(calls.clone()), batching),
            pushes: Batcher::new(Pushes(calls.clone()), batching),
            keyed_pushes: Batcher::new(Pushes(calls.clone()), batching),
            claims: Batcher::new(Claims(calls.clone()), batching),
            completions: Batcher::new(Completions(calls.clone()), batching),
            turns: Batcher::new(Turns(calls.clone()), batching),
            once_begins: Batcher::new(Begins(calls.clone()), batching),
            once_completions: Batcher::new(OnceCompletions(calls.clone()), batching),
            calls,
            adopted: AdoptedCalls::default(),
            wakers: Arc::new(Wakers::default()),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        store.tasks.spawn(listen::run(
            store.calls.route.clone(),
            store.wakers.clone(),
            store.stop.clone(),
        ));
        store
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn name(&self) -> &'static str {
        "postgres"
    }

    async fn migrate(&self) -> Result<Migrated> {
        self.migrate_with(&MigrateOptions::default()).await
    }

    async fn migrate_with(&self, options: &MigrateOptions) -> Result<Migrated> {
        let mut client = self.calls.client().await?;
        match migrate::migrate(&mut client, options).await {
            Err(error) => Err(rights::named(&***client, error).await),
            migrated => migrated,
        }
    }

    async fn database_settings(&self) -> Result<Vec<DatabaseSetting>> {
        let rows = self.calls.rows(query!(setting_list), &[]).await?;
        Ok(rows
            .iter()
            .map(|row| DatabaseSetting {
                name: row.get("name"),
                value: row.get("value"),
                default_value: row.get("default_value"),
                meaning: row.get("meaning"),
            })
            .collect())
    }

    async fn schema_drift(&self) -> Result<SchemaDrift> {
        drift::drift(&***self.calls.client().await?).await
    }

    async fn repair(&self, roles: Roles) -> Result<SchemaDrift> {
        migrate::repair(&mut *self.calls.client().await?, roles).await
    }

    async fn schema_version(&self) -> Result<Option<u32>> {
        migrate::known(
            self.calls
                .rows("select turno.schema_version() as version", &[])
                .await,
        )
    }

    async fn schema(&self) -> Result<Option<Schema>> {
        let Some(version) = self.schema_version().await? else {
            return Ok(None);
        };
        // Only for a newer schema: an older one may not have the function.
        if version <= SCHEMA_VERSION {
            return Ok(Some(Schema::for_its_program_only(version)));
        }
        let rows = self.calls.rows(migrate::OLDEST_PROGRAM_SQL, &[]).await;
        Ok(Some(Schema {
            version,
            oldest_program: migrate::known(rows)?.unwrap_or(version),
        }))
    }

    async fn check_writable(&self) -> Result<()> {
        self.calls.check_writable().await
    }

    async fn diagnose(&self) -> Result<Vec<Finding>> {
        diagnose::diagnose(self).await
    }

    async fn lock_acquire(&self, ask: &LockAcquire) -> Result<LockOutcome> {
        self.acquires.call(&self.calls, ask).await
    }

    async fn lock_acquire_all(&self, ask: &LockAcquireAll) -> Result<LockAllOutcome> {
        Acquires(self.calls.clone()).all_or_none(ask).await
    }

    async fn lock_renew(&self, ask: &LockRenew) -> Result<RenewOutcome> {
        self.renewals.call(&self.calls, ask).await
    }

    async fn lock_release(&self, ask: &LockRelease) -> Result<ReleaseOutcome> {
        self.releases.call(&self.calls, ask).await
    }

    async fn lock_break(&self, ask: &LockBreak) -> Result<BreakOutcome> {
        let row = self
            .calls
            .row(
                query!(lock_break),
                &[
                    (&ask.resource, Type::TEXT),
                    (&ask.token.0, Type::INT8),
                    (&ask.reason, Type::TEXT),
                    (&ask.user, Type::TEXT),
                    (&ask.request, Type::UUID),
                ],
            )
            .await?;
        rows::broken(&row)
    }

    async fn lock_wait(&self, ask: &LockWait) -> Result<WaitOutcome> {
        self.registrations.call(&self.calls, ask).await
    }

    async fn lock_leave(&self, ask: &LockLeave) -> Result<()> {
        self.calls
            .row(
                query!(lock_waiter_unregister),
                &[(&ask.resource, Type::TEXT), (&ask.owner, Type::TEXT)],
            )
            .await
            .map(drop)
    }

    async fn lock_status(&self, resource: &str) -> Result<LockStatus> {
        let rows = self
            .calls
            .rows(query!(lock_status), &[(&resource, Type::TEXT)])
            .await?;
        rows::status(resource, &rows)
    }

    async fn lock_list(&self, ask: &LockList) -> Result<Vec<LockHolder>> {
        let limit = rows::count_in(ask.limit);
        let rows = self
            .calls
            .rows(
                query!(lock_list),
                &[
                    (&ask.prefix, Type::TEXT),
                    (&ask.after, Type::TEXT),
                    (&limit, Type::INT4),
                ],
            )
            .await?;
        rows.iter().map(rows::holder).collect()
    }

    async fn history(&self, ask: &History) -> Result<Vec<HistoryEntry>> {
        let part = ask.part.map(Part::as_str);
        let limit = rows::count_in(ask.limit);
        let rows = self
            .calls
            .rows(
                query!(history_list),
                &[
                    (&ask.resource, Type::TEXT),
                    (&ask.before, Type::INT8),
                    (&limit, Type::INT4),
                    (&ask.prefix, Type::TEXT),
                    (&part, Type::TEXT),
                ],
            )
            .await?;
        rows.iter().map(rows::history).collect()
    }

    async fn sweep(&self, ask: &Sweep) -> Result<Swept> {
        let batch = rows::count_in(ask.batch);
        let keep_failed = ask.keep_failed.map(Interval);
        let row = self
            .calls
            .row(
                query!(sweep),
                &[
                    (&Interval(ask.purge_after), Type::INTERVAL),
                    (&Interval(ask.keep_history), Type::INTERVAL),
                    (&batch, Type::INT4),
                    (&Interval(ask.keep_completed), Type::INTERVAL),
                    (&Interval(ask.keep_archive), Type::INTERVAL),
                    (&Interval(ask.keep_seen), Type::INTERVAL),
                    (&keep_failed, Type::INTERVAL),
                ],
            )
            .await?;
        rows::swept(&row)
    }

    fn waiter_alive(&self) -> Option<std::time::Duration> {
        None
    }

    fn wakers(&self) -> &Arc<Wakers> {
        &self.wakers
    }

    async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.calls.pool.close();
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
