//! Inbox: no item lost, none completed twice, groups in order and one at a time, limits kept.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use turno::Turno;
use turno::inbox::ItemState;

use super::{Clock, Operation, Violation, name_in};

/// What a process asks of the inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Pushes an item.
    Push {
        /// Queue.
        queue: String,
        /// Name of the item, in its payload. Unique.
        name: String,
        /// Group.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<String>,
        /// Unique key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// Claims one item by a call, without a worker.
    Claim {
        /// Queue.
        queue: String,
        /// Lease of the claim.
        lease_us: i64,
    },
    /// Runs the handler of an item, which writes its effect and completes the item in one transaction.
    Handle {
        /// Queue.
        queue: String,
        /// Name of the item.
        name: String,
        /// Id of the item.
        item: i64,
        /// Number of the attempt. Each claim has another one.
        attempt: u32,
        /// Group.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<String>,
    },
}

/// Answers about the inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The item is stored.
    Pushed {
        /// Id of the item.
        item: i64,
    },
    /// There is an item with this key.
    Duplicate {
        /// Id of that item.
        item: i64,
    },
    /// An item is claimed.
    Claimed {
        /// Id of the item.
        item: i64,
        /// Number of the attempt.
        attempt: u32,
    },
    /// There is nothing to claim.
    Empty,
    /// The effect and the completion are committed.
    Completed {
        /// When the commit was sent. The claim was live until then.
        commit_us: i64,
    },
    /// The claim is lost; nothing was written.
    Refused,
    /// The handler failed by itself, before its commit.
    Failed,
}

/// An effect in the application's own table, in the order of commits.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Effect {
    /// Name of the item.
    pub name: String,
    /// Attempt that wrote it.
    pub attempt: u32,
}

/// The state at the end of a run.
#[derive(Debug, Clone, Default)]
pub struct End {
    /// All effects, in the order of their commits.
    pub effects: Vec<Effect>,
    /// Names of the items that still wait or run.
    pub waiting: Vec<String>,
    /// Names of the items that failed too often.
    pub dead: Vec<String>,
    /// Largest number of items of each queue that may run at the same time.
    pub limits: HashMap<String, usize>,
    /// When the store crashed. A claim is not on the disk at once: after a crash, the item can be claimed again as the same attempt.
    pub crashes_us: Vec<i64>,
    /// The store's clock.
    pub clock: Clock,
}

impl End {
    /// Reads the names of the items that are left in these queues.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable, or if a payload has no name.
    pub async fn read(turno: &Turno, queues: &[&str]) -> Result<Self> {
        let mut end = End::default();
        for queue in queues {
            for state in [
                ItemState::Pending,
                ItemState::Scheduled,
                ItemState::Processing,
            ] {
                end.waiting.extend(names(turno, queue, state).await?);
            }
            let dead = names(turno, queue, ItemState::Failed).await?;
            end.dead.extend(dead);
        }
        Ok(end)
    }

    /// Whether the store crashed after the claim of an attempt whose handler began at `began_us`, and before `until_us`.
    fn crashed(&self, began_us: i64, until_us: i64) -> bool {
        let since_us = began_us.saturating_sub(CLAIMED_BEFORE_US);
        self.crashes_us
            .iter()
            .any(|at_us| (since_us..until_us).contains(at_us))
    }
}

/// Rows that are read at once.
const PAGE: u32 = 1000;

/// Names of the items of a state.
async fn names(turno: &Turno, queue: &str, state: ItemState) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut after = None;
    loop {
        let page = turno.inbox(queue).list(state, after, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(names);
        };
        after = Some(last.id);
        for item in &page {
            names.push(name_in(item.payload.as_deref())?);
        }
    }
}

/// How long before its handler an item may have been claimed: workers claim in advance, and are stopped for some seconds.
const CLAIMED_BEFORE_US: i64 = 10_000_000;

type Op = Operation<Call, Answer>;

