//! Leader election of relays: an advisory lock on a separate connection. It is released at once if its holder crashes, and soon if
//! its holder is frozen.
//!
//! It is not used behind a pooler: the lock would remain on one of the pooler's server connections.

use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::Client;
use tokio_postgres::types::Type;
use tokio_util::sync::CancellationToken;

use super::calls::Calls;
use super::classify;
use super::connect::Own;
use super::rows::get;
use crate::error::{Error, Kind, Result};
use crate::store::{Leadership, Leading, OutboxLead};

/// Interval of checks of the session.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// Timeout of a check.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The server ends the session of a leader that sends no check for this long, because it is frozen.
const SILENCE: &str = "5s";

#[derive(Debug)]
struct Session {
    client: Client,
    closed: CancellationToken,
}

#[async_trait]
impl Leading for Session {
    async fn ended(&self) {
        let dead = async {
            loop {
                tokio::time::sleep(ASK_EVERY).await;
                match tokio::time::timeout(TIMEOUT, self.client.simple_query("")).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(_)) | Err(_) => return,
                }
            }
        };
        tokio::select! {
            () = self.closed.cancelled() => {}
            () = dead => {}
        }
    }
}

pub(super) async fn lead(calls: &Calls, ask: &OutboxLead) -> Result<Leadership> {
    if !calls.route.is_direct() {
        return Ok(Leadership::NotHere);
    }
    // Asked first, so that a relay that waits does not open a connection each time.
    if let Some(leader) = leader(calls, ask.lock_id).await? {
        return Ok(Leadership::Busy(leader));
    }
    let session = Session::open(calls, &ask.relay).await?;
    if session.try_lock(ask.lock_id).await? {
        return Ok(Leadership::Alone(Box::new(session)));
    }
    let leader = leader(calls, ask.lock_id).await?;
    Ok(Leadership::Busy(leader.unwrap_or_else(|| {
        "a relay that has just stopped".to_owned()
    })))
}

/// Returns the relay that holds the lock.
async fn leader(calls: &Calls, lock_id: i64) -> Result<Option<String>> {
    let leader = query!(outbox_leader);
    let row = calls.row(leader, &[(&lock_id, Type::INT8)]).await?;
    get(&row, "leader")
}

impl Session {
    async fn open(calls: &Calls, relay: &str) -> Result<Self> {
        let Own {
            client, connection, ..
        } = calls.route.connect().await?;
        let closed = CancellationToken::new();
        let over = closed.clone().drop_guard();
        // Ends with the client, which the session owns.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection that holds the relay's lock ended");
            }
            drop(over);
        });
        let name = format!("turno relay {relay}");
        client
            .query_typed(
                "select set_config('application_name', $1, false), set_config('idle_session_timeout', $2, false)",
                &[(&name, Type::TEXT), (&SILENCE, Type::TEXT)],
            )
            .await
            .map_err(classify)?;
        Ok(Session { client, closed })
    }

    async fn try_lock(&self, lock_id: i64) -> Result<bool> {
        let lock = query!(outbox_try_lead);
        let rows = self
            .client
            .query_typed(lock, &[(&lock_id, Type::INT8)])
            .await
            .map_err(classify)?;
        let row = rows
            .first()
            .ok_or_else(|| Error::new(Kind::Broken, "the database answered a lock with no row"))?;
        get(row, "alone")
    }
}
