//! One call: a connection of the pool, a prepared statement, and patience with a database that restarts.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::classify;
use super::connect::{Pool, PooledSession, Route, Verdict, pool_error};
use super::dial::SESSION_CHECK;
use super::error::sqlstate;
use super::rows::get;
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
    pub(super) async fn client(&self) -> Result<PooledSession> {
        self.pool.get().await.map_err(pool_error)
    }

    /// Waits for an answer for as long as the session's host serves.
    async fn heard<T>(
        &self,
        session: &InUse,
        answer: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        tokio::select! {
            biased;
            answer = answer => answer,
            error = self.route.lost(&session.get().place) => Err(error),
        }
    }

    pub(super) async fn rows(&self, sql: &str, arguments: &[Argument<'_>]) -> Result<Vec<Row>> {
        patiently(|| async {
            let session = InUse(Some(self.client().await?));
            let question = self.question(session.get(), sql, arguments);
            let rows = self.heard(&session, question).await;
            session.done(&self.route, rows)
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
            let session = InUse(Some(self.client().await?));
            let question = self.question(session.get(), sql, arguments);
            let rows = self.heard(&session, question).await;
            match session.done(&self.route, rows) {
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

    /// Whether a call that writes would be refused because of where it goes.
    pub(super) async fn check_writable(&self) -> Result<()> {
        patiently(|| async {
            let session = InUse(Some(self.client().await?));
            let question = self.question(session.get(), SESSION_CHECK, &[]);
            let rows = self.heard(&session, question).await;
            let read_only = rows.and_then(|rows| match rows.first() {
                Some(row) => get::<bool>(row, "read_only"),
                None => Ok(false),
            });
            let place = session.get().place.clone();
            match session.done(&self.route, read_only)? {
                true => Err(self.route.read_only(&place)),
                false => Ok(()),
            }
        })
        .await
    }

    /// Two calls, one after the other on one connection, each a transaction of its own; the second is sent without
    /// waiting for the first one's answer.
    pub(super) async fn pair(
        &self,
        (first, first_arguments): (&str, &[Argument<'_>]),
        (second, second_arguments): (&str, &[Argument<'_>]),
    ) -> Result<(Vec<Row>, Vec<Row>)> {
        patiently(|| async {
            let session = InUse(Some(self.client().await?));
            let both = async {
                let (first, second) = tokio::join!(
                    self.question(session.get(), first, first_arguments),
                    self.question(session.get(), second, second_arguments),
                );
                Ok((first?, second?))
            };
            let both = self.heard(&session, both).await;
            session.done(&self.route, both)
        })
        .await
    }

    /// Prepared once a connection when the connection is ours alone, unnamed behind a pooler.
    async fn question(
        &self,
        session: &PooledSession,
        sql: &str,
        arguments: &[Argument<'_>],
    ) -> Result<Vec<Row>> {
        if !session.direct {
            return session.query_typed(sql, arguments).await.map_err(classify);
        }
        let types: Vec<Type> = arguments.iter().map(|(_, kind)| kind.clone()).collect();
        let values: Vec<&(dyn ToSql + Sync)> = arguments.iter().map(|(value, _)| *value).collect();
        let statement = session
            .prepare_typed_cached(sql, &types)
            .await
            .map_err(classify)?;
        session.query(&statement, &values).await.map_err(classify)
    }
}

/// Whether a call gave up because of somebody else's lock.
fn is_locked(error: &Error) -> bool {
    sqlstate(error) == Some("55P03")
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
struct InUse(Option<PooledSession>);

impl InUse {
    fn get(&self) -> &PooledSession {
        self.0
            .as_ref()
            .expect("the connection is there until done or dropped")
    }

    /// Returns the session to the pool, unless the answer says that it is of no use any more.
    fn done<T>(mut self, route: &Route, answer: Result<T>) -> Result<T> {
        let (answer, verdict) = match answer {
            Ok(answer) => (Ok(answer), Verdict::Keep),
            Err(error) => {
                let (error, verdict) = route.judge(error, &self.get().place);
                (Err(error), verdict)
            }
        };
        match verdict {
            Verdict::Keep => drop(self.0.take()),
            Verdict::Close => self.close(),
        }
        answer
    }

    fn close(&mut self) {
        if let Some(session) = self.0.take() {
            drop(PooledSession::take(session));
        }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.close();
    }
}