/// Promise: each item whose push was acknowledged is completed, waiting or dead.
pub const NOT_LOST: &str = "inbox: no item is lost";
/// Promise: an item is completed at most once, and then it is not there any more.
pub const ONCE: &str = "inbox: an item is completed at most once";
const NOT_INVENTED: &str = "inbox: only what was pushed runs";
const KEYS: &str = "inbox: one item for a key";
/// Promise: an attempt that is completed is the newest one.
pub const CLAIMS: &str = "inbox: one live claim";
const LEASES: &str = "inbox: a claim is kept for its lease";
const EFFECTS: &str = "inbox: an effect is there if and only if the item was completed";
/// Promise: items of a group are completed in the order of their pushes.
pub const ORDER: &str = "inbox: a group runs in order";
const ALONE: &str = "inbox: a group runs one at a time";
const LIMITS: &str = "inbox: limits are kept";

/// Checks all operations and the state at the end.
pub fn check(operations: &[Op], end: &End) -> Vec<Violation> {
    let pushes = Pushes::of(operations);
    let handles = handles(operations);
    let mut violations = Violations(Vec::new());
    nothing_lost(&pushes, end, &mut violations);
    nothing_doubled(end, &mut violations);
    keys(operations, &mut violations);
    claims(&handles, end, &mut violations);
    leases(operations, &handles, end, &mut violations);
    effects(&handles, end, &mut violations);
    groups(operations, &handles, end, &mut violations);
    limits(&handles, end, &mut violations);
    violations.0
}

struct Violations(Vec<Violation>);

impl Violations {
    fn add(&mut self, promise: &'static str, what: String) {
        self.0.push(Violation { promise, what });
    }
}

/// Names of items, by the outcome of their pushes.
#[derive(Default)]
struct Pushes<'a> {
    asked: HashSet<&'a str>,
    stored: BTreeSet<&'a str>,
    duplicate: HashSet<&'a str>,
}

impl<'a> Pushes<'a> {
    fn of(operations: &'a [Op]) -> Self {
        let mut pushes = Pushes::default();
        for operation in operations {
            if let Call::Push { name, .. } = &operation.call {
                pushes.asked.insert(name);
                match operation.answer {
                    Some(Answer::Pushed { .. }) => _ = pushes.stored.insert(name),
                    Some(Answer::Duplicate { .. }) => _ = pushes.duplicate.insert(name),
                    _ => {}
                }
            }
        }
        pushes
    }
}

/// Call, return and number of a push.
type Push = (i64, i64, i64);

/// One run of a handler.
struct Handle<'a> {
    process: &'a str,
    queue: &'a str,
    name: &'a str,
    item: i64,
    attempt: u32,
    group: Option<&'a str>,
    began_us: i64,
    answer: Option<&'a Answer>,
}

impl<'a> Handle<'a> {
    fn of(operation: &'a Op) -> Option<Self> {
        let Call::Handle {
            queue,
            name,
            item,
            attempt,
            group,
        } = &operation.call
        else {
            return None;
        };
        Some(Handle {
            process: &operation.process,
            queue,
            name,
            item: *item,
            attempt: *attempt,
            group: group.as_deref(),
            began_us: operation.call_us,
            answer: operation.answer.as_ref(),
        })
    }

    /// Until when its claim was certainly live.
    fn live_until_us(&self) -> Option<i64> {
        match self.answer {
            Some(Answer::Completed { commit_us }) => Some(*commit_us),
            _ => None,
        }
    }
}

fn handles(operations: &[Op]) -> Vec<Handle<'_>> {
    operations.iter().filter_map(Handle::of).collect()
}

fn nothing_lost(pushes: &Pushes<'_>, end: &End, violations: &mut Violations) {
    let mut there: HashSet<&str> = end
        .effects
        .iter()
        .map(|effect| effect.name.as_str())
        .collect();
    there.extend(end.waiting.iter().map(String::as_str));
    there.extend(end.dead.iter().map(String::as_str));
    for name in &pushes.stored {
        if !there.contains(name) {
            violations.add(
                NOT_LOST,
                format!("{name} was pushed, and is neither done nor there"),
            );
        }
    }
    for name in there {
        if !pushes.asked.contains(name) {
            violations.add(NOT_INVENTED, format!("{name} was never pushed"));
        }
        if pushes.duplicate.contains(name) {
            violations.add(
                KEYS,
                format!("{name} was answered as a duplicate, and is there"),
            );
        }
    }
}

