//! Waiting for the answer of another run.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use turno::Turno;
use turno::once::{AfterUnknown, Begin, Once};

use crate::conformance::caller_writes::Write;
use crate::conformance::lock::fixtures::{TIMEOUT, secs};
use crate::conformance::once::fixtures::*;
use crate::conformance::{TestStore, rule};

fn ask(once: Once) -> JoinHandle<Begin> {
    tokio::spawn(async move { once.wait(TIMEOUT).begin().await.unwrap() })
}

async fn outcome(waiter: JoinHandle<Begin>) -> Begin {
    timeout(TIMEOUT, waiter).await.expect("an answer").unwrap()
}

/// Checks the shortest of several times, because the machine may be busy once, and not always.
fn assert_prompt(mut took: Vec<Duration>) {
    took.sort_unstable();
    // Far less than the poll interval of a waiter without notifications.
    assert!(took[0] < secs(1), "{took:?}");
}

/// A waiter gets the answer as soon as it exists, on any machine.
#[rule]
async fn an_answer_reaches_who_waits(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let mut took = Vec::new();
    for n in 0..3 {
        let key = format!("k/{n}");
        let claim = take(&turno, &key).await;
        let here = ask(turno.once(&key));
        let there = ask(other.once(&key));
        test_store.until_awaited(&key, &turno).await;
        test_store.until_awaited(&key, &other).await;
        assert!(!here.is_finished() && !there.is_finished());
        let answered = Instant::now();
        claim.complete(&n).await.unwrap();
        for waiter in [here, there] {
            let answer = replay(outcome(waiter).await);
            assert_eq!(answer.get::<i32>().unwrap(), Some(n));
        }
        took.push(answered.elapsed());
    }
    assert_prompt(took);
}

