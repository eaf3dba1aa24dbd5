//! A store that waits by itself, as a server does: the library leaves the waiting to it, and nothing is lost with its
//! responses.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use turno::once::Begin;

use crate::conformance::inbox::fixtures::push;
use crate::conformance::lock::fixtures::*;
use crate::conformance::once::counted::Waits;
use crate::conformance::{TestStore, rule};
use crate::eventually_async;

/// If a caller gives up while the store waits, the lock or the work may have been granted without a response: it is released.
#[rule]
async fn a_grant_without_a_receiver_is_given_back(test_store: &TestStore) {
    let plain = test_store.turno().await;
    let done = Arc::new(Semaphore::new(0));
    let turno = test_store.waiting(Waits::Undelivered(done.clone())).await;

    let lock = turno.lock("r").wait(TIMEOUT);
    let asks = tokio::spawn(async move { lock.acquire().await.map(drop) });
    done.acquire().await.unwrap().forget();
    assert!(plain.lock("r").acquire().await.unwrap().is_busy());
    asks.abort();
    let _lease = eventually_async(TIMEOUT, "the lock is given back", async || {
        plain.lock("r").acquire().await.unwrap().acquired()
    })
    .await;

    let once = turno.once("k").wait(TIMEOUT);
    let asks = tokio::spawn(async move { once.begin().await.map(drop) });
    done.acquire().await.unwrap().forget();
    let begun = plain.once("k").begin().await.unwrap();
    assert!(matches!(begun, Begin::InFlight(_)), "{begun:?}");
    asks.abort();
    let _claim = eventually_async(TIMEOUT, "the work is given back", async || {
        plain.once("k").begin().await.unwrap().fresh()
    })
    .await;
}

/// The lease of a waiting acquire is not counted from before the wait; and waiting calls return their results.
#[rule]
async fn what_was_waited_for_begins_when_it_is_granted(test_store: &TestStore) {
    let long = Duration::from_millis(1500);
    let turno = test_store.waiting(Waits::For(long)).await;
    push(&turno.inbox("q"), &["x"]).await;
    let lock = turno.lock("r").ttl(secs(10)).wait(secs(5));
    let once = turno.once("k").wait(secs(5));
    let claim = turno.inbox("q").claim().wait(secs(5));
    let (lease, begun, items) = tokio::join!(lock.acquire(), once.begin(), claim.take());
    let lease = mine(lease.unwrap());
    // Counted from before the call, it would be less.
    assert!(
        lease.remaining() > secs(10) - long,
        "{:?}",
        lease.remaining()
    );
    assert_eq!(lease.grant().holds, 1);
    let begun = begun.unwrap().fresh().unwrap();
    assert_eq!(begun.attempt(), 1);
    begun.release().await.unwrap();
    assert_eq!(items.unwrap().len(), 1);
    // Without a wait, the store's waiting call is not used.
    assert!(turno.lock("r").acquire().await.unwrap().is_busy());
}
