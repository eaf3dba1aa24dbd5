//! The order in which items are claimed.

use turno::inbox::Inbox;

use crate::conformance::inbox::fixtures::*;
use crate::conformance::{TestStore, rule};

/// Returns the texts of all claimable items, claimed one by one.
async fn one_by_one(inbox: &Inbox) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(item) = take(inbox, 1).await.pop() {
        all.push(text(&item));
    }
    all
}

/// Ordered by priority and then by age, whether claimed one by one or in one call.
#[rule]
async fn by_priority_and_then_by_age(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let expected = ["0a", "0b", "1a", "1b", "2a", "3a", "3b"];
    for (queue, together) in [("alone", false), ("together", true)] {
        let inbox = turno.inbox(queue);
        let items = [
            ("3a", 3),
            ("1a", 1),
            ("0a", 0),
            ("2a", 2),
            ("0b", 0),
            ("3b", 3),
            ("1b", 1),
        ];
        push_all(&inbox, items.map(|(text, p)| item(text).priority(p))).await;
        let claimed = if together {
            texts(&take(&inbox, 10).await)
        } else {
            one_by_one(&inbox).await
        };
        assert_eq!(claimed, expected, "{queue}");
    }
}

/// An item of higher priority precedes all that have waited longer.
#[rule]
async fn an_urgent_one_goes_first(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["a", "b", "c"]).await;
    assert_eq!(text(&take_one(&inbox).await), "a");
    push_all(&inbox, [item("urgent").priority(0), item("d")]).await;
    push_all(&inbox, [item("lazy").priority(2)]).await;
    let order = one_by_one(&inbox).await;
    assert_eq!(order, ["urgent", "b", "c", "d", "lazy"]);
}

/// Items whose due time has passed precede others of the same priority, in the order of their due times.
#[rule]
async fn those_with_a_time_go_by_it(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["a", "b", "c", "d", "e"]).await;
    let held = claims(&take(&inbox, 3).await);
    for n in [2, 0, 1] {
        let back = inbox.give_back(&held[n..=n]).await.unwrap();
        assert_eq!(back, all_done(1));
    }
    assert_eq!(one_by_one(&inbox).await, ["c", "a", "b", "d", "e"]);
}

/// But they do not precede items of higher priority.
#[rule]
async fn a_time_does_not_beat_a_priority(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push_all(&inbox, [item("back").priority(2), item("a").priority(2)]).await;
    let held = claims(&take(&inbox, 1).await);
    inbox.give_back(&held).await.unwrap();
    push_all(&inbox, [item("urgent").priority(1)]).await;
    assert_eq!(one_by_one(&inbox).await, ["urgent", "back", "a"]);
}

/// One claim returns items in the same order: those with a due time before the others of their priority.
#[rule]
async fn one_claim_answers_in_order(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push_all(
        &inbox,
        [
            item("a").priority(1),
            item("b").priority(1),
            item("z").priority(2),
            item("y").priority(2),
        ],
    )
    .await;
    let held = claims(&take(&inbox, 10).await);
    inbox.give_back(&held[1..3]).await.unwrap();
    complete_one(&inbox, held[0]).await;
    complete_one(&inbox, held[3]).await;
    push_all(&inbox, [item("c").priority(1), item("x").priority(2)]).await;
    assert_eq!(texts(&take(&inbox, 10).await), ["b", "c", "z", "x"]);
}

async fn complete_one(inbox: &Inbox, claim: turno::inbox::ClaimId) {
    assert_eq!(inbox.complete(&[claim]).await.unwrap(), all_done(1));
}