fn nothing_doubled(end: &End, violations: &mut Violations) {
    let mut done = HashSet::new();
    for effect in &end.effects {
        if !done.insert(effect.name.as_str()) {
            violations.add(ONCE, format!("{} has several effects", effect.name));
        }
    }
    let mut left = HashSet::new();
    for name in end.waiting.iter().chain(&end.dead) {
        if !left.insert(name.as_str()) {
            violations.add(ONCE, format!("{name} is there twice"));
        }
        if done.contains(name.as_str()) {
            violations.add(ONCE, format!("{name} is done, and still there"));
        }
    }
}

/// Pushes with one key: one is stored, the others name its item.
fn keys(operations: &[Op], violations: &mut Violations) {
    let mut stored: HashMap<(&str, &str), i64> = HashMap::new();
    let mut unknown: HashSet<(&str, &str)> = HashSet::new();
    for operation in operations {
        let Call::Push {
            queue,
            key: Some(key),
            ..
        } = &operation.call
        else {
            continue;
        };
        match operation.answer {
            Some(Answer::Pushed { item }) => {
                if let Some(other) = stored.insert((queue, key), item) {
                    violations.add(
                        KEYS,
                        format!("{queue}, {key}: {other} and {item} are stored"),
                    );
                }
            }
            None => _ = unknown.insert((queue, key)),
            _ => {}
        }
    }
    for operation in operations {
        if let (
            Call::Push {
                queue,
                key: Some(key),
                ..
            },
            Some(Answer::Duplicate { item }),
        ) = (&operation.call, &operation.answer)
        {
            match stored.get(&(queue.as_str(), key.as_str())) {
                Some(of) if of == item => {}
                None if unknown.contains(&(queue.as_str(), key.as_str())) => {}
                of => violations.add(
                    KEYS,
                    format!("{queue}, {key}: a duplicate of {item}, not of {of:?}"),
                ),
            }
        }
    }
}

/// A completion is proof that the claim was live: no other attempt has the same number, and none is newer. A crash of the store can
/// have undone the other claim.
fn claims(handles: &[Handle<'_>], end: &End, violations: &mut Violations) {
    let mut by_item: BTreeMap<i64, Vec<&Handle<'_>>> = BTreeMap::new();
    for handle in handles {
        by_item.entry(handle.item).or_default().push(handle);
    }
    for (item, mut handles) in by_item {
        handles.sort_by_key(|handle| handle.began_us);
        let mut attempts: HashMap<u32, &Handle<'_>> = HashMap::new();
        for handle in &handles {
            if let Some(other) = attempts.insert(handle.attempt, handle)
                && !end.crashed(other.began_us, handle.began_us)
            {
                let (attempt, process, other) = (handle.attempt, handle.process, other.process);
                violations.add(
                    CLAIMS,
                    format!("{item}: {other} and {process} had attempt {attempt}"),
                );
            }
        }
        for completed in &handles {
            let Some(until_us) = completed.live_until_us() else {
                continue;
            };
            let is_newer = |other: &&&Handle<'_>| other.attempt > completed.attempt;
            for newer in handles.iter().filter(is_newer) {
                if !end.crashed(newer.began_us, until_us) {
                    let (done, began) = (completed.attempt, newer.attempt);
                    violations.add(
                        CLAIMS,
                        format!("{item}: attempt {done} was completed, and {began} began"),
                    );
                }
            }
        }
    }
}

/// A claim that was answered.
struct Claim<'a> {
    process: &'a str,
    item: i64,
    attempt: u32,
    /// The claim was made after this time, and before the next one.
    call_us: i64,
    return_us: i64,
    lease_us: i64,
}

