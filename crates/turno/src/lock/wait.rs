//! Waiting for a lock: until its release is heard of, its holder's time is up, or a look now and
//! then finds it free; whichever comes first.

use std::sync::LazyLock;
use std::time::Duration;

use tokio::time::Instant;

use crate::Turno;
use crate::error::Result;
use crate::poll_pause;
use crate::settings::Retry;
use crate::store::{Busy, LockAcquire, LockLeave, LockWait, WAITER_ALIVE, WaitOrder, WaitOutcome};

/// The first pause between two looks; it grows by half each time.
const FIRST_LOOK: Duration = Duration::from_millis(20);
/// The pause after a release was heard of that somebody else was quicker to use: its own end will be heard of too. Not for
/// long, because a look is also in vain while the row is only being changed.
const LOOK_BEATEN: Duration = Duration::from_millis(100);
/// Of a crowd that hears of a release, one can have it, and the looks of the others cost as much as its own. So whoever was
/// beaten looks a little later the next time, at random, by so much more each time; up to a bound.
const SPREAD: Duration = Duration::from_millis(3);
const WIDEST_SPREAD: Duration = Duration::from_millis(50);
/// The longest pause when releases are heard of, before it is certain that they are.
const LOOK_HEARING: Duration = Duration::from_secs(1);
/// The waiters of one process look at moments this far apart.
const TOGETHER: Duration = Duration::from_millis(100);

/// What was taken, or who is in the way.
pub(super) type Tried<T> = Result<std::result::Result<T, Busy>>;

/// Something that can be tried. A trait, because the future of an async closure could not be said to be
/// `Send`, and callers do spawn this.
pub(super) trait Attempt: Sync {
    type Taken: Send;

    /// Who tries.
    fn asker(&self) -> (&Turno, &LockAcquire);

    /// One try.
    fn attempt(&self) -> impl Future<Output = Tried<Self::Taken>> + Send;

    /// Leaves the waiting to the store, if it can; `None` if it cannot.
    fn attempt_waiting(
        &self,
        wait: Duration,
        order: WaitOrder,
    ) -> impl Future<Output = Result<Option<std::result::Result<Self::Taken, Busy>>>> + Send {
        let _ = (wait, order);
        std::future::ready(Ok(None))
    }
}

/// How a caller wants to wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub(super) wait: Option<Duration>,
    pub(super) order: WaitOrder,
    pub(super) retry: Retry,
}

/// Tries, and tries again as patiently as asked. What is seldom needed has a box of its own: a server has room for this once for
/// each of its clients.
pub(super) async fn acquire<A: Attempt>(what: &A, patience: Patience) -> Tried<A::Taken> {
    if let Some(wait) = patience.wait.filter(|wait| !wait.is_zero())
        && let Some(waited) = Box::pin(what.attempt_waiting(wait, patience.order)).await?
    {
        return Ok(waited);
    }
    let busy = match what.attempt().await? {
        Ok(taken) => return Ok(Ok(taken)),
        Err(busy) => busy,
    };
    match patience.wait {
        Some(wait) if wait.is_zero() => Ok(Err(busy)),
        Some(wait) => Box::pin(wait_for(what, wait, patience.order, busy)).await,
        None => Box::pin(try_again(what, patience.retry, busy)).await,
    }
}

/// So many tries, with a pause between.
async fn try_again<A: Attempt>(what: &A, retry: Retry, mut busy: Busy) -> Tried<A::Taken> {
    for _ in 1..retry.max {
        tokio::time::sleep(retry.delay).await;
        busy = match what.attempt().await? {
            Ok(taken) => return Ok(Ok(taken)),
            Err(busy) => busy,
        };
    }
    Ok(Err(busy))
}

