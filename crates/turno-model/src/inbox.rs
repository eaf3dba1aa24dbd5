//! The inbox: pushes that are committed in another order than their numbers, claims that look behind the cursor, leases, and
//! completions in the transaction of their effect.

use stateright::{Model, Property};

use crate::{Number, StandsFor};

/// Number of pushes.
const PUSHES: usize = 2;
/// Number of workers.
const WORKERS: usize = 2;
/// Number of claims in a run: enough to raise the floor twice, and to look again.
const MAX_CLAIMS: Number = 4;

/// A bug that the model can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// The floor follows the cursor, whatever transactions are open.
    NoLateCommitRule,
    /// A push takes its number before its transaction has an id.
    NumberBeforeTransaction,
    /// A claim has its own transaction id before it has its turn and reads the cursor.
    OwnIdBeforeTurn,
    /// The floor is raised to the mark, whatever transactions are open.
    MarkWithoutRule,
    /// The oldest transaction is asked for after the look behind the cursor, and not before.
    OldestAfterLook,
    /// An expired claim is forgotten, and its items stay behind the floor.
    ExpiredClaimForgotten,
    /// A completion does not compare the token of the claim.
    CompleteWithoutToken,
    /// Claims do not take turns.
    NoTurns,
}

/// All bugs.
pub const FLAWS: [Flaw; 8] = [
    Flaw::NoLateCommitRule,
    Flaw::NumberBeforeTransaction,
    Flaw::OwnIdBeforeTurn,
    Flaw::MarkWithoutRule,
    Flaw::OldestAfterLook,
    Flaw::ExpiredClaimForgotten,
    Flaw::CompleteWithoutToken,
    Flaw::NoTurns,
];

/// The inbox, its clients and its workers.
#[derive(Debug, Clone, Copy)]
pub struct Inbox {
    /// The bug, if any.
    pub flaw: Option<Flaw>,
}

/// Transaction of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Push {
    transaction: Option<Number>,
    id: Option<Number>,
    is_committed: bool,
    is_rolled_back: bool,
}

/// A claim that a worker is making.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Claiming {
    at: Number,
    floor: Number,
    own: Number,
    /// What it has found, as bits of ids.
    found: Number,
    new_floor: Number,
    new_mark: Option<Mark>,
    has_looked: bool,
}

/// A position of the cursor, and the transaction id of the claim that was there: when all transactions up to that id have ended, it
/// becomes the floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark {
    at: Number,
    own: Number,
}

/// A worker: the claim that it makes, and the one that it works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Worker {
    claiming: Option<Claiming>,
    /// Transaction id that it has before its turn.
    early: Option<Number>,
    /// Token and items of its claim, as it believes.
    claim: Option<(Number, Number)>,
}

/// A claim in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Claim {
    token: Number,
    items: Number,
    has_expired: bool,
}

/// State of all.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct State {
    pushes: [Push; PUSHES],
    workers: [Worker; WORKERS],
    claims: Vec<Claim>,
    next_transaction: Number,
    next_id: Number,
    tokens: Number,
    /// The cursor: all claims so far have looked up to here.
    at: Number,
    /// Below it, no item can appear any more.
    floor: Number,
    mark: Option<Mark>,
    /// Items that were given back, and are found wherever they are.
    due: Number,
    /// Items with an effect, as bits, and whether one has two.
    done: Number,
    has_doubled: bool,
    found_late: bool,
    refused: bool,
}

/// What can happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The transaction of a push gets its id.
    Begin(usize),
    /// A push takes its number.
    TakeNumber(usize),
    /// A push is committed.
    CommitPush(usize),
    /// A push is rolled back.
    RollBack(usize),
    /// The transaction of a claim gets its id, before its turn.
    OwnId(usize),
    /// A claim has its turn, reads the cursor, and has a transaction id of its own.
    ReadCursor(usize),
    /// A claim looks at what was committed behind the cursor.
    LookBehind(usize),
    /// A claim takes what is in line, moves the cursor, and is committed.
    Take(usize),
    /// A claim expires.
    Expire(usize),
    /// Expired claims are given back.
    Abandon,
    /// A worker commits its effects, and completes its items in the same transaction.
    Complete(usize),
    /// A worker ends, and forgets all.
    Crash(usize),
}