/// A waiter gets an answer that commits with the caller's own transaction.
#[rule]
async fn a_commit_reaches_who_waits(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    for caller in test_store.callers() {
        let mut took = Vec::new();
        for n in 0..3 {
            let key = format!("{caller:?}/{n}");
            let claim = Arc::new(take(&turno, &key).await);
            let waiter = ask(other.once(&key));
            test_store.until_awaited(&key, &other).await;
            let write = Write::Answer(claim.clone(), "done".into(), turno.clone(), Vec::new());
            let tx = test_store.open_inbox(*caller, write).await.unwrap();
            assert!(!waiter.is_finished(), "{key}: not committed");
            let answered = Instant::now();
            tx.commit().await;
            let answer = replay(outcome(waiter).await);
            assert_eq!(answer.text(), Some(r#""done""#), "{key}");
            took.push(answered.elapsed());
        }
        assert_prompt(took);
    }
}

/// After its timeout, and not before, a waiter gets the run in flight.
#[rule]
async fn a_wait_ends_as_in_flight(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let once = turno.once("k").worker("first").lease(LONG);
    fresh(once.begin().await.unwrap()).detach();
    let asked = Instant::now();
    let wait = Duration::from_millis(150);
    let run = in_flight(turno.once("k").wait(wait).begin().await.unwrap());
    assert!(asked.elapsed() >= wait);
    assert_eq!(run.worker.as_deref(), Some("first"));
}

/// When the run is lost, without a notification, a waiter gets that result, or takes over.
#[rule]
async fn a_vanished_run_ends_the_wait(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let lease = Duration::from_millis(300);
    let begin = async |key| {
        let claim = turno.once(key).lease(lease).begin().await.unwrap();
        fresh(claim).detach()
    };
    begin("refuse").await;
    assert_eq!(unknown(outcome(ask(other.once("refuse"))).await).attempt, 1);
    begin("rerun").await;
    let mut waiters = Vec::new();
    for n in 0..6 {
        let turno = if n % 2 == 0 { &turno } else { &other };
        let once = turno.once("rerun").unknown(AfterUnknown::Rerun);
        waiters.push(ask(once));
    }
    // One of them does the work, and the others get its answer.
    let mut runs = 0;
    let (done, mut each) = tokio::sync::mpsc::unbounded_channel();
    for waiter in waiters {
        let done = done.clone();
        tokio::spawn(async move { done.send(outcome(waiter).await).unwrap() });
    }
    for _ in 0..6 {
        match each.recv().await.unwrap() {
            Begin::Fresh(claim) => {
                runs += 1;
                assert_eq!(claim.attempt(), 2);
                claim.complete("done").await.unwrap();
            }
            other => drop(replay(other)),
        }
    }
    assert_eq!(runs, 1);
}

/// When the work is released or marked as doubtful, a waiter gets the result at once.
#[rule]
async fn a_release_reaches_who_waits(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let mut took = Vec::new();
    for n in 0..3 {
        let key = format!("released/{n}");
        let claim = take(&turno, &key).await;
        let waiter = ask(other.once(&key));
        test_store.until_awaited(&key, &other).await;
        let released = Instant::now();
        claim.release().await.unwrap();
        let next = fresh(outcome(waiter).await);
        took.push(released.elapsed());
        assert_eq!(next.attempt(), 1);
        next.detach();
    }
    assert_prompt(took);
    let claim = take(&turno, "doubted").await;
    let waiter = ask(other.once("doubted"));
    test_store.until_awaited("doubted", &other).await;
    claim.release_unknown().await.unwrap();
    unknown(outcome(waiter).await);
}

/// Other content is a mismatch at once, with any timeout.
#[rule]
async fn a_mismatch_does_not_wait(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let first = turno.once("k").fingerprint("one").begin().await.unwrap();
    fresh(first).detach();
    let begun = outcome(ask(turno.once("k").fingerprint("two"))).await;
    assert!(matches!(begun, Begin::Mismatch), "{begun:?}");
}

/// Of many waiters in one instance, one polls for all; the others read only after a notification.
#[rule]
async fn many_who_wait_look_little(test_store: &TestStore) {
    const MANY: usize = 30;
    let runner = test_store.turno().await;
    let (turno, looks) = test_store.counted().await;
    let looked = || looks.load(Ordering::SeqCst);
    let claim = take(&runner, "k").await;
    let waiters: Vec<_> = (0..MANY).map(|_| ask(turno.once("k"))).collect();
    let wait_for = async |more: usize| {
        crate::eventually_async(TIMEOUT, &format!("{more} looks"), async || {
            (looked() >= more).then_some(())
        })
        .await;
    };
    wait_for(MANY).await;
    test_store.until_awaited("k", &turno).await;
    // Long enough that each waiter would have polled several times by itself. Where waiters are notified until the end of the
    // lease, not even one polls.
    if turno.store().waiter_alive().is_some() {
        for _ in 0..3 {
            wait_for(looked() + 1).await;
        }
    }
    claim.complete("done").await.unwrap();
    for waiter in waiters {
        replay(outcome(waiter).await);
    }
    // One poll at the start, one when the subscription is active, one at the end; and the polls of one of them.
    assert!(looked() <= 3 * MANY + 15, "{} looks", looked());
}

/// When the timeout of the waiter that polls for all is over, another one polls.
#[rule]
async fn who_looks_for_all_hands_over(test_store: &TestStore) {
    let (turno, runner) = (test_store.turno().await, test_store.turno().await);
    // The end of the lease is shifted directly in the store, so polls must be more frequent than at that end.
    let mut settings = turno.settings().clone();
    settings.idle_poll_max = Duration::from_secs(1);
    let turno = Turno::with_store(turno.store().clone(), settings);
    let once = runner.once("k").lease(LONG);
    fresh(once.begin().await.unwrap()).detach();
    let first = {
        // It must still wait when the next line finds it.
        let once = turno.once("k").wait(Duration::from_secs(2));
        tokio::spawn(async move { once.begin().await.unwrap() })
    };
    test_store.until_awaited("k", &turno).await;
    let others = [ask(turno.once("k")), ask(turno.once("k"))];
    in_flight(outcome(first).await);
    // There is no notification that the run is over: only a poll finds it.
    test_store.expire_once("k").await;
    let asked = Instant::now();
    for other in others {
        unknown(outcome(other).await);
    }
    assert!(asked.elapsed() < TIMEOUT / 2, "{:?}", asked.elapsed());
}

/// A waiter that is cancelled affects neither the other waiters nor the run in flight.
#[rule]
async fn who_goes_away_is_not_missed(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let claim = take(&turno, "k").await;
    let gone = ask(other.once("k"));
    test_store.until_awaited("k", &other).await;
    let stays = ask(other.once("k"));
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    in_flight(begin(&turno, "k").await);
    claim.complete("done").await.unwrap();
    replay(outcome(stays).await);
    quiet(&other).await;
}

/// Waits until there are no waiters.
async fn quiet(turno: &Turno) {
    crate::eventually_async(TIMEOUT, "the end of all waits", async || {
        (!turno.store().wakers().any()).then_some(())
    })
    .await;
}