async fn wait_for<A: Attempt>(
    what: &A,
    wait: Duration,
    order: WaitOrder,
    mut busy: Busy,
) -> Tried<A::Taken> {
    let deadline = Instant::now() + wait;
    let (turno, ask) = what.asker();
    let mut line = Registration {
        turno,
        ask,
        order,
        place: None,
    };
    let wakers = turno.store().wakers();
    let mut watch = wakers.watch(&busy.resource);
    let began = Instant::now();
    let mut pause = FIRST_LOOK;
    let mut beaten = 0;
    loop {
        if watch.name() != busy.resource {
            watch = wakers.watch(&busy.resource);
        }
        // One that has waited for a while signs in for the whole of a holding, and then sleeps until its end.
        let sleeps =
            pause >= LOOK_HEARING && wakers.is_live() && turno.store().waiter_alive().is_none();
        let signed_in = line.stay(&busy.resource, sleeps).await?;
        // Heard from here on: a release between the look and the pause is not missed.
        let woken = watch.next();
        let before = busy;
        busy = match what.attempt().await? {
            // Dropping the line signs out, behind the back of a caller who has waited long enough.
            Ok(taken) => return Ok(Ok(taken)),
            Err(busy) => busy,
        };
        let now = Instant::now();
        if sleeps && signed_in && is_same_holding(&before, &busy) {
            pause = turno.settings().idle_poll_max.max(LOOK_HEARING);
        }
        if now >= deadline {
            return Ok(Err(busy));
        }
        tokio::select! {
            () = woken => {
                pause = LOOK_BEATEN;
                // Whose turn it is in a line is settled: nobody is in its way.
                if order == WaitOrder::Any {
                    tokio::time::sleep_until(deadline.min(Instant::now() + spread(beaten))).await;
                    beaten += 1;
                }
            }
            () = tokio::time::sleep_until(deadline.min(next_look(now, &busy, pause))) => {
                pause = if wakers.is_live() {
                    pause.mul_f64(1.5).min(LOOK_HEARING)
                } else {
                    poll_pause::growing(began.elapsed(), turno.settings().idle_poll_max)
                };
            }
        }
    }
}

/// Whether a waiter that signed in between two looks has signed in for the holding that both saw.
fn is_same_holding(before: &Busy, now: &Busy) -> bool {
    let end = |busy: &Busy| busy.holder.as_ref().map(|holder| holder.expires_at);
    !now.remaining.is_zero() && before.resource == now.resource && end(before) == end(now)
}

/// How long somebody who heard of a release, and was beaten so often before, leaves it to others.
fn spread(beaten: u32) -> Duration {
    let widest = SPREAD.saturating_mul(beaten).min(WIDEST_SPREAD);
    widest.mul_f64(fastrand::f64())
}

/// The holder's end, or a jittered pause, whichever is sooner. Whoever has waited for a while looks when others do, so that
/// a crowd's looks go to the store together.
fn next_look(now: Instant, busy: &Busy, pause: Duration) -> Instant {
    let jittered = now + pause.mul_f64(0.75 + fastrand::f64() / 2.0);
    let look = if pause > LOOK_BEATEN {
        together(jittered)
    } else {
        jittered
    };
    if busy.remaining.is_zero() {
        look
    } else {
        look.min(now + busy.remaining)
    }
}

/// The next moment at which this process's waiters look.
fn together(at: Instant) -> Instant {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let since = at.saturating_duration_since(*BEGAN).as_micros();
    let step = TOGETHER.as_micros();
    let wait = since.next_multiple_of(step) - since;
    at + Duration::from_micros(u64::try_from(wait).unwrap_or_default())
}

/// A place among the waiters of one resource, given up when dropped.
struct Registration<'a> {
    turno: &'a Turno,
    ask: &'a LockAcquire,
    order: WaitOrder,
    /// Where it stands, and until when it need not sign in again.
    place: Option<(LockLeave, Instant)>,
}

impl Registration<'_> {
    /// Signs in, and again when the last time is getting old. Whoever wants several resources moves to
    /// the line of the one that is in the way.
    ///
    /// Answers whether it is signed in.
    async fn stay(&mut self, resource: &str, again: bool) -> Result<bool> {
        let now = Instant::now();
        match &self.place {
            Some((place, good)) if place.resource == resource && now < *good && !again => {
                return Ok(true);
            }
            Some((place, _)) if place.resource != resource => self.leave(),
            _ => {}
        }
        let place = LockLeave {
            resource: resource.to_owned(),
            owner: self.ask.owner.clone(),
        };
        let sign_in = LockWait {
            resource: place.resource.clone(),
            owner: place.owner.clone(),
            order: self.order,
            attribution: self.ask.attribution.clone(),
        };
        self.place = Some((place, now));
        let signed_in = self.turno.store().lock_wait(&sign_in).await? == WaitOutcome::Registered;
        if signed_in && let Some((_, good)) = &mut self.place {
            *good = now + WAITER_ALIVE / 3;
        }
        Ok(signed_in)
    }

    fn leave(&mut self) {
        if let Some((place, _)) = self.place.take() {
            self.turno
                .spawn_background(leave(self.turno.clone(), place));
        }
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

async fn leave(turno: Turno, place: LockLeave) {
    if let Err(error) = turno.store().lock_leave(&place).await {
        tracing::debug!(%error, "a waiter could not sign out; its place lapses by itself");
    }
    turno.store().wakers().wake(&place.resource);
}
