//! What the rules of once have in common, and their back door into its table.

use std::time::Duration;

use turno::Turno;
use turno::once::{Answer, Begin, Claim, OnceRun, OnceState, OnceView};
use turno::store::{AfterUnknown, OnceBegin, OnceGrant, OnceOutcome, WhileInFlight};
use uuid::Uuid;

use super::Bed;
use super::bed::quoted;
use super::kit::PATIENCE;

/// A lease that nothing here outlasts.
pub(super) const LONG: Duration = Duration::from_secs(60);
pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The claim, or a panic that tells what was answered instead.
#[track_caller]
pub(super) fn fresh(begun: Begin) -> Claim {
    match begun {
        Begin::Fresh(claim) => claim,
        other => panic!("not fresh: {other:?}"),
    }
}

/// The stored answer, or a panic.
#[track_caller]
pub(super) fn replay(begun: Begin) -> Answer {
    match begun {
        Begin::Replay(answer) => answer,
        other => panic!("not replayed: {other:?}"),
    }
}

/// Whose run it is, or a panic.
#[track_caller]
pub(super) fn in_flight(begun: Begin) -> OnceRun {
    match begun {
        Begin::InFlight(run) => run,
        other => panic!("not in flight: {other:?}"),
    }
}

/// Whose run it was, or a panic.
#[track_caller]
pub(super) fn unknown(begun: Begin) -> OnceRun {
    match begun {
        Begin::Unknown(run) => run,
        other => panic!("not unknown: {other:?}"),
    }
}

/// Asks for a key in the plainest way.
pub(super) async fn begin(turno: &Turno, key: &str) -> Begin {
    turno.once(key).begin().await.unwrap()
}

/// Takes the work of a key.
pub(super) async fn take(turno: &Turno, key: &str) -> Claim {
    fresh(begin(turno, key).await)
}

/// Takes the work of a key over from a run that has vanished.
pub(super) async fn take_over(turno: &Turno, key: &str) -> Claim {
    let again = turno.once(key).unknown(AfterUnknown::Rerun);
    fresh(again.begin().await.unwrap())
}

/// Does the work of a key, with this answer.
pub(super) async fn answer(turno: &Turno, key: &str, answer: &str) {
    let settled = take(turno, key).await.complete(answer).await.unwrap();
    assert_eq!(settled, turno::once::OnceSettled::Done);
}

/// The stored answer of a key that is done, as JSON text.
pub(super) async fn answered(turno: &Turno, key: &str) -> Option<String> {
    let answer = replay(begin(turno, key).await);
    answer.text().map(str::to_owned)
}

/// What is known of a key of which something is.
pub(super) async fn status(turno: &Turno, key: &str) -> OnceView {
    let view = turno.once_status(key).await.unwrap();
    view.unwrap_or_else(|| panic!("nothing is known of {key}"))
}

/// Waits until a key is in a state.
pub(super) async fn until_state(turno: &Turno, key: &str, state: OnceState) {
    crate::eventually_async(PATIENCE, &format!("{key} to be {state}"), async || {
        let view = turno.once_status(key).await.unwrap();
        view.filter(|view| view.state == state).map(drop)
    })
    .await;
}

/// What a store is asked for by whoever begins.
pub(super) fn ask(key: &str) -> OnceBegin {
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

/// The grant, or a panic.
#[track_caller]
pub(super) fn granted(outcome: OnceOutcome) -> OnceGrant {
    match outcome {
        OnceOutcome::Fresh(grant) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

impl Bed {
    /// Lets time pass for one key until its lease, or its answer's time, is over.
    pub(super) async fn expire_once(&self, key: &str) {
        let by = "(until - {now} + {us:1000000})";
        self.run(&format!(
            "update turno.once set began_at = began_at - {by}, sweep_at = sweep_at - {by}, until = until - {by} \
             where key = {}",
            quoted(key)
        ))
        .await;
    }

    /// Lets so much time pass for one key.
    pub(super) async fn age_once(&self, key: &str, by: Duration) {
        let by = format!("{{us:{}}}", by.as_micros());
        self.run(&format!(
            "update turno.once set began_at = began_at - {by}, sweep_at = sweep_at - {by}, until = until - {by} \
             where key = {}",
            quoted(key)
        ))
        .await;
    }

    /// Makes a key's last token this one, as if the clock had been ahead.
    pub(super) async fn set_once_token(&self, key: &str, token: turno::Token) {
        let key = quoted(key);
        self.run(&format!(
            "update turno.once set token = {token} where key = {key}"
        ))
        .await;
    }

    /// How many keys are stored, whatever became of them.
    pub(super) async fn stored_keys(&self) -> i64 {
        self.number("select count(*) from turno.once").await
    }

    /// Waits until an instance waits for the answer of a key, as far as the store can tell.
    pub(super) async fn until_awaited(&self, key: &str, by: &Turno) {
        let waiting = format!(
            "select count(*) from turno.once where key = {} and waited_until is not null",
            quoted(key)
        );
        crate::eventually_async(
            PATIENCE,
            &format!("somebody to wait for {key}"),
            async || {
                let signed_in = self.is_sqlite() || self.number(&waiting).await > 0;
                (by.store().wakers().any() && signed_in).then_some(())
            },
        )
        .await;
    }
}
