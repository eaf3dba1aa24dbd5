//! What the rules have in common.

use std::time::Duration;

use turno::lock::{Acquire, Busy, HistoryEntry, HistoryEvent, Lease, LockHistory, WaitOrder};
use turno::store::{Attribution, Grant, LockAcquire, LockMode, LockOutcome, LockWait, WaitOutcome};
use turno::{Token, Turno};
use uuid::Uuid;

/// Longer than anything here takes: whoever waits this long waits in vain.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

pub(super) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The lease, or a panic that tells who has it.
#[track_caller]
pub(super) fn mine(answer: Acquire) -> Lease {
    match answer {
        Acquire::Acquired(lease) => lease,
        Acquire::Busy(busy) => panic!("not acquired: {busy:?}"),
    }
}

/// Who has it, or a panic.
#[track_caller]
pub(super) fn busy(answer: Acquire) -> Busy {
    match answer {
        Acquire::Acquired(lease) => panic!("acquired, and should be busy: {:?}", lease.grant()),
        Acquire::Busy(busy) => busy,
    }
}

/// Takes a free lock for an owner.
pub(super) async fn take(turno: &Turno, resource: &str, owner: &str) -> Lease {
    mine(turno.lock(resource).owner(owner).acquire().await.unwrap())
}

/// What a store is asked for when an owner wants a resource.
pub(super) fn ask(resource: &str, owner: &str) -> LockAcquire {
    LockAcquire {
        resource: resource.into(),
        owner: owner.into(),
        ttl: secs(30),
        mode: LockMode::Exclusive,
        min_hold: None,
        max_hold: None,
        attribution: Attribution::default(),
        request: Uuid::now_v7(),
    }
}

/// The grant, or a panic.
#[track_caller]
pub(super) fn granted(outcome: LockOutcome) -> Grant {
    match outcome {
        LockOutcome::Acquired(grant) => grant,
        LockOutcome::Busy(busy) => panic!("not granted: {busy:?}"),
    }
}

/// The audit trail of a resource, newest first, without what is held now.
pub(super) async fn history(turno: &Turno, resource: &str) -> Vec<HistoryEntry> {
    let ask = LockHistory {
        resource: Some(resource.into()),
        prefix: String::new(),
        before: None,
        limit: 1000,
    };
    turno.store().lock_history(&ask).await.unwrap()
}

/// What happened to a resource, newest first.
pub(super) async fn events(turno: &Turno, resource: &str) -> Vec<(HistoryEvent, Token)> {
    history(turno, resource)
        .await
        .into_iter()
        .map(|entry| (entry.event, entry.token.unwrap()))
        .collect()
}

/// How often something happened to a resource.
pub(super) async fn count(turno: &Turno, resource: &str, event: HistoryEvent) -> usize {
    events(turno, resource)
        .await
        .iter()
        .filter(|(found, _)| *found == event)
        .count()
}

/// Who holds a resource, in the order of their tokens.
pub(super) async fn owners(turno: &Turno, resource: &str) -> Vec<String> {
    let status = turno.lock_status(resource).await.unwrap();
    status
        .holders
        .into_iter()
        .map(|holder| holder.owner)
        .collect()
}

/// Stands in line: signs in until the store says that the place counts.
pub(super) async fn stand_in_line(turno: &Turno, resource: &str, owner: &str) {
    let ask = LockWait {
        resource: resource.into(),
        owner: owner.into(),
        order: WaitOrder::Fifo,
        attribution: Attribution::default(),
    };
    let signed_in = async {
        while turno.store().lock_wait(&ask).await.unwrap() == WaitOutcome::Overlooked {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, signed_in)
        .await
        .expect("a place in line");
}

/// Waits until so many wait for a resource.
pub(super) async fn until_waiting(turno: &Turno, resource: &str, waiters: u64) {
    crate::eventually_async(
        PATIENCE,
        &format!("{waiters} waiters for {resource}"),
        async || (turno.lock_status(resource).await.unwrap().waiters == waiters).then_some(()),
    )
    .await;
}

/// Waits until nobody holds a resource.
pub(super) async fn until_free(turno: &Turno, resource: &str) {
    crate::eventually_async(PATIENCE, &format!("{resource} to be free"), async || {
        turno
            .lock_status(resource)
            .await
            .unwrap()
            .holders
            .is_empty()
            .then_some(())
    })
    .await;
}
