//! Locks: exclusion by token, shared holds and permits, tokens that only grow, the guard, and turns in line.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::linear::{self, Model, Verdict};
use super::{Operation, Violation};

/// Mode of an acquire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// One holder.
    Exclusive,
    /// Any number of holders, none of them exclusive.
    Shared,
    /// At most this number of holders.
    Permits(u32),
}

/// What a process asks of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Acquires a resource. Only one process uses an owner.
    Acquire {
        /// Resource.
        resource: String,
        /// Owner.
        owner: String,
        /// Mode.
        mode: Mode,
        /// TTL of the lease.
        ttl_us: i64,
    },
    /// Renews a lease.
    Renew {
        /// Resource.
        resource: String,
        /// Token of the lease.
        token: i64,
        /// TTL from then on.
        ttl_us: i64,
    },
    /// Releases one hold of a lease.
    Release {
        /// Resource.
        resource: String,
        /// Token of the lease.
        token: i64,
    },
    /// Commits a change of the application's data under the guard.
    Guarded {
        /// Resource.
        resource: String,
        /// Token of the lease.
        token: i64,
    },
}

/// Answers about a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The owner holds the lock.
    Granted {
        /// Token.
        token: i64,
        /// Number of holds of the owner.
        holds: u32,
    },
    /// Others hold it.
    Busy,
    /// The lease was extended.
    Renewed,
    /// One hold was released.
    Released {
        /// Number of holds that are left.
        holds: u32,
    },
    /// The change was committed.
    Committed,
    /// The lease is lost; nothing was changed.
    Lost,
}

impl Call {
    fn resource(&self) -> &str {
        match self {
            Call::Acquire { resource, .. }
            | Call::Renew { resource, .. }
            | Call::Release { resource, .. }
            | Call::Guarded { resource, .. } => resource,
        }
    }
}

/// A change that was committed under the guard, as the application's own table has it at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Resource of the lock.
    pub resource: String,
    /// Token with which it was written.
    pub token: i64,
}

/// How far a checker has to tolerate what a run did to clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tolerance {
    /// How far the store's clock may have been stepped forward in all: leases end that much earlier.
    pub clock_us: i64,
}

/// Steps of a search for one resource.
const MAX_STEPS: usize = 2_000_000;

type Op = Operation<Call, Answer>;

/// Checks all operations, and the writes of the application in the order of their commits.
pub fn check(operations: &[Op], writes: &[Write], tolerance: Tolerance) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut resources: BTreeMap<&str, Vec<Op>> = BTreeMap::new();
    for operation in operations {
        let of = resources.entry(operation.call.resource()).or_default();
        of.push(operation.clone());
    }
    for (resource, operations) in &mut resources {
        let contended: Vec<bool> = operations
            .iter()
            .map(|one| is_contended(one, operations))
            .collect();
        let mut contended = contended.into_iter();
        operations.retain(|_| contended.next() == Some(false));
        operations.sort_by_key(|operation| operation.call_us);
        let what = match linear::check(&Resource(tolerance), operations, MAX_STEPS) {
            Verdict::Linearizable => continue,
            Verdict::TooLong => "the search for an order took too long".to_owned(),
            Verdict::Violated { order, next } => explain(operations, &order, &next),
        };
        violations.push(Violation {
            promise: "lock: one holder, tokens that grow",
            what: format!("{resource}: {what}"),
        });
    }
    violations.extend(stale_writes(operations, writes));
    violations.extend(lost_writes(operations, writes));
    violations
}

/// Whether it was answered busy while another call was under way. A call that does not wait gets this answer, too, if another one is
/// changing the lock, whatever that leads to: this says nothing about the holders.
fn is_contended(operation: &Op, all: &[Op]) -> bool {
    let overlaps = |other: &Op| {
        other.call_us <= operation.return_us
            && operation.call_us <= other.return_us
            && !std::ptr::eq(other, operation)
    };
    operation.answer == Some(Answer::Busy) && all.iter().any(overlaps)
}

