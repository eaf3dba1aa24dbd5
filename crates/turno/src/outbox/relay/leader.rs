//! One relay at a time: by a lock that dies with its holder's session where the store has one, by a lease elsewhere.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Relay;
use crate::backoff::jittered;
use crate::error::Result;
use crate::lock::{Acquire, AutoRenew, Lease};
use crate::store::{Leadership, Leading, OutboxLead};

/// How often one that is not leading tries again.
const TRY_EVERY: Duration = Duration::from_millis(250);
/// A leader that vanished is taken over after so long, where there is a lease.
const LEASE: Duration = Duration::from_secs(1);

/// Being the only relay. Dropped, it ends.
#[derive(Debug)]
pub(super) enum Alone {
    Session(Box<dyn Leading>),
    Lease(Lease, AutoRenew),
}

impl Alone {
    /// Ends when another relay may be leading.
    pub(super) async fn ended(&self) {
        match self {
            Alone::Session(session) => session.ended().await,
            Alone::Lease(lease, _) => lease.ending().await,
        }
    }

    /// Gives way to another relay at once.
    pub(super) async fn give_up(self) {
        if let Alone::Lease(lease, renewal) = self {
            drop(renewal);
            if let Err(error) = lease.release().await {
                tracing::debug!(%error, "the relay's lease was not given back; it ends by itself");
            }
        }
    }
}

/// Waits until this relay is the only one, saying who is meanwhile. `None` if told to stop first.
pub(super) async fn alone(relay: &Relay, stop: &CancellationToken) -> Option<Alone> {
    let mut said: Option<String> = None;
    loop {
        let tried = tokio::select! {
            // First, so that one that has been told to stop does not take the lead once more, to drop it at once.
            biased;
            () = stop.cancelled() => return None,
            tried = attempt(relay) => tried,
        };
        match tried {
            Ok(Ok(alone)) => return Some(alone),
            Ok(Err(who)) => {
                if said.as_ref() != Some(&who) {
                    tracing::info!(
                        relay = relay.name,
                        by = who,
                        "another relay is at work; waiting for its turn"
                    );
                    said = Some(who);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the relay's lock could not be asked for; trying again");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(jittered(TRY_EVERY)) => {}
            () = stop.cancelled() => return None,
        }
    }
}

/// One attempt: leading, or who else is.
async fn attempt(relay: &Relay) -> Result<std::result::Result<Alone, String>> {
    let turno = relay.outbox.turno();
    let ask = OutboxLead {
        lock_id: relay.lock_id,
        relay: relay.name.clone(),
    };
    match turno.store().outbox_lead(&ask).await? {
        Leadership::Alone(session) => return Ok(Ok(Alone::Session(session))),
        Leadership::Busy(who) => return Ok(Err(who)),
        Leadership::NotHere => {}
    }
    let lock = turno
        .lock(format!("turno/outbox/relay/{}", relay.lock_id))
        .ttl(LEASE)
        .service(relay.name.clone())
        .description("the only relay of the outbox");
    Ok(match lock.acquire().await? {
        Acquire::Acquired(lease) => {
            let renewal = lease.auto_renew();
            Ok(Alone::Lease(lease, renewal))
        }
        Acquire::Busy(busy) => {
            let service = busy.holder.and_then(|holder| holder.service);
            Err(service.unwrap_or_else(|| "another relay".to_owned()))
        }
    })
}
