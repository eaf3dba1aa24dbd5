//! What happens in the store, for those who watch: one feed for each prefix, shared by all who watch it.
//!
//! A feed looks at the store at most twice a second, and only while somebody listens (`look`). What it saw becomes what
//! changed (`sight`), is written once, and goes to all its subscribers. It sees what others do at the store, too, and not
//! only what goes through this server.

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
use turno_client::wire::stream::StoreState;

pub(super) use self::frame::{COMMENT, frame, last};
use self::look::{Looker, Seen};
use self::sight::Sight;
use super::metrics::Metrics;
use super::problem::Problem;
use super::words::Code;

/// How often a feed looks.
const EVERY: Duration = Duration::from_millis(500);
/// How long the store may take to be looked at.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many looks a subscriber may be behind.
const BEHIND: usize = 16;
/// How many may listen.
const SUBSCRIBERS: usize = 256;
/// How many prefixes may be watched: each is looked for by itself.
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

/// What one listener gets.
#[derive(Debug)]
pub(super) struct Subscription {
    /// What comes first: how everything is.
    pub(super) first: Option<Bytes>,
    /// What changes after that.
    pub(super) then: broadcast::Receiver<Bytes>,
    /// Its place among those who listen.
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

    /// Listens to what happens to names that begin with a prefix.
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

    /// Looks, and tells, for as long as anybody listens.
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

    /// Ends a feed that nobody listens to. Whoever subscribes holds the same lock, so that nobody joins one that has ended.
    fn forget(&self, prefix: &str, feed: &Feed) -> bool {
        let mut feeds = self.all();
        let is_unheard = feed.sender.receiver_count() == 0;
        if is_unheard {
            feeds.remove(prefix);
            self.metrics.feeds.set(feeds.len() as i64);
        }
        is_unheard
    }

    /// Ends when all feeds have, after the server was told to close.
    pub(super) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Feed>>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is told of one prefix.
struct Feed {
    sender: broadcast::Sender<Bytes>,
    told: Mutex<Told>,
}

/// What everybody who listens knows by now.
#[derive(Default)]
struct Told {
    /// The number of the last event.
    id: u64,
    /// `None` before the first look.
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

    /// Under the lock that telling takes: what comes first and what comes then fit together.
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

    /// Tells what was seen, as far as it is new.
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

    /// Tells, once, that the store does not answer.
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
            // An error says that nobody listens any more, which the next tick finds.
            let _ = self.sender.send(text.into());
        }
    }
}

/// Writes events one after the other.
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
