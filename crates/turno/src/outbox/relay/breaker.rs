//! The circuit breaker: during an outage of the sink, no event is claimed and no attempt counts.
//!
//! It is open at first. One pipeline at a time tries whether the sink works: it waits for the pause to end, asks
//! [`Sink::ready`], and publishes what it may. An answer from the sink closes the breaker for all pipelines; an outage makes the
//! next pause longer. What `ready` says is not enough: a webhook that answers 503 can be connected to.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::destination::Destination;
use crate::backoff::Backoff;
use crate::sink::{Outage, Sink};

/// Longest pause while the sink refuses connections. An attempt costs the sink nothing then.
const LONGEST_CONNECT_PAUSE: Duration = Duration::from_secs(5);
/// Interval at which a continuing outage is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Minimum interval between two log lines about outages.
const MIN_LOG_INTERVAL: Duration = Duration::from_secs(1);

/// The breaker of one relay. It is kept across outages and leader changes.
#[derive(Debug)]
pub(super) struct Breaker {
    backoff: Backoff,
    state: Mutex<State>,
    trial: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct State {
    is_open: bool,
    destination: Destination,
    /// Begin of the current outage.
    out_since: Option<Instant>,
    logged: Option<(Instant, String)>,
    /// Number of outages since the last log line.
    unlogged: u64,
}

/// The right to try a sink after an outage, until it is dropped.
#[derive(Debug)]
pub(super) struct Trial<'a> {
    _guard: tokio::sync::MutexGuard<'a, ()>,
}

impl Breaker {
    pub(super) fn new(backoff: Backoff) -> Self {
        Breaker {
            backoff,
            state: Mutex::new(State {
                is_open: true,
                destination: Destination::new(Instant::now()),
                out_since: None,
                logged: None,
                unlogged: 0,
            }),
            trial: tokio::sync::Mutex::new(()),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.state().is_open
    }

    /// Returns how many events may be published at once.
    pub(super) fn allowed(&self) -> u32 {
        self.state().destination.allowed()
    }

    /// Waits until events can be published, by all pipelines or by the caller alone as a trial. Returns `None` if `stop` is
    /// cancelled first.
    pub(super) async fn enter(
        &self,
        sink: &dyn Sink,
        stop: &CancellationToken,
    ) -> Option<Option<Trial<'_>>> {
        let trial = tokio::select! {
            _guard = self.trial.lock() => Trial { _guard },
            () = stop.cancelled() => return None,
        };
        if !self.is_open() {
            return Some(None);
        }
        loop {
            let until = self.state().destination.until();
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                () = stop.cancelled() => return None,
            }
            let ready = tokio::select! {
                ready = sink.ready() => ready,
                () = stop.cancelled() => return None,
            };
            let Err(outage) = ready else {
                return Some(Some(trial));
            };
            let backoff = Backoff {
                longest: self.backoff.longest.min(LONGEST_CONNECT_PAUSE),
                ..self.backoff
            };
            let mut state = self.state();
            state
                .destination
                .outage(backoff, outage.retry_after(), Instant::now());
            state.log(sink, &outage);
        }
    }

    /// Records an outage: no pipeline publishes until a trial succeeds.
    pub(super) fn outage(&self, sink: &dyn Sink, outage: &Outage, trial: Option<Trial<'_>>) {
        let mut state = self.state();
        if state.is_open && trial.is_none() {
            // Another pipeline has met the same outage, which counts once.
            state
                .destination
                .wait_for(outage.retry_after(), Instant::now());
            return;
        }
        state.is_open = true;
        state
            .destination
            .outage(self.backoff, outage.retry_after(), Instant::now());
        state.log(sink, outage);
    }

    /// Records that the sink has accepted or refused events.
    pub(super) fn success(&self, sink: &dyn Sink, trial: Option<Trial<'_>>) {
        let mut state = self.state();
        if state.is_open && trial.is_none() {
            // Published before another pipeline met an outage.
            return;
        }
        state.is_open = false;
        state.destination.success(Instant::now());
        if let Some(since) = state.out_since.take() {
            tracing::info!(sink = sink.name(), after = ?since.elapsed(), "the sink is there again; going on");
            state.logged = None;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Logs an outage that is new or has another cause, and one that goes on once a minute.
    fn log(&mut self, sink: &dyn Sink, outage: &Outage) {
        self.out_since.get_or_insert_with(Instant::now);
        let cause = outage.to_string();
        let is_due = self.logged.as_ref().is_none_or(|(when, before)| {
            let interval = match *before == cause {
                true => LOG_INTERVAL,
                false => MIN_LOG_INTERVAL,
            };
            when.elapsed() >= interval
        });
        if !is_due {
            self.unlogged += 1;
            return;
        }
        tracing::warn!(
            sink = sink.name(),
            outage = cause,
            next_try = ?self.destination.pause(Instant::now()).unwrap_or_default(),
            unlogged = self.unlogged,
            "nothing can be published; no attempt is spent, and it is tried again"
        );
        self.logged = Some((Instant::now(), cause));
        self.unlogged = 0;
    }
}
