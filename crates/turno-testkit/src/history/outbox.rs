//! Outbox: an event is delivered if and only if its transaction was committed, in the order of its key; duplicates are labelled.

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use turno::Turno;
use turno::outbox::EventState;

use super::{Operation, Violation, name_in};

/// An event in a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Name of the event, in its payload. Unique.
    pub name: String,
    /// Key. Only one process uses it, one transaction after the other.
    pub key: String,
    /// Number of the event within its key, which grows.
    pub number: u64,
}

/// What a process asks of the outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Emits events in a transaction that also writes a row with its name.
    Emit {
        /// Name of the transaction. Unique.
        transaction: String,
        /// Events.
        events: Vec<Event>,
    },
    /// Receives a message of the broker.
    Receive {
        /// Id of the message, which is that of the event.
        id: String,
        /// Name of the event.
        name: String,
        /// Whether the message says that it may have been sent before.
        possible_duplicate: bool,
        /// Number of the receiver's connection. After a new one, the broker repeats what was not acknowledged.
        connection: u64,
    },
}

/// Answers about the outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The transaction was committed.
    Committed,
    /// The transaction was rolled back.
    RolledBack,
    /// The message was received.
    Received,
}

/// The state at the end of a run.
#[derive(Debug, Clone, Default)]
pub struct End {
    /// Names of the transactions whose row is there.
    pub committed: HashSet<String>,
    /// Names of the events that were not sent yet, or that the broker refused too often.
    pub left: HashSet<String>,
    /// Whether relays keep the order of each key.
    pub ordered: bool,
}

/// Rows that are read at once.
const PAGE: u32 = 1000;

impl End {
    /// Reads the names of the events that are left. Relays keep the order.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable, or if a payload has no name.
    pub async fn read(turno: &Turno, committed: HashSet<String>) -> Result<Self> {
        let mut left = HashSet::new();
        for state in [
            EventState::Pending,
            EventState::Scheduled,
            EventState::Processing,
            EventState::Dead,
            EventState::Blocked,
        ] {
            let mut after = None;
            loop {
                let page = turno.outbox().list(state, after, PAGE).await?;
                let Some(last) = page.last() else {
                    break;
                };
                after = Some(last.seq);
                for event in &page {
                    left.insert(name_in(event.payload.as_deref())?);
                }
            }
        }
        Ok(End {
            committed,
            left,
            ordered: true,
        })
    }
}

type Op = Operation<Call, Answer>;

/// Promise: each event of a committed transaction is delivered or still there.
pub const COMMITTED: &str = "outbox: what was committed is delivered";
const ROLLED_BACK: &str = "outbox: what was not committed is not delivered";
const ANSWERED: &str = "outbox: a commit is what was answered";
const ORDER: &str = "outbox: the order of a key";
/// Promise: of the copies of an event, at most one has no label.
pub const LABELS: &str = "outbox: duplicates are labelled";
const IDS: &str = "outbox: an event keeps its id";

/// Checks all operations, of which those of receivers are in the order of arrival, and the state at the end.
pub fn check(operations: &[Op], end: &End) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut add =
        |promise: &'static str, what: String| violations.push(Violation { promise, what });
    let mut events: HashMap<&str, (&Event, &str)> = HashMap::new();
    for operation in operations {
        let Call::Emit {
            transaction,
            events: emitted,
        } = &operation.call
        else {
            continue;
        };
        let is_there = end.committed.contains(transaction);
        match operation.answer {
            Some(Answer::Committed) if !is_there => {
                add(
                    ANSWERED,
                    format!("{transaction} was committed, and is not there"),
                );
            }
            Some(Answer::RolledBack) if is_there => {
                add(
                    ANSWERED,
                    format!("{transaction} was rolled back, and is there"),
                );
            }
            _ => {}
        }
        for event in emitted {
            events.insert(&event.name, (event, transaction));
        }
    }
    let mut ids: HashMap<&str, &str> = HashMap::new();
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut last: BTreeMap<&str, &Event> = BTreeMap::new();
    let mut unlabelled: HashSet<(&str, &str, u64)> = HashSet::new();
    for operation in operations {
        let Call::Receive {
            id,
            name,
            possible_duplicate,
            connection,
        } = &operation.call
        else {
            continue;
        };
        let Some((event, transaction)) = events.get(name.as_str()) else {
            add(ROLLED_BACK, format!("{name} was never emitted"));
            continue;
        };
        if !end.committed.contains(*transaction) {
            add(
                ROLLED_BACK,
                format!("{name} of {transaction} was delivered"),
            );
        }
        if names.insert(id, name).is_some_and(|other| other != name) {
            add(
                IDS,
                format!("{id} is the id of several events, one is {name}"),
            );
        }
        // A relay that was stopped may send the first copy after a labelled one. So one copy has no label, not the first one.
        let copy = (name.as_str(), operation.process.as_str(), *connection);
        if !possible_duplicate && !unlabelled.insert(copy) {
            add(
                LABELS,
                format!("{name} was delivered again, without a label"),
            );
        }
        match ids.insert(name, id) {
            Some(other) if other != id => add(IDS, format!("{name} has the ids {other} and {id}")),
            Some(_) => {}
            None if end.ordered => {
                if let Some(before) = last.insert(&event.key, event)
                    && before.number > event.number
                {
                    let (key, first) = (&event.key, &before.name);
                    add(ORDER, format!("{key}: {name} was delivered after {first}"));
                }
            }
            None => {}
        }
    }
    for (name, (_, transaction)) in &events {
        let is_delivered = ids.contains_key(name);
        let is_left = end.left.contains(*name);
        if end.committed.contains(*transaction) && !is_delivered && !is_left {
            add(COMMITTED, format!("{name} of {transaction} is lost"));
        }
        if is_left && !end.committed.contains(*transaction) {
            add(
                ROLLED_BACK,
                format!("{name} of {transaction} is still there"),
            );
        }
    }
    violations
}

