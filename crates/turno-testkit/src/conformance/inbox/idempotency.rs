//! The same inbox request again, because its response was lost: it is applied once.

use turno::inbox::{Again, ClaimId, Failure, ItemState};
use turno::store::{Due, InboxComplete, InboxFail, InboxGiveBack, InboxPush, InboxTurn, NewItem};
use uuid::Uuid;

use crate::conformance::inbox::fixtures::*;
use crate::conformance::{TestStore, rule};

fn new_item(key: Option<&str>, due: Option<Due>) -> NewItem {
    NewItem {
        payload: "1".into(),
        key: key.map(str::to_owned),
        label: None,
        priority: 1,
        due,
        group: None,
        max_attempts: 5,
    }
}

/// Returns a wrong claim on an item.
fn wrong(claim: ClaimId) -> ClaimId {
    ClaimId {
        token: Uuid::now_v7(),
        ..claim
    }
}

/// The same push twice stores its items once and returns the same result, including duplicates of the first call.
#[rule]
async fn a_push_sent_twice_is_one(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let inbox = turno.inbox("q");
    push_all(&inbox, [item("known").unique_key("known")]).await;
    let ask = InboxPush {
        queue: "q".into(),
        items: vec![
            new_item(None, None),
            new_item(Some("known"), None),
            new_item(Some("new"), None),
            new_item(None, Some(Due::After(LATER))),
        ],
        request: Uuid::now_v7(),
    };
    let first = turno.store().inbox_push(&ask).await.unwrap();
    assert_eq!(counts(&inbox).await, [3, 1, 0, 0, 0]);
    assert_eq!(other.store().inbox_push(&ask).await.unwrap(), first);
    // Also after they have been completed.
    complete(&inbox, &take(&inbox, 10).await).await;
    assert_eq!(other.store().inbox_push(&ask).await.unwrap(), first);
    assert_eq!(counts(&inbox).await, [0, 1, 0, 3, 0]);
    let another = InboxPush {
        request: Uuid::now_v7(),
        ..ask
    };
    let second = turno.store().inbox_push(&another).await.unwrap();
    let duplicates: Vec<bool> = second.iter().map(|item| item.duplicate).collect();
    assert_eq!(duplicates, [false, true, true, false]);
}

/// The same claim twice returns the items that it still holds, and claims nothing more.
#[rule]
async fn a_claim_sent_twice_is_one(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let inbox = turno.inbox("q");
    push(&inbox, &["1", "2", "3", "4", "5"]).await;
    let ask = ask_claim("q", 3);
    let first = turno.store().inbox_claim(&ask).await.unwrap();
    assert_eq!(first.len(), 3);
    assert!(first.iter().all(|item| item.claim.token == ask.request));
    assert_eq!(other.store().inbox_claim(&ask).await.unwrap(), first);
    assert_eq!(counts(&inbox).await, [2, 0, 3, 0, 0]);
    complete(&inbox, &first[..1]).await;
    assert_eq!(other.store().inbox_claim(&ask).await.unwrap(), first[1..]);
    assert_eq!(counts(&inbox).await, [2, 0, 2, 1, 0]);
}

/// The same completion twice completes once and returns the same result, including stale claims.
#[rule]
async fn a_completion_sent_twice_is_one(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let inbox = turno.inbox("q");
    push(&inbox, &["1", "2", "3"]).await;
    let held = claims(&take(&inbox, 3).await);
    for sent in [
        vec![held[0]],
        vec![wrong(held[0]), held[1]],
        vec![wrong(held[2]), held[2], held[2], held[0]],
        vec![wrong(held[2])],
    ] {
        let ask = InboxComplete {
            claims: sent,
            request: Uuid::now_v7(),
        };
        let first = turno.store().inbox_complete(&ask).await.unwrap();
        let again = other.store().inbox_complete(&ask).await.unwrap();
        assert_eq!(again, first, "{ask:?}");
        let total = first.done + first.stale.len() as u64;
        assert_eq!(total, ask.claims.len() as u64, "{first:?}");
    }
    assert_eq!(counts(&inbox).await, [0, 0, 0, 3, 0]);
    let another = inbox.complete(&held[..1]).await.unwrap();
    assert_eq!(another, all_stale(&held[..1]));
}

