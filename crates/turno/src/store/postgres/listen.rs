//! Hears `turno_lock`, `turno_inbox` and `turno_once`, on a connection of its own, for as long as anybody waits.
//!
//! Also `turno_setting`: the owner of the database can switch notifications off (setting `notify`). Then waiters look for
//! themselves as they do behind a pooler, and this connection stays to hear when they are switched on again.
//!
//! Never behind a pooler: the `listen` would stay behind on one of its server connections, and
//! whoever is given that one next would be sent our notifications in the middle of its own answers,
//! which some drivers take for an error. There, waiters look more often.

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

/// How long to wait before a lost connection is opened again.
const RECONNECT: Duration = Duration::from_millis(500);
/// How often a listening connection is checked, where another host may be the primary meanwhile.
const CHECK_EVERY: Duration = Duration::from_secs(10);
/// The same with one host: it may be a proxy, which keeps a connection open after the server has gone.
const CHECK_EVERY_ONE_HOST: Duration = Duration::from_secs(60);
/// A check that is not answered for this time has failed.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);
/// A connection with nobody to wake is kept this long.
const LINGER: Duration = Duration::from_secs(30);

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
        let heard = tokio::select! {
            () = stop.cancelled() => return,
            heard = hear(&route, &wakers) => heard,
        };
        wakers.set_live(false);
        wakers.wake_all();
        if let Err(error) = heard {
            tracing::debug!(%error, "not listening; waiters look for themselves");
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(jittered(RECONNECT)) => {}
            }
        }
    }
}

/// Listens until the connection breaks, or nobody has waited for a while.
async fn hear(route: &Route, wakers: &Wakers) -> Result<()> {
    let Own {
        client,
        mut connection,
        place,
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
            () = place.lost() => return Err(Error::new(Kind::Unavailable, "the host of the listening connection was given up")),
            () = &mut silent => return Err(Error::new(Kind::Unavailable, "the listening connection does not answer")),
            () = tokio::time::sleep(LINGER), if !wakers.any() => return Ok(()),
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
        // A waiter that began before this looks once more, and then waits as the setting says.
        wakers.wake_all();
        changed.notified().await;
    }
}

/// Resolves when the connection does not answer. A frozen server closes no connection, so it has to be asked. The question is
/// a bare synchronisation message, which is no statement and is in no log.
async fn silent(route: &Route, client: &Client) {
    let pause = match route.has_choice() {
        true => CHECK_EVERY,
        false => CHECK_EVERY_ONE_HOST,
    };
    loop {
        tokio::time::sleep(pause).await;
        match tokio::time::timeout(CHECK_TIMEOUT, client.check_connection()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return,
        }
    }
}
