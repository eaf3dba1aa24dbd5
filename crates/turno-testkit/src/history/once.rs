//! Once: one run at a time, one answer for all, and effects exactly once.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::linear::{self, Model, Verdict};
use super::{Clock, Operation, Violation};

/// What a process asks of once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Begins a request.
    Begin {
        /// Key of the request.
        key: String,
        /// How long the run may take.
        lease_us: i64,
        /// Whether it runs again if an earlier run ended without an answer.
        runs_again: bool,
    },
    /// Ends a run with its answer; the effect of the request is in the same transaction.
    Complete {
        /// Key of the request.
        key: String,
        /// Token of the run.
        token: i64,
        /// The answer. Each run has another one.
        answer: String,
    },
    /// Ends a run without an answer.
    Release {
        /// Key of the request.
        key: String,
        /// Token of the run.
        token: i64,
    },
    /// Extends a run.
    Extend {
        /// Key of the request.
        key: String,
        /// Token of the run.
        token: i64,
        /// How long it may take from then on.
        lease_us: i64,
    },
}

/// Answers of once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The caller has to do the work.
    Fresh {
        /// Token of the run.
        token: i64,
    },
    /// The work is done.
    Replay {
        /// The answer.
        answer: String,
    },
    /// Another caller does the work.
    InFlight,
    /// An earlier run ended without an answer.
    Unknown,
    /// The run was ended or extended.
    Settled,
    /// The run is lost; nothing was changed.
    Lost,
}

impl Call {
    fn key(&self) -> &str {
        match self {
            Call::Begin { key, .. }
            | Call::Complete { key, .. }
            | Call::Release { key, .. }
            | Call::Extend { key, .. } => key,
        }
    }
}

/// An effect in the application's own table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Effect {
    /// Key of the request.
    pub key: String,
    /// The answer of the run that wrote it.
    pub answer: String,
}

/// Steps of a search for one key.
const MAX_STEPS: usize = 2_000_000;

type Op = Operation<Call, Answer>;

/// Promise: the answers of a key are those of one run at a time, whose answer all later callers get.
pub const ONE_ANSWER: &str = "once: one run, one answer";
/// Promise: a run that is completed has its effect, no other run has one, and no key has two.
pub const EFFECTS: &str = "once: an effect is there exactly once";

/// Checks all operations and the effects.
pub fn check(operations: &[Op], effects: &[Effect], clock: &Clock) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut keys: BTreeMap<&str, Vec<Op>> = BTreeMap::new();
    for operation in operations {
        keys.entry(operation.call.key())
            .or_default()
            .push(operation.clone());
    }
    let mut written: HashMap<&str, Vec<&str>> = HashMap::new();
    for effect in effects {
        written.entry(&effect.key).or_default().push(&effect.answer);
    }
    for (key, operations) in &mut keys {
        operations.extend(lost_begins(operations));
        operations.sort_by_key(|operation| operation.call_us);
        let verdict = linear::check(&Request(clock), operations, MAX_STEPS);
        if verdict != Verdict::Linearizable {
            let what = format!("{key}: {verdict:?} of {operations:#?}");
            violations.push(Violation {
                promise: ONE_ANSWER,
                what,
            });
        }
        let written = written.remove(key).unwrap_or_default();
        violations.extend(contradictions(key, operations, &written));
    }
    violations.extend(written.into_keys().map(|key| Violation {
        promise: EFFECTS,
        what: format!("{key} was never begun, and has an effect"),
    }));
    violations
}

/// Begins that took longer than their lease: the first try may have begun a run, of which only others have seen something, until
/// another one took over. That does not explain an answer of unknown: a begin that is repeated does not get it from its own run.
fn lost_begins(operations: &[Op]) -> Vec<Op> {
    let is_lost = |operation: &&Op| {
        let took_us = operation.return_us.saturating_sub(operation.call_us);
        matches!(operation.call, Call::Begin { lease_us, .. } if took_us > lease_us)
            && matches!(
                operation.answer,
                Some(Answer::Replay { .. } | Answer::InFlight)
            )
    };
    let lost = |operation: &Op| Operation {
        return_us: i64::MAX,
        answer: None,
        ..operation.clone()
    };
    operations.iter().filter(is_lost).map(lost).collect()
}

