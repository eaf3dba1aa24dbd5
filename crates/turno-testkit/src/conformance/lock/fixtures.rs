//! Helpers for all rules.

use std::time::Duration;

use turno::history::{History, Part};
use turno::lock::{Acquire, Busy, HistoryEntry, HistoryEvent, Lease, Lock, WaitOrder};
use turno::store::{Attribution, Grant, LockAcquire, LockMode, LockOutcome, LockWait, WaitOutcome};
use turno::{Token, Turno};
use uuid::Uuid;

/// Timeout, longer than any step takes.
pub(in crate::conformance) const TIMEOUT: Duration = Duration::from_secs(20);

pub(in crate::conformance) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns the lease, or panics with the holder.
#[track_caller]
pub(in crate::conformance) fn mine(answer: Acquire) -> Lease {
    match answer {
        Acquire::Acquired(lease) => lease,
        Acquire::Busy(busy) => panic!("not acquired: {busy:?}"),
    }
}

/// Returns the holder, or panics.
#[track_caller]
pub(in crate::conformance) fn busy(answer: Acquire) -> Busy {
    match answer {
        Acquire::Acquired(lease) => panic!("acquired, and should be busy: {:?}", lease.grant()),
        Acquire::Busy(busy) => busy,
    }
}

/// Acquires a lock that is free, or panics with the holder.
pub async fn acquired(lock: Lock) -> Lease {
    mine(lock.acquire().await.unwrap())
}

/// Asks for a lock that is busy, and returns the holder; panics if it is acquired.
pub(in crate::conformance) async fn refused(lock: Lock) -> Busy {
    busy(lock.acquire().await.unwrap())
}

/// Acquires a free lock for an owner.
pub(in crate::conformance) async fn take(turno: &Turno, resource: &str, owner: &str) -> Lease {
    acquired(turno.lock(resource).owner(owner)).await
}

/// Returns an owner's acquire request to the store.
pub(in crate::conformance) fn ask(resource: &str, owner: &str) -> LockAcquire {
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

/// Returns the grant, or panics.
#[track_caller]
pub(in crate::conformance) fn granted(outcome: LockOutcome) -> Grant {
    match outcome {
        LockOutcome::Acquired(grant) => grant,
        LockOutcome::Busy(busy) => panic!("not granted: {busy:?}"),
    }
}

/// Returns the history of a resource, newest first, without current holds.
pub(in crate::conformance) async fn history(turno: &Turno, resource: &str) -> Vec<HistoryEntry> {
    let ask = History {
        part: Some(Part::Lock),
        resource: Some(resource.into()),
        prefix: String::new(),
        before: None,
        limit: 1000,
    };
    turno.store().history(&ask).await.unwrap()
}

/// Returns the events of a resource, newest first.
pub(in crate::conformance) async fn events(
    turno: &Turno,
    resource: &str,
) -> Vec<(HistoryEvent, Token)> {
    history(turno, resource)
        .await
        .into_iter()
        .map(|entry| (entry.event, entry.token.unwrap()))
        .collect()
}

/// Returns how often an event happened to a resource.
pub(in crate::conformance) async fn count(
    turno: &Turno,
    resource: &str,
    event: HistoryEvent,
) -> usize {
    events(turno, resource)
        .await
        .iter()
        .filter(|(found, _)| *found == event)
        .count()
}

/// Returns the holders of a resource, ordered by token.
pub(in crate::conformance) async fn owners(turno: &Turno, resource: &str) -> Vec<String> {
    let status = turno.lock(resource).status().await.unwrap();
    status
        .holders
        .into_iter()
        .map(|holder| holder.owner)
        .collect()
}

/// Registers a waiter until the store confirms its place.
pub(in crate::conformance) async fn stand_in_line(turno: &Turno, resource: &str, owner: &str) {
    let ask = LockWait {
        resource: resource.into(),
        owner: owner.into(),
        order: WaitOrder::Fifo,
        attribution: Attribution::default(),
    };
    let registered = async {
        while turno.store().lock_wait(&ask).await.unwrap() == WaitOutcome::TryAgain {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, registered)
        .await
        .expect("a place in line");
}

/// Waits until a resource has this many waiters.
pub(in crate::conformance) async fn until_waiting(turno: &Turno, resource: &str, waiters: u64) {
    crate::eventually_async(
        TIMEOUT,
        &format!("{waiters} waiters for {resource}"),
        async || (turno.lock(resource).status().await.unwrap().waiters == waiters).then_some(()),
    )
    .await;
}

/// Waits until a resource is free.
pub(in crate::conformance) async fn until_free(turno: &Turno, resource: &str) {
    crate::eventually_async(TIMEOUT, &format!("{resource} to be free"), async || {
        turno
            .lock(resource)
            .status()
            .await
            .unwrap()
            .holders
            .is_empty()
            .then_some(())
    })
    .await;
}
