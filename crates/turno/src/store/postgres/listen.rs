//! Hears `turno_lock`, `turno_inbox` and `turno_once`, on a connection of its own, for as long as anybody waits.
//!
//! Never behind a pooler: the `listen` would stay behind on one of its server connections, and
//! whoever is given that one next would be sent our notifications in the middle of its own answers,
//! which some drivers take for an error. There, waiters look more often.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::{AsyncMessage, Client};
use tokio_util::sync::CancellationToken;

use super::connect::{Own, Route};
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
                () = tokio::time::sleep(RECONNECT.mul_f64(0.5 + fastrand::f64())) => {}
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
    let ask = client.batch_execute("listen turno_lock; listen turno_inbox; listen turno_once");
    let mut ask = std::pin::pin!(ask);
    let mut asked = false;
    let mut silent = std::pin::pin!(silent(route, &client));
    loop {
        let message = poll_fn(|context| connection.poll_message(context));
        tokio::select! {
            message = message => match message {
                Some(Ok(AsyncMessage::Notification(note))) => match note.channel() {
                    "turno_lock" => wakers.wake(note.payload()),
                    "turno_inbox" => wakers.wake(&crate::inbox::wake_name(note.payload())),
                    "turno_once" => wakers.wake(&crate::once::wake_name(note.payload())),
                    _ => {}
                },
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(super::classify(error)),
                None => return Err(Error::new(Kind::Unavailable, "the listening connection was closed")),
            },
            sent = &mut ask, if !asked => {
                sent.map_err(super::classify)?;
                asked = true;
                wakers.set_live(true);
                // Whoever began to wait before this connection listened looks once more.
                wakers.wake_all();
            }
            () = place.lost() => return Err(Error::new(Kind::Unavailable, "the host of the listening connection was given up")),
            () = &mut silent => return Err(Error::new(Kind::Unavailable, "the listening connection does not answer")),
            () = tokio::time::sleep(LINGER), if !wakers.any() => return Ok(()),
        }
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
