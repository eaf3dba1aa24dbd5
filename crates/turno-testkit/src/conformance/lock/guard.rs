//! Fencing: the guard in the caller's own transaction.

use std::time::Duration;

use tokio::time::timeout;
use turno::Token;
use turno::lock::{Acquire, BreakOutcome};

use crate::conformance::caller::Ask;
use crate::conformance::lock::fixtures::*;
use crate::conformance::{TestStore, rule};

/// Long enough for a response that does not wait for the open transaction; one that waits would take far longer.
const A_WHILE: Duration = Duration::from_secs(1);

/// The guard passes for a live lease, exclusive or shared, in each kind of transaction, any number of times.
#[rule]
async fn a_guard_passes_for_a_live_lease(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let exclusive = take(&turno, "e", "a").await;
    let shared = [0, 1].map(|n| turno.lock("s").owner(n.to_string()).shared());
    let [first, second] = shared.map(|lock| lock.acquire());
    let (first, second) = (mine(first.await.unwrap()), mine(second.await.unwrap()));
    for caller in test_store.callers() {
        for lease in [&exclusive, &first, &second] {
            for _ in 0..2 {
                test_store
                    .open(*caller, Ask::Guard, lease.resource(), lease.token())
                    .await
                    .unwrap()
                    .commit()
                    .await;
            }
        }
    }
    exclusive.release().await.unwrap();
}

/// It fails with a lost lease for each token that does not hold the lock now.
#[rule]
async fn a_guard_fails_for_a_stale_lease(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let mut stale = Vec::new();
    for shared in [false, true] {
        let ask = |what: &str| {
            let lock = turno.lock(format!("{what}/{shared}")).owner("a");
            if shared { lock.shared() } else { lock }
        };
        let released = acquired(ask("released")).await;
        stale.push(released.id());
        released.release().await.unwrap();

        stale.push(acquired(ask("expired")).await.detach());
        test_store.expire(&format!("expired/{shared}")).await;

        stale.push(acquired(ask("taken")).await.detach());
        test_store.expire(&format!("taken/{shared}")).await;
        take(&turno, &format!("taken/{shared}"), "b").await.detach();

        let broken = acquired(ask("broken")).await.detach();
        assert_eq!(
            turno
                .lock(&broken.resource)
                .force_break(broken.token, "why")
                .await
                .unwrap(),
            BreakOutcome::Broken
        );
        stale.push(broken);

        let mut wrong = acquired(ask("wrong")).await.detach();
        wrong.token = Token(wrong.token.0 + 1);
        stale.push(wrong.clone());
        wrong.token = Token(wrong.token.0 - 2);
        stale.push(wrong);
    }
    // One shared hold has expired, another has not.
    let dead = acquired(turno.lock("mixed").owner("dead").shared())
        .await
        .detach();
    let _live = acquired(turno.lock("mixed").owner("live").shared()).await;
    test_store.expire_hold("mixed", dead.token).await;
    stale.push(dead);
    for caller in test_store.callers() {
        for id in &stale {
            let error = test_store
                .open(*caller, Ask::Guard, &id.resource, id.token)
                .await
                .expect_err(&format!("{id} in {caller:?}"));
            assert!(error.is_lost(), "{id} in {caller:?}: {error:?}");
        }
        let error = test_store
            .open(*caller, Ask::Guard, "unknown", Token(1))
            .await
            .unwrap_err();
        assert!(error.is_lost(), "{error:?}");
    }
}

/// While a guarded transaction is open, the lock cannot be taken over, even after its expiry; afterwards it can.
#[rule]
async fn a_guarded_lock_is_not_taken_over(test_store: &TestStore) {
    let (turno, rival) = (test_store.turno().await, test_store.turno().await);
    for caller in test_store.callers() {
        for (next, shared) in [("exclusive", false), ("shared", true)] {
            let resource = format!("{caller:?}/{next}");
            // A short TTL, because on some stores the times cannot be shifted while the transaction is open.
            let short = turno
                .lock(&resource)
                .owner("a")
                .ttl(Duration::from_millis(1500));
            let lease = acquired(short).await;
            let tx = test_store
                .open(*caller, Ask::Guard, &resource, lease.token())
                .await
                .unwrap();
            until_free(&rival, &resource).await;
            let lock = rival.lock(&resource).owner("b");
            let lock = if shared { lock.shared() } else { lock };
            let mut taking = tokio::spawn(lock.clone().acquire());
            let early = timeout(A_WHILE, &mut taking).await;
            let early = early.map(|answer| answer.unwrap().unwrap());
            if let Ok(Acquire::Acquired(_)) = &early {
                panic!("taken over while {caller:?} guards it: {early:?}");
            }
            let old = lease.token();
            lease.detach();
            tx.commit().await;
            let new = match early {
                Ok(_) => acquired(lock).await,
                Err(_) => mine(timeout(TIMEOUT, taking).await.unwrap().unwrap().unwrap()),
            };
            assert!(new.token() > old);
        }
    }
}

