//! Wake-ups of waiters. A wake-up is a hint to poll again, never a grant: the store decides who gets a lock. A missed
//! wake-up therefore costs a little time, and a false one costs a read.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};
use tokio::sync::Notify;

/// Number of bytes of a name's SHA-256 that make its hash.
const HASH_BYTES: usize = 8;

/// Waiters of this process, by the name of what they wait for.
#[derive(Debug, Default)]
pub struct Wakers {
    names: Mutex<Names>,
    watchers: AtomicUsize,
    live: AtomicBool,
    /// Notified when the first watcher arrives, so that a store can start to listen.
    needed: Notify,
}

#[derive(Debug, Default)]
struct Names {
    entries: HashMap<String, Entry>,
    /// The same entries by the hash of their name. If two names have the same hash, only the later one is woken.
    by_hash: HashMap<String, Arc<Notify>>,
}

#[derive(Debug)]
struct Entry {
    hash: String,
    notify: Arc<Notify>,
    watchers: usize,
    /// Whether one of the watchers polls for all.
    led: bool,
    /// Wakes watchers one at a time, the longest waiting first. They wait here while one watcher polls for all.
    turn: Arc<Notify>,
}

impl Wakers {
    /// Starts to watch a name, until the [`Watch`] is dropped.
    pub fn watch(self: &Arc<Self>, name: &str) -> Watch {
        let mut names = self.names();
        let Names { entries, by_hash } = &mut *names;
        let entry = entries.entry(name.to_owned()).or_insert_with(|| {
            let entry = Entry::new(name);
            by_hash.insert(entry.hash.clone(), entry.notify.clone());
            entry
        });
        entry.watchers += 1;
        let (notify, turn) = (entry.notify.clone(), entry.turn.clone());
        drop(names);
        self.watchers.fetch_add(1, Ordering::SeqCst);
        self.needed.notify_one();
        Watch {
            wakers: self.clone(),
            name: name.to_owned(),
            notify,
            turn,
        }
    }

    /// Wakes the waiters of a name.
    pub fn wake(&self, name: &str) {
        if let Some(entry) = self.names().entries.get(name) {
            entry.notify.notify_waiters();
        }
    }

    /// Wakes the waiters of a name of which only the hash is known (see `hash`).
    pub fn wake_hash(&self, hash: &str) {
        if let Some(notify) = self.names().by_hash.get(hash) {
            notify.notify_waiters();
        }
    }

    /// Wakes all waiters: something changed, and it is not known what.
    pub fn wake_all(&self) {
        for entry in self.names().entries.values() {
            entry.notify.notify_waiters();
        }
    }

    /// Returns whether notifications of changes by other processes arrive here.
    pub fn is_live(&self) -> bool {
        self.live.load(Ordering::Relaxed)
    }

    /// Sets whether such notifications arrive. Called by the store.
    pub fn set_live(&self, live: bool) {
        self.live.store(live, Ordering::Relaxed);
    }

    /// Returns whether there is a waiter.
    pub fn any(&self) -> bool {
        self.watchers.load(Ordering::SeqCst) > 0
    }

