//! The worker: claims items, runs a handler for each, and settles them.

mod ahead;
mod fetcher;
mod in_flight;
mod job;

use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::ahead::Ahead;
use self::fetcher::{Counts, Fetcher};
use self::in_flight::{Entry, InFlight};
pub use self::job::Job;
use self::job::{After, JobState};
use super::Inbox;
use crate::HandlerError;
use crate::check;
use crate::error::{Error, Result};
use crate::handler_error::text_with_causes;
use crate::store::{Again, ClaimedItem, Failure};

/// Default of [`Worker::concurrency`].
const CONCURRENCY: usize = 16;
/// Default of [`Worker::grace`].
const GRACE: Duration = Duration::from_secs(30);
/// Timeout for storing the last results.
const LAST_SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a handler for every item of a queue. Nothing happens before [`Worker::run`].
///
/// Items are claimed ahead and settled in batches, and claims are extended in the background. If a claim is lost (the store was
/// unavailable for too long, or an operator reset it), the handler's future is dropped. If a handler returns `Err` or panics, the
/// attempt has failed: the error is stored with its causes, and the item is retried later.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
/// use std::time::Duration;
/// use turno::inbox::Job;
///
/// let inbox = turno::Turno::connect("sqlite::memory:").await?.inbox("mail");
/// let handler = async |job: Job<String>| Ok::<_, std::convert::Infallible>(println!("{}", job.payload));
/// let worker = inbox.worker(handler).concurrency(4).lease(Duration::from_secs(60)).grace(Duration::from_secs(10));
/// let shutdown = std::future::ready(()); // such as a signal
/// assert_eq!(worker.run(shutdown).await?.completed, 0);
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing happens before run"]
pub struct Worker<T, H> {
    inbox: Inbox,
    handler: H,
    name: String,
    concurrency: usize,
    prefetch: Option<usize>,
    lease: Duration,
    poll: Duration,
    grace: Duration,
    payload: PhantomData<fn() -> T>,
}

/// Report of a worker that has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerReport {
    /// Number of completed items, without those that handlers completed in their own transactions.
    pub completed: u64,
    /// Number of failed attempts.
    pub failed: u64,
    /// Number of items given back because they were not started.
    pub given_back: u64,
    /// Number of lost claims.
    pub lost: u64,
}

impl<T, H> Worker<T, H> {
    /// Sets how many handlers run at once, 1 to 10,000. Default: 16.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Sets how many items are claimed ahead of those in handlers, at most 10,000. More is faster for short handlers; less is
    /// fairer to other workers if handlers are slow. Default: as many as the handlers finish in 20 milliseconds, at least the
    /// concurrency, and at most 100 or the concurrency.
    pub fn prefetch(mut self, prefetch: usize) -> Self {
        self.prefetch = Some(prefetch);
        self
    }

