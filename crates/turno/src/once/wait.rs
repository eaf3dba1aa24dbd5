//! Beginning, and waiting for the answer of somebody else's run.
//!
//! Of all who wait for one key in one process, one looks now and then; the others sleep until somebody calls.

use std::time::Duration;

use tokio::time::Instant;

use super::{Answer, Begin, Claim, Once, wake_name};
use crate::Turno;
use crate::error::Result;
use crate::patience;
use crate::store::{OnceBegin, OnceOutcome, WhileInFlight};
use crate::uncancelled;

/// The longest pause between two looks when answers are heard of: often enough to still be called.
const LOOK_HEARING: Duration = Duration::from_secs(1);
/// Soon after a lease's end, to find that it is over.
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
        // Heard from here on: an answer between the look and the pause is not missed.
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
            // Called until the lease is over, or for a while only.
            (Some(_), true) if once.turno.store().waiter_alive().is_none() => longest,
            (Some(_), true) => LOOK_HEARING,
            (Some(_), false) => patience::deaf(began.elapsed(), longest),
            // Whoever looks calls the others.
            (None, _) => once.wait,
        };
        let next = now + pause.min(run.remaining.max(AFTER_END) + AFTER_END);
        tokio::select! {
            () = woken => {}
            () = tokio::time::sleep_until(next.min(deadline)) => {}
        }
    }
}

/// Leaves the waiting to the store, if it can; `None` if it cannot.
async fn begin_waiting(once: &Once, ask: &OnceBegin) -> Result<Option<Begin>> {
    let unheard = ReleaseOnCancel(Some((once.turno.clone(), ask.clone())));
    let waited = once.turno.store().once_begin_waiting(ask, once.wait).await;
    unheard.heard();
    let Some(outcome) = waited? else {
        return Ok(None);
    };
    let begun = begun(once.turno.clone(), ask, outcome)?;
    if let Begin::Fresh(claim) = &begun {
        claim.hand_over();
    }
    Ok(Some(begun))
}

/// Whoever gives up while a store waits may have been granted the work in that moment, and not have heard of it. Asked
/// once more, the same request tells; and the claim that nobody has in hand is given back.
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

/// A caller who gives up meanwhile leaves a claim that nobody has in hand.
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
