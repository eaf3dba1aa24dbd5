//! Statements in the caller's own transaction, for any driver.
//!
//! Each item is pushed and completed by plain statements. The first statement of each call is a write, so that a transaction
//! that has just begun becomes the writer at once, and waits for its turn instead of failing later.

use std::future::ready;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use rusqlite::types::{ToSqlOutput, Value};
use rusqlite::{Connection, OptionalExtension, ToSql, params_from_iter};
use uuid::Uuid;

use super::inbox::*;
use super::outbox;
use super::{LOCK_GUARD, classify, once};
use crate::clock::{as_us, now_us};
use crate::error::{Error, Kind, Result};
use crate::store::*;

/// A connection of the caller.
pub(crate) trait Session {
    type Row;

    /// Runs a statement and returns its first row.
    fn fetch(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<Option<Self::Row>>> + Send;

    /// Runs a statement and returns the number of changed rows.
    fn execute(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<u64>> + Send;

    fn integer(row: &Self::Row, column: usize) -> Result<i64>;

    fn text(row: &Self::Row, column: usize) -> Result<Option<String>>;
}

/// A parameter of a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Param<'a> {
    Integer(Option<i64>),
    Text(Option<&'a str>),
    Blob(&'a [u8]),
}

impl From<i64> for Param<'_> {
    fn from(value: i64) -> Self {
        Param::Integer(Some(value))
    }
}

impl From<Option<i64>> for Param<'_> {
    fn from(value: Option<i64>) -> Self {
        Param::Integer(value)
    }
}

impl<'a> From<&'a str> for Param<'a> {
    fn from(value: &'a str) -> Self {
        Param::Text(Some(value))
    }
}

impl<'a> From<&'a Option<String>> for Param<'a> {
    fn from(value: &'a Option<String>) -> Self {
        Param::Text(value.as_deref())
    }
}

impl<'a> From<&'a [u8; 16]> for Param<'a> {
    fn from(value: &'a [u8; 16]) -> Self {
        Param::Blob(value)
    }
}

