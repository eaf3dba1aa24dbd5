//! Settling: only a caller with the right claim changes an item.

use turno::inbox::{ClaimId, Inbox, ItemId, ItemState, Settled};
use uuid::Uuid;

use crate::conformance::inbox::fixtures::*;
use crate::conformance::lock::fixtures::secs;
use crate::conformance::{TestStore, rule};

/// Operations on a claimed item.
const VERBS: [&str; 4] = ["complete", "fail", "give_back", "extend"];

async fn settle(inbox: &Inbox, verb: &str, claims: &[ClaimId]) -> Settled {
    let settled = match verb {
        "complete" => inbox.complete(claims).await,
        "fail" => {
            let failures: Vec<_> = claims.iter().map(|claim| failure(*claim, None)).collect();
            inbox.fail(&failures).await
        }
        "give_back" => inbox.give_back(claims).await,
        _ => inbox.extend(claims, LONG).await,
    };
    settled.unwrap()
}

/// A completed item is deleted; a record with its worker stays.
#[rule]
async fn a_completed_item_is_gone(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["1", "2", "3"]).await;
    let claimed = take(&inbox, 3).await;
    complete(&inbox, &claimed[..2]).await;
    assert_eq!(counts(&inbox).await, [0, 0, 1, 2, 0]);
    assert_eq!(test_store.stored_items().await, 1);
    complete(&inbox, &claimed[2..]).await;
    test_store.expire_claims().await;
    assert_eq!(take(&inbox, 10).await, []);
    let done = list(&inbox, ItemState::Completed).await;
    assert!(done.iter().all(|item| item.worker.as_deref() == Some("w")));
    let mut expected = ids(&claimed);
    expected.reverse();
    assert_eq!(listed(&inbox, ItemState::Completed).await, expected);
}

/// Wrong claims are returned as stale, in their order, and the others are settled.
#[rule]
async fn a_wrong_claim_is_stale(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for verb in VERBS {
        let inbox = turno.inbox(verb);
        push(&inbox, &["1", "2"]).await;
        let one = take_one(&inbox).await.claim;
        let two = take_one(&inbox).await.claim;
        let swapped = |item: ClaimId, token: Uuid| ClaimId { token, ..item };
        let wrong = [
            swapped(one, Uuid::now_v7()),
            swapped(two, one.token),
            ClaimId {
                item: ItemId(i64::MAX),
                token: one.token,
            },
            ClaimId {
                item: ItemId(0),
                token: Uuid::nil(),
            },
        ];
        assert_eq!(
            settle(&inbox, verb, &wrong).await,
            all_stale(&wrong),
            "{verb}"
        );
        assert_eq!(counts(&inbox).await, [0, 0, 2, 0, 0], "{verb}");
        let mixed = [wrong[1], two, wrong[0], one];
        let settled = settle(&inbox, verb, &mixed).await;
        assert_eq!(settled.done, 2, "{verb}");
        assert_eq!(settled.stale, [wrong[1], wrong[0]], "{verb}");
    }
}

/// A claim that occurs twice in one call is settled once: the second time it is stale.
#[rule]
async fn a_claim_given_twice_is_settled_once(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for verb in ["complete", "fail", "give_back"] {
        let inbox = turno.inbox(verb);
        push(&inbox, &["1", "2"]).await;
        let held = claims(&take(&inbox, 2).await);
        let settled = settle(&inbox, verb, &[held[0], held[1], held[0]]).await;
        assert_eq!(settled.done, 2, "{verb}");
        assert_eq!(settled.stale, [held[0]], "{verb}");
        let again = settle(&inbox, verb, &held).await;
        assert_eq!(again, all_stale(&held), "{verb}");
    }
}

/// A claim that is extended twice in one call is still held, and counted once.
#[rule]
async fn a_claim_given_twice_is_extended_once(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["1", "2"]).await;
    let held = claims(&take(&inbox, 2).await);
    let settled = settle(&inbox, "extend", &[held[0], held[1], held[0]]).await;
    assert_eq!(settled, all_done(2));
}