/// The control: without the guard, the same transaction does not prevent a takeover.
#[rule]
async fn an_unguarded_lock_is_taken_over(test_store: &TestStore) {
    let (turno, rival) = (test_store.turno().await, test_store.turno().await);
    for caller in test_store.callers() {
        let resource = format!("{caller:?}");
        let old = take(&turno, &resource, "a").await.detach();
        let tx = test_store
            .open(*caller, Ask::Nothing, &resource, old.token)
            .await
            .unwrap();
        test_store.expire(&resource).await;
        assert!(take(&rival, &resource, "b").await.token() > old.token);
        tx.commit().await;
    }
}

/// A waiting acquire concurrent with an open guarded transaction returns an outcome, never an error.
#[rule]
async fn a_wait_beside_a_guard_ends_as_an_answer(test_store: &TestStore) {
    let (turno, rival) = (test_store.turno().await, test_store.turno().await);
    for (holds, held_shared) in [("exclusive", false), ("shared", true)] {
        for (asks, ask_shared) in [("exclusive", false), ("shared", true)] {
            let resource = format!("{holds}/{asks}");
            let lock = turno.lock(&resource).owner("a");
            let lease = acquired(if held_shared { lock.shared() } else { lock }).await;
            let tx = test_store
                .open(
                    test_store.callers()[0],
                    Ask::Guard,
                    &resource,
                    lease.token(),
                )
                .await
                .unwrap();
            let lock = rival
                .lock(&resource)
                .owner("b")
                .wait(Duration::from_millis(200));
            let mut waiting = tokio::spawn(if ask_shared { lock.shared() } else { lock }.acquire());
            let early = timeout(A_WHILE, &mut waiting).await;
            tx.commit().await;
            let answer = match early {
                Ok(answer) => answer,
                Err(_) => timeout(TIMEOUT, waiting).await.expect("it never ends"),
            };
            let answer = answer
                .unwrap()
                .unwrap_or_else(|error| panic!("{resource}: {error:?}"));
            assert_eq!(
                answer.is_busy(),
                !(held_shared && ask_shared),
                "{resource}: {answer:?}"
            );
        }
    }
}

/// A waiter registration concurrent with an open guarded transaction is valid.
#[rule]
async fn a_line_beside_a_guard_counts(test_store: &TestStore) {
    let (turno, rival) = (test_store.turno().await, test_store.turno().await);
    let lease = take(&turno, "r", "a").await;
    let tx = test_store
        .open(test_store.callers()[0], Ask::Guard, "r", lease.token())
        .await
        .unwrap();
    let line = tokio::spawn({
        let rival = rival.clone();
        async move { stand_in_line(&rival, "r", "first").await }
    });
    // Some stores block writers until the transaction has ended.
    tokio::time::sleep(Duration::from_millis(200)).await;
    tx.commit().await;
    line.await.unwrap();
    lease.release().await.unwrap();
    refused(rival.lock("r").owner("newcomer")).await;
    take(&rival, "r", "first").await.detach();
}

/// The holder's own renewals and releases work again once its guarded transaction has ended.
#[rule]
async fn a_guard_ends_with_its_transaction(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for caller in test_store.callers() {
        let lease = take(&turno, "r", "a").await;
        test_store
            .open(*caller, Ask::Guard, "r", lease.token())
            .await
            .unwrap()
            .commit()
            .await;
        // A rollback leaves nothing behind, either.
        drop(
            test_store
                .open(*caller, Ask::Guard, "r", lease.token())
                .await
                .unwrap(),
        );
        timeout(TIMEOUT, lease.renew()).await.unwrap().unwrap();
        timeout(TIMEOUT, lease.release()).await.unwrap().unwrap();
    }
}
