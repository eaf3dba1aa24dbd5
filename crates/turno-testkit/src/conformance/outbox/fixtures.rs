//! Helpers for the rules of the outbox: single steps of a relay, and a scripted sink.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::outbox::{Archive, Event, EventState, EventView, OnDead, Relay, RelayReport};
use turno::sink::{Outage, Outgoing, PublishResult, Sink};
use turno::store::{
    AfterRefusal, ClaimedEvent, Order, OutboxClaim, OutboxSettle, OutboxSettled, Refusal,
};
use uuid::Uuid;

use crate::conformance::inbox::fixtures::LONG;

/// Creates an event with a number as payload.
pub(in crate::conformance) fn event(number: u32) -> Event {
    Event::new("TicketCreatedEvent", &number)
}

/// Emits events outside a transaction.
pub(in crate::conformance) async fn emit(turno: &Turno, events: &[Event]) -> Vec<Uuid> {
    turno.outbox().emit_many(events).await.unwrap()
}

/// Emits `each` events per key, in turns; their payloads count from zero.
pub(in crate::conformance) async fn emit_keyed(
    turno: &Turno,
    keys: &[&str],
    each: u32,
) -> Vec<Uuid> {
    let mut number = 0;
    let mut events = Vec::new();
    for _ in 0..each {
        for key in keys {
            events.push(event(number).ordering_key(key));
            number += 1;
        }
    }
    emit(turno, &events).await
}

/// A relay's claim.
#[derive(Debug)]
pub(in crate::conformance) struct Taken {
    pub(in crate::conformance) token: Uuid,
    pub(in crate::conformance) events: Vec<ClaimedEvent>,
}

impl Taken {
    /// Returns the numbers in the events' payloads.
    pub(in crate::conformance) fn numbers(&self) -> Vec<u32> {
        self.events.iter().map(number).collect()
    }
}

fn number(event: &ClaimedEvent) -> u32 {
    let stored: serde_json::Value = serde_json::from_str(&event.event).unwrap();
    stored["payload"].as_u64().unwrap().try_into().unwrap()
}

pub(in crate::conformance) fn ask(limit: u32, order: Order) -> OutboxClaim {
    OutboxClaim {
        relay: "r".into(),
        limit,
        lease: LONG,
        order,
        token: Uuid::now_v7(),
    }
}

/// Claims up to `limit` events.
pub(in crate::conformance) async fn take(turno: &Turno, limit: u32, order: Order) -> Taken {
    let ask = ask(limit, order);
    Taken {
        token: ask.token,
        events: turno.store().outbox_claim(&ask).await.unwrap(),
    }
}

/// Returns a settlement that marks nothing as sent.
pub(in crate::conformance) fn settlement(taken: &Taken) -> OutboxSettle {
    OutboxSettle {
        token: taken.token,
        sent: Vec::new(),
        refused: Vec::new(),
        doubtful: Vec::new(),
        deferred: Vec::new(),
        archive: Archive::Ids,
        request: Uuid::now_v7(),
    }
}

pub(in crate::conformance) async fn settle(turno: &Turno, ask: &OutboxSettle) -> OutboxSettled {
    turno.store().outbox_settle(ask).await.unwrap()
}

/// Settles all events as sent.
pub(in crate::conformance) async fn send(turno: &Turno, taken: &Taken) {
    let sent = all_sent(taken);
    let many = taken.events.len() as u64;
    let settled = settle(turno, &sent).await;
    assert_eq!((settled.sent, settled.stale), (many, 0));
}

pub(in crate::conformance) fn all_sent(taken: &Taken) -> OutboxSettle {
    OutboxSettle {
        sent: taken.events.iter().map(|event| event.seq).collect(),
        ..settlement(taken)
    }
}

pub(in crate::conformance) fn refusal(event: &ClaimedEvent, next: AfterRefusal) -> Refusal {
    Refusal {
        seq: event.seq,
        error: "unroutable".into(),
        next,
    }
}

/// Makes all events dead.
pub(in crate::conformance) async fn kill(turno: &Turno, taken: &Taken, on_dead: OnDead) {
    let dead = OutboxSettle {
        refused: taken
            .events
            .iter()
            .map(|event| refusal(event, AfterRefusal::Dead(on_dead)))
            .collect(),
        ..settlement(taken)
    };
    let settled = settle(turno, &dead).await;
    assert_eq!(settled.refused, taken.events.len() as u64);
}

/// Returns the numbers of pending, scheduled, processing, dispatched, dead and blocked events, in the order of
/// [`EventState::LISTED`].
pub(in crate::conformance) async fn counts(turno: &Turno) -> [u64; 6] {
    let stats = turno.outbox().stats().await.unwrap();
    let counts = [
        stats.pending,
        stats.scheduled,
        stats.processing,
        stats.dispatched,
        stats.dead,
        stats.blocked,
    ];
    assert_eq!(stats.total, counts.iter().sum::<u64>(), "{stats:?}");
    counts
}

/// Returns all events in a state.
pub(in crate::conformance) async fn list(turno: &Turno, state: EventState) -> Vec<EventView> {
    turno.outbox().list(state, None, 1000).await.unwrap()
}