/// The same failure twice is one attempt and returns the same result, also when the item is claimed again.
#[rule]
async fn a_failure_sent_twice_is_one(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let inbox = turno.inbox("q");
    push(&inbox, &["1"]).await;
    let held = take_one(&inbox).await.claim;
    let failures = [wrong(held), held, held].map(|claim| Failure {
        claim,
        error: "no money".into(),
        retry_in: Some(std::time::Duration::ZERO),
        again: Again::Retry,
    });
    let ask = InboxFail {
        failures: failures.to_vec(),
        request: Uuid::now_v7(),
    };
    let first = turno.store().inbox_fail(&ask).await.unwrap();
    assert_eq!(first.done, 1);
    assert_eq!(first.stale, [failures[0].claim, held]);
    assert_eq!(other.store().inbox_fail(&ask).await.unwrap(), first);
    let next = take_soon(&inbox).await;
    assert_eq!(next.attempt, 2);
    assert_eq!(other.store().inbox_fail(&ask).await.unwrap(), first);
    let shown = only(&inbox, ItemState::Processing).await;
    assert_eq!((shown.attempts, shown.errors.len()), (1, 1));
}

/// The same give-back twice gives back once and returns the same result, also when the item is claimed again.
#[rule]
async fn a_give_back_sent_twice_is_one(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let inbox = turno.inbox("q");
    push(&inbox, &["1"]).await;
    let held = take_one(&inbox).await.claim;
    let ask = InboxGiveBack {
        claims: vec![held, wrong(held), held],
        request: Uuid::now_v7(),
    };
    let first = turno.store().inbox_give_back(&ask).await.unwrap();
    assert_eq!((first.done, first.stale.len()), (1, 2));
    let next = take_one(&inbox).await;
    assert_eq!(other.store().inbox_give_back(&ask).await.unwrap(), first);
    complete(&inbox, &[next]).await;
}

/// A turn is a completion and a claim; sent twice, it is one of each.
#[rule]
async fn a_turn_sent_twice_is_one(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let inbox = turno.inbox("q");
    push(&inbox, &["1", "2", "3", "4"]).await;
    let held = take(&inbox, 2).await;
    let ask = InboxTurn {
        complete: InboxComplete {
            claims: vec![held[0].claim, wrong(held[1].claim), held[1].claim],
            request: Uuid::now_v7(),
        },
        claim: ask_claim("q", 1),
    };
    let (settled, items) = turno.store().inbox_turn(&ask).await.unwrap();
    assert_eq!((settled.done, settled.stale.len()), (2, 1));
    assert_eq!(texts(&items), ["3"]);
    let again = other.store().inbox_turn(&ask).await.unwrap();
    assert_eq!(again, (settled, items));
    assert_eq!(counts(&inbox).await, [1, 0, 1, 2, 0]);
    let empty = InboxTurn {
        complete: InboxComplete {
            claims: Vec::new(),
            request: Uuid::now_v7(),
        },
        claim: ask_claim("q", 5),
    };
    let (settled, items) = turno.store().inbox_turn(&empty).await.unwrap();
    assert_eq!(settled, all_done(0));
    assert_eq!(texts(&items), ["4"]);
}

/// The control: with another request id, each of them is applied again.
#[rule]
async fn another_request_is_another(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let inbox = turno.inbox("q");
    let push = || InboxPush {
        queue: "q".into(),
        items: vec![new_item(None, None)],
        request: Uuid::now_v7(),
    };
    for _ in 0..2 {
        turno.store().inbox_push(&push()).await.unwrap();
    }
    assert_eq!(counts(&inbox).await, [2, 0, 0, 0, 0]);
    for _ in 0..2 {
        let claimed = turno.store().inbox_claim(&ask_claim("q", 1)).await;
        assert_eq!(claimed.unwrap().len(), 1);
    }
}