    /// Sets the lease of claims, which are extended three times per lease, from 1 millisecond to 24 hours. Other workers take over
    /// the items of a crashed worker after this time. Default: the TTL of the settings, 30 seconds.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the longest pause between two polls of an idle worker. Default:
    /// [`Settings::idle_poll_max`](crate::Settings::idle_poll_max), 15 minutes. Pushes notify the worker; where notifications do
    /// not arrive, as behind a pooler, it polls every few seconds.
    pub fn poll(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    /// Sets how long handlers may run after the shutdown began. Then they are dropped, and their attempts have failed.
    /// Default: 30 seconds.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets the worker's name, for lists and history. Default: host and process.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }
}

impl<T, H, F, E> Worker<T, H>
where
    H: Fn(Job<T>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<HandlerError> + Send + 'static,
    T: DeserializeOwned + Send + 'static,
{
    pub(super) fn new(inbox: Inbox, handler: H) -> Self {
        Worker {
            name: inbox.turno().worker_name(),
            lease: inbox.turno().settings().ttl,
            poll: inbox.turno().settings().idle_poll_max,
            inbox,
            handler,
            concurrency: CONCURRENCY,
            prefetch: None,
            grace: GRACE,
            payload: PhantomData,
        }
    }

    /// Works until `shutdown` resolves. Then items without a handler are given back at once, running handlers may finish, and
    /// their results are stored.
    ///
    /// Not cancel-safe: if the future is dropped, its claims expire.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid, or the last results could not be stored. While the store is unavailable, the
    /// worker retries.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::inbox::Job;
    /// # let done = tokio_util::sync::CancellationToken::new();
    /// # let stop = done.clone();
    ///
    /// let inbox = turno::Turno::connect("sqlite::memory:").await?.inbox("mail");
    /// inbox.push("hello").await?;
    /// let handler = move |job: Job<String>| {
    /// #     let stop = stop.clone();
    ///     async move {
    ///         println!("{}", job.payload);
    /// #         stop.cancel();
    ///         Ok::<_, turno::Error>(())
    ///     }
    /// };
    /// # let shutdown = done.cancelled();
    /// let report = inbox.worker(handler).run(shutdown).await?; // `shutdown` is a future, such as a signal
    /// assert_eq!((report.completed, report.failed), (1, 0));
    /// # Ok(()) }
    /// ```
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<WorkerReport> {
        self.check()?;
        let in_flight = Arc::new(InFlight::new());
        let counts = Arc::new(Counts::default());
        let ahead = Arc::new(Ahead::new(self.concurrency, self.prefetch));
        let fetcher = Fetcher {
            inbox: self.inbox.clone(),
            name: self.name.clone(),
            in_flight: in_flight.clone(),
            counts: counts.clone(),
            ahead: ahead.clone(),
            lease: self.lease,
            poll: self.poll,
        };
        let handler = Arc::new(self.handler);
        let mut handlers = JoinSet::new();
        for _ in 0..self.concurrency {
            handlers.spawn(serve(in_flight.clone(), ahead.clone(), handler.clone()));
        }

        let stop = CancellationToken::new();
        let work = async {
            let outcome = async {
                shutdown.await;
                stop.cancel();
                // At once, without waiting for the fetcher's call in progress.
                fetcher.give_back(in_flight.close()).await;
            };
            let (pending, ()) = tokio::join!(fetcher.run(&stop), outcome);
            fetcher.give_back(in_flight.close()).await;
            let ended = async { while handlers.join_next().await.is_some() {} };
            if tokio::time::timeout(self.grace, ended).await.is_err() {
                cut_short(&in_flight);
            }
            pending
        };
        let pending = tokio::select! {
            pending = work => pending,
            never = fetcher.heartbeat() => match never {},
        };
        match tokio::time::timeout(LAST_SETTLE_TIMEOUT, fetcher.settle(pending)).await {
            Ok(settled) => settled?,
            Err(_) => return Err(unsettled()),
        }
        let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        Ok(WorkerReport {
            completed: count(&counts.completed),
            failed: count(&counts.failed),
            given_back: count(&counts.given_back),
            lost: count(&counts.lost),
        })
    }

    fn check(&self) -> Result<()> {
        check::queue(self.inbox.queue())?;
        check::name("worker", &self.name)?;
        check::lease(self.lease)?;
        if !(1..=check::MAX_ITEMS).contains(&self.concurrency) {
            return Err(Error::invalid(
                "concurrency",
                format!("concurrency must be between 1 and {}", check::MAX_ITEMS),
            ));
        }
        check::item_count("prefetch", self.prefetch.unwrap_or(0))
    }
}

fn unsettled() -> Error {
    Error::new(
        crate::error::Kind::Unavailable,
        "the last results were not stored: their items are processed again when their claims expire",
    )
}

/// Cancels the handlers that still run, and records their attempts as failed.
fn cut_short(in_flight: &InFlight) {
    let claims = in_flight.held();
    in_flight.lost(&claims);
    for claim in claims {
        in_flight.failed(Failure {
            claim,
            error: "the worker was shut down before it had finished".to_owned(),
            retry_in: Some(Duration::ZERO),
            again: Again::Retry,
        });
    }
}

/// Runs the handler for one item after the other.
async fn serve<T, H, F, E>(in_flight: Arc<InFlight>, ahead: Arc<Ahead>, handler: Arc<H>)
where
    H: Fn(Job<T>) -> F,
    F: Future<Output = Result<(), E>>,
    E: Into<HandlerError>,
    T: DeserializeOwned,
{
    while let Some(Entry { item, state }) = in_flight.next().await {
        let claim = item.claim;
        let began = Instant::now();
        let ended = tokio::select! {
            biased;
            () = state.lost.cancelled() => continue,
            ended = attempt(&*handler, item, &state) => ended,
        };
        ahead.record(began.elapsed());
        match ended {
            Ok(()) if state.is_settled() => in_flight.forget(claim),
            Ok(()) => in_flight.done(claim),
            Err(error) => {
                let After { retry_in, again } = state.after();
                in_flight.failed(Failure {
                    claim,
                    error,
                    retry_in,
                    again,
                });
            }
        }
    }
}

/// Runs one attempt. A panic is a failure.
async fn attempt<T, H, F, E>(
    handler: &H,
    mut item: ClaimedItem,
    state: &Arc<JobState>,
) -> Result<(), String>
where
    H: Fn(Job<T>) -> F,
    F: Future<Output = Result<(), E>>,
    E: Into<HandlerError>,
    T: DeserializeOwned,
{
    let payload = serde_json::from_str(&item.payload)
        .map_err(|error| format!("the payload is not what the handler expects: {error}"))?;
    item.payload = String::new().into();
    let job = Job {
        payload,
        item,
        state: state.clone(),
    };
    let work = async { handler(job).await };
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        // Unwind safe: the handler has no access to state of the worker.
        match std::panic::catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(result)) => {
                Poll::Ready(result.map_err(|error| text_with_causes(&*error.into())))
            }
            Err(panic) => Poll::Ready(Err(format!("panicked: {}", panic_text(&*panic)))),
        }
    })
    .await
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
