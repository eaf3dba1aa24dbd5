//! Waiting for a lock: until its release is notified, its lease expires, or a poll finds it free.

use std::sync::LazyLock;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::Turno;
use crate::error::Result;
use crate::settings::Retry;
use crate::store::{Busy, LockAcquire, LockLeave, LockWait, WAITER_ALIVE, WaitOrder, WaitOutcome};
use crate::waiting::{Waiter, growing_pause, wait_until};
use crate::wake::Watch;

/// First pause between two attempts; it grows by half each time.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// Pause after a release that another waiter used first. Short, because an attempt also fails while another transaction
/// changes the row.
const PAUSE_AFTER_LOSS: Duration = Duration::from_millis(100);
/// A release wakes every waiter, one of them gets the lock, and the failed attempts of the others cost the store as much. So
/// the next attempt of a waiter is delayed at random, by up to this much more after each loss.
const SPREAD_PER_LOSS: Duration = Duration::from_millis(3);
const MAX_SPREAD: Duration = Duration::from_millis(50);
/// Longest pause while notifications arrive, until the waiter is registered for the whole lease that it waits for.
const MAX_NOTIFIED_PAUSE: Duration = Duration::from_secs(1);
/// After longer pauses, the waiters of one process make their attempts at multiples of this interval.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(100);

/// A lease or leases, or the holder in the way.
pub(super) type Outcome<T> = std::result::Result<T, Busy>;

/// An acquire of one lock or of several. A trait, because the future of an async closure cannot be declared as `Send`, and
/// callers spawn it.
pub(super) trait Attempt: Sync {
    type Lease: Send;

    fn caller(&self) -> (&Turno, &LockAcquire);

    /// Makes one attempt.
    fn attempt(&self) -> impl Future<Output = Result<Outcome<Self::Lease>>> + Send;

    /// Lets the store wait. Returns `None` if it does not support that.
    fn attempt_waiting(
        &self,
        wait: Duration,
        order: WaitOrder,
    ) -> impl Future<Output = Result<Option<Outcome<Self::Lease>>>> + Send {
        let _ = (wait, order);
        std::future::ready(Ok(None))
    }
}

/// What to do while a lock is busy.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitOptions {
    pub(super) wait: Option<Duration>,
    pub(super) order: WaitOrder,
    pub(super) retry: Retry,
}

/// Acquires, and waits or retries if the lock is busy. The futures of the slow paths are boxed: a server holds one future of
/// this function per client, and it should be small.
pub(super) async fn acquire<A: Attempt>(
    what: &A,
    options: WaitOptions,
) -> Result<Outcome<A::Lease>> {
    let WaitOptions { wait, order, retry } = options;
    if let Some(wait) = wait.filter(|wait| !wait.is_zero())
        && let Some(waited) = Box::pin(what.attempt_waiting(wait, order)).await?
    {
        return Ok(waited);
    }
    let busy = match what.attempt().await? {
        Ok(lease) => return Ok(Ok(lease)),
        Err(busy) => busy,
    };
    match wait {
        Some(wait) if wait.is_zero() => Ok(Err(busy)),
        Some(wait) => {
            let waiter = LockWaiter::new(what, order, busy);
            Box::pin(wait_until(Instant::now() + wait, waiter)).await
        }
        None => Box::pin(retry_busy(what, retry, busy)).await,
    }
}

async fn retry_busy<A: Attempt>(
    what: &A,
    retry: Retry,
    mut busy: Busy,
) -> Result<Outcome<A::Lease>> {
    for _ in 1..retry.max {
        tokio::time::sleep(retry.delay).await;
        busy = match what.attempt().await? {
            Ok(lease) => return Ok(Ok(lease)),
            Err(busy) => busy,
        };
    }
    Ok(Err(busy))
}

struct LockWaiter<'a, A> {
    what: &'a A,
    /// The holder that the last attempt found.
    busy: Busy,
    registration: Registration<'a>,
    watch: Watch,
    began: Instant,
    pause: Duration,
    /// Number of releases that other waiters used first.
    losses: u32,
    /// Whether the store notifies this waiter at the end of the lease that the last attempt found.
    is_registered_for_lease: bool,
}

impl<'a, A: Attempt> LockWaiter<'a, A> {
    fn new(what: &'a A, order: WaitOrder, busy: Busy) -> Self {
        let (turno, ask) = what.caller();
        LockWaiter {
            what,
            registration: Registration {
                turno,
                ask,
                order,
                place: None,
            },
            watch: turno.store().wakers().watch(&busy.resource),
            busy,
            began: Instant::now(),
            pause: FIRST_PAUSE,
            losses: 0,
            is_registered_for_lease: false,
        }
    }
}