/// Settling an empty list returns at once.
#[rule]
async fn settling_nothing_is_nothing(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    for verb in VERBS {
        assert_eq!(settle(&inbox, verb, &[]).await, all_done(0), "{verb}");
    }
}

/// A claim that was taken over changes nothing any more.
#[rule]
async fn a_claim_taken_over_is_stale(test_store: &TestStore) {
    let (turno, rival) = (test_store.turno().await, test_store.turno().await);
    for verb in VERBS {
        let (inbox, theirs) = (turno.inbox(verb), rival.inbox(verb));
        push(&inbox, &["1"]).await;
        let old = take_one(&inbox).await;
        test_store.expire_claims().await;
        let new = take_one(&theirs).await;
        assert_eq!((new.claim.item, new.attempt), (old.claim.item, 2));
        let before = list(&inbox, ItemState::Processing).await;
        let late = settle(&inbox, verb, &[old.claim]).await;
        assert_eq!(late, all_stale(&[old.claim]), "{verb}");
        assert_eq!(
            list(&inbox, ItemState::Processing).await,
            before,
            "{verb} changed nothing"
        );
        assert_eq!(settle(&theirs, verb, &[new.claim]).await, all_done(1));
    }
}

/// The control of the rule above: a completion that does not compare the token ends the work of the new holder.
#[rule(postgres)]
async fn without_its_token_a_claim_would_end_the_work_of_another(test_store: &TestStore) {
    let (turno, rival) = (test_store.turno().await, test_store.turno().await);
    let compared = "b.token = inbox_complete_one.token";
    test_store
        .replace_in_function("inbox_complete_one", compared, "true")
        .await;
    let (inbox, theirs) = (turno.inbox("q"), rival.inbox("q"));
    push(&inbox, &["1"]).await;
    let old = take_one(&inbox).await;
    test_store.expire_claims().await;
    let new = take_one(&theirs).await;
    let late = settle(&inbox, "complete", &[old.claim]).await;
    assert_eq!(late, all_done(1));
    let lost = settle(&theirs, "complete", &[new.claim]).await;
    assert_eq!(lost, all_stale(&[new.claim]));
}

/// A claim that has expired, but was not taken over, is still valid.
#[rule]
async fn a_late_claim_is_right_until_taken_over(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for verb in VERBS {
        let inbox = turno.inbox(verb);
        push(&inbox, &["1"]).await;
        let held = take_one(&inbox).await;
        test_store.expire_claims().await;
        assert_eq!(counts(&inbox).await, [1, 0, 0, 0, 0], "{verb}");
        assert_eq!(
            settle(&inbox, verb, &[held.claim]).await,
            all_done(1),
            "{verb}"
        );
    }
    let extended = turno.inbox("extend");
    assert_eq!(take(&extended, 1).await, [], "it lives again");
    assert_eq!(counts(&extended).await, [0, 0, 1, 0, 0]);
}

/// Items of one claim expire together. An extension lengthens the lease, and never shortens it.
#[rule]
async fn an_extension_only_lengthens(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let inbox = turno.inbox("q");
    push_all(&inbox, [item("1").priority(0), item("2").priority(3)]).await;
    let ask = ask_claim("q", 2);
    let held = turno.store().inbox_claim(&ask).await.unwrap();
    let until = async || {
        let now = turno.store().inbox_claim(&ask).await.unwrap();
        [now[0].expires_at, now[1].expires_at]
    };
    let first = held[0].expires_at;
    assert_eq!(until().await, [first, first]);
    let one = [held[1].claim];
    assert_eq!(inbox.extend(&one, secs(1)).await.unwrap(), all_done(1));
    assert_eq!(until().await, [first, first], "not shortened");
    assert_eq!(inbox.extend(&one, secs(600)).await.unwrap(), all_done(1));
    let longer = until().await;
    let apart = longer[0].duration_since(longer[1]).as_secs_f64();
    assert!(apart.abs() < 1.0, "both: {longer:?}");
    assert!(longer[0] > first + secs(300), "{longer:?} after {first}");
}
