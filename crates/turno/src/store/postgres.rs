//! PostgreSQL: the rules are functions in schema `turno`, and this module calls them.
//!
//! A verb is one statement, so every verb is one round trip and one transaction, and works behind a
//! transaction pooler.

mod busy;
mod connect;
mod diagnose;
mod error;
mod interval;
mod listen;
mod migrate;
mod rows;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::{Object, Pool};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::busy::BusyLately;
use self::connect::{Route, pool_error};
pub(crate) use self::error::classify;
#[cfg(feature = "sqlx-postgres")]
pub(crate) use self::error::is_stale;
use self::interval::Interval;
pub use self::migrate::script;
use super::*;
use crate::error::{Error, Kind};

/// The longest that one call may take, pool and repetitions included.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a call whose answer was lost is sent again, with the same request id.
const CALL_TRIES: u32 = 4;
/// The pause before the second try; it doubles, and is jittered.
const CALL_PAUSE: Duration = Duration::from_millis(50);

/// The number of connections, unless configured otherwise.
pub const POOL_SIZE: usize = 16;

pub(crate) const LOCK_GUARD: &str = include_str!("postgres/call/lock_guard.sql");

/// A PostgreSQL database.
pub struct PostgresStore {
    pool: Pool,
    route: Arc<Route>,
    busy: BusyLately,
    wakers: Arc<Wakers>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the URL: it may hold a password.
        f.debug_struct("PostgresStore").field("pool", &self.pool.status()).finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Connects to `postgres://…`, with at most `connections` connections at once.
    ///
    /// # Errors
    /// If the URL is malformed or the database cannot be reached.
    pub async fn connect(url: &str, connections: usize) -> Result<Self> {
        let (pool, route) = connect::open(url, connections).await?;
        let store = PostgresStore {
            pool,
            route,
            busy: BusyLately::default(),
            wakers: Arc::new(Wakers::default()),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        store.tasks.spawn(listen::run(
            store.route.clone(),
            store.pool.clone(),
            store.wakers.clone(),
            store.stop.clone(),
        ));
        Ok(store)
    }

    async fn client(&self) -> Result<Object> {
        self.pool.get().await.map_err(pool_error)
    }

    /// One call: prepared once a connection when the connection is ours alone, unnamed behind a pooler.
    async fn rows(&self, sql: &'static str, arguments: &[(&(dyn ToSql + Sync), Type)]) -> Result<Vec<Row>> {
        tokio::time::timeout(CALL_TIMEOUT, self.rows_again(sql, arguments)).await.unwrap_or_else(|_| {
            Err(Error::new(
                Kind::Unavailable,
                format!("the database has not answered for {CALL_TIMEOUT:?}: look at its load and at the network"),
            ))
        })
    }

    async fn rows_again(&self, sql: &'static str, arguments: &[(&(dyn ToSql + Sync), Type)]) -> Result<Vec<Row>> {
        let mut pause = CALL_PAUSE;
        for _ in 1..CALL_TRIES {
            match self.rows_once(sql, arguments).await {
                Err(error) if error.is_unavailable() => {}
                decided => return decided,
            }
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            pause *= 2;
        }
        self.rows_once(sql, arguments).await
    }

    async fn rows_once(&self, sql: &'static str, arguments: &[(&(dyn ToSql + Sync), Type)]) -> Result<Vec<Row>> {
        let client = InUse(Some(self.client().await?));
        let rows = if self.route.is_direct() {
            let types: Vec<Type> = arguments.iter().map(|(_, kind)| kind.clone()).collect();
            let values: Vec<&(dyn ToSql + Sync)> = arguments.iter().map(|(value, _)| *value).collect();
            let statement = client.get().prepare_typed_cached(sql, &types).await.map_err(classify)?;
            client.get().query(&statement, &values).await
        } else {
            client.get().query_typed(sql, arguments).await
        };
        client.done();
        rows.map_err(classify)
    }

    /// Who holds a resource that was busy a moment ago, if it still is.
    async fn look(&self, ask: &LockAcquire) -> Result<Option<LockOutcome>> {
        if ask.mode != LockMode::Exclusive || !self.busy.is_likely(&ask.resource) {
            return Ok(None);
        }
        let held = self
            .rows(
                include_str!("postgres/call/lock_look.sql"),
                &[(&ask.resource, Type::TEXT), (&ask.owner, Type::TEXT)],
            )
            .await?;
        held.first().map(rows::outcome).transpose()
    }

    async fn row(&self, sql: &'static str, arguments: &[(&(dyn ToSql + Sync), Type)]) -> Result<Row> {
        self.rows(sql, arguments)
            .await?
            .into_iter()
            .next()
            .ok_or_else(|| Error::new(Kind::Broken, "the database answered a call with no row"))
    }
}

/// A connection with a question under way. Given up half-way, it is closed rather than returned to
/// the pool, where the next caller would wait behind a question that nobody listens to.
struct InUse(Option<Object>);

impl InUse {
    fn get(&self) -> &Object {
        self.0.as_ref().expect("the connection is there until done or dropped")
    }