async fn number<S: Session>(
    session: &mut S,
    sql: &'static str,
    params: &[Param<'_>],
) -> Result<i64> {
    match session.fetch(sql, params).await? {
        Some(row) => S::integer(&row, 0),
        None => Err(Error::new(
            Kind::Broken,
            "a statement of Turno returned no row: please report it",
        )),
    }
}

pub(crate) async fn lock_guard<S: Session>(
    session: &mut S,
    resource: &str,
    token: Token,
) -> Result<()> {
    let params = [resource.into(), token.0.into(), now_us().into()];
    match session.execute(LOCK_GUARD, &params).await? {
        0 => Err(Error::lost(resource, token)),
        _ => Ok(()),
    }
}

pub(crate) async fn inbox_push<S: Session>(
    session: &mut S,
    ask: &InboxPush,
) -> Result<Vec<PushedItem>> {
    push_at(session, ask, now_us()).await
}

async fn push_at<S: Session>(
    session: &mut S,
    ask: &InboxPush,
    now: i64,
) -> Result<Vec<PushedItem>> {
    let mut pushed = Vec::with_capacity(ask.items.len());
    if ask.items.is_empty() {
        return Ok(pushed);
    }
    let queue = number(session, INBOX_QUEUE_MAKE, &[ask.queue.as_str().into()]).await?;
    for item in &ask.items {
        pushed.push(push_one(session, queue, item, now).await?);
    }
    Ok(pushed)
}

async fn push_one<S: Session>(
    session: &mut S,
    queue: i64,
    item: &NewItem,
    now: i64,
) -> Result<PushedItem> {
    let id = number(session, INBOX_SERIAL, &[1.into()]).await?;
    if let Some(key) = &item.key {
        let params = [queue.into(), key.as_str().into(), id.into()];
        let holder = number(session, INBOX_KEY, &params).await?;
        if holder != id {
            return Ok(PushedItem {
                id: ItemId(holder),
                duplicate: true,
            });
        }
    }
    let due = due_us(item, now);
    let key = if item.key.is_some() {
        &item.key
    } else {
        &item.label
    };
    let params = [
        id.into(),
        queue.into(),
        i64::from(item.priority).into(),
        due.into(),
        i64::from(item.max_attempts).into(),
        now.into(),
        key.into(),
        (&item.group).into(),
        item.payload.as_str().into(),
    ];
    session.execute(INBOX_PUSH, &params).await?;
    if due.is_some() {
        let params = [queue.into(), due.into()];
        session.execute(INBOX_TX_DUE, &params).await?;
    }
    count(session, queue, [1, 0, 0, 0]).await?;
    Ok(PushedItem {
        id: ItemId(id),
        duplicate: false,
    })
}

pub(crate) async fn inbox_complete<S: Session>(
    session: &mut S,
    claims: &[ClaimId],
) -> Result<Settled> {
    complete_at(session, claims, now_us()).await
}

async fn complete_at<S: Session>(session: &mut S, claims: &[ClaimId], now: i64) -> Result<Settled> {
    let mut settled = Settled::default();
    for claim in claims {
        if complete_one(session, claim, now).await? {
            settled.done += 1;
        } else {
            settled.stale.push(*claim);
        }
    }
    Ok(settled)
}

/// What `inbox_tx_take.sql` returns.
struct Taken {
    queue: i64,
    claim: i64,
    key: Option<String>,
    group: Option<String>,
    errors: i64,
}

/// Returns false if the claim is stale.
async fn complete_one<S: Session>(session: &mut S, claim: &ClaimId, now: i64) -> Result<bool> {
    let id = claim.item.0;
    let params = [id.into(), claim.token.as_bytes().into()];
    let taken = match session.fetch(INBOX_TX_TAKE, &params).await? {
        Some(row) => Taken {
            queue: S::integer(&row, 0)?,
            claim: S::integer(&row, 1)?,
            key: S::text(&row, 2)?,
            group: S::text(&row, 3)?,
            errors: S::integer(&row, 4)?,
        },
        None => return Ok(false),
    };
    let params = [taken.claim.into(), 1.into()];
    let worker = match session.fetch(INBOX_CLAIM_RELEASE, &params).await? {
        Some(row) => S::text(&row, 0)?,
        None => None,
    };
    let params = [
        taken.queue.into(),
        id.into(),
        now.into(),
        (&worker).into(),
        (&taken.key).into(),
    ];
    session.execute(INBOX_DONE, &params).await?;
    count(session, taken.queue, [0, -1, 0, 1]).await?;
    if taken.group.is_some() {
        let params = [taken.queue.into(), (&taken.group).into()];
        session.execute(INBOX_GROUP_NEXT, &params).await?;
    }
    if taken.errors > 0 {
        let params = [id.into(), taken.errors.into()];
        session.execute(INBOX_ERROR_FORGET, &params).await?;
    }
    Ok(true)
}

/// Adds to the counts of a queue: waiting, held, failed, completed.
async fn count<S: Session>(session: &mut S, queue: i64, more: [i64; 4]) -> Result<()> {
    let [waiting, held, failed, completed] = more.map(Param::from);
    let params = [queue.into(), waiting, held, failed, completed];
    session.execute(INBOX_QUEUE_COUNT, &params).await.map(drop)
}

pub(crate) async fn outbox_emit<S: Session>(
    session: &mut S,
    events: &[NewEvent],
) -> Result<Vec<Uuid>> {
    let (items, ids) = outbox::items(events)?;
    let ask = InboxPush {
        queue: OUTBOX_QUEUE.to_owned(),
        items,
        request: Uuid::now_v7(),
    };
    inbox_push(session, &ask).await?;
    Ok(ids)
}

pub(crate) async fn mark_processed<S: Session>(
    session: &mut S,
    consumer: &str,
    event: Uuid,
) -> Result<bool> {
    let params = [consumer.into(), event.as_bytes().into(), now_us().into()];
    Ok(session.execute(SEEN, &params).await? > 0)
}

pub(crate) async fn once_complete<S: Session>(session: &mut S, ask: &OnceComplete) -> Result<()> {
    match complete_run(session, ask, now_us()).await? {
        OnceSettled::Done => Ok(()),
        OnceSettled::Stale => Err(Error::stale(&ask.claim)),
    }
}

async fn complete_run<S: Session>(
    session: &mut S,
    ask: &OnceComplete,
    now: i64,
) -> Result<OnceSettled> {
    let (key, token) = (ask.claim.key.as_str(), ask.claim.token.0);
    let params = [
        key.into(),
        token.into(),
        (&ask.answer).into(),
        ask.ttl.map(as_us).into(),
        now.into(),
    ];
    if session.execute(once::ONCE_COMPLETE, &params).await? > 0 {
        return Ok(OnceSettled::Done);
    }
    // The claim may have been completed before, by a call whose response was lost.
    let params = [key.into(), token.into(), once::DONE.into()];
    Ok(match number(session, once::ONCE_IS, &params).await? {
        0 => OnceSettled::Stale,
        _ => OnceSettled::Done,
    })
}

/// A connection of rusqlite. Its futures are always ready.
pub(crate) struct Rusqlite<'c>(&'c Connection);

