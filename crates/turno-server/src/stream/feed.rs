//! One feed per prefix, shared by all its subscribers.
//!
//! A feed polls the store at most twice per second, and only while it has subscribers (`poller`). It compares each result with
//! what it has sent (`diff`), serializes the difference once, and sends it to all subscribers. Because it polls the store, it
//! also reports changes that do not go through this server.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use turno::overview::POLL_TIMEOUT;
use turno::problem::ProblemCode;
use turno_api::stream::StoreState;

use super::diff::SentState;
use super::frame::{EventWriter, frame};
use super::poller::{Poller, Snapshot};
use crate::http::problem::Problem;
use crate::overview::{OverviewPoller, TIMED_OUT};

/// Poll interval of a feed.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of polls that a subscriber may lag behind.
const MAX_LAG: usize = 16;
/// Maximum number of subscribers.
const MAX_SUBSCRIBERS: usize = 256;
/// Maximum number of prefixes: each is polled separately.
const MAX_FEEDS: usize = 32;

/// All feeds of a server.
pub(crate) struct Feeds {
    /// Overview of all names. Feeds with a prefix have their own.
    overview: Arc<OverviewPoller>,
    /// Number of feeds, for the metrics.
    gauge: Gauge,
    closing: CancellationToken,
    permits: Arc<Semaphore>,
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
pub(crate) struct Subscription {
    /// First message: a snapshot. `None` before the first poll.
    pub(crate) first: Option<Bytes>,
    /// Changes after the first message.
    pub(crate) then: broadcast::Receiver<Bytes>,
    /// Counts against [`MAX_SUBSCRIBERS`].
    _permit: OwnedSemaphorePermit,
}

impl Feeds {
    pub(crate) fn new(
        overview: Arc<OverviewPoller>,
        gauge: Gauge,
        closing: CancellationToken,
    ) -> Self {
        Feeds {
            overview,
            gauge,
            closing,
            permits: Arc::new(Semaphore::new(MAX_SUBSCRIBERS)),
            feeds: Mutex::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// Subscribes to the names that begin with a prefix.
    pub(crate) fn subscribe(self: &Arc<Self>, prefix: &str) -> Result<Subscription, Problem> {
        let full = |what: &str, max: usize| {
            Problem::new(ProblemCode::Overloaded).because(format!(
                "the limit of {max} {what} is reached: try again later, or request the lists instead"
            ))
        };
        let permit = self.permits.clone().try_acquire_owned();
        let permit = permit.map_err(|_| full("subscribers", MAX_SUBSCRIBERS))?;
        let mut feeds = self.all();
        if let Some(feed) = feeds.get(prefix) {
            return Ok(feed.subscribe(permit));
        }
        if feeds.len() >= MAX_FEEDS {
            return Err(full("prefixes", MAX_FEEDS));
        }
        let feed = Arc::new(Feed::new());
        let subscription = feed.subscribe(permit);
        feeds.insert(prefix.to_owned(), feed.clone());
        self.gauge.set(feeds.len() as i64);
        self.tasks
            .spawn(self.clone().watch(prefix.to_owned(), feed));
        Ok(subscription)
    }

    /// Polls the store and sends changes, as long as the feed has subscribers.
    async fn watch(self: Arc<Self>, prefix: String, feed: Arc<Feed>) {
        let mut poller = Poller::new(self.overview(&prefix));
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let work = async {
            loop {
                ticks.tick().await;
                if self.end_if_unused(&prefix, &feed) {
                    return;
                }
                match tokio::time::timeout(POLL_TIMEOUT, poller.poll()).await {
                    Ok(Ok(snapshot)) => feed.send_changes(snapshot),
                    Ok(Err(error)) => feed.fail(&error),
                    Err(_) => feed.fail(TIMED_OUT),
                }
            }
        };
        tokio::select! {
            () = work => {}
            () = self.closing.cancelled() => {}
        }
    }

    fn overview(&self, prefix: &str) -> Arc<OverviewPoller> {
        if prefix.is_empty() {
            return self.overview.clone();
        }
        let turno = self.overview.turno.clone();
        Arc::new(OverviewPoller::new(turno, prefix.to_owned()))
    }

    /// Ends a feed without subscribers. Subscribing takes the same lock, so no subscriber joins a feed that has ended.
    fn end_if_unused(&self, prefix: &str, feed: &Feed) -> bool {
        let mut feeds = self.all();
        let is_unused = feed.sender.receiver_count() == 0;
        if is_unused {
            feeds.remove(prefix);
            self.gauge.set(feeds.len() as i64);
        }
        is_unused
    }

    /// Waits for the end of all feeds, after `closing` was cancelled.
    pub(crate) async fn ended(&self) {
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
    sent: Mutex<Sent>,
}

/// State that has been sent to the subscribers.
#[derive(Default)]
struct Sent {
    /// Id of the last event.
    id: u64,
    /// `None` before the first poll.
    state: Option<SentState>,
    is_down: bool,
}

impl Feed {
    fn new() -> Self {
        Feed {
            sender: broadcast::Sender::new(MAX_LAG),
            sent: Mutex::default(),
        }
    }

    fn sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock that sending takes, so that no change falls between the snapshot and the messages that follow.
    fn subscribe(&self, permit: OwnedSemaphorePermit) -> Subscription {
        let sent = self.sent();
        let mut first = Vec::new();
        if let Some(state) = &sent.state {
            frame(&mut first, sent.id, "snapshot", &state.snapshot());
        }
        if sent.is_down {
            frame(&mut first, sent.id, "store", &StoreState { up: false });
        }
        Subscription {
            first: (!first.is_empty()).then(|| first.into()),
            then: self.sender.subscribe(),
            _permit: permit,
        }
    }

    /// Sends the changes of a poll.
    fn send_changes(&self, snapshot: Snapshot) {
        let mut sent = self.sent();
        let Sent { id, state, is_down } = &mut *sent;
        let mut text = Vec::new();
        let mut writer = EventWriter::new(id, &mut text);
        if std::mem::take(is_down) {
            writer.event("store", &StoreState { up: true });
        }
        match state {
            Some(state) => state.change(snapshot, &mut writer),
            None => {
                let first = SentState::new(snapshot);
                writer.event("snapshot", &first.snapshot());
                *state = Some(first);
            }
        }
        self.send(text);
    }

    /// Sends that the store is unavailable, once per outage.
    fn fail(&self, why: &str) {
        let mut sent = self.sent();
        if std::mem::replace(&mut sent.is_down, true) {
            return;
        }
        tracing::warn!(why, "could not poll the store for /v1/stream");
        let mut text = Vec::new();
        let mut writer = EventWriter::new(&mut sent.id, &mut text);
        writer.event("store", &StoreState { up: false });
        self.send(text);
    }

    fn send(&self, text: Vec<u8>) {
        if !text.is_empty() {
            // An error means that there are no subscribers, which the next tick detects.
            let _ = self.sender.send(text.into());
        }
    }
}

#[cfg(test)]
mod tests;
