//! Groups: one item at a time, in push order, whatever happens to the first.

use std::time::Duration;

use turno::inbox::{Inbox, Item};

use crate::conformance::inbox::fixtures::*;
use crate::conformance::{TestStore, rule};

fn of(group: &str, payload: &str) -> Item {
    item(payload).group(group)
}

/// Returns the items of one large claim.
async fn now(inbox: &Inbox) -> Vec<String> {
    texts(&take(inbox, 10).await)
}

/// A claim gets one item per group, and items without a group.
#[rule]
async fn a_claim_takes_one_of_each_group(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let inbox = turno.inbox("q");
    push_all(
        &inbox,
        [
            of("g", "g1"),
            of("g", "g2"),
            item("x"),
            of("h", "h1"),
            of("g", "g3"),
            item("y"),
        ],
    )
    .await;
    let first = take(&inbox, 10).await;
    assert_eq!(texts(&first), ["g1", "x", "h1", "y"]);
    assert_eq!(take(&other.inbox("q"), 10).await, []);
    assert_eq!(counts(&inbox).await, [2, 0, 4, 0, 0]);
    complete(&inbox, &first[..1]).await;
    let second = take(&other.inbox("q"), 10).await;
    assert_eq!(texts(&second), ["g2"]);
    complete(&inbox, &second).await;
    assert_eq!(now(&inbox).await, ["g3"]);
}

/// Push order has precedence over priorities, delays, and the time of a give-back.
#[rule]
async fn the_order_of_a_group_beats_all_else(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let inbox = turno.inbox("priority");
    push_all(&inbox, [of("g", "1").priority(3), of("g", "2").priority(0)]).await;
    let first = take(&inbox, 10).await;
    assert_eq!(texts(&first), ["1"]);
    complete(&inbox, &first).await;
    assert_eq!(now(&inbox).await, ["2"]);

    let inbox = turno.inbox("delay");
    push_all(
        &inbox,
        [of("g", "1").delay(Duration::from_millis(50)), of("g", "2")],
    )
    .await;
    let first = take_soon(&inbox).await;
    assert_eq!(text(&first), "1", "the delay holds the group up");
    complete(&inbox, &[first]).await;
    assert_eq!(now(&inbox).await, ["2"]);

    let inbox = turno.inbox("back");
    push_all(&inbox, [of("g", "1"), of("g", "2")]).await;
    let first = take_one(&inbox).await;
    inbox.give_back(&[first.claim]).await.unwrap();
    assert_eq!(now(&inbox).await, ["1"]);
}

/// A first item whose attempt failed blocks its group until it is retried.
#[rule]
async fn a_failed_first_holds_its_group_up(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let inbox = turno.inbox("q");
    push_all(&inbox, [of("g", "1"), of("g", "2"), of("h", "other")]).await;
    let first = take_one(&inbox).await;
    fail(&inbox, first.claim, LATER).await;
    assert_eq!(now(&inbox).await, ["other"]);
    assert_eq!(counts(&inbox).await, [1, 1, 1, 0, 0]);

    let inbox = turno.inbox("soon");
    push_all(&inbox, [of("g", "1"), of("g", "2")]).await;
    let first = take_one(&inbox).await;
    fail(&inbox, first.claim, Duration::from_millis(30)).await;
    let again = take_soon(&inbox).await;
    assert_eq!((text(&again), again.attempt), ("1".to_owned(), 2));
}

/// When the first item fails for good, the next can be claimed at once.
#[rule]
async fn a_first_one_set_aside_lets_the_next_go(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push_all(&inbox, [of("g", "1").max_attempts(1), of("g", "2")]).await;
    let first = take_one(&inbox).await;
    fail(&inbox, first.claim, Duration::ZERO).await;
    assert_eq!(counts(&inbox).await, [1, 0, 0, 0, 1]);
    assert_eq!(now(&inbox).await, ["2"]);
}

/// The item of a lost worker precedes the others of its group. With no attempts left, it does not block them.
#[rule]
async fn a_vanished_worker_keeps_the_order(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push_all(&inbox, [of("g", "1").max_attempts(2), of("g", "2")]).await;
    for attempt in 1..=2 {
        let claimed = take(&inbox, 10).await;
        assert_eq!(texts(&claimed), ["1"], "attempt {attempt}");
        assert_eq!(claimed[0].attempt, attempt);
        test_store.expire_claims().await;
    }
    assert_eq!(now(&inbox).await, ["2"]);
    assert_eq!(counts(&inbox).await, [0, 0, 1, 0, 1]);
}

/// A requeued item returns to its position, but never runs concurrently with another of its group.
#[rule]
async fn a_revived_one_goes_back_to_its_place(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push_all(&inbox, [of("g", "1"), of("g", "2"), of("g", "3")]).await;
    set_aside(&inbox, take_one(&inbox).await.claim).await;
    let second = take(&inbox, 10).await;
    assert_eq!(texts(&second), ["2"]);
    assert_eq!(inbox.requeue(None).await.unwrap(), 1);
    assert_eq!(take(&inbox, 10).await, [], "another is at work");
    complete(&inbox, &second).await;
    let first = take(&inbox, 10).await;
    assert_eq!(texts(&first), ["1"], "the revived one is the first again");
    complete(&inbox, &first).await;
    assert_eq!(now(&inbox).await, ["3"]);
}

