//! Helpers for the rules of once, and direct access to its table.

use std::time::Duration;

use turno::Turno;
use turno::once::{Answer, Begin, Claim, OnceRun, OnceState, OnceView};
use turno::store::{AfterUnknown, OnceBegin, OnceGrant, OnceOutcome, WhileInFlight};
use uuid::Uuid;

use crate::conformance::TestStore;
use crate::conformance::lock::fixtures::TIMEOUT;
use crate::conformance::test_store::quoted;

/// Lease that is longer than any rule.
pub(in crate::conformance) const LONG: Duration = Duration::from_secs(60);
pub(in crate::conformance) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the claim, or panics with the other result.
#[track_caller]
pub(in crate::conformance) fn fresh(begun: Begin) -> Claim {
    match begun {
        Begin::Fresh(claim) => claim,
        other => panic!("not fresh: {other:?}"),
    }
}

/// Returns the stored answer, or panics.
#[track_caller]
pub(in crate::conformance) fn replay(begun: Begin) -> Answer {
    match begun {
        Begin::Replay(answer) => answer,
        other => panic!("not replayed: {other:?}"),
    }
}

/// Returns the run in flight, or panics.
#[track_caller]
pub(in crate::conformance) fn in_flight(begun: Begin) -> OnceRun {
    match begun {
        Begin::InFlight(run) => run,
        other => panic!("not in flight: {other:?}"),
    }
}

/// Returns the lost run, or panics.
#[track_caller]
pub(in crate::conformance) fn unknown(begun: Begin) -> OnceRun {
    match begun {
        Begin::Unknown(run) => run,
        other => panic!("not unknown: {other:?}"),
    }
}

/// Begins a key with default options.
pub(in crate::conformance) async fn begin(turno: &Turno, key: &str) -> Begin {
    turno.once(key).begin().await.unwrap()
}

/// Claims the work of a key.
pub(in crate::conformance) async fn take(turno: &Turno, key: &str) -> Claim {
    fresh(begin(turno, key).await)
}

/// Takes over the work of a key from a lost run.
pub(in crate::conformance) async fn take_over(turno: &Turno, key: &str) -> Claim {
    let again = turno.once(key).unknown(AfterUnknown::Rerun);
    fresh(again.begin().await.unwrap())
}

/// Completes the work of a key with this answer.
pub(in crate::conformance) async fn answer(turno: &Turno, key: &str, answer: &str) {
    let settled = take(turno, key).await.complete(answer).await.unwrap();
    assert_eq!(settled, turno::once::OnceSettled::Done);
}

/// Returns the stored answer of a completed key, as JSON text.
pub(in crate::conformance) async fn answered(turno: &Turno, key: &str) -> Option<String> {
    let answer = replay(begin(turno, key).await);
    answer.text().map(str::to_owned)
}

/// Returns the state of a key, which must exist.
pub(in crate::conformance) async fn status(turno: &Turno, key: &str) -> OnceView {
    let view = turno.once(key).status().await.unwrap();
    view.unwrap_or_else(|| panic!("nothing is known of {key}"))
}

/// Waits until a key is in a state.
pub(in crate::conformance) async fn until_state(turno: &Turno, key: &str, state: OnceState) {
    crate::eventually_async(TIMEOUT, &format!("{key} to be {state}"), async || {
        let view = turno.once(key).status().await.unwrap();
        view.filter(|view| view.state == state).map(drop)
    })
    .await;
}

/// Returns a begin request to the store.
pub(in crate::conformance) fn ask(key: &str) -> OnceBegin {
    OnceBegin {
        key: key.into(),
        fingerprint: None,
        lease: LONG,
        ttl: DAY,
        unknown: AfterUnknown::Refuse,
        in_flight: WhileInFlight::Leave,
        worker: Some("w".into()),
        quota: None,
        request: Uuid::now_v7(),
    }
}

/// Returns the grant, or panics.
#[track_caller]
pub(in crate::conformance) fn granted(outcome: OnceOutcome) -> OnceGrant {
    match outcome {
        OnceOutcome::Fresh(grant) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

impl TestStore {
    /// Shifts the times of a key until its lease, or its answer's TTL, has expired.
    pub(in crate::conformance) async fn expire_once(&self, key: &str) {
        let by = "(until - {now} + {us:1000000})";
        self.run(&format!(
            "update turno.once set began_at = began_at - {by}, sweep_at = sweep_at - {by}, until = until - {by} \
             where key = {}",
            quoted(key)
        ))
        .await;
    }

    /// Makes a key older by this duration.
    pub(in crate::conformance) async fn age_once(&self, key: &str, by: Duration) {
        let by = format!("{{us:{}}}", by.as_micros());
        self.run(&format!(
            "update turno.once set began_at = began_at - {by}, sweep_at = sweep_at - {by}, until = until - {by} \
             where key = {}",
            quoted(key)
        ))
        .await;
    }

    /// Sets a key's last token, as if the clock had been ahead.
    pub(in crate::conformance) async fn set_once_token(&self, key: &str, token: turno::Token) {
        let key = quoted(key);
        self.run(&format!(
            "update turno.once set token = {token} where key = {key}"
        ))
        .await;
    }

    /// Number of stored keys, in all states.
    pub(in crate::conformance) async fn stored_keys(&self) -> i64 {
        self.number("select count(*) from turno.once").await
    }

    /// Waits until an instance waits for the answer of a key, as far as the store can tell.
    pub(in crate::conformance) async fn until_awaited(&self, key: &str, by: &Turno) {
        let waiting = format!(
            "select count(*) from turno.once where key = {} and waited_until is not null",
            quoted(key)
        );
        crate::eventually_async(TIMEOUT, &format!("a waiter of {key}"), async || {
            let registered = self.is_sqlite() || self.number(&waiting).await > 0;
            (by.store().wakers().any() && registered).then_some(())
        })
        .await;
    }
}
