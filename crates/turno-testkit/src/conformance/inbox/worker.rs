//! The worker runtime: a handler call per item, and its result.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Barrier, Semaphore, mpsc};
use tokio::time::timeout;
use turno::inbox::{ItemState, Job};

use crate::conformance::inbox::fixtures::*;
use crate::conformance::inbox::start::start;
use crate::conformance::lock::fixtures::TIMEOUT;
use crate::conformance::{TestStore, rule};

/// Poll interval that no rule waits for.
const NEVER: Duration = Duration::from_secs(600);

#[derive(Debug, Serialize, Deserialize)]
struct Note {
    number: usize,
    text: String,
}

/// Each item is passed to the handler once, as the type that was pushed, with its metadata.
#[rule]
async fn a_worker_handles_every_item(test_store: &TestStore) {
    const NOTES: usize = 40;
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (sender, mut done) = mpsc::unbounded_channel();
    let handler = {
        let seen = seen.clone();
        move |job: Job<Note>| {
            let (seen, sender) = (seen.clone(), sender.clone());
            async move {
                assert_eq!(job.payload.text, "é");
                assert_eq!((job.attempt(), job.is_last_attempt()), (1, false));
                seen.lock().unwrap().push(job.payload.number);
                sender.send(())
            }
        }
    };
    let running = start(turno.inbox("q").worker(handler).concurrency(4));
    for number in 0..NOTES {
        let text = "é".to_owned();
        let note = Note { number, text };
        other.inbox("q").push(&note).await.unwrap();
    }
    for _ in 0..NOTES {
        timeout(TIMEOUT, done.recv()).await.unwrap().unwrap();
    }
    let report = running.stop().await;
    assert_eq!((report.completed, report.failed), (NOTES as u64, 0));
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    assert_eq!(seen, (0..NOTES).collect::<Vec<_>>());
    let stats = counts(&turno.inbox("q")).await;
    assert_eq!(stats, [0, 0, 0, NOTES as u64, 0]);
}

/// A delay that no store accepts does not keep the worker from recording its results: the item is retried as late as it can be.
#[rule]
async fn an_endless_retry_delay_stops_no_worker(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let inbox = turno.inbox("q");
    push(&inbox, &["late", "good"]).await;
    let handler = |job: Job<String>| async move {
        job.retry_in(Duration::MAX);
        if job.payload == "late" {
            return Err("in a while");
        }
        Ok(())
    };
    let running = start(inbox.worker(handler).concurrency(1));
    until_completed(&inbox, 1).await;
    let report = running.stop().await;
    assert_eq!((report.completed, report.failed), (1, 1));
    assert_eq!(counts(&inbox).await, [0, 1, 0, 1, 0]);
}

/// Exactly as many handlers run concurrently as configured.
#[rule]
async fn a_worker_keeps_to_its_concurrency(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let inbox = turno.inbox("q");
    push(&inbox, &["x"; 12]).await;
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    // With fewer than three at once, this would wait forever.
    let three = Arc::new(Barrier::new(3));
    let handler = {
        let (now, most) = (now.clone(), most.clone());
        move |_: Job<String>| {
            let (now, most, three) = (now.clone(), most.clone(), three.clone());
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                three.wait().await;
                now.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, Infallible>(())
            }
        }
    };
    let running = start(inbox.worker(handler).concurrency(3).lease(LONG));
    until_completed(&inbox, 12).await;
    running.stop().await;
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

/// With short handlers, a worker claims many items ahead, so that one handler does not wait for a call of the store after each item.
/// With handlers that take long, others can have these items.
#[rule]
async fn short_handlers_have_more_items_claimed_ahead(test_store: &TestStore) {
    const ITEMS: usize = 300;
    let turno = test_store.turno().await;
    let inbox = turno.inbox("q");
    for (quick, least, most) in [(0, 2, 2), (150, 3, 101)] {
        push(&inbox, &["x"; ITEMS]).await;
        let begun = AtomicUsize::new(0);
        let gate = Arc::new(Semaphore::new(0));
        let handler = {
            let gate = gate.clone();
            move |_: Job<String>| {
                let waits = begun.fetch_add(1, Ordering::SeqCst) >= quick;
                let gate = gate.clone();
                async move {
                    if waits {
                        gate.acquire().await?.forget();
                    }
                    Ok::<_, tokio::sync::AcquireError>(())
                }
            }
        };
        let before = counts(&inbox).await[3];
        let running = start(inbox.worker(handler).concurrency(1).lease(LONG));
        crate::eventually_async(TIMEOUT, "items ahead", async || {
            let [_, _, processing, completed, _] = counts(&inbox).await;
            assert!(processing <= most, "{processing} items are claimed");
            (completed - before == quick as u64 && processing >= least).then_some(())
        })
        .await;
        gate.add_permits(ITEMS);
        until_completed(&inbox, before + ITEMS as u64).await;
        running.stop().await;
    }
}

async fn until_completed(inbox: &turno::inbox::Inbox, many: u64) {
    crate::eventually_async(TIMEOUT, &format!("{many} completions"), async || {
        (counts(inbox).await[3] == many).then_some(())
    })
    .await;
}