impl Session for Rusqlite<'_> {
    type Row = Vec<Value>;

    fn fetch(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<Option<Vec<Value>>>> + Send {
        ready(self.first_row(sql, params).map_err(classify))
    }

    fn execute(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<u64>> + Send {
        let done = self
            .0
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(params_from_iter(params)));
        ready(done.map(|rows| rows as u64).map_err(classify))
    }

    fn integer(row: &Vec<Value>, column: usize) -> Result<i64> {
        match row.get(column) {
            Some(Value::Integer(value)) => Ok(*value),
            _ => Err(unexpected_column()),
        }
    }

    fn text(row: &Vec<Value>, column: usize) -> Result<Option<String>> {
        match row.get(column) {
            Some(Value::Text(value)) => Ok(Some(value.clone())),
            Some(Value::Null) => Ok(None),
            _ => Err(unexpected_column()),
        }
    }
}

impl Rusqlite<'_> {
    fn first_row(&self, sql: &str, params: &[Param<'_>]) -> rusqlite::Result<Option<Vec<Value>>> {
        let mut statement = self.0.prepare_cached(sql)?;
        let columns = statement.column_count();
        statement
            .query_row(params_from_iter(params), |row| {
                (0..columns).map(|column| row.get(column)).collect()
            })
            .optional()
    }
}

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Param::Integer(value) => value.to_sql(),
            Param::Text(value) => value.to_sql(),
            Param::Blob(value) => value.to_sql(),
        }
    }
}

fn unexpected_column() -> Error {
    Error::new(
        Kind::Broken,
        "a column of a Turno table has an unexpected type: please report it",
    )
}

/// Runs statements on a connection of rusqlite at once.
pub(crate) fn now<'c, T, F: Future<Output = Result<T>>>(
    connection: &'c Connection,
    statements: impl FnOnce(Rusqlite<'c>) -> F,
) -> Result<T> {
    let future = pin!(statements(Rusqlite(connection)));
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(Error::new(
            Kind::Broken,
            "a statement of rusqlite was not run at once: please report it",
        )),
    }
}

/// Pushes items on a connection that has a transaction.
pub(crate) fn push_in(db: &Connection, ask: &InboxPush, at: i64) -> Result<Vec<PushedItem>> {
    now(db, |mut session| async move {
        push_at(&mut session, ask, at).await
    })
}

/// Completes items on a connection that has a transaction.
#[cfg(test)]
pub(crate) fn complete_in(db: &Connection, claims: &[ClaimId], at: i64) -> Result<Settled> {
    now(db, |mut session| async move {
        complete_at(&mut session, claims, at).await
    })
}

/// Ends a run on a connection that has a transaction.
pub(super) fn once_complete_in(
    db: &Connection,
    ask: &OnceComplete,
    at: i64,
) -> Result<OnceSettled> {
    now(db, |mut session| async move {
        complete_run(&mut session, ask, at).await
    })
}
