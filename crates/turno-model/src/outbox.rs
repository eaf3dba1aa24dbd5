//! The outbox: events in the application's transaction, relays that publish them to a broker, and the order of a key.

use stateright::{Model, Property};

use crate::{Number, StandsFor};

/// Events, and their keys: order matters only within a key.
const EVENTS: usize = 2;
const KEYS: [Number; EVENTS] = [1, 1];
/// Number of relays.
const RELAYS: usize = 2;
/// Number of claims in a run.
const MAX_CLAIMS: Number = 4;

/// A bug that the model can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// An event is marked as sent before the broker has confirmed it.
    MarkBeforeConfirm,
    /// The broker confirms what it has only in memory.
    TransientMessages,
    /// An event is there before the transaction is committed.
    EmitOutsideTransaction,
    /// An event of a key is claimed while an earlier one is in another relay's hands.
    OrderWithoutClaims,
    /// A relay marks what it claimed as sent without a look at its token, and whatever became of it.
    MarkWithoutToken,
    /// A message that is sent again has no label.
    DuplicateWithoutLabel,
}

/// All bugs.
pub const FLAWS: [Flaw; 6] = [
    Flaw::MarkBeforeConfirm,
    Flaw::TransientMessages,
    Flaw::EmitOutsideTransaction,
    Flaw::OrderWithoutClaims,
    Flaw::MarkWithoutToken,
    Flaw::DuplicateWithoutLabel,
];

/// The outbox, its relays and the broker.
#[derive(Debug, Clone, Copy)]
pub struct Outbox {
    /// The bug, if any.
    pub flaw: Option<Flaw>,
}

/// Transaction of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Transaction {
    /// Not begun, or open.
    #[default]
    Open,
    /// Committed.
    Committed,
    /// Rolled back.
    RolledBack,
}

/// An event in the store and at the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Event {
    transaction: Transaction,
    /// Token of its claim.
    claim: Option<Number>,
    has_expired: bool,
    /// It was claimed before: a message may have been sent.
    was_claimed: bool,
    is_sent: bool,
    /// Messages that the broker has in memory, and whether one of them is on its disk.
    in_memory: bool,
    is_durable: bool,
    /// The consumer has it.
    is_delivered: bool,
    unlabelled: Number,
}

/// What a relay does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Relay {
    /// Nothing.
    #[default]
    Idle,
    /// It has claimed an event.
    Claimed(Work),
    /// It has sent the message, and waits for the broker.
    Published(Work),
    /// The broker has confirmed the message.
    Confirmed(Work),
}

/// An event in a relay's hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Work {
    event: usize,
    token: Number,
    has_label: bool,
}

/// State of all.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct State {
    events: [Event; EVENTS],
    relays: [Relay; RELAYS],
    tokens: Number,
    out_of_order: bool,
    refused: bool,
}

/// What can happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The application commits the transaction of an event.
    Commit(usize),
    /// The application rolls it back.
    RollBack(usize),
    /// A relay claims an event.
    Claim(usize, usize),
    /// A relay sends the message.
    Publish(usize),
    /// The broker writes the message, confirms it, and delivers it.
    Confirm(usize),
    /// A relay marks the event as sent.
    Mark(usize),
    /// A claim expires.
    Expire(usize),
    /// The broker is killed, and starts again.
    BrokerCrash,
    /// A relay ends, and forgets all.
    Crash(usize),
}

/// What the actions stand for.
pub const STANDS_FOR: &[StandsFor] = &[
    StandsFor::sql("Commit", "outbox.sql", "outbox_emit"),
    StandsFor::sql("Claim", "outbox.sql", "outbox_claim"),
    StandsFor::sql("Mark", "outbox.sql", "outbox_settle"),
    StandsFor::world("RollBack", "the application's own transaction"),
    StandsFor::world("Publish", "a persistent message to the broker"),
    StandsFor::world("Confirm", "a publisher confirm"),
    StandsFor::world("Expire", "the clock of the database"),
    StandsFor::world("BrokerCrash", "kill -9"),
    StandsFor::world("Crash", "kill -9"),
];

impl Outbox {
    /// Whether a relay may claim an event.
    fn is_claimable(self, state: &State, index: usize) -> bool {
        let event = &state.events[index];
        let is_there = event.transaction == Transaction::Committed
            || (self.flaw == Some(Flaw::EmitOutsideTransaction)
                && event.transaction == Transaction::Open);
        let is_free = event.claim.is_none() || event.has_expired;
        let is_first = (0..index).all(|earlier| {
            let before = &state.events[earlier];
            KEYS[earlier] != KEYS[index]
                || before.is_sent
                || before.transaction == Transaction::RolledBack
                || (self.flaw == Some(Flaw::OrderWithoutClaims)
                    && before.claim.is_some()
                    && !before.has_expired)
        });
        is_there && is_free && is_first && !event.is_sent
    }
}

