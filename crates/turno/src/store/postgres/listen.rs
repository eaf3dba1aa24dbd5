//! Hears `turno_lock` and `turno_inbox`, on a connection of its own, for as long as anybody waits.
//!
//! Behind a transaction pooler nothing ever arrives, so a probe goes out first: only when its echo
//! comes back do waiters rely on being woken; otherwise they look more often.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Pool;
use tokio_postgres::AsyncMessage;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::connect::Route;
use crate::error::{Error, Kind, Result};
use crate::wake::Wakers;

/// How long to wait before a lost connection is opened again.
const RECONNECT: Duration = Duration::from_millis(500);
/// A connection with nobody to wake is kept this long.
const LINGER: Duration = Duration::from_secs(30);

pub(super) async fn run(
    route: Arc<Route>,
    pool: Pool,
    wakers: Arc<Wakers>,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = wakers.needed() => {}
        }
        let heard = tokio::select! {
            () = stop.cancelled() => return,
            heard = hear(&route, &pool, &wakers) => heard,
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
async fn hear(route: &Route, pool: &Pool, wakers: &Wakers) -> Result<()> {
    let (client, mut connection) = route.connect().await?;
    let probe = Uuid::new_v4().to_string();
    let ask = async {
        client
            .batch_execute("listen turno_lock; listen turno_inbox; listen turno_probe")
            .await?;
        // Sent from another connection, as every real wake-up is.
        let other = pool.get().await.ok();
        match other {
            Some(other) => other
                .query_typed(
                    "select pg_notify('turno_probe', $1)",
                    &[(&probe, tokio_postgres::types::Type::TEXT)],
                )
                .await
                .map(drop),
            None => Ok(()),
        }
    };
    let mut ask = std::pin::pin!(ask);
    let mut asked = false;
    loop {
        let message = poll_fn(|context| connection.poll_message(context));
        tokio::select! {
            message = message => match message {
                Some(Ok(AsyncMessage::Notification(note))) => match note.channel() {
                    "turno_lock" => wakers.wake(note.payload()),
                    "turno_inbox" => wakers.wake(&crate::inbox::wake_name(note.payload())),
                    _ if note.payload() == probe => {
                        wakers.set_live(true);
                        // Whoever began to wait before this connection listened looks once more.
                        wakers.wake_all();
                    }
                    _ => {}
                },
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(super::classify(error)),
                None => return Err(Error::new(Kind::Unavailable, "the listening connection was closed")),
            },
            sent = &mut ask, if !asked => {
                sent.map_err(super::classify)?;
                asked = true;
            }
            () = tokio::time::sleep(LINGER), if !wakers.any() => return Ok(()),
        }
    }
}