    fn done(mut self) {
        self.0.take();
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn name(&self) -> &'static str {
        "postgres"
    }

    async fn migrate(&self) -> Result<Migrated> {
        migrate::migrate(&mut *self.client().await?).await
    }

    async fn schema_version(&self) -> Result<Option<u32>> {
        migrate::version(&**self.client().await?).await
    }

    async fn diagnose(&self) -> Result<Vec<Finding>> {
        diagnose::diagnose(self).await
    }

    async fn lock_acquire(&self, ask: &LockAcquire) -> Result<LockOutcome> {
        if let Some(busy) = self.look(ask).await? {
            return Ok(busy);
        }
        let (mode, permits) = rows::mode(ask.mode);
        let (who, pid) = (&ask.attribution, ask.attribution.pid);
        let row = self
            .row(
                include_str!("postgres/call/lock_acquire.sql"),
                &[
                    (&ask.resource, Type::TEXT),
                    (&ask.owner, Type::TEXT),
                    (&Interval(ask.ttl), Type::INTERVAL),
                    (&who.user, Type::TEXT),
                    (&who.service, Type::TEXT),
                    (&who.description, Type::TEXT),
                    (&mode, Type::TEXT),
                    (&permits, Type::INT4),
                    (&ask.min_hold.map(Interval), Type::INTERVAL),
                    (&ask.max_hold.map(Interval), Type::INTERVAL),
                    (&who.host, Type::TEXT),
                    (&pid, Type::INT4),
                    (&ask.request, Type::UUID),
                ],
            )
            .await?;
        let outcome = rows::outcome(&row)?;
        match &outcome {
            LockOutcome::Acquired(_) => self.busy.forget(&ask.resource),
            LockOutcome::Busy(busy) => self.busy.note(&ask.resource, busy.remaining),
        }
        Ok(outcome)
    }

    async fn lock_acquire_all(&self, ask: &LockAcquireAll) -> Result<LockAllOutcome> {
        let (who, pid) = (&ask.each.attribution, ask.each.attribution.pid);
        let rows = self
            .rows(
                include_str!("postgres/call/lock_acquire_all.sql"),
                &[
                    (&ask.resources, Type::TEXT_ARRAY),
                    (&ask.each.owner, Type::TEXT),
                    (&Interval(ask.each.ttl), Type::INTERVAL),
                    (&who.user, Type::TEXT),
                    (&who.service, Type::TEXT),
                    (&who.description, Type::TEXT),
                    (&ask.each.min_hold.map(Interval), Type::INTERVAL),
                    (&ask.each.max_hold.map(Interval), Type::INTERVAL),
                    (&who.host, Type::TEXT),
                    (&pid, Type::INT4),
                    (&ask.each.request, Type::UUID),
                ],
            )
            .await?;
        let mut grants = Vec::with_capacity(rows.len());
        for row in &rows {
            match rows::outcome(row)? {
                LockOutcome::Acquired(grant) => grants.push(grant),
                LockOutcome::Busy(busy) => return Ok(LockAllOutcome::Busy(busy)),
            }
        }
        Ok(LockAllOutcome::Acquired(grants))
    }

