//! The caller's own transaction: the answer exists if and only if it commits.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use turno::Turno;
use turno::once::{AfterUnknown, Begin, Claim, OnceSettled, OnceState};
use turno::outbox::Event;

use crate::conformance::caller_writes::{InboxTx, Write};
use crate::conformance::lock::fixtures::{TIMEOUT, secs};
use crate::conformance::once::fixtures::*;
use crate::conformance::outbox::fixtures::{counts, event};
use crate::conformance::{Caller, TestStore, rule};

/// Answers the work of a key in a transaction that stays open.
async fn open(
    test_store: &TestStore,
    caller: Caller,
    turno: &Turno,
    claim: &Arc<Claim>,
    events: &[Event],
) -> turno::Result<InboxTx> {
    let write = Write::Answer(
        claim.clone(),
        "in tx".into(),
        turno.clone(),
        events.to_vec(),
    );
    test_store.open_inbox(caller, write).await
}

/// An answer is visible to no other caller before its transaction commits, and then to all.
#[rule]
async fn an_answer_commits_with_its_transaction(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    for caller in test_store.callers() {
        let key = format!("{caller:?}");
        let claim = Arc::new(take(&turno, &key).await);
        let tx = open(test_store, *caller, &turno, &claim, &[])
            .await
            .unwrap();
        for turno in [&turno, &other] {
            in_flight(begin(turno, &key).await);
            let view = status(turno, &key).await;
            assert_eq!((view.state, view.answer), (OnceState::InFlight, None));
        }
        tx.commit().await;
        for turno in [&turno, &other] {
            assert_eq!(answered(turno, &key).await.as_deref(), Some(r#""in tx""#));
        }
    }
}

/// After a rollback, the work is in flight as before, and can be answered.
#[rule]
async fn an_answer_is_undone_with_its_transaction(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    for caller in test_store.callers() {
        let key = format!("{caller:?}");
        let claim = Arc::new(take(&turno, &key).await);
        let before = status(&turno, &key).await;
        let tx = open(test_store, *caller, &turno, &claim, &[])
            .await
            .unwrap();
        tx.roll_back().await;
        in_flight(begin(&other, &key).await);
        assert_eq!(status(&turno, &key).await, before, "{key}");
        assert_eq!(claim.complete("after").await.unwrap(), OnceSettled::Done);
        assert_eq!(answered(&other, &key).await.as_deref(), Some(r#""after""#));
    }
}

/// The answer and the events of its transaction are both stored, or neither is.
#[rule]
async fn an_answer_and_its_events_are_one(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let mut emitted = 0;
    for caller in test_store.callers() {
        for commits in [false, true] {
            let key = format!("{caller:?}/{commits}");
            let claim = Arc::new(take(&turno, &key).await);
            let events = [event(1), event(2)];
            let tx = open(test_store, *caller, &turno, &claim, &events)
                .await
                .unwrap();
            assert_eq!(tx.emitted.len(), 2);
            assert_eq!(counts(&turno).await[0], emitted, "{key}");
            if commits {
                tx.commit().await;
                emitted += 2;
                replay(begin(&turno, &key).await);
            } else {
                tx.roll_back().await;
                in_flight(begin(&turno, &key).await);
            }
            assert_eq!(counts(&turno).await[0], emitted, "{key}");
        }
    }
}

/// A stale answer fails the transaction as lost, and nothing in it is applied.
#[rule]
async fn a_stale_answer_fails_its_transaction(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    for caller in test_store.callers() {
        for done in [false, true] {
            let key = format!("{caller:?}/{done}");
            let stale = Arc::new(take(&turno, &key).await);
            test_store.expire_once(&key).await;
            let newest = take_over(&other, &key).await;
            if done {
                newest.complete("new").await.unwrap();
            }
            let before = status(&turno, &key).await;
            let refused = open(test_store, *caller, &turno, &stale, &[event(1)])
                .await
                .err();
            let error = refused.expect("refused");
            assert!(error.is_lost(), "{key}: {error}");
            timeout(TIMEOUT, stale.stale()).await.expect("it is known");
            assert_eq!(status(&turno, &key).await, before, "{key}");
            assert_eq!(counts(&turno).await, [0; 6], "{key}");
            if !done {
                assert_eq!(newest.complete("new").await.unwrap(), OnceSettled::Done);
            }
            assert_eq!(answered(&turno, &key).await.as_deref(), Some(r#""new""#));
        }
    }
}

/// A repeated answer in a transaction succeeds, and the first one stays.
#[rule]
async fn an_answer_said_again_in_a_transaction_stays(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for caller in test_store.callers() {
        let key = format!("{caller:?}");
        let claim = Arc::new(take(&turno, &key).await);
        let first = open(test_store, *caller, &turno, &claim, &[])
            .await
            .unwrap();
        first.commit().await;
        // As `run_with` does after the work has answered in its own transaction.
        assert_eq!(claim.complete("again").await.unwrap(), OnceSettled::Done);
        let again = open(test_store, *caller, &turno, &claim, &[])
            .await
            .unwrap();
        again.commit().await;
        let view = status(&turno, &key).await;
        assert_eq!((view.answer.as_deref(), view.late), (Some(r#""in tx""#), 0));
    }
}

/// A claim that is dropped after its transaction leaves the answer as it is, and is not recorded as late.
#[rule]
async fn a_claim_answered_in_a_transaction_is_dropped_quietly(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for caller in test_store.callers() {
        let key = format!("{caller:?}");
        let claim = Arc::new(take(&turno, &key).await);
        let tx = open(test_store, *caller, &turno, &claim, &[])
            .await
            .unwrap();
        tx.commit().await;
        drop(claim);
    }
    turno.close().await;
    let turno = test_store.turno().await;
    for caller in test_store.callers() {
        let view = status(&turno, &format!("{caller:?}")).await;
        assert_eq!((view.state, view.late), (OnceState::Done, 0), "{caller:?}");
    }
}

/// A begin during an open transaction returns at once, with any options.
#[rule]
async fn a_begin_beside_an_open_answer_does_not_wait(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    for caller in test_store.callers() {
        let key = format!("{caller:?}");
        let claim = Arc::new(take(&turno, &key).await);
        let tx = open(test_store, *caller, &turno, &claim, &[])
            .await
            .unwrap();
        let plain = other.once(&key);
        for once in [
            plain.clone(),
            plain.clone().unknown(AfterUnknown::Rerun),
            plain.clone().wait(Duration::from_millis(50)),
        ] {
            let outcome = timeout(secs(5), once.begin()).await;
            in_flight(outcome.expect("it waits for a transaction").unwrap());
        }
        tx.commit().await;
        replay(plain.begin().await.unwrap());
    }
}

/// While its answer is being written, the work cannot be taken over, even after its lease; and then the answer counts.
#[rule]
async fn work_being_answered_is_not_taken_over(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    for caller in test_store.callers() {
        for commits in [true, false] {
            let key = format!("{caller:?}/{commits}");
            // A short lease, because on some stores times cannot be shifted while the transaction is open.
            let once = turno.once(&key).lease(Duration::from_millis(150));
            let claim = Arc::new(fresh(once.begin().await.unwrap()));
            let tx = open(test_store, *caller, &turno, &claim, &[])
                .await
                .unwrap();
            crate::eventually_async(TIMEOUT, "the lease's end", async || {
                (turno::clock::machine() > claim.grant().expires_at).then_some(())
            })
            .await;
            let rerun = other.once(&key).unknown(AfterUnknown::Rerun);
            let waits = rerun.clone().wait(TIMEOUT);
            let waiting = tokio::spawn(async move { waits.begin().await.unwrap() });
            if !test_store.is_sqlite() {
                // On a store with a single writer, a takeover has to wait for it.
                let outcome = timeout(secs(5), rerun.begin()).await;
                in_flight(outcome.expect("it waits for a transaction").unwrap());
            }
            assert!(!waiting.is_finished(), "{key}");
            if commits {
                tx.commit().await;
                replay(waiting.await.unwrap());
            } else {
                tx.roll_back().await;
                let next = fresh(waiting.await.unwrap());
                assert_eq!(next.attempt(), 2, "{key}");
                assert_eq!(claim.complete("old").await.unwrap(), OnceSettled::Stale);
                next.complete("new").await.unwrap();
            }
        }
    }
}

/// Begins that are batched with one for a key in an open transaction do not wait for it. SQLite has a single
/// writer, which blocks all others.
#[rule(postgres)]
async fn neighbours_of_an_open_answer_do_not_wait(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    for caller in test_store.callers() {
        let busy = format!("{caller:?}");
        let once = turno.once(&busy).lease(Duration::from_millis(150));
        let claim = Arc::new(fresh(once.begin().await.unwrap()));
        let tx = open(test_store, *caller, &turno, &claim, &[])
            .await
            .unwrap();
        crate::eventually_async(TIMEOUT, "the lease's end", async || {
            (turno::clock::machine() > claim.grant().expires_at).then_some(())
        })
        .await;
        for round in 0..3 {
            let mut tasks = tokio::task::JoinSet::new();
            for n in 0..60 {
                let key = match n % 10 {
                    0 => busy.clone(),
                    _ => format!("{busy}/{round}/{n}"),
                };
                let once = other.once(&key).unknown(AfterUnknown::Rerun);
                tasks.spawn(async move { (key, once.begin().await.unwrap()) });
            }
            let all = timeout(secs(10), tasks.join_all()).await;
            for (key, begun) in all.expect("they wait for a transaction") {
                match begun {
                    Begin::InFlight(_) if key == busy => {}
                    Begin::Fresh(claim) if key != busy => drop(claim.detach()),
                    other => panic!("{key}: {other:?}"),
                }
            }
        }
        tx.commit().await;
        replay(begin(&other, &busy).await);
    }
}

/// Completions that are batched with one whose row is locked by another transaction do not wait, either.
#[rule(postgres)]
async fn answers_beside_an_open_one_do_not_wait(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for caller in test_store.callers() {
        let key = format!("{caller:?}");
        let claim = Arc::new(take(&turno, &key).await);
        let tx = open(test_store, *caller, &turno, &claim, &[])
            .await
            .unwrap();
        let said_twice = {
            let (turno, claim) = (turno.clone(), claim.id().clone());
            tokio::spawn(async move { turno.once_complete(&claim, Some("2"), None).await })
        };
        for n in 0..20 {
            let neighbour = format!("{key}/{n}");
            timeout(secs(10), answer(&turno, &neighbour, "done"))
                .await
                .expect("it waits for a transaction");
        }
        assert!(
            !said_twice.is_finished(),
            "{key}: the outcome is not known yet"
        );
        tx.commit().await;
        let settled = said_twice.await.unwrap().unwrap();
        assert_eq!(settled, OnceSettled::Done);
        assert_eq!(answered(&turno, &key).await.as_deref(), Some(r#""in tx""#));
    }
}
