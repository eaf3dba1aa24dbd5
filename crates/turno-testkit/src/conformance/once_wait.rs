//! Waiting for the answer of somebody else's run.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use turno::once::{AfterUnknown, Begin, Once};
use turno::{Settings, Turno};

use super::Bed;
use super::inbox_caller::Write;
use super::kit::{PATIENCE, secs};
use super::once_kit::*;

fn ask(once: Once) -> JoinHandle<Begin> {
    tokio::spawn(async move { once.wait(PATIENCE).begin().await.unwrap() })
}

async fn told(waiter: JoinHandle<Begin>) -> Begin {
    timeout(PATIENCE, waiter).await.expect("an answer").unwrap()
}

/// Of several times the shortest: the machine may be busy once, and not always.
fn assert_prompt(mut took: Vec<Duration>) {
    took.sort_unstable();
    // Far less than the pause between two looks of somebody who hears nothing.
    assert!(took[0] < secs(1), "{took:?}");
}

/// Who waits is told the answer as soon as there is one, on whichever machine.
pub async fn an_answer_reaches_who_waits(bed: &Bed) {
    let (turno, other) = (bed.turno().await, bed.turno().await);
    let mut took = Vec::new();
    for n in 0..3 {
        let key = format!("k/{n}");
        let claim = take(&turno, &key).await;
        let here = ask(turno.once(&key));
        let there = ask(other.once(&key));
        bed.until_awaited(&key, &turno).await;
        bed.until_awaited(&key, &other).await;
        assert!(!here.is_finished() && !there.is_finished());
        let answered = Instant::now();
        claim.complete(&n).await.unwrap();
        for waiter in [here, there] {
            let answer = replay(told(waiter).await);
            assert_eq!(answer.get::<i32>().unwrap(), Some(n));
        }
        took.push(answered.elapsed());
    }
    assert_prompt(took);
}

