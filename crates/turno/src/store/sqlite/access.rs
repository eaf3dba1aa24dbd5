//! The access tokens' verbs.

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, Row};

use super::rows::{exec, one};
use super::{SqliteStore, classify};
use crate::check::MAX_PAGE;
use crate::clock::{self, as_us, from_us};
use crate::error::{Error, Kind, Result};
use crate::store::*;

#[async_trait]
impl AccessStore for SqliteStore {
    async fn access_create(&self, ask: &AccessCreate) -> Result<AccessView> {
        let ask = ask.clone();
        self.writer
            .write(move |db| {
                let now = clock::now_us();
                create(db, &ask, now)?;
                let made = find(db, &ask.id, now)?;
                made.map(|(view, _)| view)
                    .ok_or_else(|| Error::new(Kind::Broken, "an access token was not kept"))
            })
            .await
    }

    async fn access_list(&self) -> Result<Vec<AccessView>> {
        self.read(|db| list(db, clock::now_us())).await
    }

    async fn access_revoke(&self, id: &str) -> Result<bool> {
        let id = id.to_owned();
        self.writer
            .write(move |db| {
                let arguments = (&id, clock::now_us());
                Ok(exec(db, query!(access_revoke), arguments)? > 0)
            })
            .await
    }

    async fn access_find(&self, id: &str) -> Result<Option<(AccessView, AccessHash)>> {
        let id = id.to_owned();
        self.read(move |db| find(db, &id, clock::now_us())).await
    }

    async fn access_any(&self) -> Result<bool> {
        self.read(|db| one(db, query!(access_any), [])).await
    }
}

fn create(db: &Connection, ask: &AccessCreate, now: i64) -> Result<()> {
    let expires_at = ask.expires_in.map(|after| now.saturating_add(as_us(after)));
    exec(
        db,
        query!(access_create),
        (
            &ask.id,
            ask.hash,
            &ask.name,
            ask.role.as_str(),
            &ask.prefix,
            now,
            expires_at,
        ),
    )
    .map(drop)
}

fn list(db: &Connection, now: i64) -> Result<Vec<AccessView>> {
    let mut list = db.prepare_cached(query!(access_list)).map_err(classify)?;
    let rows = list
        .query_map([MAX_PAGE], |row| found(row, now))
        .map_err(classify)?;
    rows.map(|row| row.map(|(view, _)| view).map_err(classify))
        .collect()
}

fn find(db: &Connection, id: &str, now: i64) -> Result<Option<(AccessView, AccessHash)>> {
    let mut find = db.prepare_cached(query!(access_find)).map_err(classify)?;
    let mut rows = find
        .query_map([id], |row| found(row, now))
        .map_err(classify)?;
    rows.next().transpose().map_err(classify)
}

fn found(row: &Row<'_>, now: i64) -> rusqlite::Result<(AccessView, AccessHash)> {
    let (expires_at, revoked_at): (Option<i64>, Option<i64>) = (row.get(5)?, row.get(6)?);
    let role = row.get::<_, String>(2)?.parse().map_err(|error: Error| {
        rusqlite::Error::FromSqlConversionFailure(2, Type::Text, Box::new(error))
    })?;
    let state = match (revoked_at, expires_at) {
        (Some(_), _) => AccessState::Revoked,
        (None, Some(at)) if at <= now => AccessState::Expired,
        _ => AccessState::Live,
    };
    let view = AccessView {
        id: row.get(0)?,
        name: row.get(1)?,
        role,
        prefix: row.get(3)?,
        state,
        created_at: from_us(row.get(4)?),
        expires_at: expires_at.map(from_us),
        revoked_at: revoked_at.map(from_us),
    };
    Ok((view, row.get(7)?))
}