/// What the actions stand for.
pub const STANDS_FOR: &[StandsFor] = &[
    StandsFor::sql("Begin", "inbox_push.sql", "inbox_push"),
    StandsFor::sql("TakeNumber", "inbox_push.sql", "inbox_push_batch"),
    StandsFor::sql("ReadCursor", "inbox_attempt.sql", "inbox_last_cursor"),
    StandsFor::sql("LookBehind", "inbox_attempt.sql", "inbox_claim_late"),
    StandsFor::sql("LookBehind", "inbox_attempt.sql", "inbox_raise_floor"),
    StandsFor::sql("Take", "inbox_claim.sql", "inbox_claim_batch"),
    StandsFor::sql("Abandon", "inbox_attempt.sql", "inbox_abandon"),
    StandsFor::sql("Complete", "inbox_settle.sql", "inbox_complete_one"),
    StandsFor::world("OwnId", "an earlier statement of the caller's transaction"),
    StandsFor::world("CommitPush", "the commit of the caller"),
    StandsFor::world("RollBack", "the rollback of the caller"),
    StandsFor::world("Expire", "the clock of the database"),
    StandsFor::world("Crash", "kill -9"),
];

/// The bit of an id, which begins at 1.
fn bit(id: Number) -> Number {
    1 << (id - 1)
}

impl State {
    /// Items that are committed, not done, and in a range of ids.
    fn there(&self, above: Number, up_to: Number) -> Number {
        self.pushes
            .iter()
            .filter(|push| push.is_committed)
            .filter_map(|push| push.id)
            .filter(|id| *id > above && *id <= up_to && self.done & bit(*id) == 0)
            .fold(0, |items, id| items | bit(id))
    }

    fn claimed(&self) -> Number {
        self.claims
            .iter()
            .fold(0, |items, claim| items | claim.items)
    }

    /// The oldest transaction that is open.
    fn oldest(&self) -> Number {
        let is_open = |push: &&Push| !push.is_committed && !push.is_rolled_back;
        let pushes = self.pushes.iter().filter(is_open);
        pushes
            .filter_map(|push| push.transaction)
            .chain([self.next_transaction + 1])
            .min()
            .unwrap_or(0)
    }

    fn begin(&mut self) -> Number {
        self.next_transaction += 1;
        self.next_transaction
    }
}

impl Model for Inbox {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, push) in state.pushes.iter().enumerate() {
            let numbers_first = self.flaw == Some(Flaw::NumberBeforeTransaction);
            match (push.transaction, push.id) {
                (None, None) if numbers_first => actions.push(Action::TakeNumber(index)),
                (None, Some(_)) if numbers_first => actions.push(Action::Begin(index)),
                (None, _) => actions.push(Action::Begin(index)),
                (Some(_), None) => actions.push(Action::TakeNumber(index)),
                (Some(_), Some(_)) if !push.is_committed && !push.is_rolled_back => {
                    actions.extend([Action::CommitPush(index), Action::RollBack(index)]);
                }
                _ => {}
            }
            // The pushes are alike: the next one begins when this one has.
            if push.transaction.is_none() && push.id.is_none() {
                break;
            }
        }
        let has_turn = state.workers.iter().all(|worker| worker.claiming.is_none());
        for (index, worker) in state.workers.iter().enumerate() {
            match worker.claiming {
                Some(claiming) if !claiming.has_looked => actions.push(Action::LookBehind(index)),
                Some(_) => actions.push(Action::Take(index)),
                None if worker.claim.is_some() => {
                    actions.extend([Action::Complete(index), Action::Crash(index)]);
                }
                None if state.tokens < MAX_CLAIMS
                    && (has_turn || self.flaw == Some(Flaw::NoTurns)) =>
                {
                    actions.push(Action::ReadCursor(index));
                    if self.flaw == Some(Flaw::OwnIdBeforeTurn) && worker.early.is_none() {
                        actions.push(Action::OwnId(index));
                    }
                }
                None => {}
            }
        }
        for index in 0..state.claims.len() {
            if !state.claims[index].has_expired {
                actions.push(Action::Expire(index));
            }
        }
        if has_turn && state.claims.iter().any(|claim| claim.has_expired) {
            actions.push(Action::Abandon);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut after = state.clone();
        match action {
            Action::Begin(index) => after.pushes[index].transaction = Some(after.begin()),
            Action::TakeNumber(index) => {
                after.next_id += 1;
                after.pushes[index].id = Some(after.next_id);
            }
            Action::CommitPush(index) => {
                after.pushes[index].is_committed = true;
                after.found_late |= after.pushes[index].id? <= after.at;
            }
            // Its number is never used again.
            Action::RollBack(index) => after.pushes[index].is_rolled_back = true,
            Action::OwnId(index) => after.workers[index].early = Some(after.begin()),
            Action::ReadCursor(index) => {
                after.tokens += 1;
                let own = match after.workers[index].early.take() {
                    Some(own) => own,
                    None => after.begin(),
                };
                after.workers[index].claiming = Some(Claiming {
                    at: after.at,
                    floor: after.floor,
                    own,
                    found: 0,
                    new_floor: after.floor,
                    new_mark: after.mark,
                    has_looked: false,
                });
            }
            Action::LookBehind(index) => self.look(&mut after, index)?,
            Action::Take(index) => self.take(&mut after, index)?,
            Action::Expire(index) => after.claims[index].has_expired = true,
            Action::Abandon => {
                let (over, live): (Vec<Claim>, Vec<Claim>) =
                    after.claims.iter().partition(|claim| claim.has_expired);
                after.claims = live;
                if self.flaw != Some(Flaw::ExpiredClaimForgotten) {
                    after.due |= over.iter().fold(0, |items, claim| items | claim.items);
                }
            }
            Action::Complete(index) => {
                let (token, items) = after.workers[index].claim.take()?;
                let is_live = after.claims.iter().any(|claim| claim.token == token);
                if is_live || self.flaw == Some(Flaw::CompleteWithoutToken) {
                    after.has_doubled |= after.done & items != 0;
                    after.done |= items;
                    after.claims.retain(|claim| claim.token != token);
                } else {
                    after.refused = true;
                }
            }
            Action::Crash(index) => after.workers[index].claim = None,
        }
        Some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no item is out of reach", |_, state: &State| {
                let below = state.there(0, state.floor);
                below & !state.claimed() & !state.due == 0
            }),
            Property::always("one effect", |_, state: &State| !state.has_doubled),
            Property::always("one claim", |_, state: &State| {
                let items = state.claims.iter().map(|claim| claim.items);
                items.clone().map(Number::count_ones).sum::<u32>()
                    == items.fold(0, |all, items| all | items).count_ones()
            }),
            // The model does what it is for.
            Property::sometimes("an item is committed late", |_, state: &State| {
                state.found_late
            }),
            Property::sometimes("a late completion is refused", |_, state: &State| {
                state.refused
            }),
            Property::sometimes("all is done", |_, state: &State| {
                state.done.count_ones() as usize == PUSHES
            }),
        ]
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.next_transaction < 12
    }
}

