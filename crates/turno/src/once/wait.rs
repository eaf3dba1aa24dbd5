//! Begins a run, and waits for the answer of another caller's run.
//!
//! Of all waiters for one key in one process, one polls the store; the others sleep until they are woken.

use std::time::Duration;

use tokio::time::Instant;

use super::{Answer, Begin, Claim, Once, wake_name};
use crate::Turno;
use crate::error::Result;
use crate::poll_pause;
use crate::store::{OnceBegin, OnceOutcome, WhileInFlight};
use crate::uncancelled;

/// Longest pause between two polls when notifications arrive: short enough that the store keeps the waiter registered.
const LOOK_HEARING: Duration = Duration::from_secs(1);
/// Pause after a lease's end before the next poll, so that the poll finds it expired.
const AFTER_END: Duration = Duration::from_millis(5);

pub(super) async fn begin(once: &Once) -> Result<Begin> {
    if once.wait.is_zero() {
        return try_begin(&once.turno, once.ask.clone()).await;
    }
    let deadline = Instant::now() + once.wait;
    let ask = OnceBegin {
        in_flight: WhileInFlight::Wait,
        ..once.ask.clone()
    };
    if let Some(begun) = begin_waiting(once, &ask).await? {
        return Ok(begun);
    }
    let wakers = once.turno.store().wakers();
    let watch = wakers.watch(&wake_name(&ask.key));
    let longest = once.turno.settings().idle_poll_max;
    let began = Instant::now();
    let mut leads = None;
    loop {
        // Subscribes before the poll, so that an answer between the poll and the pause is not missed.
        let woken = watch.next();
        let run = match try_begin(&once.turno, ask.clone()).await? {
            Begin::InFlight(run) => run,
            other => return Ok(other),
        };
        let now = Instant::now();
        if now >= deadline {
            return Ok(Begin::InFlight(run));
        }
        leads = leads.or_else(|| watch.lead());
        let pause = match (&leads, wakers.is_live()) {
            // The store notifies the waiter until the lease expires, or only while its registration is recent.
            (Some(_), true) if once.turno.store().waiter_alive().is_none() => longest,
            (Some(_), true) => LOOK_HEARING,
            (Some(_), false) => poll_pause::growing(began.elapsed(), longest),
            // The waiter that polls wakes the others.
            (None, _) => once.wait,
        };
        let next = now + pause.min(run.remaining.max(AFTER_END) + AFTER_END);
        tokio::select! {
            () = woken => {}
            () = tokio::time::sleep_until(next.min(deadline)) => {}
        }
    }
}

/// Lets the store wait, if it supports that. Returns `None` if it does not.
async fn begin_waiting(once: &Once, ask: &OnceBegin) -> Result<Option<Begin>> {
    let undelivered = ReleaseOnCancel(Some((once.turno.clone(), ask.clone())));
    let waited = once.turno.store().once_begin_waiting(ask, once.wait).await;
    undelivered.heard();
    let Some(outcome) = waited? else {
        return Ok(None);
    };
    let begun = begun(once.turno.clone(), ask, outcome)?;
    if let Begin::Fresh(claim) = &begun {
        claim.hand_over();
    }
    Ok(Some(begun))
}

/// Releases a claim on cancellation. If a caller is cancelled while the store waits, the claim may just have been granted.
/// On drop, the same request id is sent again, and a claim that is returned is released.
struct ReleaseOnCancel(Option<(Turno, OnceBegin)>);

impl ReleaseOnCancel {
    fn heard(mut self) {
        self.0 = None;
    }
}

impl Drop for ReleaseOnCancel {
    fn drop(&mut self) {
        let Some((turno, mut ask)) = self.0.take() else {
            return;
        };
        ask.in_flight = WhileInFlight::Leave;
        turno.clone().spawn_background(async move {
            let outcome = turno.store().once_begin(&ask).await;
            if let Err(error) = outcome.and_then(|outcome| begun(turno, &ask, outcome)) {
                tracing::debug!(%error, "not asked whether it was granted; a claim ends by itself");
            }
        });
    }
}

/// Tries once, in a spawned task: if the caller is cancelled meanwhile, the claim is dropped and thereby released.
async fn try_begin(turno: &Turno, ask: OnceBegin) -> Result<Begin> {
    let turno = turno.clone();
    let begun = uncancelled::run_to_completion(async move {
        let outcome = turno.store().once_begin(&ask).await?;
        begun(turno, &ask, outcome)
    })
    .await?;
    if let Begin::Fresh(claim) = &begun {
        claim.hand_over();
    }
    Ok(begun)
}

fn begun(turno: Turno, ask: &OnceBegin, outcome: OnceOutcome) -> Result<Begin> {
    Ok(match outcome {
        OnceOutcome::Fresh(grant) => Begin::Fresh(Claim::new(turno, grant, ask.lease)),
        OnceOutcome::Replay { answer } => Begin::Replay(Answer::of(&turno, &ask.key, answer)?),
        OnceOutcome::InFlight(run) => Begin::InFlight(run),
        OnceOutcome::Mismatch => Begin::Mismatch,
        OnceOutcome::Unknown(run) => Begin::Unknown(run),
        OnceOutcome::OverQuota => Begin::OverQuota,
    })
}
