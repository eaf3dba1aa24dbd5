//! A lock with exclusive and shared holds, and the guard of an application's transaction.

use stateright::{Model, Property};

use crate::{Number, StandsFor};

/// Number of clients.
const CLIENTS: usize = 3;
/// Number of grants in a run: enough for a takeover, a purge, and a late client.
const MAX_GRANTS: Number = 4;

/// A bug that the model can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// The guard looks at the lease, and does not lock its row.
    GuardWithoutRowLock,
    /// The guard does not lock the row of a shared hold.
    SharedGuardWithoutRowLock,
    /// The guard asks whether the lock is held, and not by which token.
    GuardWithoutToken,
    /// The token is a counter in the lock's row, which a purge deletes.
    TokenFromCounter,
    /// A lease is taken over before it has expired.
    TakeoverBeforeExpiry,
    /// A release does not compare the token.
    ReleaseWithoutToken,
    /// A shared hold is granted beside an exclusive one.
    SharedBesideExclusive,
}

/// All bugs.
pub const FLAWS: [Flaw; 7] = [
    Flaw::GuardWithoutRowLock,
    Flaw::SharedGuardWithoutRowLock,
    Flaw::GuardWithoutToken,
    Flaw::TokenFromCounter,
    Flaw::TakeoverBeforeExpiry,
    Flaw::ReleaseWithoutToken,
    Flaw::SharedBesideExclusive,
];

/// The lock and its clients.
#[derive(Debug, Clone, Copy)]
pub struct Lock {
    /// The bug, if any.
    pub flaw: Option<Flaw>,
}

/// A hold, as the store has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hold {
    token: Number,
    is_shared: bool,
    has_expired: bool,
}

/// A client: its lease, as it believes, and its open transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Client {
    lease: Option<Number>,
    /// Its lease has not expired, and it has not released it.
    is_live: bool,
    is_shared: bool,
    /// The guard has let its transaction pass, which is not committed yet.
    is_guarded: bool,
}

/// State of all.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct State {
    holds: Vec<Hold>,
    /// The last token.
    last: Number,
    grants: Number,
    clients: [Client; CLIENTS],
    newest: Number,
    newest_exclusive: Number,
    /// Something that must not happen has happened.
    wrote_stale: bool,
    repeated_token: bool,
    took_over: bool,
    refused: bool,
}

/// What can happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A client acquires the lock alone.
    Acquire(usize),
    /// A client acquires it together with others.
    Share(usize),
    /// A lease expires.
    Expire(usize),
    /// A client releases its lease, whether or not it still has it.
    Release(usize),
    /// A client asks the guard, as the last statement of its transaction.
    Guard(usize),
    /// A client commits that transaction.
    Commit(usize),
    /// A client ends, and forgets all.
    Crash(usize),
    /// The row of a free lock is deleted.
    Purge,
}

/// What the actions stand for.
pub const STANDS_FOR: &[StandsFor] = &[
    StandsFor::sql("Acquire", "lock_acquire.sql", "lock_take"),
    StandsFor::sql("Share", "lock_share.sql", "lock_share"),
    StandsFor::sql("Release", "lock_release.sql", "lock_release"),
    StandsFor::sql("Guard", "lock_release.sql", "lock_guard"),
    StandsFor::sql("Purge", "admin.sql", "sweep"),
    StandsFor::world("Expire", "the clock of the database"),
    StandsFor::world("Commit", "the application's own transaction"),
    StandsFor::world("Crash", "kill -9"),
];

impl State {
    fn hold(&self, token: Number) -> Option<usize> {
        self.holds.iter().position(|hold| hold.token == token)
    }

    /// Whether an open transaction has the row of a hold, which no other client can change until it ends.
    fn is_locked(&self, hold: &Hold, flaw: Option<Flaw>) -> bool {
        let is_without = match flaw {
            Some(Flaw::GuardWithoutRowLock) => true,
            Some(Flaw::SharedGuardWithoutRowLock) => hold.is_shared,
            _ => false,
        };
        !is_without
            && self
                .clients
                .iter()
                .any(|client| client.is_guarded && client.lease == Some(hold.token))
    }
}