/// Returns a handler that sends its item's payload to the test.
fn telling(
    sender: mpsc::UnboundedSender<String>,
) -> impl Fn(Job<String>) -> std::future::Ready<Result<(), Infallible>> + Send + Sync + 'static {
    move |job: Job<String>| {
        // The receiver is closed when the rule has ended.
        let _ = sender.send(job.payload);
        std::future::ready(Ok(()))
    }
}

/// Each push wakes an idle worker, of the same process or another, without waiting for its poll.
#[rule]
async fn a_push_wakes_an_idle_worker(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let (sender, mut received) = mpsc::unbounded_channel();
    let worker = turno.inbox("q").worker(telling(sender)).poll(NEVER);
    let running = start(worker.concurrency(2));
    for n in 0..6 {
        let pusher = if n % 2 == 0 { &turno } else { &other };
        push(&pusher.inbox("q"), &[&n.to_string()]).await;
        let got = timeout(TIMEOUT, received.recv()).await;
        assert_eq!(got.expect("a wake-up").unwrap(), n.to_string());
    }
    running.stop().await;
}

/// An item is claimed at its due time, without a push at that time.
#[rule]
async fn a_worker_wakes_for_what_is_due(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let (sender, mut received) = mpsc::unbounded_channel();
    let inbox = turno.inbox("q");
    let running = start(inbox.worker(telling(sender)).poll(NEVER));
    push_all(&inbox, [item("soon").delay(Duration::from_millis(80))]).await;
    let got = timeout(TIMEOUT, received.recv()).await;
    assert_eq!(got.expect("in time").unwrap(), "soon");
    running.stop().await;
}

/// A worker that is not notified polls.
#[rule]
async fn a_worker_looks_by_itself(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let (sender, mut received) = mpsc::unbounded_channel();
    let inbox = turno.inbox("q");
    push(&inbox, &["0"]).await;
    let poll = Duration::from_millis(50);
    let running = start(inbox.worker(telling(sender)).poll(poll));
    timeout(TIMEOUT, received.recv()).await.unwrap().unwrap();
    for n in 1..4 {
        if !test_store.is_sqlite() {
            // Without a listener row, the push sends no notification.
            test_store.run("delete from turno.inbox_listener").await;
        }
        push(&other.inbox("q"), &[&n.to_string()]).await;
        let got = timeout(TIMEOUT, received.recv()).await;
        assert_eq!(got.expect("a look").unwrap(), n.to_string());
    }
    running.stop().await;
}

/// An error or a panic of a handler is recorded, and the item is retried.
#[rule]
async fn failures_and_panics_are_tried_again(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["x"]).await;
    let handler = |job: Job<String>| async move {
        job.retry_in(Duration::ZERO);
        match job.attempt() {
            1 => Err("no money"),
            2 => panic!("oh no"),
            3 => std::panic::panic_any(7),
            _ => {
                job.fail_permanently();
                Err("enough")
            }
        }
    };
    let running = start(inbox.worker(handler).poll(NEVER));
    crate::eventually_async(TIMEOUT, "the last attempt", async || {
        (counts(&inbox).await[4] == 1).then_some(())
    })
    .await;
    let report = running.stop().await;
    assert_eq!((report.completed, report.failed), (0, 4));
    let failed = only(&inbox, ItemState::Failed).await;
    assert_eq!((failed.attempts, failed.abandoned), (4, 0));
    let errors: Vec<&str> = failed.errors.iter().map(|e| e.error.as_str()).collect();
    let expected = [
        "no money",
        "panicked: oh no",
        "panicked: no message",
        "enough",
    ];
    assert_eq!(errors, expected);
}

/// A payload that the handler cannot deserialize is a failed attempt, and the handler is not called.
#[rule]
async fn a_wrong_payload_is_a_failed_attempt(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push_all(&inbox, [item("text").max_attempts(1)]).await;
    inbox.push(&7).await.unwrap();
    let handler = |job: Job<u32>| async move {
        assert_eq!(job.payload, 7);
        Ok::<_, Infallible>(())
    };
    let running = start(inbox.worker(handler));
    crate::eventually_async(TIMEOUT, "both", async || {
        (counts(&inbox).await == [0, 0, 0, 1, 1]).then_some(())
    })
    .await;
    running.stop().await;
    let failed = only(&inbox, ItemState::Failed).await;
    let error = &failed.errors[0].error;
    assert!(error.contains("not what the handler expects"), "{error}");
}

/// A failure without a retry time is retried after the backoff.
#[rule]
async fn a_failed_handler_backs_off(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["x"]).await;
    let handler = |_: Job<String>| async { Err::<(), _>("no money") };
    let running = start(inbox.worker(handler));
    crate::eventually_async(TIMEOUT, "a back-off", async || {
        (counts(&inbox).await[1] == 1).then_some(())
    })
    .await;
    let shown = only(&inbox, ItemState::Scheduled).await;
    running.stop().await;
    let pause = shown.at.unwrap().duration_since(shown.errors[0].at);
    let pause = pause.as_secs_f64();
    assert!((0.4..1.6).contains(&pause), "{pause}");
}