/// The end of the longest order, and what cannot follow it.
fn explain(operations: &[Op], order: &[usize], next: &[usize]) -> String {
    let line = |index: &usize| {
        let Operation {
            process,
            call_us,
            return_us,
            call,
            answer,
        } = &operations[*index];
        let until = if answer.is_some() {
            format!("{return_us}")
        } else {
            "?".to_owned()
        };
        format!("{process} {call_us}..{until} {call:?} -> {answer:?}")
    };
    let after: Vec<String> = order.iter().rev().take(5).rev().map(line).collect();
    let next: Vec<String> = next.iter().map(line).collect();
    format!(
        "after [{}] none of [{}] is possible",
        after.join("; "),
        next.join("; ")
    )
}

/// A write that came after one with a newer token, unless both shared the lock.
fn stale_writes(operations: &[Op], writes: &[Write]) -> Vec<Violation> {
    let mut shared: HashSet<(&str, i64)> = HashSet::new();
    for operation in operations {
        if let (Call::Acquire { resource, mode, .. }, Some(Answer::Granted { token, .. })) =
            (&operation.call, &operation.answer)
            && *mode != Mode::Exclusive
        {
            shared.insert((resource, *token));
        }
    }
    // The newest token of all writes, and of those that had the lock alone.
    let mut newest: HashMap<&str, (i64, i64)> = HashMap::new();
    let mut violations = Vec::new();
    for Write { resource, token } in writes {
        let is_shared = shared.contains(&(resource.as_str(), *token));
        let (of_all, alone) = newest.entry(resource).or_insert((*token, i64::MIN));
        let limit = if is_shared { *alone } else { *of_all };
        if *token < limit {
            violations.push(Violation {
                promise: "lock: no stale write",
                what: format!("{resource}: a write with token {token} came after one with {limit}"),
            });
        }
        *of_all = (*of_all).max(*token);
        if !is_shared {
            *alone = (*alone).max(*token);
        }
    }
    violations
}

/// A write that was reported as committed and is not there, or was reported as refused and is there.
fn lost_writes(operations: &[Op], writes: &[Write]) -> Vec<Violation> {
    let mut committed: HashMap<(&str, i64), i64> = HashMap::new();
    let mut asked: HashMap<(&str, i64), i64> = HashMap::new();
    let mut refused: HashMap<(&str, i64), i64> = HashMap::new();
    for operation in operations {
        if let Call::Guarded { resource, token } = &operation.call {
            let key = (resource.as_str(), *token);
            *asked.entry(key).or_default() += 1;
            match operation.answer {
                Some(Answer::Committed) => *committed.entry(key).or_default() += 1,
                Some(_) => *refused.entry(key).or_default() += 1,
                None => {}
            }
        }
    }
    let mut there: HashMap<(&str, i64), i64> = HashMap::new();
    for write in writes {
        *there.entry((&write.resource, write.token)).or_default() += 1;
    }
    let mut violations = Vec::new();
    for (key, asked) in &asked {
        let least = committed.get(key).copied().unwrap_or_default();
        let most = asked - refused.get(key).copied().unwrap_or_default();
        let is = there.remove(key).unwrap_or_default();
        if !(least..=most).contains(&is) {
            let (resource, token) = key;
            violations.push(Violation {
                promise: "lock: a guarded change is there if and only if it was committed",
                what: format!(
                    "{resource}, token {token}: {is} writes instead of {least} to {most}"
                ),
            });
        }
    }
    violations.extend(there.into_iter().map(|((resource, token), is)| Violation {
        promise: "lock: a guarded change is there if and only if it was committed",
        what: format!("{resource}, token {token}: {is} writes that were never asked for"),
    }));
    violations
}

