//! Responses to clients, and whether they hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

/// A number that loses updates unless its writers take turns.
#[derive(Debug, Default)]
pub struct Counter {
    value: AtomicU64,
    /// Number of acknowledged increments.
    acknowledged: AtomicU64,
    /// Newest token of the writers.
    token: AtomicI64,
}

impl Counter {
    /// Reads, pauses, writes. A token must be newer than all before.
    pub fn add_one(&self, token: Option<i64>) {
        let read = self.value.load(Ordering::SeqCst);
        if let Some(token) = token {
            let before = self.token.swap(token, Ordering::SeqCst);
            assert!(before < token, "token {token} came after {before}");
        }
        std::thread::sleep(Duration::from_millis(1));
        self.value.store(read + 1, Ordering::SeqCst);
        self.acknowledged.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the number of lost updates, and of all updates.
    pub fn lost(&self) -> (u64, u64) {
        let acknowledged = self.acknowledged.load(Ordering::SeqCst);
        (
            acknowledged - self.value.load(Ordering::SeqCst),
            acknowledged,
        )
    }
}

/// Stored items, and their completions.
#[derive(Debug, Default)]
pub struct Items {
    pushed: Mutex<BTreeSet<i64>>,
    completed: Mutex<BTreeMap<i64, u32>>,
}

impl Items {
    pub fn pushed(&self, id: i64) {
        assert!(
            self.pushed.lock().unwrap().insert(id),
            "{id} was given twice"
        );
    }

    pub fn completed(&self, id: i64) {
        *self.completed.lock().unwrap().entry(id).or_default() += 1;
    }

    pub fn number(&self) -> usize {
        self.pushed.lock().unwrap().len()
    }

    /// Returns whether all pushed items are completed.
    pub fn is_empty(&self) -> bool {
        self.completed.lock().unwrap().len() >= self.number()
    }

    /// Returns the lost items, and those that were completed more than once or never pushed.
    pub fn wrong(&self) -> (Vec<i64>, Vec<i64>) {
        let (pushed, completed) = (self.pushed.lock().unwrap(), self.completed.lock().unwrap());
        let lost = pushed.iter().filter(|id| !completed.contains_key(id));
        let odd = completed
            .iter()
            .filter(|(id, times)| **times != 1 || !pushed.contains(id));
        (lost.copied().collect(), odd.map(|(id, _)| *id).collect())
    }
}

/// Work of once: how often each key's work was done, and which answers were returned.
#[derive(Debug, Default)]
pub struct Effects {
    of: Mutex<BTreeMap<String, (u32, Vec<Value>)>>,
}

impl Effects {
    pub fn done(&self, key: &str) {
        self.of.lock().unwrap().entry(key.to_owned()).or_default().0 += 1;
    }

    pub fn heard(&self, key: &str, answer: Value) {
        let mut of = self.of.lock().unwrap();
        of.entry(key.to_owned()).or_default().1.push(answer);
    }

    /// Returns the keys whose work was not done once, or that had different answers; and the number of keys.
    pub fn wrong(&self) -> (Vec<String>, usize) {
        let of = self.of.lock().unwrap();
        let wrong = of.iter().filter(|(_, (times, answers))| {
            *times != 1 || answers.windows(2).any(|pair| pair[0] != pair[1])
        });
        (wrong.map(|(key, _)| key.clone()).collect(), of.len())
    }
}
