//! Publishes one batch, and collects the result of each event.

use std::collections::{BTreeMap, VecDeque};

use tokio::time::Instant;
use uuid::Uuid;

use super::Relay;
use super::routes::{Admission, Routes};
use crate::sink::{Outage, Outgoing, PublishResult, routing_key};
use crate::store::{
    AfterRefusal, ClaimedEvent, Deferral, Envelope, ItemId, OnDead, OutboxSettle, Refusal,
};

/// Events of one claim.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) token: Uuid,
    pub(super) events: Vec<ClaimedEvent>,
}

/// Results of a batch.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) settle: OutboxSettle,
    pub(super) verdict: Verdict,
    /// Number of events that the sink dropped.
    pub(super) skipped: u64,
}

/// What the results of a batch say about the sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The sink has accepted or refused events.
    Answered,
    /// The sink is unavailable.
    Outage(Outage),
    /// Nothing was published.
    Unknown,
}

impl Batch {
    /// Returns a settlement that gives back all events.
    pub(super) fn unpublished(&self, relay: &Relay) -> OutboxSettle {
        OutboxSettle {
            token: self.token,
            sent: Vec::new(),
            refused: Vec::new(),
            doubtful: Vec::new(),
            deferred: Vec::new(),
            archive: relay.archive,
            request: Uuid::now_v7(),
        }
    }

    /// Publishes the events while the claim is valid. Events of types whose destination is unavailable are deferred.
    pub(super) async fn publish(
        &self,
        relay: &Relay,
        routes: &Routes,
        good_until: impl Fn() -> Option<Instant>,
    ) -> Published {
        let mut settle = self.unpublished(relay);
        let mut ready = Vec::with_capacity(self.events.len());
        for event in &self.events {
            match read(event) {
                Ok(outgoing) => ready.push((event.seq, event, outgoing)),
                Err(refusal) => settle.refused.push(refusal),
            }
        }
        let admitted = routes.admit(
            ready.iter().map(|(.., outgoing)| outgoing.kind.as_str()),
            Instant::now(),
        );
        let mut outgoing = Vec::with_capacity(ready.len());
        let mut places = Vec::with_capacity(ready.len());
        let mut put_off = Vec::new();
        for ((seq, event, ready), admission) in ready.into_iter().zip(admitted) {
            match admission {
                Admission::Now => {
                    outgoing.push(ready);
                    places.push(event);
                }
                Admission::Later => put_off.push((seq, ready.kind)),
            }
        }
        let is_good = || good_until().is_some_and(|until| Instant::now() < until);
        let (results, outage) = publish(relay, outgoing, is_good).await;
        let verdict = match outage {
            Some(outage) => Verdict::Outage(outage),
            None if results.iter().any(|(_, result)| is_answer(result)) => Verdict::Answered,
            None => Verdict::Unknown,
        };
        note(routes, &results);
        let mut skipped = 0;
        for (event, (kind, result)) in places.into_iter().zip(results) {
            match result {
                PublishResult::Sent => settle.sent.push(event.seq),
                PublishResult::Dropped(reason) => {
                    tracing::info!(id = %event.id, kind, reason, "an event was dropped, and counts as dispatched");
                    settle.sent.push(event.seq);
                    skipped += 1;
                }
                PublishResult::Refused(error) | PublishResult::Suspect(error) => {
                    settle.refused.push(refused(relay, event, &kind, error));
                }
                PublishResult::Unsent(_) => {}
                PublishResult::Unrouted(_) => put_off.push((event.seq, kind)),
                PublishResult::Doubtful(_) => settle.doubtful.push(event.seq),
                PublishResult::Busy(_) => {
                    settle.doubtful.push(event.seq);
                    put_off.push((event.seq, kind));
                }
            }
        }
        let now = Instant::now();
        let deferral = |(seq, kind): (ItemId, String)| Deferral {
            seq,
            delay: routes.delay(&kind, now),
        };
        settle.deferred = put_off.into_iter().map(deferral).collect();
        Published {
            settle,
            verdict,
            skipped,
        }
    }
}

