//! `sqlx::Transaction<Postgres>` and `sqlx::PgConnection`.

use sqlx::Row;
use uuid::Uuid;

use super::pass_on;
use super::sealed::Statements;
use crate::error::{Error, Kind, Result};
use crate::store::postgres::{
    EmitColumns, INBOX_COMPLETE_IN, INBOX_PUSH_IN, LOCK_GUARD, ONCE_COMPLETE_IN, OUTBOX_EMIT,
    PushColumns, SEEN, classify_code, emitted, in_order, ttl_text,
};
use crate::store::{ClaimId, InboxPush, NewEvent, OnceComplete, PushedItem, Settled, Token};

pass_on!(sqlx::Transaction<'_, sqlx::Postgres>, self => (**self));

impl Statements for sqlx::PgConnection {
    async fn lock_guard(&mut self, resource: &str, token: Token) -> Result<()> {
        sqlx::query(LOCK_GUARD)
            .persistent(false)
            .bind(resource)
            .bind(token.0)
            .execute(self)
            .await
            .map(drop)
            .map_err(classify)
    }

    async fn inbox_push(&mut self, ask: &InboxPush) -> Result<Vec<PushedItem>> {
        let columns = PushColumns::of(&ask.items);
        let (delays, run_ats) = columns.texts();
        let row = sqlx::query(INBOX_PUSH_IN)
            .persistent(false)
            .bind(&ask.queue)
            .bind(&columns.payloads)
            .bind(&columns.keys)
            .bind(&columns.priorities)
            .bind(&delays)
            .bind(&run_ats)
            .bind(&columns.groups)
            .bind(&columns.max_attempts)
            .fetch_one(self)
            .await
            .map_err(classify)?;
        let ids = row.try_get(0).map_err(classify)?;
        let duplicates: Option<Vec<i32>> = row.try_get(1).map_err(classify)?;
        Ok(in_order(ids, &duplicates.unwrap_or_default()))
    }

    async fn inbox_complete(&mut self, claims: &[ClaimId]) -> Result<Settled> {
        let claims: Vec<String> = claims.iter().map(ClaimId::to_string).collect();
        let row = sqlx::query(INBOX_COMPLETE_IN)
            .persistent(false)
            .bind(claims)
            .fetch_one(self)
            .await
            .map_err(classify)?;
        let done: i64 = row.try_get(0).map_err(classify)?;
        let stale: Vec<String> = row.try_get(1).map_err(classify)?;
        Ok(Settled {
            done: done.try_into().unwrap_or(0),
            stale: stale
                .iter()
                .map(|claim| claim.parse())
                .collect::<Result<_>>()?,
        })
    }

    async fn outbox_emit(&mut self, events: &[NewEvent]) -> Result<Vec<Uuid>> {
        let columns = EmitColumns::of(events)?;
        let row = sqlx::query(OUTBOX_EMIT)
            .persistent(false)
            .bind(&columns.kinds)
            .bind(&columns.payloads)
            .bind(&columns.keys)
            .bind(&columns.correlation_ids)
            .bind(&columns.traceparents)
            .bind(&columns.tracestates)
            .bind(&columns.headers)
            .bind(&columns.delays)
            .bind(&columns.ids)
            .bind(None::<String>)
            .fetch_one(self)
            .await
            .map_err(classify)?;
        let ids: Vec<String> = row.try_get(0).map_err(classify)?;
        emitted(&ids)
    }

    async fn mark_processed(&mut self, consumer: &str, event: Uuid) -> Result<bool> {
        sqlx::query(SEEN)
            .persistent(false)
            .bind(consumer)
            .bind(event.to_string())
            .fetch_one(self)
            .await
            .and_then(|row| row.try_get(0))
            .map_err(classify)
    }

    async fn once_complete(&mut self, ask: &OnceComplete) -> Result<()> {
        sqlx::query(ONCE_COMPLETE_IN)
            .persistent(false)
            .bind(ask.claim.to_string())
            .bind(&ask.answer)
            .bind(ttl_text(ask))
            .execute(self)
            .await
            .map(drop)
            .map_err(classify)
    }
}

fn classify(error: sqlx::Error) -> Error {
    match &error {
        sqlx::Error::Database(reported) => {
            let code = reported.code().unwrap_or_default();
            let hint = reported
                .try_downcast_ref::<sqlx::postgres::PgDatabaseError>()
                .and_then(|reported| reported.hint())
                .map(str::to_owned);
            let (kind, message) = classify_code(&code, reported.message().to_owned(), hint);
            Error::caused(kind, message, error)
        }
        _ => Error::caused(
            Kind::Unavailable,
            format!("the transaction could not be used ({error}): roll back"),
            error,
        ),
    }
}