impl<'a> Claim<'a> {
    fn of(operation: &'a Op) -> Option<Self> {
        let Call::Claim { lease_us, .. } = operation.call else {
            return None;
        };
        let Some(Answer::Claimed { item, attempt }) = operation.answer else {
            return None;
        };
        Some(Claim {
            process: &operation.process,
            item,
            attempt,
            call_us: operation.call_us,
            return_us: operation.return_us,
            lease_us,
        })
    }
}

/// Until the lease of a claim has expired or its attempt has ended, no other claim gets the item. An attempt ends by the handler that
/// fails, and perhaps by one whose outcome is not known. A crash of the store can have undone the claim.
fn leases(operations: &[Op], handles: &[Handle<'_>], end: &End, violations: &mut Violations) {
    let mut ended: HashMap<(i64, u32), i64> = HashMap::new();
    // When there certainly was a claim of an item for an attempt.
    let mut known: HashMap<i64, Vec<(u32, i64)>> = HashMap::new();
    for handle in handles {
        let (item, attempt, began_us) = (handle.item, handle.attempt, handle.began_us);
        if matches!(handle.answer, None | Some(Answer::Failed)) {
            let first = ended.entry((item, attempt)).or_insert(began_us);
            *first = (*first).min(began_us);
        }
        known.entry(item).or_default().push((attempt, began_us));
    }
    let claims: Vec<Claim<'_>> = operations.iter().filter_map(Claim::of).collect();
    for claim in &claims {
        let at = (claim.attempt, claim.return_us);
        known.entry(claim.item).or_default().push(at);
    }
    let mut attempts: HashMap<(i64, u32), &Claim<'_>> = HashMap::new();
    for claim in &claims {
        let (item, attempt, process) = (claim.item, claim.attempt, claim.process);
        if let Some(other) = attempts.insert((item, attempt), claim)
            && !end.crashed(other.call_us, claim.return_us)
        {
            let other = other.process;
            violations.add(
                CLAIMS,
                format!("{item}: {other} and {process} claimed attempt {attempt}"),
            );
        }
        let expiry_us = end.clock.earliest_expiry_us(claim.call_us, claim.lease_us);
        let live_until_us = ended
            .get(&(item, attempt))
            .map_or(expiry_us, |ended_us| expiry_us.min(*ended_us));
        for (newer, by_us) in known.get(&item).into_iter().flatten() {
            if *newer > attempt && *by_us < live_until_us && !end.crashed(claim.call_us, *by_us) {
                let early_us = live_until_us - by_us;
                violations.add(
                    LEASES,
                    format!(
                        "{item}: {process} had attempt {attempt}, and attempt {newer} began {early_us} us before its end"
                    ),
                );
            }
        }
    }
}

fn effects(handles: &[Handle<'_>], end: &End, violations: &mut Violations) {
    let there: HashSet<(&str, u32)> = end
        .effects
        .iter()
        .map(|effect| (effect.name.as_str(), effect.attempt))
        .collect();
    // After a crash, several handlers can have had the same attempt.
    let mut began: BTreeMap<(&str, u32), Vec<Option<&Answer>>> = BTreeMap::new();
    for handle in handles {
        let key = (handle.name, handle.attempt);
        began.entry(key).or_default().push(handle.answer);
    }
    for (key, answers) in &began {
        let is_done = |answer: &&Option<&Answer>| matches!(answer, Some(Answer::Completed { .. }));
        let completed = answers.iter().filter(is_done).count();
        let is_there = there.contains(key);
        if completed > usize::from(is_there) {
            violations.add(
                EFFECTS,
                format!("{key:?} was completed {completed} times; its effect is there: {is_there}"),
            );
        }
        let may_be_done = completed > 0 || answers.contains(&None);
        if is_there && !may_be_done {
            violations.add(
                EFFECTS,
                format!("{key:?} was refused or failed, and has an effect"),
            );
        }
    }
    for key in there.iter().filter(|key| !began.contains_key(*key)) {
        violations.add(EFFECTS, format!("{key:?} has an effect and never began"));
    }
}

fn groups(operations: &[Op], handles: &[Handle<'_>], end: &End, violations: &mut Violations) {
    // One push after the other: the ids, and so the order, follow.
    let mut pushed: BTreeMap<(&str, &str), Vec<Push>> = BTreeMap::new();
    for operation in operations {
        if let (
            Call::Push {
                queue,
                group: Some(group),
                ..
            },
            Some(Answer::Pushed { item }),
        ) = (&operation.call, &operation.answer)
        {
            let times = (operation.call_us, operation.return_us, *item);
            pushed.entry((queue, group)).or_default().push(times);
        }
    }
    for ((queue, group), mut pushes) in pushed {
        pushes.sort_unstable();
        let mut returned: Vec<(i64, i64)> =
            pushes.iter().map(|(_, at, item)| (*at, *item)).collect();
        returned.sort_unstable();
        let mut earlier = returned.into_iter().peekable();
        let mut newest = i64::MIN;
        for (call_us, _, item) in pushes {
            while let Some((_, before)) = earlier.next_if(|(at, _)| *at < call_us) {
                newest = newest.max(before);
            }
            if item < newest {
                violations.add(
                    ORDER,
                    format!("{queue}, {group}: {item} was pushed after {newest}"),
                );
            }
        }
    }
    let mut by_name: HashMap<(&str, u32), &Handle<'_>> = HashMap::new();
    for handle in handles {
        let of = by_name
            .entry((handle.name, handle.attempt))
            .or_insert(handle);
        if handle.live_until_us().is_some() {
            *of = handle;
        }
    }
    let pushed: HashMap<&str, (i64, i64)> = operations
        .iter()
        .filter_map(|operation| match &operation.call {
            Call::Push { name, .. } => {
                Some((name.as_str(), (operation.call_us, operation.return_us)))
            }
            Call::Claim { .. } | Call::Handle { .. } => None,
        })
        .collect();
    let mut last: HashMap<(&str, &str), &Handle<'_>> = HashMap::new();
    for effect in &end.effects {
        let Some(handle) = by_name.get(&(effect.name.as_str(), effect.attempt)) else {
            continue;
        };
        let Some(group) = handle.group else {
            continue;
        };
        let Some(before) = last.insert((handle.queue, group), handle) else {
            continue;
        };
        let (queue, first, second) = (handle.queue, before.item, handle.item);
        // Of two pushes at the same time, the one with the lower number may have been committed after the other item was claimed,
        // which was some time before its handler began.
        let is_pushed = pushed
            .get(handle.name)
            .zip(pushed.get(before.name))
            .is_some_and(|((_, by_us), (call_us, _))| {
                let claimed_us = before.began_us.saturating_sub(CLAIMED_BEFORE_US);
                *by_us < claimed_us.max(*call_us)
            });
        if second < first && is_pushed {
            violations.add(
                ORDER,
                format!("{queue}, {group}: {second} was completed after {first}"),
            );
        }
        if before
            .live_until_us()
            .is_some_and(|until_us| handle.began_us < until_us)
        {
            violations.add(
                ALONE,
                format!("{queue}, {group}: {second} began while {first} ran"),
            );
        }
    }
}

/// Counts the claims that were certainly live at the same time.
fn limits(handles: &[Handle<'_>], end: &End, violations: &mut Violations) {
    let mut changes: BTreeMap<&str, Vec<(i64, i64)>> = BTreeMap::new();
    for handle in handles {
        if let Some(until_us) = handle.live_until_us() {
            let of = changes.entry(handle.queue).or_default();
            of.push((handle.began_us, 1));
            of.push((until_us, -1));
        }
    }
    for (queue, mut changes) in changes {
        let Some(limit) = end.limits.get(queue) else {
            continue;
        };
        changes.sort_unstable();
        let mut running = 0_i64;
        for (at_us, change) in changes {
            running += change;
            if running > i64::try_from(*limit).unwrap_or(i64::MAX) {
                violations.add(
                    LIMITS,
                    format!("{queue}: {running} ran at {at_us}, not {limit}"),
                );
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests;
