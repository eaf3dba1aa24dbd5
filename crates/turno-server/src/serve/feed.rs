//! Live state of the store for `GET /v1/stream`: one feed per prefix, shared by all its subscribers.
//!
//! A feed polls the store at most twice per second, and only while it has subscribers (`look`). It compares each result with
//! what it has sent (`sight`), serializes the difference once, and sends it to all subscribers. Because it polls the store, it
//! also reports changes that do not go through this server.

mod frame;
mod look;
mod sight;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use turno::Turno;
use turno_api::stream::StoreState;

pub(super) use self::frame::{COMMENT, frame, last};
use self::look::{Looker, Seen};
use self::sight::Sight;
use super::metrics::Metrics;
use super::problem::Problem;
use super::words::Code;

/// Poll interval of a feed.
const EVERY: Duration = Duration::from_millis(500);
/// Timeout of a poll.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of polls that a subscriber may lag behind.
const BEHIND: usize = 16;
/// Maximum number of subscribers.
const SUBSCRIBERS: usize = 256;
/// Maximum number of prefixes: each is polled separately.
const FEEDS: usize = 32;

/// All feeds of a server.
pub(super) struct Feeds {
    turno: Turno,
    metrics: Arc<Metrics>,
    closing: CancellationToken,
    seats: Arc<Semaphore>,
    feeds: Mutex<HashMap<String, Arc<Feed>>>,
    tasks: TaskTracker,
}

impl fmt::Debug for Feeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feeds").finish_non_exhaustive()
    }
}

/// One subscriber's share of a feed.
#[derive(Debug)]
pub(super) struct Subscription {
    /// First message: a snapshot. `None` before the first poll.
    pub(super) first: Option<Bytes>,
    /// Changes after the first message.
    pub(super) then: broadcast::Receiver<Bytes>,
    /// Counts against [`SUBSCRIBERS`].
    _seat: OwnedSemaphorePermit,
}

impl Feeds {
    pub(super) fn new(turno: Turno, metrics: Arc<Metrics>, closing: CancellationToken) -> Self {
        Feeds {
            turno,
            metrics,
            closing,
            seats: Arc::new(Semaphore::new(SUBSCRIBERS)),
            feeds: Mutex::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// Subscribes to the names that begin with a prefix.
    pub(super) fn subscribe(self: &Arc<Self>, prefix: &str) -> Result<Subscription, Problem> {
        let full = |what: &str, most: usize| {
            Problem::new(Code::Overloaded).because(format!(
                "{most} {what} already, the most: try again later, or ask for lists instead"
            ))
        };
        let seat = self.seats.clone().try_acquire_owned();
        let seat = seat.map_err(|_| full("clients listen", SUBSCRIBERS))?;
        let mut feeds = self.all();
        if let Some(feed) = feeds.get(prefix) {
            return Ok(feed.subscribe(seat));
        }
        if feeds.len() >= FEEDS {
            return Err(full("prefixes are watched", FEEDS));
        }
        let feed = Arc::new(Feed::new());
        let subscription = feed.subscribe(seat);
        feeds.insert(prefix.to_owned(), feed.clone());
        self.metrics.feeds.set(feeds.len() as i64);
        self.tasks
            .spawn(self.clone().watch(prefix.to_owned(), feed));
        Ok(subscription)
    }

    /// Polls the store and sends changes, as long as the feed has subscribers.
    async fn watch(self: Arc<Self>, prefix: String, feed: Arc<Feed>) {
        let mut looker = Looker::new(self.turno.clone(), prefix.clone());
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let work = async {
            loop {
                ticks.tick().await;
                if self.forget(&prefix, &feed) {
                    return;
                }
                match tokio::time::timeout(PATIENCE, looker.look()).await {
                    Ok(Ok(seen)) => feed.tell(seen),
                    Ok(Err(error)) => feed.fail(&error.to_string()),
                    Err(_) => feed.fail("it does not answer in time"),
                }
            }
        };
        tokio::select! {
            () = work => {}
            () = self.closing.cancelled() => {}
        }
    }

    /// Ends a feed without subscribers. Subscribing takes the same lock, so no subscriber joins a feed that has ended.
    fn forget(&self, prefix: &str, feed: &Feed) -> bool {
        let mut feeds = self.all();
        let is_unheard = feed.sender.receiver_count() == 0;
        if is_unheard {
            feeds.remove(prefix);
            self.metrics.feeds.set(feeds.len() as i64);
        }
        is_unheard
    }

    /// Waits for the end of all feeds, after `closing` was cancelled.
    pub(super) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Feed>>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The feed of one prefix.
struct Feed {
    sender: broadcast::Sender<Bytes>,
    told: Mutex<Told>,
}

/// State that has been sent to the subscribers.
#[derive(Default)]
struct Told {
    /// Id of the last event.
    id: u64,
    /// `None` before the first poll.
    sight: Option<Sight>,
    is_down: bool,
}

impl Feed {
    fn new() -> Self {
        Feed {
            sender: broadcast::Sender::new(BEHIND),
            told: Mutex::default(),
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock that sending takes, so that no change falls between the snapshot and the messages that follow.
    fn subscribe(&self, seat: OwnedSemaphorePermit) -> Subscription {
        let told = self.told();
        let mut first = Vec::new();
        if let Some(sight) = &told.sight {
            frame(&mut first, told.id, "snapshot", &sight.snapshot());
        }
        if told.is_down {
            frame(&mut first, told.id, "store", &StoreState { up: false });
        }
        Subscription {
            first: (!first.is_empty()).then(|| first.into()),
            then: self.sender.subscribe(),
            _seat: seat,
        }
    }

    /// Sends the changes of a poll.
    fn tell(&self, seen: Seen) {
        let mut told = self.told();
        let Told { id, sight, is_down } = &mut *told;
        let mut text = Vec::new();
        let mut write = Write {
            id,
            text: &mut text,
        };
        if std::mem::take(is_down) {
            write.event("store", &StoreState { up: true });
        }
        match sight {
            Some(sight) => sight.change(seen, &mut write),
            None => {
                let first = Sight::new(seen);
                write.event("snapshot", &first.snapshot());
                *sight = Some(first);
            }
        }
        self.send(text);
    }

    /// Sends that the store is unavailable, once per outage.
    fn fail(&self, why: &str) {
        let mut told = self.told();
        if std::mem::replace(&mut told.is_down, true) {
            return;
        }
        tracing::warn!(why, "the store cannot be watched");
        let mut text = Vec::new();
        let mut write = Write {
            id: &mut told.id,
            text: &mut text,
        };
        write.event("store", &StoreState { up: false });
        self.send(text);
    }

    fn send(&self, text: Vec<u8>) {
        if !text.is_empty() {
            // An error means that there are no subscribers, which the next tick detects.
            let _ = self.sender.send(text.into());
        }
    }
}

/// Serializes a sequence of events.
struct Write<'a> {
    id: &'a mut u64,
    text: &'a mut Vec<u8>,
}

impl Write<'_> {
    fn event(&mut self, name: &str, data: &impl serde::Serialize) {
        *self.id += 1;
        frame(self.text, *self.id, name, data);
    }
}

#[cfg(test)]
mod tests;
