//! Receives the notifications `turno_lock`, `turno_inbox` and `turno_once` on a separate connection, while there is a waiter.
//!
//! It also receives `turno_setting`, because the owner of the database can switch notifications off (setting `notify`). Then
//! waiters poll as they do behind a pooler, and this connection stays open to learn when notifications are switched on again.
//!
//! It is not used behind a pooler: the `listen` would remain on one of the pooler's server connections, and the next client of that
//! connection would receive these notifications between its own results, which some drivers treat as an error. There, waiters
//! poll more often.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_postgres::{AsyncMessage, Client};
use tokio_util::sync::CancellationToken;

use super::connect::{Own, Route};
use crate::backoff::jittered;
use crate::error::{Error, Kind, Result};
use crate::wake::Wakers;

/// Pause before a lost connection is opened again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);
/// Interval of checks of the connection if there are several hosts: another one may have become the primary.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// The same with one host, which may be a proxy that keeps a connection open after its server has failed.
const CHECK_INTERVAL_ONE_HOST: Duration = Duration::from_secs(60);
/// Timeout of a check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the connection stays open without a waiter.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

const LISTEN: &str =
    "listen turno_setting; listen turno_lock; listen turno_inbox; listen turno_once";
const NOTIFIES: &str = "select turno.notifies()";

pub(super) async fn run(route: Arc<Route>, wakers: Arc<Wakers>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = wakers.needed() => {}
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = route.until_direct() => {}
        }
        let ended = tokio::select! {
            () = stop.cancelled() => return,
            ended = listen(&route, &wakers) => ended,
        };
        wakers.set_live(false);
        wakers.wake_all();
        if let Err(error) = ended {
            tracing::debug!(%error, "not listening; waiters poll");
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(jittered(RECONNECT_PAUSE)) => {}
            }
        }
    }
}

/// Listens until the connection fails, or there was no waiter for [`IDLE_TIMEOUT`].
async fn listen(route: &Route, wakers: &Wakers) -> Result<()> {
    let Own {
        client,
        mut connection,
        host,
    } = route.connect().await?;
    let changed = Notify::new();
    let mut following = std::pin::pin!(follow(&client, wakers, &changed));
    let mut silent = std::pin::pin!(silent(route, &client));
    loop {
        let message = poll_fn(|context| connection.poll_message(context));
        tokio::select! {
            message = message => match message {
                Some(Ok(AsyncMessage::Notification(note))) => match note.channel() {
                    "turno_setting" => changed.notify_one(),
                    _ => wakers.wake_hash(note.payload()),
                },
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(super::classify(error)),
                None => return Err(Error::new(Kind::Unavailable, "the listening connection was closed")),
            },
            Err(error) = &mut following => return Err(error),
            () = host.lost() => return Err(Error::new(Kind::Unavailable, "the host of the listening connection has failed")),
            () = &mut silent => return Err(Error::new(Kind::Unavailable, "the listening connection does not answer")),
            () = tokio::time::sleep(IDLE_TIMEOUT), if !wakers.any() => return Ok(()),
        }
    }
}

/// Listens, and reads the setting `notify` now and after each change. Ends with an error only.
async fn follow(client: &Client, wakers: &Wakers, changed: &Notify) -> Result<Infallible> {
    client
        .batch_execute(LISTEN)
        .await
        .map_err(super::classify)?;
    loop {
        let row = client.query_typed_one(NOTIFIES, &[]).await;
        wakers.set_live(row.map_err(super::classify)?.get(0));
        // A waiter that began before this polls once more, and then waits according to the setting.
        wakers.wake_all();
        changed.notified().await;
    }
}

/// Resolves when the connection does not respond. A frozen server closes no connection, so it must be checked. The check is a
/// bare synchronisation message, which is not a statement and appears in no log.
async fn silent(route: &Route, client: &Client) {
    let pause = match route.has_choice() {
        true => CHECK_INTERVAL,
        false => CHECK_INTERVAL_ONE_HOST,
    };
    loop {
        tokio::time::sleep(pause).await;
        match tokio::time::timeout(CHECK_TIMEOUT, client.check_connection()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return,
        }
    }
}