/// What the effects of a key contradict.
fn contradictions(key: &str, operations: &[Op], written: &[&str]) -> Vec<Violation> {
    let mut whats = Vec::new();
    if written.len() > 1 {
        whats.push(format!("{key} has the effects {written:?}"));
    }
    let mut asked = Vec::new();
    for operation in operations {
        match (&operation.call, &operation.answer) {
            (Call::Complete { answer, .. }, outcome) => {
                asked.push(answer.as_str());
                let is_there = written.contains(&answer.as_str());
                match outcome {
                    Some(Answer::Settled) if !is_there => {
                        whats.push(format!("{key}: the effect of {answer} is lost"));
                    }
                    Some(Answer::Lost) if is_there => {
                        whats.push(format!(
                            "{key}: {answer} was refused, and its effect is there"
                        ));
                    }
                    _ => {}
                }
            }
            (_, Some(Answer::Replay { answer })) if !written.contains(&answer.as_str()) => {
                whats.push(format!("{key}: {answer} was repeated, and has no effect"));
            }
            _ => {}
        }
    }
    for answer in written {
        if !asked.contains(answer) {
            whats.push(format!("{key}: the effect of {answer} was never asked for"));
        }
    }
    let violation = |what| Violation {
        promise: EFFECTS,
        what,
    };
    whats.into_iter().map(violation).collect()
}

/// The rules of one key.
struct Request<'a>(&'a Clock);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    /// No run has an answer, and none runs. The number is the highest token so far.
    Free(i64),
    Running {
        /// `None` if the answer was lost.
        token: Option<i64>,
        highest: i64,
        /// It may be over since this time.
        expires_us: i64,
    },
    Done {
        answer: String,
        token: Option<i64>,
    },
}

impl Model for Request<'_> {
    type State = State;
    type Call = Call;
    type Answer = Answer;

    fn initial(&self) -> State {
        State::Free(0)
    }

    fn after(&self, state: &State, operation: &Op, now_us: i64) -> Vec<State> {
        let until_us = operation.return_us;
        let expires = |lease_us: i64| self.0.earliest_expiry_us(now_us, lease_us);
        match (&operation.call, &operation.answer) {
            (
                Call::Begin {
                    lease_us,
                    runs_again,
                    ..
                },
                Some(Answer::Fresh { .. }) | None,
            ) => {
                let token = match operation.answer {
                    Some(Answer::Fresh { token }) => Some(token),
                    _ => None,
                };
                let highest = match state {
                    State::Free(highest) => *highest,
                    State::Running {
                        highest,
                        expires_us,
                        ..
                    } if *runs_again && *expires_us <= until_us => *highest,
                    _ => return vec![],
                };
                if token.is_some_and(|token| token <= highest) {
                    return vec![];
                }
                vec![State::Running {
                    token,
                    highest: token.unwrap_or(highest),
                    expires_us: expires(*lease_us),
                }]
            }
            (Call::Begin { .. }, Some(Answer::Replay { answer })) => match state {
                State::Done { answer: is, .. } if is == answer => vec![state.clone()],
                _ => vec![],
            },
            (Call::Begin { .. }, Some(Answer::InFlight)) => match state {
                State::Running { .. } => vec![state.clone()],
                _ => vec![],
            },
            (Call::Begin { .. }, Some(Answer::Unknown)) => match state {
                State::Running { expires_us, .. } if *expires_us <= until_us => vec![state.clone()],
                _ => vec![],
            },
            (Call::Complete { token, answer, .. }, Some(Answer::Settled) | None) => match state {
                State::Running {
                    token: Some(is), ..
                } if is == token => vec![State::Done {
                    answer: answer.clone(),
                    token: Some(*token),
                }],
                // A repeated completion; the first answer stays.
                State::Done {
                    answer: is,
                    token: Some(of),
                } if of == token && is == answer => {
                    vec![state.clone()]
                }
                _ => vec![],
            },
            (Call::Release { token, .. }, Some(Answer::Settled) | None) => match state {
                State::Running {
                    token: Some(is),
                    highest,
                    ..
                } if is == token => {
                    vec![State::Free(*highest)]
                }
                _ => vec![],
            },
            (
                Call::Extend {
                    token, lease_us, ..
                },
                Some(Answer::Settled) | None,
            ) => match state {
                State::Running {
                    token: Some(is),
                    highest,
                    ..
                } if is == token => {
                    vec![State::Running {
                        token: Some(*is),
                        highest: *highest,
                        expires_us: expires(*lease_us),
                    }]
                }
                _ => vec![],
            },
            (
                Call::Complete { token, .. }
                | Call::Release { token, .. }
                | Call::Extend { token, .. },
                Some(Answer::Lost),
            ) => match state {
                // Its time is not over.
                State::Running {
                    token: Some(is),
                    expires_us,
                    ..
                } if is == token && *expires_us > until_us => vec![],
                _ => vec![state.clone()],
            },
            _ => vec![],
        }
    }
}

