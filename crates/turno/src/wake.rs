//! Waking waiters. A wake-up is a hint to look again, never a grant: who gets the lock is decided in
//! the store. So a missed one costs a little time, and a false one costs a read.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};
use tokio::sync::Notify;

/// So much of a name's SHA-256 is its hash.
const HASH_BYTES: usize = 8;

/// The waiters of this process, by the name of what they wait for.
#[derive(Debug, Default)]
pub struct Wakers {
    names: Mutex<Names>,
    watchers: AtomicUsize,
    live: AtomicBool,
    /// Told when the first watcher arrives, so that a store can start to listen.
    needed: Notify,
}

#[derive(Debug, Default)]
struct Names {
    entries: HashMap<String, Entry>,
    /// The same entries by the hash of their name. Of two names with one hash, the later one is woken.
    by_hash: HashMap<String, Arc<Notify>>,
}

#[derive(Debug)]
struct Entry {
    hash: String,
    notify: Arc<Notify>,
    watchers: usize,
    /// Whether one of them looks for all.
    led: bool,
    /// Called one by one, the longest sleeper first: those who sleep while one looks for all.
    turn: Arc<Notify>,
}

impl Wakers {
    /// Starts to watch a name. Dropping the [`Watch`] ends it.
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

    /// Wakes those who wait for a name.
    pub fn wake(&self, name: &str) {
        if let Some(entry) = self.names().entries.get(name) {
            entry.notify.notify_waiters();
        }
    }

    /// Wakes those who wait for a name of which only the hash is known (`hash` makes it).
    pub fn wake_hash(&self, hash: &str) {
        if let Some(notify) = self.names().by_hash.get(hash) {
            notify.notify_waiters();
        }
    }

    /// Wakes everybody: something changed, and it is not known what.
    pub fn wake_all(&self) {
        for entry in self.names().entries.values() {
            entry.notify.notify_waiters();
        }
    }

    /// Whether changes made by other processes are known to arrive here.
    pub fn is_live(&self) -> bool {
        self.live.load(Ordering::Relaxed)
    }

    /// Says whether they do; the store knows.
    pub fn set_live(&self, live: bool) {
        self.live.store(live, Ordering::Relaxed);
    }

    /// Whether anybody waits.
    pub fn any(&self) -> bool {
        self.watchers.load(Ordering::SeqCst) > 0
    }

    /// Resolves when somebody waits: then a store has a reason to listen.
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

/// What a notification carries in place of a name, because every role that can connect can listen. The same as
/// `turno.wake_hash` in SQL: the first 16 hexadecimal digits of SHA-256.
pub fn hash(name: &str) -> String {
    let mut text = String::with_capacity(2 * HASH_BYTES);
    for byte in &Sha256::digest(name)[..HASH_BYTES] {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// One waiter's ear.
#[derive(Debug)]
pub struct Watch {
    wakers: Arc<Wakers>,
    name: String,
    notify: Arc<Notify>,
    turn: Arc<Notify>,
}

impl Watch {
    /// What is watched.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A future that resolves at the next wake-up after this call, even if it is awaited later.
    pub fn next(&self) -> std::pin::Pin<Box<tokio::sync::futures::OwnedNotified>> {
        let mut next = Box::pin(self.notify.clone().notified_owned());
        next.as_mut().enable();
        next
    }
}

impl Watch {
    /// Makes this one the watcher that looks for all; `None` if there is one. When it stops, it wakes the others, who look
    /// once and choose the next.
    pub(crate) fn lead(&self) -> Option<Leads> {
        self.take_lead().then(|| Leads {
            wakers: self.wakers.clone(),
            name: self.name.clone(),
        })
    }

    /// The same, where what is found is one watcher's only: when it stops, it does not wake all, but gives the turn on.
    pub(crate) fn lead_in_turn(&self) -> Option<LeadsInTurn> {
        self.take_lead().then(|| LeadsInTurn {
            wakers: self.wakers.clone(),
            name: self.name.clone(),
        })
    }

    fn take_lead(&self) -> bool {
        let mut names = self.wakers.names();
        names
            .entries
            .get_mut(&self.name)
            .is_some_and(|entry| !std::mem::replace(&mut entry.led, true))
    }

    /// Resolves when it is this one's turn to look. Cancel-safe: a turn that is not taken is the next one's.
    pub(crate) async fn turn(&self) {
        self.turn.notified().await;
    }

    /// Lets others look: there may be more where something was found.
    pub(crate) fn give_turn(&self) {
        give(&self.turn);
    }
}

/// To two, so that many get what is there soon; and so each look that finds something costs one in vain at the most.
fn give(turn: &Notify) {
    turn.notify_one();
    turn.notify_one();
}

/// Held by the watcher that looks for all, and takes what it finds.
#[derive(Debug)]
pub(crate) struct LeadsInTurn {
    wakers: Arc<Wakers>,
    name: String,
}

impl Drop for LeadsInTurn {
    fn drop(&mut self) {
        if let Some(entry) = self.wakers.names().entries.get_mut(&self.name) {
            entry.led = false;
            give(&entry.turn);
        }
    }
}

/// Held by the watcher that looks for all.
#[derive(Debug)]
pub(crate) struct Leads {
    wakers: Arc<Wakers>,
    name: String,
}

impl Drop for Leads {
    fn drop(&mut self) {
        if let Some(entry) = self.wakers.names().entries.get_mut(&self.name) {
            entry.led = false;
            entry.notify.notify_waiters();
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

    /// As `sha256sum` says; `turno.wake_hash` is compared with this in `tests/sql_face`.
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

    /// What a future is now, if it is ready.
    async fn if_ready<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
        tokio::select! {
            biased;
            done = future => Some(done),
            () = std::future::ready(()) => None,
        }
    }
}
