//! One call: a connection of the pool, a prepared statement, and retries while the database restarts.
//!
//! A call that times out or is cancelled cancels its statement on the server, and its connection does not return to the pool
//! before the statement has ended. So a lock that another transaction holds for a long time cannot collect statements without a
//! caller, and none of them takes effect later.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::classify;
use super::connect::{Pool, PooledSession, Route, SessionHost, Verdict};
use super::dial::SESSION_CHECK;
use super::error::sqlstate;
use super::lock_queues::LockQueues;
use super::rights;
use super::rows::{get, is_claim_later};
use crate::backoff::jittered;
use crate::error::{Error, Kind, Result};

/// Maximum number of times that a call is sent, with the same request id, if its response is lost.
const CALL_TRIES: u32 = 4;
/// Pause before the second attempt. It doubles each time, and is jittered.
const CALL_PAUSE: Duration = Duration::from_millis(50);
/// Pause before the next attempt at a locked row, jittered.
const LOCK_PAUSE: Duration = Duration::from_millis(40);
/// No further attempt at a locked row is made if less than this is left of the call's timeout.
const LAST_ATTEMPT: Duration = Duration::from_millis(150);
/// Number of calls that wait for one lock on the server at the same time.
const LOCK_SLOTS: usize = 1;
/// The same for claims of one queue: while the response of one is in transit, the other claims.
const CLAIM_SLOTS: usize = 2;
/// Timeout for looking up which role has a missing right.
const ROLE_LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout for the end of a cancelled statement.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// An argument and its type, which saves a round trip that would ask the server for the type.
pub(crate) type Argument<'a> = (&'a (dyn ToSql + Sync), Type);

/// A statement and its arguments.
pub(super) type Statement<'a> = (&'a str, &'a [Argument<'a>]);