impl Model for Lock {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, client) in state.clients.iter().enumerate() {
            if client.lease.is_none() && state.grants < MAX_GRANTS {
                actions.extend([Action::Acquire(index), Action::Share(index)]);
            }
            if client.is_live {
                actions.push(Action::Expire(index));
            }
            if client.lease.is_some() && !client.is_guarded {
                actions.extend([Action::Release(index), Action::Guard(index)]);
            }
            if client.is_guarded {
                actions.push(Action::Commit(index));
            }
            if client.lease.is_some() {
                actions.push(Action::Crash(index));
            }
        }
        if state.holds.is_empty() && state.last > 0 {
            actions.push(Action::Purge);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut after = state.clone();
        match action {
            Action::Acquire(index) => self.grant(&mut after, index, false)?,
            Action::Share(index) => self.grant(&mut after, index, true)?,
            Action::Expire(index) => {
                let client = &mut after.clients[index];
                client.is_live = false;
                let token = client.lease?;
                if let Some(hold) = after.hold(token) {
                    after.holds[hold].has_expired = true;
                }
            }
            Action::Release(index) => {
                let token = after.clients[index].lease?;
                let hold = if self.flaw == Some(Flaw::ReleaseWithoutToken) {
                    (!after.holds.is_empty()).then_some(0)
                } else {
                    after.hold(token)
                };
                if let Some(hold) = hold {
                    if after.is_locked(&after.holds[hold], self.flaw) {
                        return None;
                    }
                    after.holds.remove(hold);
                }
                after.clients[index] = Client::default();
            }
            Action::Guard(index) => {
                let token = after.clients[index].lease?;
                let passes = if self.flaw == Some(Flaw::GuardWithoutToken) {
                    after.holds.iter().any(|hold| !hold.has_expired)
                } else {
                    after
                        .hold(token)
                        .is_some_and(|hold| !after.holds[hold].has_expired)
                };
                if passes {
                    after.clients[index].is_guarded = true;
                } else {
                    after.refused = true;
                    after.clients[index] = Client::default();
                }
            }
            Action::Commit(index) => {
                let client = &mut after.clients[index];
                let token = client.lease?;
                client.is_guarded = false;
                // The newest holder may write, and those that share the lock with it.
                let limit = if client.is_shared {
                    after.newest_exclusive
                } else {
                    after.newest
                };
                after.wrote_stale |= token < limit;
            }
            Action::Crash(index) => {
                // The connection ends, and with it its transaction. The lease stays until it expires.
                let token = after.clients[index].lease?;
                after.clients[index] = Client::default();
                if let Some(hold) = after.hold(token) {
                    after.holds[hold].has_expired = true;
                }
            }
            Action::Purge => {
                if self.flaw == Some(Flaw::TokenFromCounter) {
                    after.last = 0;
                } else {
                    return None;
                }
            }
        }
        Some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one holder", |_, state: &State| {
                let live = || state.clients.iter().filter(|client| client.is_live);
                live().count() < 2 || live().all(|client| client.is_shared)
            }),
            Property::always("no stale write", |_, state: &State| !state.wrote_stale),
            Property::always("a token is granted once", |_, state: &State| {
                !state.repeated_token
            }),
            // The model does what it is for.
            Property::sometimes("a lease is taken over", |_, state: &State| state.took_over),
            Property::sometimes("the guard refuses", |_, state: &State| state.refused),
            Property::sometimes("two share it", |_, state: &State| {
                let live = state.clients.iter().filter(|client| client.is_live);
                live.filter(|client| client.is_shared).count() == 2
            }),
        ]
    }
}

impl Lock {
    fn grant(self, state: &mut State, index: usize, is_shared: bool) -> Option<()> {
        let mut kept = Vec::new();
        for hold in &state.holds {
            let is_beside =
                is_shared && (hold.is_shared || self.flaw == Some(Flaw::SharedBesideExclusive));
            let is_over = hold.has_expired || self.flaw == Some(Flaw::TakeoverBeforeExpiry);
            if is_beside && !hold.has_expired {
                kept.push(*hold);
            } else if !is_over || state.is_locked(hold, self.flaw) {
                return None;
            } else {
                state.took_over = true;
            }
        }
        let token = state.last + 1;
        state.repeated_token |= token <= state.newest;
        state.last = token;
        state.grants += 1;
        state.newest = state.newest.max(token);
        if !is_shared {
            state.newest_exclusive = state.newest_exclusive.max(token);
        }
        kept.push(Hold {
            token,
            is_shared,
            has_expired: false,
        });
        state.holds = kept;
        state.clients[index] = Client {
            lease: Some(token),
            is_live: true,
            is_shared,
            is_guarded: false,
        };
        Some(())
    }
}
