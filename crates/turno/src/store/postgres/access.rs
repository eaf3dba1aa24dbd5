//! The access tokens' verbs.

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::PostgresStore;
use super::interval::Interval;
use super::rows::{count_in, get};
use crate::check::MAX_PAGE;
use crate::error::{Error, Kind, Result};
use crate::store::*;

#[async_trait]
impl AccessStore for PostgresStore {
    async fn access_create(&self, ask: &AccessCreate) -> Result<AccessView> {
        let row = self
            .calls
            .row(
                query!(access_create),
                &[
                    (&ask.id, Type::TEXT),
                    (&ask.hash.as_slice(), Type::BYTEA),
                    (&ask.name, Type::TEXT),
                    (&ask.role.as_str(), Type::TEXT),
                    (&ask.prefix, Type::TEXT),
                    (&ask.expires_in.map(Interval), Type::INTERVAL),
                ],
            )
            .await
            .map_err(for_the_owner)?;
        view(&row)
    }

    async fn access_list(&self) -> Result<Vec<AccessView>> {
        let limit = count_in(MAX_PAGE);
        let rows = self
            .calls
            .rows(query!(access_list), &[(&limit, Type::INT4)])
            .await
            .map_err(for_the_owner)?;
        rows.iter().map(view).collect()
    }

    async fn access_revoke(&self, id: &str) -> Result<bool> {
        let row = self
            .calls
            .row(query!(access_revoke), &[(&id, Type::TEXT)])
            .await
            .map_err(for_the_owner)?;
        get(&row, "ended")
    }

    async fn access_find(&self, id: &str) -> Result<Option<(AccessView, AccessHash)>> {
        let rows = self
            .calls
            .rows(query!(access_find), &[(&id, Type::TEXT)])
            .await?;
        rows.first().map(found).transpose()
    }

    async fn access_any(&self) -> Result<bool> {
        let row = self.calls.row(query!(access_any), &[]).await?;
        get(&row, "found")
    }
}

/// Explains an error of a role that may serve and may not grant access.
fn for_the_owner(error: Error) -> Error {
    if !error.is_refused() {
        return error;
    }
    let next = "access tokens are made, listed and revoked by the owner of the schema: connect as the role that ran `turno migrate`";
    Error::caused(Kind::Refused, next, error)
}

fn found(row: &Row) -> Result<(AccessView, AccessHash)> {
    let hash = AccessHash::try_from(get::<&[u8]>(row, "hash")?)
        .map_err(|_| Error::new(Kind::Broken, "the hash of an access token has not 32 bytes"))?;
    Ok((view(row)?, hash))
}

fn view(row: &Row) -> Result<AccessView> {
    Ok(AccessView {
        id: get(row, "id")?,
        name: get(row, "name")?,
        role: get::<&str>(row, "role")?.parse()?,
        prefix: get(row, "prefix")?,
        state: AccessState::parse(get(row, "state")?)?,
        created_at: get(row, "created_at")?,
        expires_at: get(row, "expires_at")?,
        revoked_at: get(row, "revoked_at")?,
    })
}
