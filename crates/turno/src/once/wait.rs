//! Begins a run, and waits for the answer of another caller's run.
//!
//! Of all waiters for one key in one process, one polls the store; the others sleep until they are woken.

use std::time::Duration;

use tokio::time::Instant;

use super::{Answer, Begin, Claim, Once, wake_name};
use crate::Turno;
use crate::error::Result;
use crate::store::{OnceBegin, OnceOutcome, WhileInFlight};
use crate::uncancelled::{self, ReleaseOnCancel};
use crate::waiting::{Waiter, growing_pause, wait_until};
use crate::wake::{Leads, Watch};

/// Longest pause between two polls when notifications arrive: short enough that the store keeps the waiter registered.
const MAX_NOTIFIED_PAUSE: Duration = Duration::from_secs(1);
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
    let waiter = AnswerWaiter {
        leads: None,
        watch: wakers.watch(&wake_name(&ask.key)),
        once,
        ask,
        began: Instant::now(),
        remaining: Duration::ZERO,
    };
    wait_until(deadline, waiter).await
}

struct AnswerWaiter<'a> {
    once: &'a Once,
    ask: OnceBegin,
    began: Instant,
    /// How long the lease of the other caller's run still lasts.
    remaining: Duration,
    leads: Option<Leads>,
    watch: Watch,
}

impl Waiter for AnswerWaiter<'_> {
    type Outcome = Begin;

    fn watch(&self) -> &Watch {
        &self.watch
    }

    async fn attempt(&mut self) -> Result<Begin> {
        let begin = try_begin(&self.once.turno, self.ask.clone()).await?;
        if let Begin::InFlight(run) = &begin {
            self.remaining = run.remaining;
        }
        Ok(begin)
    }

    fn is_pending(begin: &Begin) -> bool {
        matches!(begin, Begin::InFlight(_))
    }

    async fn next_attempt(&mut self, _: Instant) -> Option<Instant> {
        self.leads = self.leads.take().or_else(|| self.watch.lead());
        let turno = &self.once.turno;
        let longest = turno.settings().idle_poll_max;
        let pause = match (&self.leads, turno.store().wakers().is_live()) {
            // The store notifies the waiter until the lease expires, or only while its registration is recent.
            (Some(_), true) if turno.store().waiter_alive().is_none() => longest,
            (Some(_), true) => MAX_NOTIFIED_PAUSE,
            (Some(_), false) => growing_pause(self.began.elapsed(), longest),
            // The waiter that polls wakes the others.
            (None, _) => self.once.wait,
        };
        Some(Instant::now() + pause.min(self.remaining.max(AFTER_END) + AFTER_END))
    }
}

/// Lets the store wait, if it supports that. Returns `None` if it does not.
async fn begin_waiting(once: &Once, ask: &OnceBegin) -> Result<Option<Begin>> {
    let undelivered = ReleaseOnCancel::new(once.turno.clone(), ask.clone(), release_grant);
    let waited = once.turno.store().once_begin_waiting(ask, once.wait).await;
    undelivered.delivered();
    let Some(outcome) = waited? else {
        return Ok(None);
    };
    let begun = begun(once.turno.clone(), ask, outcome)?;
    if let Begin::Fresh(claim) = &begun {
        claim.hand_over();
    }
    Ok(Some(begun))
}

/// Releases what a cancelled request may have been granted: repeats it, and drops the claim that it returns.
async fn release_grant(turno: Turno, mut ask: OnceBegin) -> Result<()> {
    ask.in_flight = WhileInFlight::Leave;
    let outcome = turno.store().once_begin(&ask).await?;
    begun(turno, &ask, outcome).map(drop)
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