/// Forged histories: one that keeps all promises, and changes of it of which each breaks one.
#[cfg(test)]
mod tests {
    use super::*;

    fn emit(transaction: &str, numbers: &[u64], answer: Option<Answer>) -> Op {
        let event = |number: &u64| Event {
            name: format!("e{number}"),
            key: "k".to_owned(),
            number: *number,
        };
        Operation {
            process: "client".to_owned(),
            call_us: 0,
            return_us: 1,
            call: Call::Emit {
                transaction: transaction.to_owned(),
                events: numbers.iter().map(event).collect(),
            },
            answer,
        }
    }

    fn receive(number: u64, possible_duplicate: bool) -> Op {
        Operation {
            process: "consumer".to_owned(),
            call_us: 10,
            return_us: 11,
            call: Call::Receive {
                id: format!("id{number}"),
                name: format!("e{number}"),
                possible_duplicate,
                connection: 1,
            },
            answer: Some(Answer::Received),
        }
    }

    /// Two committed transactions, one rolled back, one without an answer that was committed; one event was sent twice.
    fn honest() -> (Vec<Op>, End) {
        let operations = vec![
            emit("t1", &[1, 2], Some(Answer::Committed)),
            emit("t2", &[3], Some(Answer::RolledBack)),
            emit("t3", &[4], None),
            emit("t4", &[5, 6], Some(Answer::Committed)),
            receive(1, false),
            receive(2, false),
            receive(1, true),
            receive(4, true),
            receive(5, false),
        ];
        let end = End {
            committed: ["t1", "t3", "t4"].map(str::to_owned).into(),
            left: ["e6"].map(str::to_owned).into(),
            ordered: true,
        };
        (operations, end)
    }

    #[track_caller]
    fn rejects(promise: &str, change: impl FnOnce(&mut Vec<Op>, &mut End)) {
        let (mut operations, mut end) = honest();
        change(&mut operations, &mut end);
        let violations = check(&operations, &end);
        assert!(
            violations
                .iter()
                .any(|violation| violation.promise == promise),
            "{promise:?} is not in {violations:#?}"
        );
    }

    #[test]
    fn an_honest_history_is_accepted() {
        let (operations, end) = honest();
        assert_eq!(check(&operations, &end), []);
    }

    #[test]
    fn a_lost_event_is_rejected() {
        rejects(COMMITTED, |operations, _| _ = operations.pop());
        rejects(COMMITTED, |_, end| end.left.clear());
    }

    #[test]
    fn a_lost_event_of_a_transaction_without_an_answer_is_rejected() {
        rejects(COMMITTED, |operations, _| _ = operations.remove(7));
    }

    #[test]
    fn an_event_of_a_transaction_that_was_rolled_back_is_rejected() {
        rejects(ROLLED_BACK, |operations, _| {
            operations.push(receive(3, false))
        });
        rejects(ROLLED_BACK, |_, end| _ = end.left.insert("e3".to_owned()));
    }

    #[test]
    fn an_event_that_was_never_emitted_is_rejected() {
        rejects(ROLLED_BACK, |operations, _| {
            operations.push(receive(9, false))
        });
    }

    #[test]
    fn a_commit_that_is_not_there_is_rejected() {
        rejects(ANSWERED, |_, end| _ = end.committed.remove("t1"));
    }

    #[test]
    fn a_rollback_that_is_there_is_rejected() {
        rejects(ANSWERED, |_, end| _ = end.committed.insert("t2".to_owned()));
    }

    #[test]
    fn a_key_out_of_order_is_rejected() {
        rejects(ORDER, |operations, _| operations.swap(4, 5));
    }

    #[test]
    fn order_counts_only_where_it_is_kept() {
        let (mut operations, mut end) = honest();
        operations.swap(4, 5);
        end.ordered = false;
        assert_eq!(check(&operations, &end), []);
    }

    #[test]
    fn a_duplicate_without_label_is_rejected() {
        rejects(LABELS, |operations, _| operations[6] = receive(1, false));
    }

    #[test]
    fn the_copy_without_a_label_may_come_second() {
        let (mut operations, end) = honest();
        operations[4] = receive(1, true);
        operations[6] = receive(1, false);
        assert_eq!(check(&operations, &end), []);
    }

    #[test]
    fn the_broker_may_repeat_what_was_not_acknowledged() {
        let (mut operations, end) = honest();
        operations[6] = receive(1, false);
        if let Call::Receive { connection, .. } = &mut operations[6].call {
            *connection = 2;
        }
        assert_eq!(check(&operations, &end), []);
    }

    #[test]
    fn an_id_that_changes_is_rejected() {
        rejects(IDS, |operations, _| {
            if let Call::Receive { id, .. } = &mut operations[6].call {
                *id = "another".to_owned();
            }
        });
    }

    #[test]
    fn an_id_of_two_events_is_rejected() {
        rejects(IDS, |operations, _| {
            if let Call::Receive { id, .. } = &mut operations[5].call {
                *id = "id1".to_owned();
            }
        });
    }
}