impl Inbox {
    /// Takes what was committed between the floor and the cursor, and raises the floor.
    fn look(self, state: &mut State, index: usize) -> Option<()> {
        let mut claiming = state.workers[index].claiming?;
        claiming.found = state.there(claiming.floor, claiming.at) & !state.claimed();
        claiming.has_looked = true;
        self.raise_floor(&mut claiming, state.oldest());
        state.workers[index].claiming = Some(claiming);
        Some(())
    }

    /// As `inbox_raise_floor` does.
    fn raise_floor(self, claiming: &mut Claiming, oldest: Number) {
        if oldest >= claiming.own || self.flaw == Some(Flaw::NoLateCommitRule) {
            claiming.new_floor = claiming.at;
            claiming.new_mark = None;
        } else if let Some(mark) = claiming.new_mark
            && (oldest > mark.own || self.flaw == Some(Flaw::MarkWithoutRule))
        {
            claiming.new_floor = mark.at;
            claiming.new_mark = None;
        }
        if claiming.new_mark.is_none() {
            claiming.new_mark = Some(Mark {
                at: claiming.at,
                own: claiming.own,
            });
        }
    }

    /// Takes what is in line and what was given back.
    fn take(self, state: &mut State, index: usize) -> Option<()> {
        let mut claiming = state.workers[index].claiming.take()?;
        if self.flaw == Some(Flaw::OldestAfterLook) {
            self.raise_floor(&mut claiming, state.oldest());
        }
        let line = state.there(claiming.at, Number::MAX) & !state.claimed();
        let items = (claiming.found & !state.done) | line | (state.due & !state.done);
        let furthest = (Number::BITS - line.leading_zeros()) as Number;
        state.due = 0;
        state.at = claiming.at.max(furthest).max(state.at);
        state.floor = claiming.new_floor.max(state.floor);
        state.mark = claiming.new_mark;
        if items != 0 {
            let token = claiming.own;
            state.claims.push(Claim {
                token,
                items,
                has_expired: false,
            });
            state.claims.sort_by_key(|claim| claim.token);
            state.workers[index].claim = Some((token, items));
        }
        Some(())
    }
}