/// Returns the event for a sink, or a refusal if it cannot be published at all.
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
    if event.id.is_nil() {
        let error = "the event is stored without its id: it was not emitted by Turno".to_owned();
        return Err(set_aside(error, OnDead::Skip));
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

/// Returns what happens to an event that the sink has refused: a retry, or it is dead.
fn refused(relay: &Relay, event: &ClaimedEvent, kind: &str, error: String) -> Refusal {
    let attempt = event.refused + 1;
    let of = relay.max_attempts_or_default();
    let next = if attempt >= of {
        AfterRefusal::Dead(relay.on_dead_of(kind))
    } else {
        AfterRefusal::Retry(relay.backoff.after(attempt))
    };
    let id = event.id;
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

/// Publishes events. If the sink breaks off, it publishes the suspects again in smaller and smaller parts, until the event that
/// causes it is alone. Returns the type and the result of each event.
async fn publish(
    relay: &Relay,
    mut events: Vec<Outgoing>,
    is_good: impl Fn() -> bool,
) -> (Vec<(String, PublishResult)>, Option<Outage>) {
    let sink = &*relay.sink;
    let too_late = || Outage::new("the claim could not be relied on any more");
    if events.is_empty() || !is_good() {
        let results = events
            .into_iter()
            .map(|event| (event.kind, PublishResult::Unsent(too_late())))
            .collect();
        return (results, None);
    }
    let mut results = padded(sink.publish(&events).await, events.len());
    let mut outage = outage_of(&results);
    let mut parts = VecDeque::from(halves(&suspects(&results, 0..events.len())));
    while let Some(part) = parts.pop_front() {
        let stop = outage.clone().or_else(|| (!is_good()).then(too_late));
        if let Some(reason) = stop {
            for place in part {
                results[place] = PublishResult::Doubtful(reason.clone());
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
        for (place, result) in part.iter().zip(found) {
            results[*place] = result;
        }
        if part.len() > 1 {
            for half in halves(&suspects(&results, part)).into_iter().rev() {
                parts.push_front(half);
            }
        }
    }
    for (event, _) in events
        .iter()
        .zip(&results)
        .filter(|(_, result)| matches!(result, PublishResult::Sent))
    {
        tracing::debug!(
            id = %event.id,
            kind = event.kind,
            routing_key = routing_key(&event.kind),
            correlation_id = event.correlation_id,
            possible_duplicate = event.possible_duplicate,
            "an event was published"
        );
    }
    let results = events.into_iter().map(|event| event.kind).zip(results);
    (results.collect(), outage)
}

/// Adds doubtful results if the sink has returned too few.
fn padded(mut results: Vec<PublishResult>, many: usize) -> Vec<PublishResult> {
    results.resize_with(many, || {
        PublishResult::Doubtful(Outage::new("the sink did not answer for every event"))
    });
    results
}

fn outage_of(results: &[PublishResult]) -> Option<Outage> {
    results.iter().find_map(|result| match result {
        PublishResult::Unsent(outage) | PublishResult::Doubtful(outage) => Some(outage.clone()),
        PublishResult::Sent
        | PublishResult::Dropped(_)
        | PublishResult::Refused(_)
        | PublishResult::Suspect(_)
        | PublishResult::Unrouted(_)
        | PublishResult::Busy(_) => None,
    })
}

/// Returns whether the sink was available.
fn is_answer(result: &PublishResult) -> bool {
    match result {
        PublishResult::Sent
        | PublishResult::Dropped(_)
        | PublishResult::Refused(_)
        | PublishResult::Suspect(_)
        | PublishResult::Unrouted(_)
        | PublishResult::Busy(_) => true,
        PublishResult::Unsent(_) | PublishResult::Doubtful(_) => false,
    }
}

/// Records which types were accepted, and which met an outage.
fn note(routes: &Routes, results: &[(String, PublishResult)]) {
    let mut outages: BTreeMap<&str, Option<&Outage>> = BTreeMap::new();
    for (kind, result) in results {
        match result {
            PublishResult::Busy(outage) | PublishResult::Unrouted(outage) => {
                outages.insert(kind, Some(outage));
            }
            PublishResult::Sent | PublishResult::Dropped(_) | PublishResult::Refused(_) => {
                outages.entry(kind).or_insert(None);
            }
            PublishResult::Suspect(_) | PublishResult::Unsent(_) | PublishResult::Doubtful(_) => {}
        }
    }
    let now = Instant::now();
    for (kind, outage) in outages {
        match outage {
            Some(outage) => routes.outage(kind, outage, now),
            None => routes.success(kind, now),
        }
    }
}

fn suspects(results: &[PublishResult], among: impl IntoIterator<Item = usize>) -> Vec<usize> {
    among
        .into_iter()
        .filter(|place| matches!(results[*place], PublishResult::Suspect(_)))
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

/// Returns the event by which the claim of a batch is extended.
pub(super) fn first(batch: &Batch) -> Option<ItemId> {
    batch.events.first().map(|event| event.seq)
}
