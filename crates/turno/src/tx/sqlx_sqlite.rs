//! `sqlx::Transaction<Sqlite>` and `sqlx::SqliteConnection`.

use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Row, Sqlite, SqliteConnection};
use uuid::Uuid;

use super::pass_on;
use super::sealed::Statements;
use crate::error::{Error, Kind, Result};
use crate::store::sqlite::caller::{self, Param, Session};
use crate::store::{ClaimId, InboxPush, NewEvent, OnceComplete, PushedItem, Settled, Token};

pass_on!(sqlx::Transaction<'_, Sqlite>, self => (**self));

impl Statements for SqliteConnection {
    async fn lock_guard(&mut self, resource: &str, token: Token) -> Result<()> {
        caller::lock_guard(self, resource, token).await
    }

    async fn inbox_push(&mut self, ask: &InboxPush) -> Result<Vec<PushedItem>> {
        caller::inbox_push(self, ask).await
    }

    async fn inbox_complete(&mut self, claims: &[ClaimId]) -> Result<Settled> {
        caller::inbox_complete(self, claims).await
    }

    async fn outbox_emit(&mut self, events: &[NewEvent]) -> Result<Vec<Uuid>> {
        caller::outbox_emit(self, events).await
    }

    async fn mark_processed(&mut self, consumer: &str, event: Uuid) -> Result<bool> {
        caller::mark_processed(self, consumer, event).await
    }

    async fn once_complete(&mut self, ask: &OnceComplete) -> Result<()> {
        caller::once_complete(self, ask).await
    }
}

type Query<'q> = sqlx::query::Query<'q, Sqlite, SqliteArguments>;

fn query<'q>(sql: &'static str, params: &[Param<'q>]) -> Query<'q> {
    params
        .iter()
        .fold(sqlx::query(sql), |query, param| match *param {
            Param::Integer(value) => query.bind(value),
            Param::Text(value) => query.bind(value),
            Param::Blob(value) => query.bind(value),
        })
}

impl Session for SqliteConnection {
    type Row = SqliteRow;

    async fn fetch(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Option<SqliteRow>> {
        let row = query(sql, params).fetch_optional(self).await;
        row.map_err(classify)
    }

    async fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64> {
        let done = query(sql, params).execute(self).await;
        Ok(done.map_err(classify)?.rows_affected())
    }

    fn integer(row: &SqliteRow, column: usize) -> Result<i64> {
        row.try_get(column).map_err(classify)
    }

    fn text(row: &SqliteRow, column: usize) -> Result<Option<String>> {
        row.try_get(column).map_err(classify)
    }
}

fn classify(error: sqlx::Error) -> Error {
    Error::caused(
        Kind::Unavailable,
        format!("the transaction could not be used ({error}): roll back"),
        error,
    )
}
