//! Claims live as long as their work, and the state after an interruption.

use std::task::Poll;
use std::time::Duration;

use tokio::time::timeout;
use turno::once::{Begin, OnceError, OnceSettled, OnceState, Released};

use crate::conformance::lock::fixtures::{TIMEOUT, secs};
use crate::conformance::once::fixtures::*;
use crate::conformance::{TestStore, rule};

/// Work that takes many times its lease is not taken over meanwhile.
#[rule]
async fn long_work_keeps_its_claim(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let lease = Duration::from_millis(300);
    let once = turno.once("k").lease(lease);
    let outcome = once
        .run_with(async |claim| {
            let end = claim.grant().expires_at + lease * 4;
            crate::eventually_async(TIMEOUT, "the claim to be extended", async || {
                let view = status(&other, "k").await;
                assert_eq!(view.claim, *claim.id(), "it was taken over");
                (view.expires_at > end).then_some(())
            })
            .await;
            in_flight(begin(&other, "k").await);
            Ok::<_, String>("done".to_owned())
        })
        .await;
    assert_eq!(outcome.unwrap(), "done");
    assert_eq!(answered(&other, "k").await.as_deref(), Some(r#""done""#));
}

/// Work that was taken over is notified, and its answer is stale.
#[rule]
async fn work_that_was_taken_over_hears_of_it(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let once = turno.once("k").lease(Duration::from_millis(300));
    let outcome = once
        .run_with(async |claim| {
            // Its own extension may happen in between.
            let newest = crate::eventually_async(TIMEOUT, "a takeover", async || {
                test_store.expire_once("k").await;
                let again = other.once("k").unknown(turno::once::AfterUnknown::Rerun);
                again.begin().await.unwrap().fresh()
            })
            .await;
            timeout(TIMEOUT, claim.stale()).await.expect("a word");
            newest.complete("new").await.unwrap();
            Ok::<_, String>("old".to_owned())
        })
        .await;
    assert!(matches!(outcome, Err(OnceError::Stale(_))), "{outcome:?}");
    assert_eq!(answered(&turno, "k").await.as_deref(), Some(r#""new""#));
}

/// A claim that has expired is valid again after an extension, if it was not taken over.
#[rule]
async fn an_extension_after_the_end_counts(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let claim = take(&turno, "k").await.detach();
    test_store.expire_once("k").await;
    unknown(begin(&turno, "k").await);
    let extended = turno.once_extend(&claim, LONG).await.unwrap();
    assert_eq!(extended, OnceSettled::Done);
    let run = in_flight(begin(&turno, "k").await);
    assert!(run.remaining > LONG / 2 && run.remaining <= LONG, "{run:?}");
}

/// An extension lengthens the lease, and never shortens it.
#[rule]
async fn an_extension_never_shortens(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let claim = take(&turno, "k").await.detach();
    let end = status(&turno, "k").await.expires_at;
    turno.once_extend(&claim, secs(1)).await.unwrap();
    assert_eq!(status(&turno, "k").await.expires_at, end);
    turno.once_extend(&claim, LONG * 2).await.unwrap();
    assert!(status(&turno, "k").await.expires_at > end + secs(30));
}

/// A claim that is dropped without an end leaves its key unknown; a detached one stays in flight.
#[rule]
async fn a_dropped_claim_leaves_the_key_unknown(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    drop(take(&turno, "dropped").await);
    until_state(&other, "dropped", OnceState::Unknown).await;
    let detached = take(&turno, "detached").await.detach();
    turno.close().await;
    in_flight(begin(&other, "detached").await);
    let settled = other.once_complete(&detached, Some("1"), None).await;
    assert_eq!(settled.unwrap(), OnceSettled::Done);
}

/// A claim that has ended is not marked as unknown on drop.
#[rule]
async fn a_claim_that_ended_is_dropped_quietly(test_store: &TestStore) {
    let turno = test_store.turno().await;
    answer(&turno, "done", "done").await;
    take(&turno, "given back").await.release().await.unwrap();
    turno.close().await;
    let turno = test_store.turno().await;
    let view = status(&turno, "done").await;
    assert_eq!((view.state, view.late), (OnceState::Done, 0));
    assert_eq!(turno.once("given back").status().await.unwrap(), None);
}

/// Sends a begin and drops it before the response, unless the response is already there, which is possible on a busy machine.
async fn ask_and_go(question: impl Future<Output = turno::Result<Begin>>) {
    let mut question = Box::pin(question);
    let outcome = std::future::poll_fn(|context| match question.as_mut().poll(context) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => Poll::Ready(None),
    });
    if let Some(outcome) = outcome.await {
        fresh(outcome.unwrap()).release().await.unwrap();
    }
}

/// A begin that is cancelled leaves nothing behind: the next caller begins, and never finds the key unknown.
#[rule]
async fn a_dropped_question_gives_the_claim_back(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    for n in 0..10 {
        let key = format!("k/{n}");
        let once = turno.once(&key);
        ask_and_go(once.begin()).await;
        // It was granted, and the caller is gone.
        crate::eventually_async(TIMEOUT, "the grant", async || {
            (test_store.stored_keys().await > n).then_some(())
        })
        .await;
        let next = crate::eventually_async(TIMEOUT, "a fresh key", async || {
            match begin(&other, &key).await {
                Begin::Fresh(claim) => Some(claim),
                Begin::InFlight(_) => None,
                other => panic!("{other:?}"),
            }
        })
        .await;
        assert_eq!(next.attempt(), 1);
        next.complete("done").await.unwrap();
    }
}

/// Work that panics or is cancelled leaves its key unknown.
#[rule]
async fn work_that_is_cut_off_leaves_the_key_unknown(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let once = turno.once("panic");
    let panics = tokio::spawn(async move {
        once.run(async || -> Result<u32, String> { panic!("as it should") })
            .await
    });
    assert!(panics.await.unwrap_err().is_panic());
    until_state(&other, "panic", OnceState::Unknown).await;

    let once = turno.once("cut off");
    let (begun, begins) = tokio::sync::oneshot::channel();
    let cut_off = tokio::spawn(async move {
        once.run(async || {
            begun.send(()).unwrap();
            std::future::pending::<Result<u32, String>>().await
        })
        .await
    });
    begins.await.unwrap();
    in_flight(begin(&other, "cut off").await);
    cut_off.abort();
    until_state(&other, "cut off", OnceState::Unknown).await;
}

/// Work that fails releases its key or leaves it unknown, as configured.
#[rule]
async fn work_that_fails_releases_or_doubts(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let fails = async || Err::<u32, _>("no money".to_owned());
    let outcome = turno.once("undone").run(fails).await;
    assert!(matches!(&outcome, Err(OnceError::Work(error)) if error == "no money"));
    assert_eq!(other.once("undone").status().await.unwrap(), None);
    let outcome = other.once("undone").run(async || Ok::<_, String>(7)).await;
    assert_eq!(outcome.unwrap(), 7);

    let doubts = turno.once("doubted").on_error(Released::Unknown);
    let outcome = doubts.run(fails).await;
    assert!(matches!(&outcome, Err(OnceError::Work(error)) if error == "no money"));
    assert_eq!(unknown(begin(&other, "doubted").await).attempt, 1);
}