    /// Resolves when there is a waiter, and a store therefore has a reason to listen.
    pub async fn needed(&self) {
        while !self.any() {
            self.needed.notified().await;
        }
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn new(name: &str) -> Self {
        Entry {
            hash: hash(name),
            notify: Arc::new(Notify::new()),
            watchers: 0,
            led: false,
            turn: Arc::new(Notify::new()),
        }
    }
}

/// Hash that a notification carries in place of a name, because every role that can connect can listen. It equals
/// `turno.wake_hash` in SQL: the first 16 hexadecimal digits of SHA-256.
pub fn hash(name: &str) -> String {
    let mut text = String::with_capacity(2 * HASH_BYTES);
    for byte in &Sha256::digest(name)[..HASH_BYTES] {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Subscription of one waiter to the wake-ups of one name.
#[derive(Debug)]
pub struct Watch {
    wakers: Arc<Wakers>,
    name: String,
    notify: Arc<Notify>,
    turn: Arc<Notify>,
}

impl Watch {
    /// The watched name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a future that resolves at the next wake-up after this call, even if it is awaited later.
    pub fn next(&self) -> std::pin::Pin<Box<tokio::sync::futures::OwnedNotified>> {
        let mut next = Box::pin(self.notify.clone().notified_owned());
        next.as_mut().enable();
        next
    }
}

impl Watch {
    /// Makes this watcher the one that polls for all, or returns `None` if there is one already. When it stops, it wakes the
    /// others, which poll once and choose the next.
    pub(crate) fn lead(&self) -> Option<Leads> {
        self.take_lead(|entry| entry.notify.notify_waiters())
    }

    /// Like [`Watch::lead`], for results that only one watcher can use: when it stops, it wakes two of the others instead of all.
    pub(crate) fn lead_in_turn(&self) -> Option<Leads> {
        self.take_lead(|entry| give(&entry.turn))
    }

    fn take_lead(&self, wake_next: fn(&Entry)) -> Option<Leads> {
        let mut names = self.wakers.names();
        let entry = names.entries.get_mut(&self.name)?;
        (!std::mem::replace(&mut entry.led, true)).then(|| Leads {
            wakers: self.wakers.clone(),
            name: self.name.clone(),
            wake_next,
        })
    }

    /// Resolves when it is this watcher's turn to poll. Cancel-safe: a turn that is not taken goes to the next watcher.
    pub(crate) async fn turn(&self) {
        self.turn.notified().await;
    }

    /// Lets others poll, because there may be more where something was found.
    pub(crate) fn give_turn(&self) {
        give(&self.turn);
    }
}

/// Wakes two watchers, so that a large number of results is found quickly while each successful poll causes at most one
/// poll that finds nothing.
fn give(turn: &Notify) {
    turn.notify_one();
    turn.notify_one();
}

/// Held by the watcher that polls for all.
#[derive(Debug)]
pub(crate) struct Leads {
    wakers: Arc<Wakers>,
    name: String,
    /// Wakes the watchers that choose the next one.
    wake_next: fn(&Entry),
}

impl Drop for Leads {
    fn drop(&mut self) {
        if let Some(entry) = self.wakers.names().entries.get_mut(&self.name) {
            entry.led = false;
            (self.wake_next)(entry);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut names = self.wakers.names();
        let Names { entries, by_hash } = &mut *names;
        if let Some(entry) = entries.get_mut(&self.name) {
            entry.watchers -= 1;
            if entry.watchers == 0 {
                by_hash.remove(&entry.hash);
                entries.remove(&self.name);
            }
        }
        drop(names);
        self.wakers.watchers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are from `sha256sum`; `tests/sql_face` compares `turno.wake_hash` with this function.
    #[test]
    fn a_hash_is_the_beginning_of_sha_256() {
        assert_eq!(hash(""), "e3b0c44298fc1c14");
        assert_eq!(hash("abc"), "ba7816bf8f01cfea");
    }

    #[tokio::test]
    async fn a_hash_wakes_the_waiters_of_its_name_only() {
        let wakers = Arc::new(Wakers::default());
        let (one, other) = (wakers.watch("préstamo/1"), wakers.watch("préstamo/2"));
        let (woken, mut not_woken) = (one.next(), other.next());
        wakers.wake_hash(&hash("préstamo/1"));
        woken.await;
        assert!(if_ready(&mut not_woken).await.is_none());
        drop(one);
        assert_eq!(wakers.names().by_hash.len(), 1, "it goes with its name");
        assert_eq!(wakers.names().entries.len(), 1);
    }

    /// Returns the output of a future if it is ready.
    async fn if_ready<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
        tokio::select! {
            biased;
            done = future => Some(done),
            () = std::future::ready(()) => None,
        }
    }
}