impl<A: Attempt> Waiter for LockWaiter<'_, A> {
    type Outcome = Outcome<A::Lease>;

    async fn prepare(&mut self) -> Result<()> {
        let store = self.registration.turno.store();
        let wakers = store.wakers();
        if self.watch.name() != self.busy.resource {
            self.watch = wakers.watch(&self.busy.resource);
        }
        // After a longer wait, the waiter registers for the rest of the lease, and then pauses until its end.
        let for_lease =
            self.pause >= MAX_NOTIFIED_PAUSE && wakers.is_live() && store.waiter_alive().is_none();
        let is_registered = self
            .registration
            .renew(&self.busy.resource, for_lease)
            .await?;
        self.is_registered_for_lease = for_lease && is_registered;
        Ok(())
    }

    fn watch(&self) -> &Watch {
        &self.watch
    }

    async fn attempt(&mut self) -> Result<Self::Outcome> {
        let outcome = self.what.attempt().await?;
        if let Err(busy) = &outcome {
            let before = std::mem::replace(&mut self.busy, busy.clone());
            if self.is_registered_for_lease && is_same_lease(&before, busy) {
                let settings = self.registration.turno.settings();
                self.pause = settings.idle_poll_max.max(MAX_NOTIFIED_PAUSE);
            }
        }
        Ok(outcome)
    }

    fn is_pending(outcome: &Self::Outcome) -> bool {
        outcome.is_err()
    }

    async fn next_attempt(&mut self, _: Instant) -> Option<Instant> {
        let next = next_attempt(Instant::now(), &self.busy, self.pause);
        let turno = self.registration.turno;
        self.pause = if turno.store().wakers().is_live() {
            self.pause.mul_f64(1.5).min(MAX_NOTIFIED_PAUSE)
        } else {
            growing_pause(self.began.elapsed(), turno.settings().idle_poll_max)
        };
        Some(next)
    }

    async fn woken(&mut self, deadline: Instant) {
        self.pause = PAUSE_AFTER_LOSS;
        // With first in, first out, only the first waiter can get the lock, so no attempt competes with another.
        if self.registration.order == WaitOrder::Any {
            sleep_until(deadline.min(Instant::now() + spread(self.losses))).await;
            self.losses += 1;
        }
    }
}

/// Returns whether two attempts found the same lease. Then a waiter that registered between them is registered for that lease.
fn is_same_lease(before: &Busy, now: &Busy) -> bool {
    let end = |busy: &Busy| busy.holder.as_ref().map(|holder| holder.expires_at);
    !now.remaining.is_zero() && before.resource == now.resource && end(before) == end(now)
}

/// Returns the random delay of an attempt after a notification.
fn spread(losses: u32) -> Duration {
    let longest = SPREAD_PER_LOSS.saturating_mul(losses).min(MAX_SPREAD);
    longest.mul_f64(fastrand::f64())
}

/// Returns the end of the lease or of the jittered pause, whichever is sooner. Attempts after longer pauses are aligned, so
/// that the store gets those of many waiters in one batch.
fn next_attempt(now: Instant, busy: &Busy, pause: Duration) -> Instant {
    let jittered = now + pause.mul_f64(0.75 + fastrand::f64() / 2.0);
    let next = if pause > PAUSE_AFTER_LOSS {
        aligned(jittered)
    } else {
        jittered
    };
    if busy.remaining.is_zero() {
        next
    } else {
        next.min(now + busy.remaining)
    }
}

/// Rounds up to the next multiple of [`ATTEMPT_INTERVAL`].
fn aligned(at: Instant) -> Instant {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let since = at.saturating_duration_since(*BEGAN).as_micros();
    let step = ATTEMPT_INTERVAL.as_micros();
    let wait = since.next_multiple_of(step) - since;
    at + Duration::from_micros(u64::try_from(wait).unwrap_or_default())
}

/// Registration of a waiter for one resource, removed on drop.
struct Registration<'a> {
    turno: &'a Turno,
    ask: &'a LockAcquire,
    order: WaitOrder,
    /// The registration in the store, and when it must be renewed.
    place: Option<(LockLeave, Instant)>,
}

impl Registration<'_> {
    /// Registers the waiter, and renews the registration when it becomes old or `for_lease` is set. A waiter for several
    /// resources moves its registration to the one that is busy.
    ///
    /// Returns whether it is registered.
    async fn renew(&mut self, resource: &str, for_lease: bool) -> Result<bool> {
        let now = Instant::now();
        match &self.place {
            Some((place, renew_at))
                if place.resource == resource && now < *renew_at && !for_lease =>
            {
                return Ok(true);
            }
            Some((place, _)) if place.resource != resource => self.remove(),
            _ => {}
        }
        let place = LockLeave {
            resource: resource.to_owned(),
            owner: self.ask.owner.clone(),
        };
        let waiter = LockWait {
            resource: place.resource.clone(),
            owner: place.owner.clone(),
            order: self.order,
            attribution: self.ask.attribution.clone(),
        };
        self.place = Some((place, now));
        let is_registered = self.turno.store().lock_wait(&waiter).await? == WaitOutcome::Registered;
        if is_registered && let Some((_, renew_at)) = &mut self.place {
            *renew_at = now + WAITER_ALIVE / 3;
        }
        Ok(is_registered)
    }

    /// Removes the registration in the background, so that the caller does not wait for it.
    fn remove(&mut self) {
        if let Some((place, _)) = self.place.take() {
            self.turno
                .spawn_background(remove(self.turno.clone(), place));
        }
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}

async fn remove(turno: Turno, place: LockLeave) {
    if let Err(error) = turno.store().lock_leave(&place).await {
        tracing::debug!(%error, "a waiter's registration was not removed; it expires");
    }
    turno.store().wakers().wake(&place.resource);
}