impl Model for Outbox {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, event) in state.events.iter().enumerate() {
            // The application writes one transaction of a key after the other.
            let is_next = (0..index).all(|earlier| {
                KEYS[earlier] != KEYS[index]
                    || state.events[earlier].transaction != Transaction::Open
            });
            if event.transaction == Transaction::Open && is_next {
                actions.extend([Action::Commit(index), Action::RollBack(index)]);
            }
            if event.claim.is_some() && !event.has_expired {
                actions.push(Action::Expire(index));
            }
        }
        for (index, relay) in state.relays.iter().enumerate() {
            match relay {
                Relay::Idle if state.tokens < MAX_CLAIMS => {
                    let claimable = (0..EVENTS).filter(|event| self.is_claimable(state, *event));
                    actions.extend(claimable.map(|event| Action::Claim(index, event)));
                }
                Relay::Idle => {}
                Relay::Claimed(_) => actions.push(Action::Publish(index)),
                Relay::Published(_) => {
                    actions.push(Action::Confirm(index));
                    if self.flaw == Some(Flaw::MarkBeforeConfirm) {
                        actions.push(Action::Mark(index));
                    }
                }
                Relay::Confirmed(_) => actions.push(Action::Mark(index)),
            }
            if *relay != Relay::Idle {
                actions.push(Action::Crash(index));
            }
            if self.flaw == Some(Flaw::MarkWithoutToken) && matches!(relay, Relay::Claimed(_)) {
                actions.push(Action::Mark(index));
            }
        }
        if state.events.iter().any(|event| event.in_memory) {
            actions.push(Action::BrokerCrash);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut after = state.clone();
        match action {
            Action::Commit(index) => after.events[index].transaction = Transaction::Committed,
            Action::RollBack(index) => after.events[index].transaction = Transaction::RolledBack,
            Action::Claim(relay, event) => {
                after.tokens += 1;
                let claimed = &mut after.events[event];
                let has_label =
                    claimed.was_claimed && self.flaw != Some(Flaw::DuplicateWithoutLabel);
                (claimed.claim, claimed.has_expired) = (Some(after.tokens), false);
                claimed.was_claimed = true;
                after.relays[relay] = Relay::Claimed(Work {
                    event,
                    token: after.tokens,
                    has_label,
                });
            }
            Action::Publish(relay) => {
                let Relay::Claimed(work) = after.relays[relay] else {
                    return None;
                };
                after.events[work.event].in_memory = true;
                after.relays[relay] = Relay::Published(work);
            }
            Action::Confirm(relay) => {
                let Relay::Published(work) = after.relays[relay] else {
                    return None;
                };
                self.deliver(&mut after, work);
                after.relays[relay] = Relay::Confirmed(work);
            }
            Action::Mark(relay) => {
                let (Relay::Claimed(work) | Relay::Published(work) | Relay::Confirmed(work)) =
                    after.relays[relay]
                else {
                    return None;
                };
                let event = &mut after.events[work.event];
                if event.claim == Some(work.token) || self.flaw == Some(Flaw::MarkWithoutToken) {
                    event.is_sent = true;
                    event.claim = None;
                } else {
                    after.refused = true;
                }
                after.relays[relay] = Relay::Idle;
            }
            Action::Expire(index) => after.events[index].has_expired = true,
            Action::BrokerCrash => {
                for event in &mut after.events {
                    event.in_memory = false;
                }
                // The connection is lost: a relay that waits gives its event back.
                for relay in &mut after.relays {
                    if let Relay::Published(work) = *relay {
                        let event = &mut after.events[work.event];
                        if event.claim == Some(work.token) {
                            (event.claim, event.has_expired) = (None, false);
                        }
                        *relay = Relay::Idle;
                    }
                }
            }
            Action::Crash(relay) => after.relays[relay] = Relay::Idle,
        }
        Some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("what is sent is with the broker", |_, state: &State| {
                let lost = |event: &Event| event.is_sent && !event.is_durable && !event.in_memory;
                !state.events.iter().any(lost)
            }),
            Property::always("what is delivered was committed", |_, state: &State| {
                let early = |event: &Event| {
                    event.is_delivered && event.transaction != Transaction::Committed
                };
                !state.events.iter().any(early)
            }),
            Property::always("a key is in order", |_, state: &State| !state.out_of_order),
            Property::always("duplicates are labelled", |_, state: &State| {
                state.events.iter().all(|event| event.unlabelled < 2)
            }),
            // The model does what it is for.
            Property::sometimes("all is sent", |_, state: &State| {
                state.events.iter().all(|event| event.is_sent)
            }),
            Property::sometimes("a late relay is refused", |_, state: &State| state.refused),
            Property::sometimes("a duplicate is delivered", |_, state: &State| {
                state
                    .events
                    .iter()
                    .any(|event| event.is_delivered && !event.is_sent && event.claim > Some(1))
            }),
        ]
    }
}

impl Outbox {
    /// The broker has the message on its disk, unless it keeps messages in memory, and the consumer gets it.
    fn deliver(self, state: &mut State, work: Work) {
        if self.flaw != Some(Flaw::TransientMessages) {
            state.events[work.event].is_durable = true;
            state.events[work.event].in_memory = false;
        }
        let earlier_is_missing = (0..work.event).any(|earlier| {
            let before = &state.events[earlier];
            KEYS[earlier] == KEYS[work.event]
                && !before.is_delivered
                && before.transaction == Transaction::Committed
        });
        let event = &mut state.events[work.event];
        state.out_of_order |= !event.is_delivered && earlier_is_missing;
        event.is_delivered = true;
        event.unlabelled += Number::from(!work.has_label);
    }
}