/// A requeued item waits for the item in flight, however that ends, and does not block others.
#[rule]
async fn a_revived_one_waits_for_the_one_at_work(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for end in ["give back", "fail", "vanish", "reset"] {
        let inbox = turno.inbox(end);
        push_all(&inbox, [of("g", "1"), of("g", "2"), item("x")]).await;
        set_aside(&inbox, take_one(&inbox).await.claim).await;
        let second = take_one(&inbox).await;
        assert_eq!(text(&second), "2");
        assert_eq!(inbox.requeue(None).await.unwrap(), 1);
        let other = take_one(&inbox).await;
        assert_eq!(text(&other), "x", "{end}");
        inbox.give_back(&[other.claim]).await.unwrap();
        let other = take_one(&inbox).await;
        assert_eq!(text(&other), "x", "{end}: the revived one is due before it");
        complete(&inbox, &[other]).await;
        match end {
            "give back" => assert_eq!(inbox.give_back(&[second.claim]).await.unwrap(), all_done(1)),
            "fail" => fail(&inbox, second.claim, Duration::ZERO).await,
            "vanish" => test_store.expire_claims().await,
            _ => assert_eq!(inbox.reset(Duration::ZERO).await.unwrap(), 1),
        }
        for expected in ["1", "2"] {
            let next = take_soon(&inbox).await;
            assert_eq!(text(&next), expected, "{end}");
            assert_eq!(take(&inbox, 10).await, [], "{end}");
            complete(&inbox, &[next]).await;
        }
    }
}

/// A reset keeps the order, too.
#[rule]
async fn a_reset_keeps_the_order(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push_all(&inbox, [of("g", "1"), of("g", "2")]).await;
    take_one(&inbox).await;
    assert_eq!(inbox.reset(Duration::ZERO).await.unwrap(), 1);
    let first = take(&inbox, 10).await;
    assert_eq!(texts(&first), ["1"]);
    complete(&inbox, &first).await;
    assert_eq!(now(&inbox).await, ["2"]);
}

/// The same name in another queue is another group.
#[rule]
async fn groups_are_of_one_queue(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for queue in ["a", "b"] {
        push_all(&turno.inbox(queue), [of("g", queue)]).await;
    }
    assert_eq!(now(&turno.inbox("a")).await, ["a"]);
    assert_eq!(now(&turno.inbox("b")).await, ["b"]);
}

/// One call may settle items of two queues. The end of an item frees the group of its own queue only: the group of the same
/// name in the other queue, which has an item in flight, stays busy.
#[rule]
async fn a_settled_item_frees_its_own_queues_group_only(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for end in ["complete", "give back", "fail"] {
        let (a, b) = (
            turno.inbox(format!("{end}/a")),
            turno.inbox(format!("{end}/b")),
        );
        push_all(&a, [of("g", "a1")]).await;
        push_all(&b, [of("g", "b1"), of("g", "b2"), of("h", "b3")]).await;
        set_aside(&b, take_one(&b).await.claim).await;
        let mut at_work = take(&b, 10).await;
        assert_eq!(texts(&at_work), ["b2", "b3"], "{end}");
        let beside = at_work.remove(1);
        let settled = [take_one(&a).await.claim, beside.claim];
        let settled = match end {
            "complete" => a.complete(&settled).await,
            "give back" => a.give_back(&settled).await,
            _ => {
                a.fail(&settled.map(|claim| failure(claim, Some(LATER))))
                    .await
            }
        };
        assert_eq!(settled.unwrap(), all_done(2), "{end}");
        // It precedes the item in flight, so its position alone would not keep it from being claimed.
        assert_eq!(b.requeue(None).await.unwrap(), 1);
        let beside = texts(&take(&b, 10).await);
        assert!(!beside.contains(&"b1".to_owned()), "{end}: b2 is at work");
        complete(&b, &at_work).await;
        assert_eq!(now(&b).await, ["b1"], "{end}");
    }
}

/// Several items of a group that were pushed one by one after an item in flight keep their order to the end.
#[rule]
async fn a_long_group_runs_through(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    let mut done = Vec::new();
    push_all(&inbox, [of("g", "0")]).await;
    for n in 1..=10 {
        let item = of("g", &n.to_string());
        push_all(&inbox, [item.priority((n % 4) as u8)]).await;
        if n % 3 == 0 {
            let one = take(&inbox, 10).await;
            done.extend(texts(&one));
            complete(&inbox, &one).await;
        }
    }
    while let Some(one) = take(&inbox, 10).await.pop() {
        done.push(text(&one));
        complete(&inbox, &[one]).await;
    }
    let expected: Vec<String> = (0..=10).map(|n| n.to_string()).collect();
    assert_eq!(done, expected);
}