/// What a call does if another transaction holds a lock that it needs.
#[derive(Debug, Clone, Copy)]
pub(super) enum IfLocked<'a> {
    /// Repeats until the lock is free.
    Retry,
    /// Returns no rows.
    NoRows,
    /// Waits in this process behind the calls that wait for the lock of this name.
    Queue(&'a str),
    /// The same, before the first attempt, because the lock is known to be held.
    QueueAtOnce(&'a str),
    /// Takes one of a few slots for the lock of this name before the first attempt, because every such call needs the lock.
    Slots(&'a str),
}

/// Makes calls.
#[derive(Clone)]
pub(super) struct Calls {
    pub(super) pool: Pool,
    pub(super) route: Arc<Route>,
    pub(super) locks: Arc<LockQueues>,
    /// Timeout of one call, including the wait for a connection and the retries.
    pub(super) timeout: Duration,
    /// Maximum size of the payloads of one claim, in bytes.
    pub(super) max_claim_bytes: i32,
}

impl Calls {
    pub(super) async fn client(&self) -> Result<PooledSession> {
        self.pool.get().await
    }

    /// Returns whether other calls wait for the lock of this name. A batch with such a call would wait too.
    pub(super) fn is_blocked(&self, lock: &str) -> bool {
        self.locks.is_waited_for(lock)
    }

    pub(super) async fn rows(&self, sql: &str, arguments: &[Argument<'_>]) -> Result<Vec<Row>> {
        self.rows_if(IfLocked::Retry, sql, arguments).await
    }

    /// [`Calls::rows`], with a choice of what happens if another transaction has a lock.
    pub(super) async fn rows_if(
        &self,
        if_locked: IfLocked<'_>,
        sql: &str,
        arguments: &[Argument<'_>],
    ) -> Result<Vec<Row>> {
        let answers = self.ask(if_locked, &[(sql, arguments)]).await?;
        Ok(answers.into_iter().next().unwrap_or_default())
    }

    pub(super) async fn row(&self, sql: &str, arguments: &[Argument<'_>]) -> Result<Row> {
        self.row_if(IfLocked::Retry, sql, arguments).await
    }

    /// [`Calls::row`], with a choice of what happens if another transaction has a lock.
    pub(super) async fn row_if(
        &self,
        if_locked: IfLocked<'_>,
        sql: &str,
        arguments: &[Argument<'_>],
    ) -> Result<Row> {
        self.rows_if(if_locked, sql, arguments)
            .await?
            .into_iter()
            .next()
            .ok_or_else(|| Error::new(Kind::Broken, "the database answered a call with no row"))
    }

    /// Makes two calls on one connection, each in its own transaction. The second is sent without waiting for the response to
    /// the first.
    pub(super) async fn pair(
        &self,
        if_locked: IfLocked<'_>,
        first: Statement<'_>,
        second: Statement<'_>,
    ) -> Result<(Vec<Row>, Vec<Row>)> {
        let mut answers = self.ask(if_locked, &[first, second]).await?.into_iter();
        let mut next = || answers.next().unwrap_or_default();
        Ok((next(), next()))
    }

    /// Returns an error if the server of the next call does not accept writes.
    pub(super) async fn check_writable(&self) -> Result<()> {
        let mut deadline = std::pin::pin!(tokio::time::sleep(self.timeout));
        let statement: Statement<'_> = (SESSION_CHECK, &[]);
        let mut tries = Tries::default();
        loop {
            let checked = self.attempt_on(deadline.as_mut(), &[statement]).await;
            let read_only = checked.and_then(|(answers, host)| {
                let row = answers.first().and_then(|rows| rows.first());
                match row.map(|row| get::<bool>(row, "read_only")).transpose()? {
                    Some(true) => Err(self.route.read_only(&host)),
                    Some(false) | None => Ok(()),
                }
            });
            match read_only {
                Err(error) if error.is_unavailable() => {
                    tries.pause(error, deadline.as_mut()).await?;
                }
                decided => return decided,
            }
        }
    }

    /// Sends the statements, with limited retries while the database is unavailable or another transaction holds a lock. Each
    /// retry has the same arguments, and so the same request id: the server returns the first result and changes nothing more.
    async fn ask(
        &self,
        if_locked: IfLocked<'_>,
        statements: &[Statement<'_>],
    ) -> Result<Vec<Vec<Row>>> {
        let mut deadline = std::pin::pin!(tokio::time::sleep(self.timeout));
        // A last attempt shortly before the deadline would be cancelled, which costs a connection.
        let margin = LAST_ATTEMPT.min(self.timeout / 4);
        let mut lock_deadline = std::pin::pin!(tokio::time::sleep(self.timeout - margin));
        let mut tries = Tries::default();
        let mut place = match if_locked {
            IfLocked::Queue(lock) if !self.locks.is_waited_for(lock) => None,
            IfLocked::Queue(lock) | IfLocked::QueueAtOnce(lock) => Some(
                self.wait_for(lock, LOCK_SLOTS, lock_deadline.as_mut())
                    .await?,
            ),
            IfLocked::Slots(lock) => Some(
                self.wait_for(lock, CLAIM_SLOTS, lock_deadline.as_mut())
                    .await?,
            ),
            IfLocked::Retry | IfLocked::NoRows => None,
        };
        let mut locked = place.is_some() && !matches!(if_locked, IfLocked::Slots(_));
        loop {
            let session = match locked {
                true => tokio::select! {
                    session = self.locks.session() => session,
                    () = lock_deadline.as_mut() => return Err(self.no_answer()),
                },
                false => None,
            };
            let attempt = self.attempt(deadline.as_mut(), statements).await;
            drop(session);
            let error = match attempt {
                Ok(Attempt::Locked(error)) => error,
                Ok(Attempt::Answered(answers)) => return Ok(answers),
                Err(error) if error.is_unavailable() => {
                    tries.pause(error, deadline.as_mut()).await?;
                    continue;
                }
                Err(error) => return Err(self.with_role(error).await),
            };
            locked = true;
            match if_locked {
                IfLocked::NoRows => return Ok(Vec::new()),
                IfLocked::Queue(lock) if place.is_none() => {
                    place = Some(
                        self.wait_for(lock, LOCK_SLOTS, lock_deadline.as_mut())
                            .await?,
                    );
                }
                _ => pause(LOCK_PAUSE, error, lock_deadline.as_mut()).await?,
            }
        }
    }

    /// Adds the role that has the right to an error for a missing right.
    async fn with_role(&self, error: Error) -> Error {
        if sqlstate(&error) != Some(rights::INSUFFICIENT_PRIVILEGE) {
            return error;
        }
        let named = async {
            match self.client().await {
                Ok(client) => rights::named(&***client, error.clone()).await,
                Err(_) => error.clone(),
            }
        };
        tokio::time::timeout(ROLE_LOOKUP_TIMEOUT, named)
            .await
            .unwrap_or_else(|_| error.clone())
    }

    /// Waits until the call has one of the slots of a lock.
    async fn wait_for(
        &self,
        lock: &str,
        slots: usize,
        deadline: Pin<&mut Sleep>,
    ) -> Result<Option<OwnedSemaphorePermit>> {
        tokio::select! {
            place = self.locks.first(lock, slots) => Ok(place),
            () = deadline => Err(Error::new(
                Kind::Unavailable,
                format!("another transaction has kept {lock} locked for {:?}: end it, or try again in a moment", self.timeout),
            )),
        }
    }

    async fn attempt(
        &self,
        deadline: Pin<&mut Sleep>,
        statements: &[Statement<'_>],
    ) -> Result<Attempt> {
        match self.attempt_on(deadline, statements).await {
            Ok((answers, _)) => {
                let row = answers.last().and_then(|rows| rows.first());
                Ok(match row.is_some_and(is_claim_later) {
                    true => Attempt::Locked(claim_locked()),
                    false => Attempt::Answered(answers),
                })
            }
            Err(error) if is_locked(&error) => Ok(Attempt::Locked(error)),
            Err(error) => Err(error),
        }
    }

    /// Sends the statements once. Returns their rows and the host of the session.
    async fn attempt_on(
        &self,
        mut deadline: Pin<&mut Sleep>,
        statements: &[Statement<'_>],
    ) -> Result<(Vec<Vec<Row>>, SessionHost)> {
        let session = tokio::select! {
            session = self.client() => session?,
            () = deadline.as_mut() => return Err(self.no_answer()),
        };
        let session = InUse::new(session, self.route.clone());
        let host = session.get().host.clone();
        let (answers, verdict) = self.answered(&session, deadline, statements).await?;
        session.done(verdict);
        Ok((answers?, host))
    }

    /// Returns the rows, and whether the session can be used again; an error if it is unknown how the statements ended.
    async fn answered(
        &self,
        session: &InUse,
        deadline: Pin<&mut Sleep>,
        statements: &[Statement<'_>],
    ) -> Result<(Result<Vec<Vec<Row>>>, Verdict)> {
        let mut asking = std::pin::pin!(self.heard(session, statements));
        tokio::select! {
            biased;
            answers = asking.as_mut() => return Ok(self.judge(answers, &session.get().host)),
            () = deadline => {}
        }
        // The statement may be about to commit. Only its response tells how it ended.
        let cancel = self.route.cancel(session.get());
        let cancel = tokio::time::timeout(CANCEL_TIMEOUT, cancel);
        let answer = tokio::time::timeout(CANCEL_TIMEOUT, asking);
        let (_, answer) = tokio::join!(cancel, answer);
        match answer {
            Ok(Err(error)) if is_cancelled(&error) => Ok((Err(self.no_answer()), Verdict::Close)),
            // The cancellation may arrive late, and must not cancel another caller's statement.
            Ok(answers) => Ok((answers, Verdict::Close)),
            Err(_) => Err(self.no_answer()),
        }
    }

    fn judge<T>(&self, answers: Result<T>, host: &SessionHost) -> (Result<T>, Verdict) {
        match answers {
            Ok(answers) => (Ok(answers), Verdict::Keep),
            Err(error) => {
                let (error, verdict) = self.route.judge(error, host);
                (Err(error), verdict)
            }
        }
    }

    fn no_answer(&self) -> Error {
        Error::new(
            Kind::Unavailable,
            format!(
                "the database has not answered for {:?}: look at its load, at the network, and for a transaction that holds locks",
                self.timeout
            ),
        )
    }

    /// Waits for the rows until the session's host fails.
    async fn heard(&self, session: &InUse, statements: &[Statement<'_>]) -> Result<Vec<Vec<Row>>> {
        let answers = async {
            match statements {
                [one] => Ok(vec![question(session.get(), *one).await?]),
                [first, second] => {
                    let (first, second) = tokio::join!(
                        question(session.get(), *first),
                        question(session.get(), *second),
                    );
                    Ok(vec![first?, second?])
                }
                _ => Err(Error::new(Kind::Broken, "a call is one statement or two")),
            }
        };
        tokio::select! {
            biased;
            answers = answers => answers,
            error = self.route.lost(&session.get().host) => Err(error),
        }
    }
}

/// Sends one statement: prepared once per connection, or unnamed behind a pooler.
async fn question(session: &PooledSession, (sql, arguments): Statement<'_>) -> Result<Vec<Row>> {
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

/// Result of one attempt at an available database.
enum Attempt {
    Answered(Vec<Vec<Row>>),
    /// Nothing was changed, because another transaction holds a lock.
    Locked(Error),
}

/// Returns whether a call failed because of another transaction's lock.
fn is_locked(error: &Error) -> bool {
    sqlstate(error) == Some("55P03")
}

fn claim_locked() -> Error {
    Error::new(
        Kind::Unavailable,
        "another transaction claims from the queue and has not ended: end it, or try again in a moment",
    )
}

/// Returns whether a statement was cancelled, or took longer than `statement_timeout`.
fn is_cancelled(error: &Error) -> bool {
    sqlstate(error) == Some("57014")
}

/// The attempts that a call has left.
struct Tries {
    left: u32,
    pause: Duration,
}

impl Default for Tries {
    fn default() -> Self {
        Tries {
            left: CALL_TRIES,
            pause: CALL_PAUSE,
        }
    }
}

impl Tries {
    /// Waits before the next attempt. Returns the error if none is left.
    async fn pause(&mut self, error: Error, deadline: Pin<&mut Sleep>) -> Result<()> {
        self.left -= 1;
        if self.left == 0 {
            return Err(error);
        }
        let length = self.pause;
        self.pause *= 2;
        pause(length, error, deadline).await
    }
}

/// Waits for a jittered pause. Returns the error if the deadline passes first.
async fn pause(length: Duration, error: Error, deadline: Pin<&mut Sleep>) -> Result<()> {
    if deadline.is_elapsed() {
        return Err(error);
    }
    tokio::select! {
        () = tokio::time::sleep(jittered(length)) => Ok(()),
        () = deadline => Err(error),
    }
}

/// A connection with a statement in progress. On drop, the statement is cancelled and the connection is closed, because in the
/// pool its next caller would wait for the statement.
struct InUse {
    session: Option<PooledSession>,
    route: Arc<Route>,
}

impl InUse {
    fn new(session: PooledSession, route: Arc<Route>) -> Self {
        InUse {
            session: Some(session),
            route,
        }
    }

    fn get(&self) -> &PooledSession {
        self.session
            .as_ref()
            .expect("the connection is there until done or dropped")
    }

    /// Returns the session to the pool after the statement has ended, or closes it.
    fn done(mut self, verdict: Verdict) {
        let session = self.session.take();
        if verdict == Verdict::Close
            && let Some(session) = session
        {
            session.close();
        }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else {
            return;
        };
        // Outside a runtime the program is ending.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(end(session, self.route.clone()));
        }
    }
}

/// Cancels the statement of a session, and closes the session. Until the statement has ended, the session keeps its place in the
/// pool, so that no more statements are in progress than the pool has connections.
async fn end(session: PooledSession, route: Arc<Route>) {
    let ended = async {
        route.cancel(&session).await;
        // The server responds to this after the statement has ended.
        let _ = session.simple_query("").await;
    };
    if tokio::time::timeout(CANCEL_TIMEOUT, ended).await.is_err() {
        tracing::debug!("a cancelled statement has not ended in time; its connection is closed");
    }
    session.close();
}