/// The rules of one resource. A lease may end when its TTL is over, and no earlier.
struct Resource(Tolerance);

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct State {
    /// The highest token that is known.
    highest: i64,
    /// Holds that are not released. Some may have expired.
    holds: Vec<Hold>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Hold {
    owner: String,
    /// `None` if the answer was lost.
    token: Option<i64>,
    mode: Mode,
    count: u32,
    /// It may have expired since this time.
    expires_us: i64,
}

impl Mode {
    /// How many other holders there can be beside one of this mode.
    fn others(self, other: Mode) -> u32 {
        match (self, other) {
            (Mode::Exclusive, _) | (_, Mode::Exclusive) => 0,
            (Mode::Permits(limit), _) => limit.saturating_sub(1),
            (Mode::Shared, _) => u32::MAX,
        }
    }
}

impl Model for Resource {
    type State = State;
    type Call = Call;
    type Answer = Answer;

    fn initial(&self) -> State {
        State::default()
    }

    fn after(&self, state: &State, operation: &Op, now_us: i64) -> Vec<State> {
        let until_us = operation.return_us;
        let expires = |ttl_us: i64| now_us.saturating_add(ttl_us) - self.0.clock_us;
        match (&operation.call, &operation.answer) {
            (
                Call::Acquire {
                    owner,
                    mode,
                    ttl_us,
                    ..
                },
                Some(Answer::Granted { token, holds }),
            ) => {
                let hold = Hold {
                    owner: owner.clone(),
                    token: Some(*token),
                    mode: *mode,
                    count: *holds,
                    expires_us: expires(*ttl_us),
                };
                state.granted(&hold, until_us)
            }
            (
                Call::Acquire {
                    owner,
                    mode,
                    ttl_us,
                    ..
                },
                None,
            ) => {
                let hold = Hold {
                    owner: owner.clone(),
                    token: None,
                    mode: *mode,
                    count: 1,
                    expires_us: expires(*ttl_us),
                };
                state.granted(&hold, until_us)
            }
            (Call::Acquire { owner, mode, .. }, Some(Answer::Busy)) => {
                let (own, others): (Vec<&Hold>, Vec<&Hold>) =
                    state.holds.iter().partition(|hold| hold.owner == *owner);
                let many = u32::try_from(others.len()).unwrap_or(u32::MAX);
                let is_full = others.iter().any(|hold| many > mode.others(hold.mode));
                // Its own lease has expired, and another call is just looking at the row.
                let is_contended = own.iter().any(|hold| hold.expires_us <= until_us);
                if is_full || is_contended {
                    vec![state.clone()]
                } else {
                    vec![]
                }
            }
            (Call::Renew { token, ttl_us, .. }, Some(Answer::Renewed) | None) => {
                state.with(*token, |hold| {
                    hold.expires_us = expires(*ttl_us);
                })
            }
            (Call::Release { token, .. }, Some(Answer::Released { holds })) => {
                let mut states = state.with(*token, |hold| hold.count -= 1);
                states.retain(|after| after.count_of(*token) == *holds);
                states
            }
            (Call::Release { token, .. }, None) => state.with(*token, |hold| hold.count -= 1),
            (Call::Guarded { token, .. }, Some(Answer::Committed) | None) => {
                state.with(*token, |_| {})
            }
            (Call::Renew { token, .. } | Call::Release { token, .. }, Some(Answer::Lost)) => {
                state.lost(*token, until_us)
            }
            // The guard refuses an expired lease, which a renewal can still save: nothing changes.
            (Call::Guarded { token, .. }, Some(Answer::Lost)) => {
                let is_possible = !state.lost(*token, until_us).is_empty();
                if is_possible {
                    vec![state.clone()]
                } else {
                    vec![]
                }
            }
            _ => vec![],
        }
    }
}

impl State {
    /// States in which `hold` was granted: what is in its way must have expired.
    fn granted(&self, hold: &Hold, until_us: i64) -> Vec<State> {
        let mut states = Vec::new();
        if let Some(index) = self.holds.iter().position(|own| own.owner == hold.owner) {
            let own = &self.holds[index];
            let is_same = own.token == hold.token
                || hold.token.is_none()
                || (own.token.is_none() && hold.token > Some(self.highest));
            if is_same && (hold.token.is_none() || hold.count == own.count + 1) {
                let mut after = self.clone();
                let renewed = &mut after.holds[index];
                renewed.token = own.token.or(hold.token);
                renewed.count = own.count + 1;
                renewed.expires_us = hold.expires_us;
                after.highest = after.highest.max(hold.token.unwrap_or_default());
                states.push(after);
            }
        }
        let is_new = hold.token.is_none_or(|token| token > self.highest);
        if !is_new || hold.count != 1 {
            return states;
        }
        // An old lease of the same owner must have expired, too.
        let (own, others): (Vec<Hold>, Vec<Hold>) = self
            .holds
            .iter()
            .cloned()
            .partition(|other| other.owner == hold.owner);
        if own.iter().any(|own| own.expires_us > until_us) {
            return states;
        }
        let (may_be_over, are_held): (Vec<Hold>, Vec<Hold>) = others
            .into_iter()
            .partition(|other| other.expires_us <= until_us);
        for over in subsets(may_be_over.len()) {
            let mut holds = are_held.clone();
            let still = may_be_over
                .iter()
                .enumerate()
                .filter(|(index, _)| over & (1 << index) == 0);
            holds.extend(still.map(|(_, hold)| hold.clone()));
            let others = u32::try_from(holds.len()).unwrap_or(u32::MAX);
            if holds
                .iter()
                .any(|other| others > hold.mode.others(other.mode))
            {
                continue;
            }
            holds.push(hold.clone());
            holds.sort_by(|a, b| a.owner.cmp(&b.owner));
            states.push(State {
                highest: self.highest.max(hold.token.unwrap_or_default()),
                holds,
            });
        }
        states
    }

    /// The state after a change of the hold with a token, which the lease must still have. A hold whose answer was lost has any
    /// token that is new: only its owner can know it, and has not been told. So it is none of these.
    fn with(&self, token: i64, change: impl Fn(&mut Hold)) -> Vec<State> {
        let mut after = self.clone();
        let Some(hold) = after
            .holds
            .iter_mut()
            .find(|hold| hold.token == Some(token))
        else {
            return vec![];
        };
        change(hold);
        after.holds.retain(|hold| hold.count > 0);
        vec![after]
    }

    fn count_of(&self, token: i64) -> u32 {
        let hold = self.holds.iter().find(|hold| hold.token == Some(token));
        hold.map_or(0, |hold| hold.count)
    }

    /// The state after the answer that a lease is lost: it must have ended, or expire now.
    fn lost(&self, token: i64, until_us: i64) -> Vec<State> {
        match self.holds.iter().find(|hold| hold.token == Some(token)) {
            None => vec![self.clone()],
            Some(hold) if hold.expires_us <= until_us => {
                let mut after = self.clone();
                after.holds.retain(|hold| hold.token != Some(token));
                vec![after]
            }
            Some(_) => vec![],
        }
    }
}

/// All subsets of that many elements, as bits, the smallest first; of many elements only none and all, which is enough for locks.
fn subsets(len: usize) -> Vec<u64> {
    match len {
        0..=4 => (0..1 << len).collect(),
        5..=63 => vec![0, (1 << len) - 1],
        _ => vec![0],
    }
}

/// Turns in line: of two waiters of a fair lock, the one that certainly stood in line first is served first.
///
/// `stood_in_line_us` is how long a waiter needs at most from its call until it stands in line. Only for runs in which no waiter
/// is stopped: one that is, loses its place.
pub fn turns(operations: &[Op], stood_in_line_us: i64) -> Vec<Violation> {
    let mut violations = Vec::new();
    let served =
        |operation: &&Op| matches!(operation.answer, Some(Answer::Granted { holds: 1, .. }));
    let grants: Vec<&Op> = operations.iter().filter(served).collect();
    for first in &grants {
        for second in &grants {
            let (Some(Answer::Granted { token: a, .. }), Some(Answer::Granted { token: b, .. })) =
                (&first.answer, &second.answer)
            else {
                continue;
            };
            let stood_before = first.call_us + stood_in_line_us < second.call_us;
            // The second one was in line while the first one still waited, and got an older token.
            let was_passed = second.return_us < first.return_us && b < a;
            if first.call.resource() == second.call.resource() && stood_before && was_passed {
                violations.push(Violation {
                    promise: "lock: turns in line",
                    what: format!(
                        "{}: {} was served before {}",
                        first.call.resource(),
                        second.process,
                        first.process
                    ),
                });
            }
        }
    }
    violations
}

/// Forged histories: one that keeps all promises, and changes of it of which each breaks one.
#[cfg(test)]
mod tests {
    use super::*;

    const TTL: i64 = 100;

    fn op(process: &str, times: (i64, i64), call: Call, answer: Option<Answer>) -> Op {
        Operation {
            process: process.to_owned(),
            call_us: times.0,
            return_us: if answer.is_some() { times.1 } else { i64::MAX },
            call,
            answer,
        }
    }

    fn ask(owner: &str, mode: Mode) -> Call {
        Call::Acquire {
            resource: "r".to_owned(),
            owner: owner.to_owned(),
            mode,
            ttl_us: TTL,
        }
    }

    fn acquire(owner: &str, times: (i64, i64), token: i64) -> Op {
        reenter(owner, times, token, 1)
    }

    fn reenter(owner: &str, times: (i64, i64), token: i64, holds: u32) -> Op {
        let granted = Some(Answer::Granted { token, holds });
        op(owner, times, ask(owner, Mode::Exclusive), granted)
    }

    fn share(owner: &str, times: (i64, i64), token: i64, mode: Mode) -> Op {
        let granted = Some(Answer::Granted { token, holds: 1 });
        op(owner, times, ask(owner, mode), granted)
    }

    fn busy(owner: &str, times: (i64, i64), mode: Mode) -> Op {
        op(owner, times, ask(owner, mode), Some(Answer::Busy))
    }

    fn unanswered(owner: &str, at: i64) -> Op {
        op(owner, (at, 0), ask(owner, Mode::Exclusive), None)
    }

    fn release(owner: &str, times: (i64, i64), token: i64, answer: Option<Answer>) -> Op {
        let resource = "r".to_owned();
        op(owner, times, Call::Release { resource, token }, answer)
    }

    fn released(owner: &str, times: (i64, i64), token: i64, holds: u32) -> Op {
        release(owner, times, token, Some(Answer::Released { holds }))
    }

    fn renew(owner: &str, times: (i64, i64), token: i64, answer: Answer) -> Op {
        let call = Call::Renew {
            resource: "r".to_owned(),
            token,
            ttl_us: TTL,
        };
        op(owner, times, call, Some(answer))
    }

    fn guarded(owner: &str, times: (i64, i64), token: i64, answer: Option<Answer>) -> Op {
        let resource = "r".to_owned();
        op(owner, times, Call::Guarded { resource, token }, answer)
    }

    fn judge(operations: &[Op], writes: &[i64]) -> Vec<Violation> {
        let mut operations = operations.to_vec();
        operations.sort_by_key(|operation| operation.call_us);
        let writes: Vec<Write> = writes
            .iter()
            .map(|token| Write {
                resource: "r".to_owned(),
                token: *token,
            })
            .collect();
        check(&operations, &writes, Tolerance::default())
    }

    #[track_caller]
    fn accepts(operations: &[Op], writes: &[i64]) {
        assert_eq!(judge(operations, writes), []);
    }

    #[track_caller]
    fn rejects(operations: &[Op], writes: &[i64], promise: &str) {
        let violations = judge(operations, writes);
        assert!(
            violations
                .iter()
                .any(|violation| violation.promise.contains(promise)),
            "{promise:?} is not in {violations:#?}"
        );
    }

    /// Two owners one after the other, with a reentrant hold, a renewal and guarded writes.
    fn honest() -> Vec<Op> {
        vec![
            acquire("a", (0, 5), 1),
            busy("b", (6, 8), Mode::Exclusive),
            reenter("a", (10, 12), 1, 2),
            guarded("a", (13, 15), 1, Some(Answer::Committed)),
            released("a", (16, 18), 1, 1),
            renew("a", (20, 22), 1, Answer::Renewed),
            released("a", (30, 32), 1, 0),
            acquire("b", (40, 42), 2),
            guarded("b", (43, 45), 2, Some(Answer::Committed)),
        ]
    }

    #[test]
    fn an_honest_history_is_accepted() {
        accepts(&honest(), &[1, 2]);
    }

    #[test]
    fn a_takeover_after_the_ttl_is_accepted() {
        accepts(&[acquire("a", (0, 5), 1), acquire("b", (99, 101), 2)], &[]);
        let lost = release("a", (103, 104), 1, Some(Answer::Lost));
        accepts(
            &[acquire("a", (0, 5), 1), acquire("b", (99, 101), 2), lost],
            &[],
        );
    }

    #[test]
    fn a_takeover_before_the_ttl_is_rejected() {
        rejects(
            &[acquire("a", (0, 5), 1), acquire("b", (90, 99), 2)],
            &[],
            "one holder",
        );
    }

    #[test]
    fn a_takeover_that_forgets_a_renewal_is_rejected() {
        let renewed = renew("a", (50, 60), 1, Answer::Renewed);
        rejects(
            &[
                acquire("a", (0, 5), 1),
                renewed,
                acquire("b", (120, 140), 2),
            ],
            &[],
            "one holder",
        );
    }

    #[test]
    fn a_repeated_token_is_rejected() {
        let both = [
            acquire("a", (0, 5), 1),
            released("a", (6, 7), 1, 0),
            acquire("b", (8, 9), 1),
        ];
        rejects(&both, &[], "tokens that grow");
    }

    #[test]
    fn a_token_that_goes_back_is_rejected() {
        let both = [
            acquire("a", (0, 5), 9),
            released("a", (6, 7), 9, 0),
            acquire("b", (8, 9), 3),
        ];
        rejects(&both, &[], "tokens that grow");
    }

    #[test]
    fn two_grants_at_the_same_time_are_rejected() {
        rejects(
            &[acquire("a", (0, 50), 1), acquire("b", (0, 50), 2)],
            &[],
            "one holder",
        );
    }

    #[test]
    fn a_busy_answer_of_a_free_lock_is_rejected() {
        rejects(&[busy("a", (0, 5), Mode::Exclusive)], &[], "one holder");
        let freed = [
            acquire("a", (0, 5), 1),
            released("a", (6, 7), 1, 0),
            busy("b", (8, 9), Mode::Exclusive),
        ];
        rejects(&freed, &[], "one holder");
    }

    #[test]
    fn a_call_beside_another_one_may_be_busy() {
        let two = Mode::Permits(2);
        accepts(&[share("a", (0, 5), 1, two), busy("b", (4, 7), two)], &[]);
        rejects(
            &[share("a", (0, 5), 1, two), busy("b", (6, 7), two)],
            &[],
            "one holder",
        );
    }

    #[test]
    fn an_owner_that_enters_again_is_busy_only_after_its_lease() {
        let again = |times| op("a", times, ask("a", Mode::Exclusive), Some(Answer::Busy));
        rejects(
            &[acquire("a", (0, 5), 1), again((50, 60))],
            &[],
            "one holder",
        );
        accepts(&[acquire("a", (0, 5), 1), again((90, 101))], &[]);
    }

    #[test]
    fn a_release_that_was_undone_is_rejected() {
        let undone = [
            acquire("a", (0, 5), 1),
            released("a", (6, 7), 1, 0),
            renew("a", (8, 9), 1, Answer::Renewed),
        ];
        rejects(&undone, &[], "one holder");
    }

    #[test]
    fn a_lease_lost_before_its_time_is_rejected() {
        let lost = renew("a", (50, 60), 1, Answer::Lost);
        rejects(&[acquire("a", (0, 5), 1), lost], &[], "one holder");
    }

    #[test]
    fn a_reentrant_hold_with_a_new_token_is_rejected() {
        rejects(
            &[acquire("a", (0, 5), 1), reenter("a", (6, 7), 2, 2)],
            &[],
            "one holder",
        );
    }

    #[test]
    fn a_forgotten_hold_is_rejected() {
        let once = [
            acquire("a", (0, 5), 1),
            reenter("a", (6, 7), 1, 2),
            released("a", (8, 9), 1, 0),
        ];
        rejects(&once, &[], "one holder");
    }

    #[test]
    fn an_unanswered_acquire_may_hold_or_not() {
        accepts(
            &[unanswered("a", 0), busy("b", (10, 12), Mode::Exclusive)],
            &[],
        );
        accepts(&[unanswered("a", 0), acquire("b", (10, 12), 1)], &[]);
        // It holds for its TTL at most, unless it began late.
        accepts(
            &[
                unanswered("a", 0),
                busy("b", (10, 12), Mode::Exclusive),
                acquire("c", (110, 120), 7),
            ],
            &[],
        );
        // It explains no second holder.
        let two = [acquire("b", (10, 12), 1), acquire("c", (14, 15), 2)];
        rejects(
            &[&[unanswered("a", 0)], &two[..]].concat(),
            &[],
            "one holder",
        );
    }

    #[test]
    fn an_unanswered_release_may_have_happened() {
        let unknown = release("a", (10, 0), 1, None);
        accepts(
            &[
                acquire("a", (0, 5), 1),
                unknown.clone(),
                acquire("b", (20, 25), 2),
            ],
            &[],
        );
        accepts(
            &[
                acquire("a", (0, 5), 1),
                unknown,
                busy("b", (20, 25), Mode::Exclusive),
            ],
            &[],
        );
    }

    #[test]
    fn shared_holders_are_together() {
        accepts(
            &[
                share("a", (0, 5), 1, Mode::Shared),
                share("b", (6, 7), 2, Mode::Shared),
                busy("c", (8, 9), Mode::Exclusive),
            ],
            &[],
        );
    }

    #[test]
    fn an_exclusive_holder_beside_a_shared_one_is_rejected() {
        rejects(
            &[share("a", (0, 5), 1, Mode::Shared), acquire("b", (6, 7), 2)],
            &[],
            "one holder",
        );
        rejects(
            &[acquire("b", (0, 5), 1), share("a", (6, 7), 2, Mode::Shared)],
            &[],
            "one holder",
        );
    }

    #[test]
    fn more_holders_than_permits_are_rejected() {
        let two = Mode::Permits(2);
        let both = [share("a", (0, 5), 1, two), share("b", (6, 7), 2, two)];
        accepts(&[&both[..], &[busy("c", (8, 9), two)]].concat(), &[]);
        rejects(
            &[&both[..], &[share("c", (8, 9), 3, two)]].concat(),
            &[],
            "one holder",
        );
    }

    #[test]
    fn a_permit_refused_while_one_is_free_is_rejected() {
        let two = Mode::Permits(2);
        rejects(
            &[share("a", (0, 5), 1, two), busy("b", (6, 7), two)],
            &[],
            "one holder",
        );
    }

    #[test]
    fn of_several_permits_only_expired_ones_are_taken_over() {
        let two = Mode::Permits(2);
        let full = [share("a", (0, 5), 1, two), share("b", (50, 55), 2, two)];
        accepts(
            &[&full[..], &[share("c", (105, 110), 3, two)]].concat(),
            &[],
        );
        // The lease of `a` is over, that of `b` is not.
        let taken = [
            share("c", (105, 110), 3, two),
            share("d", (111, 112), 4, two),
        ];
        rejects(&[&full[..], &taken].concat(), &[], "one holder");
    }

    #[test]
    fn a_stale_write_is_rejected() {
        rejects(&honest(), &[2, 1], "no stale write");
    }

    #[test]
    fn sharers_write_in_any_order() {
        let both = [
            share("a", (0, 5), 1, Mode::Shared),
            share("b", (6, 7), 2, Mode::Shared),
            guarded("a", (8, 9), 1, Some(Answer::Committed)),
            guarded("b", (8, 9), 2, Some(Answer::Committed)),
        ];
        accepts(&both, &[2, 1]);
    }

    #[test]
    fn a_sharer_that_writes_after_a_newer_exclusive_holder_is_rejected() {
        let both = [
            share("a", (0, 5), 1, Mode::Shared),
            acquire("b", (101, 105), 2),
            guarded("b", (106, 107), 2, Some(Answer::Committed)),
            guarded("a", (0, 0), 1, None),
        ];
        rejects(&both, &[2, 1], "no stale write");
    }

    #[test]
    fn a_guarded_write_of_a_lost_lease_is_rejected() {
        let mut late = honest();
        late.push(guarded("a", (50, 55), 1, Some(Answer::Committed)));
        rejects(&late, &[1, 1, 2], "one holder");
    }

    #[test]
    fn a_lost_write_is_rejected() {
        rejects(&honest(), &[1], "if and only if");
    }

    #[test]
    fn a_refused_write_that_is_there_is_rejected() {
        let mut refused = honest();
        refused.push(guarded("a", (50, 55), 1, Some(Answer::Lost)));
        accepts(&refused, &[1, 2]);
        rejects(&refused, &[1, 1, 2], "if and only if");
    }

    #[test]
    fn a_guard_that_refuses_a_live_lease_is_rejected() {
        let refused = guarded("a", (50, 55), 1, Some(Answer::Lost));
        rejects(&[acquire("a", (0, 5), 1), refused], &[], "one holder");
    }

    #[test]
    fn a_lease_that_the_guard_refused_may_be_renewed_late() {
        let refused = guarded("a", (99, 105), 1, Some(Answer::Lost));
        let renewed = renew("a", (106, 108), 1, Answer::Renewed);
        accepts(&[acquire("a", (0, 5), 1), refused, renewed], &[]);
    }

    #[test]
    fn a_write_that_was_never_asked_for_is_rejected() {
        rejects(&honest(), &[1, 2, 3], "if and only if");
    }

    #[test]
    fn an_unanswered_write_may_be_there_or_not() {
        let mut unknown = honest();
        unknown.push(guarded("b", (50, 0), 2, None));
        accepts(&unknown, &[1, 2]);
        accepts(&unknown, &[1, 2, 2]);
    }

    #[test]
    fn a_clock_that_was_stepped_is_tolerated() {
        let taken = [acquire("a", (0, 5), 1), acquire("b", (60, 70), 2)];
        rejects(&taken, &[], "one holder");
        assert_eq!(check(&taken, &[], Tolerance { clock_us: 30 }), []);
    }

    #[test]
    fn a_waiter_that_is_passed_is_rejected() {
        let first = acquire("a", (0, 90), 3);
        let second = acquire("b", (50, 60), 2);
        let passed = [first.clone(), second.clone()];
        assert_eq!(turns(&passed, 10).len(), 1);
        // They may have come at the same time.
        assert_eq!(turns(&passed, 60), []);
        let in_line = [acquire("a", (0, 60), 2), acquire("b", (50, 90), 3)];
        assert_eq!(turns(&in_line, 10), []);
    }
}
