//! `tokio_postgres::Transaction`, and `deadpool_postgres::Transaction`, which contains one.

use tokio_postgres::Transaction;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::sealed::Statements;
use crate::error::Result;
use crate::store::postgres::{
    EmitColumns, INBOX_COMPLETE_IN, INBOX_PUSH_IN, LOCK_GUARD, ONCE_COMPLETE_IN, OUTBOX_EMIT,
    PushColumns, SEEN, classify, emitted, pushed, settled, ttl_text,
};
use crate::store::{ClaimId, InboxPush, NewEvent, OnceComplete, PushedItem, Settled, Token};

macro_rules! statements_of {
    ($type:ty) => {
        impl Statements for $type {
            async fn lock_guard(&mut self, resource: &str, token: Token) -> Result<()> {
                guard(self, resource, token).await
            }

            async fn inbox_push(&mut self, ask: &InboxPush) -> Result<Vec<PushedItem>> {
                push(self, ask).await
            }

            async fn inbox_complete(&mut self, claims: &[ClaimId]) -> Result<Settled> {
                complete(self, claims).await
            }

            async fn outbox_emit(&mut self, events: &[NewEvent]) -> Result<Vec<Uuid>> {
                emit(self, events).await
            }

            async fn mark_processed(&mut self, consumer: &str, event: Uuid) -> Result<bool> {
                mark_processed(self, consumer, event).await
            }

            async fn once_complete(&mut self, ask: &OnceComplete) -> Result<()> {
                once_complete(self, ask).await
            }
        }
    };
}

statements_of!(Transaction<'_>);
statements_of!(deadpool_postgres::Transaction<'_>);

async fn guard(tx: &Transaction<'_>, resource: &str, token: Token) -> Result<()> {
    tx.query_typed(
        LOCK_GUARD,
        &[(&resource, Type::TEXT), (&token.0, Type::INT8)],
    )
    .await
    .map(drop)
    .map_err(classify)
}

async fn push(tx: &Transaction<'_>, ask: &InboxPush) -> Result<Vec<PushedItem>> {
    let columns = PushColumns::of(&ask.items);
    let (delays, run_ats) = columns.texts();
    let rows = tx
        .query_typed(
            INBOX_PUSH_IN,
            &[
                (&ask.queue, Type::TEXT),
                (&columns.payloads, Type::TEXT_ARRAY),
                (&columns.keys, Type::TEXT_ARRAY),
                (&columns.priorities, Type::INT4_ARRAY),
                (&delays, Type::TEXT_ARRAY),
                (&run_ats, Type::TEXT_ARRAY),
                (&columns.groups, Type::TEXT_ARRAY),
                (&columns.max_attempts, Type::INT4_ARRAY),
            ],
        )
        .await
        .map_err(classify)?;
    rows.first().map_or_else(|| Ok(Vec::new()), pushed)
}

async fn complete(tx: &Transaction<'_>, claims: &[ClaimId]) -> Result<Settled> {
    let claims: Vec<String> = claims.iter().map(ClaimId::to_string).collect();
    let row = tx
        .query_typed(INBOX_COMPLETE_IN, &[(&claims, Type::TEXT_ARRAY)])
        .await
        .map_err(classify)?;
    row.first().map_or(Ok(Settled::default()), settled)
}

async fn emit(tx: &Transaction<'_>, events: &[NewEvent]) -> Result<Vec<Uuid>> {
    let columns = EmitColumns::of(events)?;
    let rows = tx
        .query_typed(OUTBOX_EMIT, &columns.arguments(&None))
        .await
        .map_err(classify)?;
    let ids: Vec<String> = match rows.first() {
        Some(row) => row.try_get(0).map_err(classify)?,
        None => Vec::new(),
    };
    emitted(&ids)
}

async fn mark_processed(tx: &Transaction<'_>, consumer: &str, event: Uuid) -> Result<bool> {
    let event = event.to_string();
    let rows = tx
        .query_typed(SEEN, &[(&consumer, Type::TEXT), (&event, Type::TEXT)])
        .await
        .map_err(classify)?;
    rows.first()
        .map_or(Ok(false), |row| row.try_get(0).map_err(classify))
}

async fn once_complete(tx: &Transaction<'_>, ask: &OnceComplete) -> Result<()> {
    let (claim, ttl) = (ask.claim.to_string(), ttl_text(ask));
    tx.query_typed(
        ONCE_COMPLETE_IN,
        &[
            (&claim, Type::TEXT),
            (&ask.answer, Type::TEXT),
            (&ttl, Type::TEXT),
        ],
    )
    .await
    .map(drop)
    .map_err(classify)
}