/// Who waits is told an answer that commits with the caller's own transaction.
pub async fn a_commit_reaches_who_waits(bed: &Bed) {
    let (turno, other) = (bed.turno().await, bed.turno().await);
    for caller in bed.callers() {
        let mut took = Vec::new();
        for n in 0..3 {
            let key = format!("{caller:?}/{n}");
            let claim = Arc::new(take(&turno, &key).await);
            let waiter = ask(other.once(&key));
            bed.until_awaited(&key, &other).await;
            let write = Write::Answer(claim.clone(), "done".into(), turno.clone(), Vec::new());
            let tx = bed.open_inbox(*caller, write).await.unwrap();
            assert!(!waiter.is_finished(), "{key}: not committed");
            let answered = Instant::now();
            tx.commit().await;
            let answer = replay(told(waiter).await);
            assert_eq!(answer.text(), Some(r#""done""#), "{key}");
            took.push(answered.elapsed());
        }
        assert_prompt(took);
    }
}

/// Who waits in vain is told by whom it is done, at the end of its patience and not before.
pub async fn a_wait_ends_as_in_flight(bed: &Bed) {
    let turno = bed.turno().await;
    let once = turno.once("k").worker("first").lease(LONG);
    fresh(once.begin().await.unwrap()).detach();
    let asked = Instant::now();
    let patience = Duration::from_millis(150);
    let run = in_flight(turno.once("k").wait(patience).begin().await.unwrap());
    assert!(asked.elapsed() >= patience);
    assert_eq!(run.worker.as_deref(), Some("first"));
}

/// When the run vanishes, with nobody to say so, who waits is told, or takes over.
pub async fn a_vanished_run_ends_the_wait(bed: &Bed) {
    let (turno, other) = (bed.turno().await, bed.turno().await);
    let lease = Duration::from_millis(300);
    let begin = async |key| {
        let claim = turno.once(key).lease(lease).begin().await.unwrap();
        fresh(claim).detach()
    };
    begin("refuse").await;
    assert_eq!(unknown(told(ask(other.once("refuse"))).await).attempt, 1);
    begin("rerun").await;
    let mut waiters = Vec::new();
    for n in 0..6 {
        let turno = if n % 2 == 0 { &turno } else { &other };
        let once = turno.once("rerun").unknown(AfterUnknown::Rerun);
        waiters.push(ask(once));
    }
    // One of them does it, and the others are told its answer.
    let mut runs = 0;
    let (done, mut each) = tokio::sync::mpsc::unbounded_channel();
    for waiter in waiters {
        let done = done.clone();
        tokio::spawn(async move { done.send(told(waiter).await).unwrap() });
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

/// When the work is given back or doubted, who waits is told at once.
pub async fn a_release_reaches_who_waits(bed: &Bed) {
    let (turno, other) = (bed.turno().await, bed.turno().await);
    let mut took = Vec::new();
    for n in 0..3 {
        let key = format!("released/{n}");
        let claim = take(&turno, &key).await;
        let waiter = ask(other.once(&key));
        bed.until_awaited(&key, &other).await;
        let released = Instant::now();
        claim.release().await.unwrap();
        let next = fresh(told(waiter).await);
        took.push(released.elapsed());
        assert_eq!(next.attempt(), 1);
        next.detach();
    }
    assert_prompt(took);
    let claim = take(&turno, "doubted").await;
    let waiter = ask(other.once("doubted"));
    bed.until_awaited("doubted", &other).await;
    claim.doubt().await.unwrap();
    unknown(told(waiter).await);
}

/// Other content is told so at once, whatever its patience.
pub async fn a_mismatch_does_not_wait(bed: &Bed) {
    let turno = bed.turno().await;
    let first = turno.once("k").fingerprint("one").begin().await.unwrap();
    fresh(first).detach();
    let begun = told(ask(turno.once("k").fingerprint("two"))).await;
    assert!(matches!(begun, Begin::Mismatch), "{begun:?}");
}

/// Of many who wait in one instance one looks now and then, and the others when there is something to see.
pub async fn many_who_wait_look_little(bed: &Bed) {
    const MANY: usize = 30;
    let runner = bed.turno().await;
    let (turno, looks) = bed.counted().await;
    let looked = || looks.load(Ordering::SeqCst);
    let claim = take(&runner, "k").await;
    let waiters: Vec<_> = (0..MANY).map(|_| ask(turno.once("k"))).collect();
    let wait_for = async |more: usize| {
        crate::eventually_async(PATIENCE, &format!("{more} looks"), async || {
            (looked() >= more).then_some(())
        })
        .await;
    };
    wait_for(MANY).await;
    bed.until_awaited("k", &turno).await;
    // So that each would have looked again, several times, if it looked by itself. Where a waiter is called until the end of
    // the lease, not even one does.
    if turno.store().waiter_alive().is_some() {
        for _ in 0..3 {
            wait_for(looked() + 1).await;
        }
    }
    claim.complete("done").await.unwrap();
    for waiter in waiters {
        replay(told(waiter).await);
    }
    // The first look, one when the store can be heard, one at the end; and those of one of them.
    assert!(looked() <= 3 * MANY + 15, "{} looks", looked());
}

/// When the one who looks for all has no more patience, another one looks.
pub async fn who_looks_for_all_hands_over(bed: &Bed) {
    let (turno, runner) = (bed.turno().await, bed.turno().await);
    // The end of the lease is changed behind its back: so it has to look more often than at that.
    let settings = Settings {
        idle_poll_max: Duration::from_secs(1),
        ..turno.settings().clone()
    };
    let turno = Turno::with_store(turno.store().clone(), settings);
    let once = runner.once("k").lease(LONG);
    fresh(once.begin().await.unwrap()).detach();
    let first = {
        let once = turno.once("k").wait(Duration::from_millis(300));
        tokio::spawn(async move { once.begin().await.unwrap() })
    };
    bed.until_awaited("k", &turno).await;
    let others = [ask(turno.once("k")), ask(turno.once("k"))];
    in_flight(told(first).await);
    // Nobody says that the run is over: it takes a look to notice.
    bed.expire_once("k").await;
    let asked = Instant::now();
    for other in others {
        unknown(told(other).await);
    }
    assert!(asked.elapsed() < PATIENCE / 2, "{:?}", asked.elapsed());
}

/// Who goes away while it waits leaves the others waiting, and the run in flight.
pub async fn who_goes_away_is_not_missed(bed: &Bed) {
    let (turno, other) = (bed.turno().await, bed.turno().await);
    let claim = take(&turno, "k").await;
    let gone = ask(other.once("k"));
    bed.until_awaited("k", &other).await;
    let stays = ask(other.once("k"));
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    in_flight(begin(&turno, "k").await);
    claim.complete("done").await.unwrap();
    replay(told(stays).await);
    quiet(&other).await;
}

/// Nobody waits any more.
async fn quiet(turno: &Turno) {
    crate::eventually_async(PATIENCE, "nobody to wait", async || {
        (!turno.store().wakers().any()).then_some(())
    })
    .await;
}
