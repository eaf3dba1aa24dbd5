//! Claims: distribution of items, and information for idle workers.

use std::time::Duration;

use turno::inbox::ItemState;
use turno::store::InboxIdle;

use crate::conformance::inbox::fixtures::*;
use crate::conformance::lock::fixtures::{TIMEOUT, secs};
use crate::conformance::{TestStore, rule};

/// A claim gets at most its limit, and no other claim gets the same items.
#[rule]
async fn a_claimed_item_is_not_claimed_again(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let (mine, theirs) = (turno.inbox("q"), other.inbox("q"));
    let pushed = push(&mine, &["1", "2", "3", "4", "5"]).await;
    let first = take(&mine, 2).await;
    let second = take(&theirs, 2).await;
    assert_eq!(ids(&first), pushed[..2]);
    assert_eq!(ids(&second), pushed[2..4]);
    assert_ne!(first[0].claim.token, second[0].claim.token);
    assert_eq!(first[0].claim.token, first[1].claim.token);
    assert_eq!(ids(&take(&theirs, 10).await), pushed[4..]);
    assert_eq!(take(&mine, 10).await, []);
    assert_eq!(counts(&mine).await, [0, 0, 5, 0, 0]);
}

/// A claim with limit 0 gets nothing. A queue without pushes is empty, and is not created by a claim.
#[rule]
async fn a_claim_of_none_claims_nothing(test_store: &TestStore) {
    let turno = test_store.turno().await;
    assert_eq!(take(&turno.inbox("empty"), 10).await, []);
    assert_eq!(turno.inbox_stats("").await.unwrap(), []);
    let inbox = turno.inbox("q");
    push(&inbox, &["1"]).await;
    let none = ask_claim("q", 0);
    assert_eq!(turno.store().inbox_claim(&none).await.unwrap(), []);
    assert_eq!(counts(&inbox).await, [1, 0, 0, 0, 0]);
}

/// A claimed item is listed with its worker, and with the end of its lease.
#[rule]
async fn a_claim_is_shown_with_its_worker(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["1"]).await;
    let before = turno::clock::machine();
    let claim = inbox.claim().worker("host-7").lease(secs(30));
    let claimed = claim.take().await.unwrap().remove(0);
    let lives = claimed.expires_at.duration_since(before).as_secs_f64();
    assert!((29.0..60.0).contains(&lives), "{lives}");
    let shown = only(&inbox, ItemState::Processing).await;
    assert_eq!(shown.id, claimed.claim.item);
    assert_eq!(shown.worker.as_deref(), Some("host-7"));
    assert_eq!((shown.attempts, shown.abandoned), (0, 0));
}

/// A waiting claim returns after a push, also one through another instance, or after its timeout.
#[rule]
async fn a_waiting_claim_gets_the_next_push(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    // The queue exists: only then can the waiter be notified.
    let inbox = turno.inbox("q");
    let first = push(&inbox, &["0"]).await;
    assert_eq!(ids(&take(&inbox, 1).await), first);
    for pusher in [&turno, &other] {
        let waiting = tokio::spawn(inbox.claim().wait(TIMEOUT).take());
        let pushed = push(&pusher.inbox("q"), &["1"]).await;
        let claimed = waiting.await.unwrap().unwrap();
        assert_eq!(ids(&claimed), pushed);
    }
    let nothing = inbox.claim().wait(Duration::from_millis(50)).take();
    assert_eq!(nothing.await.unwrap(), []);
}

/// An idle worker gets the time at which there may be more without a push: a due time, or the end of a claim.
#[rule]
async fn the_next_due_time_is_known(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let (store, inbox) = (turno.store(), turno.inbox("q"));
    let due = async || {
        let ask = InboxIdle {
            queue: "q".to_owned(),
            listens: secs(10),
            looked: LONG,
        };
        store.inbox_idle(&ask).await.unwrap().due
    };
    // A queue without pushes: poll again soon, if there are no notifications.
    let nothing = due().await;
    assert!(nothing.is_none_or(|pause| pause < secs(1)), "{nothing:?}");
    assert_eq!(due().await, None, "and then not before a push");
    push(&inbox, &["1"]).await;
    let claimed = take_one(&inbox).await;
    let end = due().await.expect("a claim ends");
    assert!(end <= LONG && end > LONG / 2, "{end:?}");
    push_all(&inbox, [item("2").delay(secs(20))]).await;
    let time = due().await.expect("one is due");
    assert!(time <= secs(20) && time > secs(5), "{time:?}");
    complete(&inbox, &[claimed]).await;
    let time = due().await.expect("one is due");
    assert!(time <= secs(20), "{time:?}");
    // As programs of earlier versions call it.
    assert!(store.inbox_wait("q").await.unwrap().is_some());
}

/// Concurrent claims get different items, and together they get all.
#[rule]
async fn of_many_claims_each_gets_its_own(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    let payloads = ["x"; 60];
    let pushed = push(&inbox, &payloads).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let inbox = test_store.turno().await.inbox("q");
        tasks.spawn(async move {
            let mut mine = Vec::new();
            loop {
                let some = take(&inbox, 3).await;
                if some.is_empty() {
                    return mine;
                }
                mine.extend(ids(&some));
            }
        });
    }
    let mut all = tasks.join_all().await.concat();
    all.sort();
    assert_eq!(all, pushed);
}

/// The payloads of one claim have at most 16 MiB in total; the next claim continues after them.
#[rule]
async fn a_claim_is_bounded_in_bytes(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    let large = "x".repeat(1_000_000);
    let mut pushed = Vec::new();
    for _ in 0..5 {
        pushed.extend(push(&inbox, &[&large, &large, &large, &large]).await);
    }
    let first = take(&inbox, 1000).await;
    let bytes: usize = first.iter().map(|item| item.payload.len()).sum();
    assert!(bytes <= turno::MAX_CLAIM_BYTES, "{bytes}");
    assert!(first.len() > 10, "{}", first.len());
    let rest = take(&inbox, 1000).await;
    assert_eq!([ids(&first), ids(&rest)].concat(), pushed);
    assert_eq!(take(&inbox, 1000).await, []);
}
