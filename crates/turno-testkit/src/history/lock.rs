//! Locks: exclusion by token, shared holds and permits, tokens that only grow, the guard, and turns in line.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::linear::{self, Model, Verdict};
use super::{Clock, Operation, Violation};

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

/// Steps of a search for one resource.
const MAX_STEPS: usize = 2_000_000;

type Op = Operation<Call, Answer>;

/// Checks all operations, and the writes of the application in the order of their commits.
pub fn check(operations: &[Op], writes: &[Write], clock: &Clock) -> Vec<Violation> {
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
        leave_out_lost_acquires(operations);
        operations.sort_by_key(|operation| operation.call_us);
        let what = match linear::check(&Resource(clock), operations, MAX_STEPS) {
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

/// How long after a busy answer its call may still change the lock: the registration of a waiter ends in the background.
const BACKGROUND_US: i64 = 200_000;

/// Whether it was answered busy while another call was under way. A call that does not wait gets this answer, too, if another one is
/// changing the lock, whatever that leads to: this says nothing about the holders.
fn is_contended(operation: &Op, all: &[Op]) -> bool {
    let overlaps = |other: &Op| {
        let background_us = match other.answer {
            Some(Answer::Busy) => BACKGROUND_US,
            _ => 0,
        };
        other.call_us <= operation.return_us
            && operation.call_us <= other.return_us.saturating_add(background_us)
            && !std::ptr::eq(other, operation)
    };
    operation.answer == Some(Answer::Busy) && all.iter().any(overlaps)
}

/// Leaves out acquires without an answer whose owner was never granted the lock. They can explain busy answers only, and every busy
/// answer after one of them is contended. In an outage there are many, and the search would try them in every order.
fn leave_out_lost_acquires(operations: &mut Vec<Op>) {
    let holders: HashSet<String> = operations
        .iter()
        .filter_map(|one| match (&one.call, &one.answer) {
            (Call::Acquire { owner, .. }, Some(Answer::Granted { .. })) => Some(owner.clone()),
            _ => None,
        })
        .collect();
    operations.retain(|one| match (&one.call, &one.answer) {
        (Call::Acquire { owner, .. }, None) => holders.contains(owner),
        _ => true,
    });
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
struct Resource<'a>(&'a Clock);

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

impl Model for Resource<'_> {
    type State = State;
    type Call = Call;
    type Answer = Answer;

    fn initial(&self) -> State {
        State::default()
    }

    fn after(&self, state: &State, operation: &Op, now_us: i64) -> Vec<State> {
        let until_us = operation.return_us;
        let expires = |ttl_us: i64| self.0.earliest_expiry_us(now_us, ttl_us);
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

#[cfg(test)]
mod tests;
