//! One batch: published, and what became of each of its events.

use std::collections::VecDeque;

use tokio::time::Instant;
use uuid::Uuid;

use super::relay::Relay;
use crate::sink::{Fate, Outage, Outgoing};
use crate::store::{AfterRefusal, ClaimedEvent, Envelope, ItemId, OnDead, OutboxSettle, Refusal};

/// What a relay has taken from the outbox at once.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) token: Uuid,
    pub(super) events: Vec<ClaimedEvent>,
}

/// What became of a batch.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) settle: OutboxSettle,
    /// Why nothing more can be published for now.
    pub(super) outage: Option<Outage>,
}

impl Batch {
    /// A settlement that gives everything back.
    pub(super) fn unpublished(&self, relay: &Relay) -> OutboxSettle {
        OutboxSettle {
            token: self.token,
            sent: Vec::new(),
            refused: Vec::new(),
            doubtful: Vec::new(),
            archive: relay.archive,
            request: Uuid::now_v7(),
        }
    }

    /// Publishes what is to be published, for as long as the claim can be relied on.
    pub(super) async fn publish(
        &self,
        relay: &Relay,
        good_until: impl Fn() -> Option<Instant>,
    ) -> Published {
        let mut settle = self.unpublished(relay);
        let mut outgoing = Vec::with_capacity(self.events.len());
        let mut places = Vec::with_capacity(self.events.len());
        for event in &self.events {
            match read(event) {
                Ok(ready) => {
                    outgoing.push(ready);
                    places.push(event);
                }
                Err(refusal) => settle.refused.push(refusal),
            }
        }
        let is_good = || good_until().is_some_and(|until| Instant::now() < until);
        let (fates, outage) = publish(relay, outgoing, is_good).await;
        for (event, (kind, fate)) in places.into_iter().zip(fates) {
            match fate {
                Fate::Sent => settle.sent.push(event.seq),
                Fate::Refused(error) | Fate::Suspect(error) => {
                    settle.refused.push(refused(relay, event, &kind, error));
                }
                Fate::Unsent(_) => {}
                Fate::Doubtful(_) => settle.doubtful.push(event.seq),
            }
        }
        Published { settle, outage }
    }
}

/// The event as sinks see it; or why it cannot be published at all.
fn read(event: &ClaimedEvent) -> Result<Outgoing, Refusal> {
    let set_aside = |error: String, on_dead| Refusal {
        seq: event.seq,
        error,
        next: AfterRefusal::Dead(on_dead),
    };
    if event.parked {
        let error = "an earlier event of its key is dead, and its key is parked".to_owned();
        return Err(set_aside(error, OnDead::Park));
    }
    let stored =
        Envelope::read(&event.event).map_err(|error| set_aside(error.to_string(), OnDead::Skip))?;
    Ok(Outgoing {
        id: event.id,
        kind: stored.kind,
        key: event.key.clone(),
        correlation_id: stored.correlation_id,
        traceparent: stored.traceparent,
        tracestate: stored.tracestate,
        headers: stored.headers,
        emitted_at: event.emitted_at,
        payload: Box::<str>::from(stored.payload).into_string(),
        attempt: event.refused + 1,
        possible_duplicate: event.doubtful > 0,
    })
}

/// What follows when the other side would not have an event.
fn refused(relay: &Relay, event: &ClaimedEvent, kind: &str, error: String) -> Refusal {
    let attempt = event.refused + 1;
    let next = if attempt >= relay.max_attempts {
        AfterRefusal::Dead(relay.on_dead_of(kind))
    } else {
        AfterRefusal::Retry(relay.pause_after(attempt))
    };
    let (id, of) = (event.id, relay.max_attempts);
    match next {
        AfterRefusal::Dead(_) => {
            tracing::error!(%id, kind, attempt, of, error, "an event was refused, and is dead: look at it, and requeue or discard it");
        }
        AfterRefusal::Retry(_) => {
            tracing::warn!(%id, kind, attempt, of, error, "an event was refused; it is tried again");
        }
    }
    Refusal {
        seq: event.seq,
        error,
        next,
    }
}

/// Publishes events, and finds out who is to blame when the other side breaks off: in smaller and smaller parts, until
/// the one is alone. Answers a type and a fate for each.
async fn publish(
    relay: &Relay,
    mut events: Vec<Outgoing>,
    is_good: impl Fn() -> bool,
) -> (Vec<(String, Fate)>, Option<Outage>) {
    let sink = &*relay.sink;
    let too_late = || Outage::new("the claim could not be relied on any more");
    if events.is_empty() || !is_good() {
        let fates = events
            .into_iter()
            .map(|event| (event.kind, Fate::Unsent(too_late())))
            .collect();
        return (fates, None);
    }
    let mut fates = padded(sink.publish(&events).await, events.len());
    let mut outage = outage_of(&fates);
    let mut parts = VecDeque::from(halves(&suspects(&fates, 0..events.len())));
    while let Some(part) = parts.pop_front() {
        let stop = outage.clone().or_else(|| (!is_good()).then(too_late));
        if let Some(reason) = stop {
            for place in part {
                fates[place] = Fate::Doubtful(reason.clone());
            }
            continue;
        }
        let again: Vec<Outgoing> = part
            .iter()
            .map(|place| {
                events[*place].possible_duplicate = true;
                events[*place].clone()
            })
            .collect();
        let found = padded(sink.publish(&again).await, again.len());
        outage = outage_of(&found);
        for (place, fate) in part.iter().zip(found) {
            fates[*place] = fate;
        }
        if part.len() > 1 {
            for half in halves(&suspects(&fates, part)).into_iter().rev() {
                parts.push_front(half);
            }
        }
    }
    let fates = events.into_iter().map(|event| event.kind).zip(fates);
    (fates.collect(), outage)
}

/// A sink that answers for too few leaves the others in doubt.
fn padded(mut fates: Vec<Fate>, many: usize) -> Vec<Fate> {
    fates.resize_with(many, || {
        Fate::Doubtful(Outage::new("the sink did not answer for every event"))
    });
    fates
}

fn outage_of(fates: &[Fate]) -> Option<Outage> {
    fates.iter().find_map(|fate| match fate {
        Fate::Unsent(outage) | Fate::Doubtful(outage) => Some(outage.clone()),
        Fate::Sent | Fate::Refused(_) | Fate::Suspect(_) => None,
    })
}

fn suspects(fates: &[Fate], among: impl IntoIterator<Item = usize>) -> Vec<usize> {
    among
        .into_iter()
        .filter(|place| matches!(fates[*place], Fate::Suspect(_)))
        .collect()
}

fn halves(places: &[usize]) -> Vec<Vec<usize>> {
    let (first, second) = places.split_at(places.len().div_ceil(2));
    [first, second]
        .into_iter()
        .filter(|half| !half.is_empty())
        .map(<[usize]>::to_vec)
        .collect()
}

/// Which event of a batch stands for its claim, when it is extended.
pub(super) fn first(batch: &Batch) -> Option<ItemId> {
    batch.events.first().map(|event| event.seq)
}
