//! Once: one run at a time, one answer, and the effect in the transaction of the answer.

use stateright::{Model, Property};

use crate::{Number, StandsFor};

/// Number of clients with the same request.
const CLIENTS: usize = 3;
/// Number of runs: enough for a late one, the one after it, and one more.
const MAX_RUNS: Number = 4;

/// A bug that the model can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// An answer is stored without a look at the token of the run.
    AnswerWithoutToken,
    /// A run that is not over is taken over.
    TakeoverBeforeExpiry,
    /// A key with an answer runs again.
    AnswerForgotten,
    /// The effect is committed before the answer, in a transaction of its own.
    EffectBeforeAnswer,
    /// A run without an answer is forgotten, though the caller wants to be asked.
    UnknownForgotten,
    /// A release does not compare the token of the run.
    ReleaseWithoutToken,
}

/// All bugs.
pub const FLAWS: [Flaw; 6] = [
    Flaw::AnswerWithoutToken,
    Flaw::TakeoverBeforeExpiry,
    Flaw::AnswerForgotten,
    Flaw::EffectBeforeAnswer,
    Flaw::UnknownForgotten,
    Flaw::ReleaseWithoutToken,
];

/// One key and its callers.
#[derive(Debug, Clone, Copy)]
pub struct Once {
    /// Whether a caller runs again after a run without an answer; otherwise it gets `unknown`.
    pub runs_again: bool,
    /// The bug, if any.
    pub flaw: Option<Flaw>,
}

/// The key in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Row {
    /// No run.
    #[default]
    None,
    /// A run.
    Running {
        /// Token of the run.
        token: Number,
        /// Its time is over.
        has_expired: bool,
    },
    /// The answer of a run.
    Done {
        /// Token of the run, which is its answer.
        answer: Number,
    },
}

/// State of all.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct State {
    row: Row,
    last: Number,
    /// Token of each client's run, as it believes.
    runs: [Option<Number>; CLIENTS],
    /// Runs that are certainly live: not expired, not ended.
    live: [bool; CLIENTS],
    /// Clients that have written the effect, and not the answer yet.
    half: [bool; CLIENTS],
    effects: Number,
    /// The first answer that a caller was given.
    given: Option<Number>,
    gave_another: bool,
    /// A run began after one that ended without an answer.
    ran_again: bool,
    refused: bool,
    was_unknown: bool,
}

/// What can happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A client begins its request.
    Begin(usize),
    /// The time of a client's run is over.
    Expire(usize),
    /// A client writes the effect in a transaction of its own: only with that bug.
    Effect(usize),
    /// A client commits the effect and the answer.
    Complete(usize),
    /// A client ends its run without an answer.
    Release(usize),
    /// A client ends, and forgets all.
    Crash(usize),
}

/// What the actions stand for.
pub const STANDS_FOR: &[StandsFor] = &[
    StandsFor::sql("Begin", "once.sql", "once_begin"),
    StandsFor::sql("Complete", "once.sql", "once_complete"),
    StandsFor::sql("Release", "once.sql", "once_release"),
    StandsFor::world("Expire", "the clock of the database"),
    StandsFor::world("Effect", "a commit before the answer"),
    StandsFor::world("Crash", "kill -9"),
];

impl Model for Once {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for index in 0..CLIENTS {
            if state.runs[index].is_none() {
                actions.push(Action::Begin(index));
                continue;
            }
            if state.live[index] {
                actions.push(Action::Expire(index));
            }
            if self.flaw == Some(Flaw::EffectBeforeAnswer) && !state.half[index] {
                actions.push(Action::Effect(index));
            } else {
                actions.push(Action::Complete(index));
            }
            if !state.half[index] {
                actions.push(Action::Release(index));
            }
            actions.push(Action::Crash(index));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut after = state.clone();
        match action {
            Action::Begin(index) => self.begin(&mut after, index)?,
            Action::Expire(index) => {
                after.live[index] = false;
                if let Row::Running { token, has_expired } = &mut after.row
                    && Some(*token) == after.runs[index]
                {
                    *has_expired = true;
                }
            }
            Action::Effect(index) => {
                after.effects += 1;
                after.half[index] = true;
            }
            Action::Complete(index) => {
                let token = after.runs[index].take()?;
                after.live[index] = false;
                let is_own = matches!(after.row, Row::Running { token: is, .. } if is == token);
                if is_own || self.flaw == Some(Flaw::AnswerWithoutToken) {
                    if !after.half[index] {
                        after.effects += 1;
                    }
                    after.row = Row::Done { answer: token };
                    after.give(token);
                } else {
                    after.refused = true;
                }
                after.half[index] = false;
            }
            Action::Release(index) => {
                let token = after.runs[index].take()?;
                after.live[index] = false;
                let is_own = matches!(after.row, Row::Running { token: is, .. } if is == token);
                let is_any = self.flaw == Some(Flaw::ReleaseWithoutToken)
                    && matches!(after.row, Row::Running { .. });
                if is_own || is_any {
                    after.row = Row::None;
                }
            }
            Action::Crash(index) => {
                let token = after.runs[index].take()?;
                (after.live[index], after.half[index]) = (false, false);
                if let Row::Running {
                    token: is,
                    has_expired,
                } = &mut after.row
                    && *is == token
                {
                    *has_expired = true;
                }
            }
        }
        Some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("one run at a time", |_, state: &State| {
                state.live.iter().filter(|is_live| **is_live).count() < 2
            }),
            Property::always("one answer", |_, state: &State| !state.gave_another),
            Property::always("one effect", |_, state: &State| state.effects < 2),
            Property::always(
                "what is unknown is not run again unasked",
                |model: &Once, state: &State| model.runs_again || !state.ran_again,
            ),
        ];
        // The model does what it is for.
        if self.runs_again {
            properties.push(Property::sometimes(
                "a late answer is refused",
                |_, state: &State| state.refused,
            ));
            properties.push(Property::sometimes("it runs again", |_, state: &State| {
                state.ran_again
            }));
        } else {
            properties.push(Property::sometimes(
                "a caller is asked",
                |_, state: &State| state.was_unknown,
            ));
        }
        properties
    }
}

impl Once {
    fn begin(self, state: &mut State, index: usize) -> Option<()> {
        match state.row {
            Row::Done { answer } if self.flaw != Some(Flaw::AnswerForgotten) => {
                let given = state.given;
                state.give(answer);
                // Nothing else changes.
                return (state.given != given || state.gave_another).then_some(());
            }
            Row::Running {
                has_expired: false, ..
            } if self.flaw != Some(Flaw::TakeoverBeforeExpiry) => {
                return None;
            }
            Row::Running { .. } => {
                if !self.runs_again && self.flaw != Some(Flaw::UnknownForgotten) {
                    let is_new = !state.was_unknown;
                    state.was_unknown = true;
                    return is_new.then_some(());
                }
                state.ran_again = true;
            }
            Row::None | Row::Done { .. } => {}
        }
        if state.last == MAX_RUNS {
            return None;
        }
        state.last += 1;
        state.row = Row::Running {
            token: state.last,
            has_expired: false,
        };
        state.runs[index] = Some(state.last);
        state.live[index] = true;
        Some(())
    }
}

impl State {
    fn give(&mut self, answer: Number) {
        let first = *self.given.get_or_insert(answer);
        self.gave_another |= first != answer;
    }
}