/// Forged histories: one that keeps all promises, and changes of it of which each breaks one.
#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: i64 = 100;

    fn op(times: (i64, i64), call: Call, answer: Option<Answer>) -> Op {
        Operation {
            process: "client".to_owned(),
            call_us: times.0,
            return_us: if answer.is_some() { times.1 } else { i64::MAX },
            call,
            answer,
        }
    }

    fn begin(times: (i64, i64), answer: Option<Answer>) -> Op {
        let call = Call::Begin {
            key: "k".to_owned(),
            lease_us: LEASE,
            runs_again: true,
        };
        op(times, call, answer)
    }

    fn fresh(times: (i64, i64), token: i64) -> Op {
        begin(times, Some(Answer::Fresh { token }))
    }

    fn replay(times: (i64, i64), answer: &str) -> Op {
        let answer = answer.to_owned();
        begin(times, Some(Answer::Replay { answer }))
    }

    fn complete(times: (i64, i64), token: i64, text: &str, answer: Option<Answer>) -> Op {
        let call = Call::Complete {
            key: "k".to_owned(),
            token,
            answer: text.to_owned(),
        };
        op(times, call, answer)
    }

    fn done(times: (i64, i64), token: i64, text: &str) -> Op {
        complete(times, token, text, Some(Answer::Settled))
    }

    fn judge(operations: &[Op], effects: &[&str]) -> Vec<Violation> {
        let effect = |answer: &&str| Effect {
            key: "k".to_owned(),
            answer: (*answer).to_owned(),
        };
        let effects: Vec<Effect> = effects.iter().map(effect).collect();
        let mut operations = operations.to_vec();
        operations.sort_by_key(|operation| operation.call_us);
        check(&operations, &effects, &Clock::default())
    }

    #[track_caller]
    fn accepts(operations: &[Op], effects: &[&str]) {
        assert_eq!(judge(operations, effects), []);
    }

    #[track_caller]
    fn rejects(operations: &[Op], effects: &[&str], promise: &str) {
        let violations = judge(operations, effects);
        assert!(
            violations
                .iter()
                .any(|violation| violation.promise == promise),
            "{promise:?} is not in {violations:#?}"
        );
    }

    /// One run, one caller that comes during it, two that come later.
    fn honest() -> Vec<Op> {
        vec![
            fresh((0, 5), 1),
            begin((6, 8), Some(Answer::InFlight)),
            done((10, 15), 1, "x"),
            replay((20, 25), "x"),
            replay((26, 30), "x"),
        ]
    }

    #[test]
    fn an_honest_history_is_accepted() {
        accepts(&honest(), &["x"]);
    }

    #[test]
    fn two_runs_at_the_same_time_are_rejected() {
        rejects(&[fresh((0, 5), 1), fresh((10, 15), 2)], &[], ONE_ANSWER);
        rejects(&[fresh((0, 50), 1), fresh((0, 50), 2)], &[], ONE_ANSWER);
    }

    #[test]
    fn a_run_after_the_lease_is_accepted() {
        let again = [
            fresh((0, 5), 1),
            fresh((101, 105), 2),
            done((110, 115), 2, "y"),
        ];
        accepts(&again, &["y"]);
        let late = complete((120, 125), 1, "x", Some(Answer::Lost));
        accepts(&[&again[..], &[late]].concat(), &["y"]);
    }

    #[test]
    fn an_answer_of_a_stale_run_is_rejected() {
        let again = [
            fresh((0, 5), 1),
            fresh((101, 105), 2),
            done((110, 115), 1, "x"),
        ];
        rejects(&again, &["x"], ONE_ANSWER);
    }

    #[test]
    fn a_run_after_the_answer_is_rejected() {
        rejects(
            &[&honest()[..], &[fresh((40, 45), 2)]].concat(),
            &["x"],
            ONE_ANSWER,
        );
    }

    #[test]
    fn another_answer_is_rejected() {
        rejects(
            &[&honest()[..], &[replay((40, 45), "y")]].concat(),
            &["x"],
            ONE_ANSWER,
        );
    }

    #[test]
    fn an_answer_that_was_replaced_is_rejected() {
        let replaced = [
            fresh((0, 5), 1),
            done((6, 7), 1, "x"),
            done((8, 9), 1, "y"),
            replay((10, 11), "y"),
        ];
        rejects(&replaced, &["y"], ONE_ANSWER);
    }

    #[test]
    fn an_answer_before_the_completion_is_rejected() {
        rejects(
            &[
                fresh((0, 5), 1),
                replay((6, 7), "x"),
                done((10, 15), 1, "x"),
            ],
            &["x"],
            ONE_ANSWER,
        );
    }

    #[test]
    fn a_repeated_token_is_rejected() {
        rejects(&[fresh((0, 5), 1), fresh((101, 105), 1)], &[], ONE_ANSWER);
    }

    #[test]
    fn an_unknown_answer_while_the_run_is_live_is_rejected() {
        rejects(
            &[fresh((0, 5), 1), begin((10, 15), Some(Answer::Unknown))],
            &[],
            ONE_ANSWER,
        );
        accepts(
            &[fresh((0, 5), 1), begin((101, 105), Some(Answer::Unknown))],
            &[],
        );
    }

    #[test]
    fn a_run_in_flight_that_no_one_began_is_rejected() {
        rejects(&[begin((0, 5), Some(Answer::InFlight))], &[], ONE_ANSWER);
    }

    #[test]
    fn a_run_that_is_lost_before_its_time_is_rejected() {
        let lost = complete((10, 15), 1, "x", Some(Answer::Lost));
        rejects(&[fresh((0, 5), 1), lost], &[], ONE_ANSWER);
    }

    #[test]
    fn an_unanswered_completion_may_have_happened() {
        let unknown = [fresh((0, 5), 1), complete((10, 0), 1, "x", None)];
        accepts(&[&unknown[..], &[replay((20, 25), "x")]].concat(), &["x"]);
        accepts(
            &[
                &unknown[..],
                &[fresh((120, 125), 2), done((126, 127), 2, "y")],
            ]
            .concat(),
            &["y"],
        );
        rejects(
            &[&unknown[..], &[replay((20, 25), "y")]].concat(),
            &["x"],
            ONE_ANSWER,
        );
    }

    #[test]
    fn the_first_try_of_a_long_begin_may_have_begun_a_run() {
        let others = [
            begin((10, 15), Some(Answer::InFlight)),
            begin((110, 115), Some(Answer::Unknown)),
            fresh((120, 125), 2),
            done((130, 135), 2, "x"),
        ];
        accepts(&[&others[..], &[replay((0, 140), "x")]].concat(), &["x"]);
        // It was short, or it came later.
        for times in [(136, 140), (20, 140)] {
            let replay = replay(times, "x");
            rejects(&[&others[..], &[replay]].concat(), &["x"], ONE_ANSWER);
        }
        let own = begin((0, 115), Some(Answer::Unknown));
        rejects(&[own], &[], ONE_ANSWER);
    }

    #[test]
    fn an_unanswered_begin_may_have_happened() {
        let unknown = begin((0, 0), None);
        accepts(
            &[unknown.clone(), begin((10, 15), Some(Answer::InFlight))],
            &[],
        );
        accepts(
            &[unknown, fresh((10, 15), 1), done((16, 17), 1, "x")],
            &["x"],
        );
    }

    #[test]
    fn a_second_effect_is_rejected() {
        rejects(&honest(), &["x", "x"], EFFECTS);
    }

    #[test]
    fn a_lost_effect_is_rejected() {
        rejects(&honest(), &[], EFFECTS);
    }

    #[test]
    fn an_effect_of_a_refused_run_is_rejected() {
        let again = [
            fresh((0, 5), 1),
            fresh((101, 105), 2),
            done((110, 115), 2, "y"),
            complete((120, 125), 1, "x", Some(Answer::Lost)),
        ];
        rejects(&again, &["y", "x"], EFFECTS);
    }

    #[test]
    fn an_effect_of_another_key_is_rejected() {
        let effects = [Effect {
            key: "other".to_owned(),
            answer: "x".to_owned(),
        }];
        let violations = check(&[], &effects, &Clock::default());
        assert_eq!(violations.len(), 1);
    }

    #[test]
    fn a_released_key_runs_again() {
        let release = Call::Release {
            key: "k".to_owned(),
            token: 1,
        };
        let release = op((6, 7), release, Some(Answer::Settled));
        accepts(
            &[
                fresh((0, 5), 1),
                release.clone(),
                fresh((8, 9), 2),
                done((10, 11), 2, "y"),
            ],
            &["y"],
        );
        rejects(
            &[fresh((0, 5), 1), release, done((8, 9), 1, "x")],
            &["x"],
            ONE_ANSWER,
        );
    }

    #[test]
    fn an_extended_run_is_not_taken_over_early() {
        let extend = Call::Extend {
            key: "k".to_owned(),
            token: 1,
            lease_us: LEASE,
        };
        let extend = op((50, 55), extend, Some(Answer::Settled));
        rejects(
            &[fresh((0, 5), 1), extend.clone(), fresh((110, 120), 2)],
            &[],
            ONE_ANSWER,
        );
        accepts(&[fresh((0, 5), 1), extend, fresh((110, 151), 2)], &[]);
    }
}