/// A sink in memory: it keeps the events that it gets, and handles the next batches as scripted.
#[derive(Debug, Default)]
pub(in crate::conformance) struct Scripted {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    got: Vec<Outgoing>,
    batches: Vec<usize>,
    script: VecDeque<Act>,
    down: bool,
}

/// Scripted behaviour for a batch.
#[derive(Debug, Clone)]
pub(in crate::conformance) enum Act {
    /// Rejects the events with these payloads, every time.
    Refuse(Vec<String>),
    /// Closes the connection when it gets one of these payloads, every time.
    Poisoned(Vec<String>),
    /// Accepts this many events and then becomes unavailable, until [`Scripted::heal`].
    GoAway(usize),
}

impl Scripted {
    pub(in crate::conformance) fn new(script: impl IntoIterator<Item = Act>) -> Arc<Self> {
        let sink = Scripted::default();
        sink.state.lock().unwrap().script.extend(script);
        Arc::new(sink)
    }

    /// Makes the sink available again.
    pub(in crate::conformance) fn heal(&self) {
        self.state.lock().unwrap().down = false;
    }

    pub(in crate::conformance) fn is_down(&self) -> bool {
        self.state.lock().unwrap().down
    }

    /// Returns the received events, in order.
    pub(in crate::conformance) fn got(&self) -> Vec<Outgoing> {
        self.state.lock().unwrap().got.clone()
    }

    pub(in crate::conformance) fn payloads(&self) -> Vec<String> {
        self.got().into_iter().map(|event| event.payload).collect()
    }

    /// Returns the sizes of the received batches.
    pub(in crate::conformance) fn batches(&self) -> Vec<usize> {
        self.state.lock().unwrap().batches.clone()
    }
}

#[async_trait]
impl Sink for Scripted {
    fn name(&self) -> String {
        "a scripted sink".into()
    }

    async fn ready(&self) -> Result<(), Outage> {
        match self.is_down() {
            true => Err(Outage::new("it is away")),
            false => Ok(()),
        }
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        let mut state = self.state.lock().unwrap();
        state.batches.push(events.len());
        if state.down {
            return vec![PublishResult::Unsent(Outage::new("it is away")); events.len()];
        }
        match state.script.front().cloned() {
            None => {
                state.got.extend(events.iter().cloned());
                vec![PublishResult::Sent; events.len()]
            }
            Some(Act::Refuse(payloads)) => events
                .iter()
                .map(|event| {
                    if payloads.contains(&event.payload) {
                        return PublishResult::Refused("no consumer accepts it".into());
                    }
                    state.got.push(event.clone());
                    PublishResult::Sent
                })
                .collect(),
            Some(Act::Poisoned(payloads)) => {
                let bad = events
                    .iter()
                    .position(|event| payloads.contains(&event.payload));
                let fine = bad.unwrap_or(events.len());
                state.got.extend(events[..fine].iter().cloned());
                // Other events in flight at that time are not confirmed, either.
                let confirmed = if bad.is_some() { fine / 2 } else { fine };
                let mut fates = vec![PublishResult::Sent; confirmed];
                fates.resize(
                    events.len(),
                    PublishResult::Suspect("the channel was closed".into()),
                );
                fates
            }
            Some(Act::GoAway(after)) => {
                state.script.pop_front();
                state.down = true;
                let taken = after.min(events.len());
                state.got.extend(events[..taken].iter().cloned());
                // One event has arrived, and its confirmation has not.
                let mut fates = vec![PublishResult::Sent; taken.saturating_sub(1)];
                fates.resize(taken, PublishResult::Doubtful(Outage::new("it went away")));
                fates.resize(
                    events.len(),
                    PublishResult::Unsent(Outage::new("it went away")),
                );
                fates
            }
        }
    }
}

/// A relay that runs in the background.
pub(in crate::conformance) struct Running {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<turno::Result<RelayReport>>,
}

impl Running {
    pub(in crate::conformance) fn start(relay: Relay) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(relay.run(stop.clone().cancelled_owned()));
        Running { stop, task }
    }

    pub(in crate::conformance) async fn stop(self) -> RelayReport {
        self.stop.cancel();
        self.task.await.unwrap().unwrap()
    }

    /// Aborts the relay at any point of its work.
    pub(in crate::conformance) async fn vanish(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

/// Creates a relay with short pauses, for tests.
pub(in crate::conformance) fn relay(turno: &Turno, sink: &Arc<Scripted>) -> Relay {
    turno
        .outbox()
        .relay(sink.clone())
        .backoff(Duration::from_millis(1), Duration::from_millis(5))
}

/// Waits until this many events have arrived.
pub(in crate::conformance) async fn arrived(sink: &Scripted, many: usize) {
    crate::eventually_async(
        crate::conformance::lock::fixtures::TIMEOUT,
        "the events to arrive",
        async || (sink.got().len() >= many).then_some(()),
    )
    .await;
}

/// Waits until the outbox has these counts.
pub(in crate::conformance) async fn settles_at(turno: &Turno, expected: [u64; 6]) {
    crate::eventually_async(
        crate::conformance::lock::fixtures::TIMEOUT,
        "the outbox to settle",
        async || (counts(turno).await == expected).then_some(()),
    )
    .await;
}