    async fn lock_renew(&self, ask: &LockRenew) -> Result<RenewOutcome> {
        let row = self
            .row(
                include_str!("postgres/call/lock_renew.sql"),
                &[
                    (&ask.resource, Type::TEXT),
                    (&ask.token.0, Type::INT8),
                    (&Interval(ask.ttl), Type::INTERVAL),
                ],
            )
            .await?;
        rows::renewal(&row)
    }

    async fn lock_release(&self, ask: &LockRelease) -> Result<ReleaseOutcome> {
        let row = self
            .row(
                include_str!("postgres/call/lock_release.sql"),
                &[
                    (&ask.resource, Type::TEXT),
                    (&ask.token.0, Type::INT8),
                    (&ask.hold, Type::UUID),
                    (&ask.request, Type::UUID),
                ],
            )
            .await?;
        rows::ending(&row)
    }

    async fn lock_break(&self, ask: &LockBreak) -> Result<BreakOutcome> {
        let row = self
            .row(
                include_str!("postgres/call/lock_break.sql"),
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
        let (who, fifo) = (&ask.attribution, ask.order == WaitOrder::Fifo);
        let row = self
            .row(
                include_str!("postgres/call/lock_wait.sql"),
                &[
                    (&ask.resource, Type::TEXT),
                    (&ask.owner, Type::TEXT),
                    (&fifo, Type::BOOL),
                    (&who.user, Type::TEXT),
                    (&who.service, Type::TEXT),
                    (&who.description, Type::TEXT),
                ],
            )
            .await?;
        rows::waiting(&row)
    }

    async fn lock_leave(&self, ask: &LockLeave) -> Result<()> {
        self.row(
            include_str!("postgres/call/lock_leave.sql"),
            &[(&ask.resource, Type::TEXT), (&ask.owner, Type::TEXT)],
        )
        .await
        .map(drop)
    }

    async fn lock_status(&self, resource: &str) -> Result<LockStatus> {
        let rows =
            self.rows(include_str!("postgres/call/lock_status.sql"), &[(&resource, Type::TEXT)]).await?;
        rows::status(resource, &rows)
    }

    async fn lock_list(&self, ask: &LockList) -> Result<Vec<LockHolder>> {
        let limit = rows::count_in(ask.limit);
        let rows = self
            .rows(
                include_str!("postgres/call/lock_list.sql"),
                &[(&ask.prefix, Type::TEXT), (&ask.after, Type::TEXT), (&limit, Type::INT4)],
            )
            .await?;
        rows.iter().map(rows::holder).collect()
    }

    async fn lock_history(&self, ask: &LockHistory) -> Result<Vec<HistoryEntry>> {
        let limit = rows::count_in(ask.limit);
        let rows = self
            .rows(
                include_str!("postgres/call/lock_history.sql"),
                &[
                    (&ask.resource, Type::TEXT),
                    (&ask.before, Type::INT8),
                    (&limit, Type::INT4),
                    (&ask.prefix, Type::TEXT),
                ],
            )
            .await?;
        rows.iter().map(rows::history).collect()
    }

    async fn sweep(&self, ask: &Sweep) -> Result<Swept> {
        let batch = rows::count_in(ask.batch);
        let row = self
            .row(
                include_str!("postgres/call/sweep.sql"),
                &[
                    (&Interval(ask.purge_after), Type::INTERVAL),
                    (&Interval(ask.keep_history), Type::INTERVAL),
                    (&batch, Type::INT4),
                ],
            )
            .await?;
        rows::swept(&row)
    }

    fn wakers(&self) -> &Arc<Wakers> {
        &self.wakers
    }

    async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.pool.close();
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
