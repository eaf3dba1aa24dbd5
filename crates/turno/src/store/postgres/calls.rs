//! One call: a connection of the pool, a prepared statement, and patience with a database that restarts.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Object, Pool};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};

use super::classify;
use super::connect::{Route, pool_error};
use crate::error::{Error, Kind, Result};

/// The longest that one call may take, pool and repetitions included.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a call whose answer was lost is sent again, with the same request id.
const CALL_TRIES: u32 = 4;
/// The pause before the second try; it doubles, and is jittered.
const CALL_PAUSE: Duration = Duration::from_millis(50);

/// An argument and its type: named, so that nothing has to be asked of the server first.
pub(crate) type Argument<'a> = (&'a (dyn ToSql + Sync), Type);

/// The way to make calls.
#[derive(Clone)]
pub(super) struct Calls {
    pub(super) pool: Pool,
    pub(super) route: Arc<Route>,
}

impl Calls {
    pub(super) async fn client(&self) -> Result<Object> {
        self.pool.get().await.map_err(pool_error)
    }

    pub(super) async fn rows(&self, sql: &str, arguments: &[Argument<'_>]) -> Result<Vec<Row>> {
        patiently(|| async {
            let client = InUse(Some(self.client().await?));
            let rows = self.question(client.get(), sql, arguments).await;
            client.done();
            rows
        })
        .await
    }

    /// [`Calls::rows`] for a function that waits for no lock: none, if it would have had to.
    pub(super) async fn rows_unless_locked(
        &self,
        sql: &str,
        arguments: &[Argument<'_>],
    ) -> Result<Vec<Row>> {
        patiently(|| async {
            let client = InUse(Some(self.client().await?));
            let rows = self.question(client.get(), sql, arguments).await;
            client.done();
            match rows {
                Err(error) if is_locked(&error) => Ok(Vec::new()),
                decided => decided,
            }
        })
        .await
    }

    pub(super) async fn row(&self, sql: &str, arguments: &[Argument<'_>]) -> Result<Row> {
        self.rows(sql, arguments)
            .await?
            .into_iter()
            .next()
            .ok_or_else(|| Error::new(Kind::Broken, "the database answered a call with no row"))
    }

    /// Two calls, one after the other on one connection, each a transaction of its own; the second is sent without
    /// waiting for the first one's answer.
    pub(super) async fn pair(
        &self,
        (first, first_arguments): (&str, &[Argument<'_>]),
        (second, second_arguments): (&str, &[Argument<'_>]),
    ) -> Result<(Vec<Row>, Vec<Row>)> {
        patiently(|| async {
            let client = InUse(Some(self.client().await?));
            let (first, second) = tokio::join!(
                self.question(client.get(), first, first_arguments),
                self.question(client.get(), second, second_arguments),
            );
            client.done();
            Ok((first?, second?))
        })
        .await
    }

    /// Prepared once a connection when the connection is ours alone, unnamed behind a pooler.
    async fn question(
        &self,
        client: &Object,
        sql: &str,
        arguments: &[Argument<'_>],
    ) -> Result<Vec<Row>> {
        if !self.route.is_direct() {
            return client.query_typed(sql, arguments).await.map_err(classify);
        }
        let types: Vec<Type> = arguments.iter().map(|(_, kind)| kind.clone()).collect();
        let values: Vec<&(dyn ToSql + Sync)> = arguments.iter().map(|(value, _)| *value).collect();
        let statement = client
            .prepare_typed_cached(sql, &types)
            .await
            .map_err(classify)?;
        client.query(&statement, &values).await.map_err(classify)
    }
}

/// Whether a call gave up because of somebody else's lock.
fn is_locked(error: &Error) -> bool {
    let cause = std::error::Error::source(error);
    cause
        .and_then(|cause| cause.downcast_ref::<tokio_postgres::Error>())
        .is_some_and(|error| error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE))
}

/// Asks again while the database cannot be reached, within bounds.
async fn patiently<T, F>(ask: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let again = async {
        let mut pause = CALL_PAUSE;
        for _ in 1..CALL_TRIES {
            match ask().await {
                Err(error) if error.is_unavailable() => {}
                decided => return decided,
            }
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            pause *= 2;
        }
        ask().await
    };
    tokio::time::timeout(CALL_TIMEOUT, again).await.unwrap_or_else(|_| {
        Err(Error::new(
            Kind::Unavailable,
            format!("the database has not answered for {CALL_TIMEOUT:?}: look at its load and at the network"),
        ))
    })
}

/// A connection with a question under way. Given up half-way, it is closed rather than returned to
/// the pool, where the next caller would wait behind a question that nobody listens to.
struct InUse(Option<Object>);

impl InUse {
    fn get(&self) -> &Object {
        self.0
            .as_ref()
            .expect("the connection is there until done or dropped")
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
