use super::*;

#[test]
fn stale_claims_are_returned_in_order_and_change_nothing() {
    let desk = Desk::new();
    desk.push(vec![item("a"), item("b"), item("c")]);
    let held = desk.claim(2);
    let (a, b) = (held[0].claim, held[1].claim);
    let unknown_token = ClaimId {
        token: Uuid::new_v4(),
        ..a
    };
    let not_held = ClaimId {
        item: ItemId(b.item.0 + 1),
        ..a
    };
    let asked = [not_held, a, unknown_token, a, b];
    let stale = vec![not_held, unknown_token];
    // Extended twice, it is still held; completed twice, it is not.
    assert_eq!(desk.extend(&asked, LEASE), Settled { done: 2, stale });
    let stale = vec![not_held, unknown_token, a];
    assert_eq!(desk.complete(&asked), Settled { done: 2, stale });
    assert_eq!(desk.complete(&[a, b]).stale, [a, b]);
    assert_eq!(desk.give_back(&[a]).stale, [a]);
    assert_eq!(desk.fail(b, None).stale, [b]);
    assert_eq!(desk.extend(&[b], LEASE).stale, [b]);
    assert_eq!(desk.counts(), [1, 0, 0, 2, 0]);
}

#[test]
fn the_same_request_answers_the_same_again() {
    let desk = Desk::new();
    desk.push((0..4).map(|n| item(&n.to_string())).collect());
    let held = claims(&desk.claim(3));
    let stale = ClaimId {
        token: Uuid::new_v4(),
        ..held[0]
    };
    let complete = InboxComplete {
        claims: vec![stale, held[0]],
        request: Uuid::new_v4(),
    };
    let give_back = InboxGiveBack {
        claims: vec![held[1], stale],
        request: Uuid::new_v4(),
    };
    let fail = InboxFail {
        failures: vec![Failure {
            claim: held[2],
            error: String::new(),
            retry_in: None,
            again: Again::Retry,
        }],
        request: Uuid::new_v4(),
    };
    let settle_all = || {
        [
            complete::complete(&desk.db, &complete, desk.now).unwrap(),
            settle::give_back(&desk.db, &give_back, desk.now).unwrap(),
            settle::fail(&desk.db, &fail, desk.now).unwrap(),
        ]
    };
    let first = settle_all();
    assert_eq!(first[0].done, 1);
    assert_eq!(first[1].stale, [stale]);
    let counts = desk.counts();
    assert_eq!(counts, [2, 1, 0, 1, 0]);
    // Another claim has the item that was given back, and keeps it.
    assert_eq!(desk.claim_one().claim.item, held[1].item);
    assert_eq!(settle_all(), first);
    assert_eq!(desk.counts(), [1, 1, 1, 1, 0]);
}

#[test]
fn a_completed_item_leaves_a_narrow_record() {
    let mut desk = Desk::new();
    desk.push(vec![item("a"), item("b"), item("c")]);
    let held = desk.claim(3);
    desk.fail(held[0].claim, Some(secs(0)));
    desk.complete(&[held[2].claim, held[1].claim]);
    desk.pass(secs(1));
    desk.complete(&[desk.claim_one().claim]);
    assert_eq!(desk.rows("turno_inbox_error"), 0);
    let done = desk.list(ItemState::Completed);
    let ids = |items: &[ItemView]| items.iter().map(|item| item.id.0).collect::<Vec<_>>();
    assert_eq!(ids(&done), [3, 2, 1]);
    let last = ItemView {
        id: ItemId(1),
        state: ItemState::Completed,
        payload: None,
        key: None,
        group: None,
        priority: None,
        attempts: 0,
        abandoned: 0,
        worker: Some("w1".to_owned()),
        pushed_at: None,
        at: Some(crate::clock::from_us(desk.now)),
        errors: Vec::new(),
    };
    assert_eq!(done[2], last);
    assert_eq!(
        ids(&desk.page(ItemState::Completed, Some(ItemId(3)), 1)),
        [2]
    );
}

#[test]
fn a_failed_attempt_is_tried_again_with_a_growing_pause() {
    let mut desk = Desk::new();
    desk.push(vec![NewItem {
        max_attempts: 20,
        ..item("a")
    }]);
    for attempt in 1..=19_u32 {
        let held = desk.claim_one();
        assert_eq!(held.attempt, attempt);
        desk.fail(held.claim, None);
        let full = secs(1 << (attempt - 1)).min(secs(3600));
        let pause = desk.next_due().unwrap();
        assert!(
            full.mul_f64(0.5) <= pause && pause <= full.mul_f64(1.5),
            "{attempt}: {pause:?}"
        );
        assert_eq!(desk.counts(), [0, 1, 0, 0, 0]);
        desk.pass(pause);
        assert_eq!(desk.counts(), [1, 0, 0, 0, 0]);
    }
    desk.fail(desk.claim_one().claim, None);
    assert_eq!(desk.counts(), [0, 0, 0, 0, 1]);
    let failed = desk.list(ItemState::Failed).remove(0);
    assert_eq!(
        (failed.attempts, failed.payload.as_deref()),
        (20, Some("a"))
    );
    assert_eq!(failed.at, Some(crate::clock::from_us(desk.now)));
    assert_eq!(failed.worker.as_deref(), Some("w1"));
    let attempts: Vec<u32> = failed.errors.iter().map(|error| error.attempt).collect();
    assert_eq!(attempts, (11..=20).collect::<Vec<_>>());
    assert!(failed.errors.iter().all(|error| error.kind == "failed"));
}

#[test]
fn an_error_is_cut_at_a_character() {
    let desk = Desk::new();
    desk.push(vec![item("a")]);
    desk.fail_with(Failure {
        claim: desk.claim_one().claim,
        error: format!("x{}", "ñ".repeat(4000)),
        retry_in: Some(secs(7)),
        again: Again::Retry,
    });
    let view = desk.list(ItemState::Scheduled).remove(0);
    assert_eq!(view.errors[0].error.len(), 3999);
    assert_eq!(view.at, Some(crate::clock::from_us(desk.now + 7_000_000)));
}

#[test]
fn never_again_is_a_failure_at_once() {
    let desk = Desk::new();
    desk.push(vec![item("a")]);
    desk.fail_for_good(desk.claim_one().claim);
    assert_eq!(desk.counts(), [0, 0, 0, 0, 1]);
    assert!(desk.claim(1).is_empty());
}

#[test]
fn what_is_given_back_is_due_at_once_and_goes_first() {
    let mut desk = Desk::new();
    desk.push(vec![item("a"), item("b"), item("c")]);
    let held = desk.claim(2);
    desk.pass(secs(1));
    assert_eq!(desk.give_back(&claims(&held)).done, 2);
    let again = desk.claim(3);
    assert_eq!(payloads(&again), ["a", "b", "c"]);
    assert_eq!(again[0].attempt, 1);
    assert_eq!(desk.complete(&claims(&held)).done, 0);
}

#[test]
fn extending_lengthens_all_that_was_claimed_together_and_never_shortens() {
    let mut desk = Desk::new();
    desk.push(vec![item("a"), item("b")]);
    let held = desk.claim(2);
    desk.pass(secs(20));
    assert_eq!(desk.extend(&[held[0].claim], secs(5)).done, 1);
    desk.pass(secs(9));
    assert_eq!(desk.extend(&[held[0].claim], LEASE).done, 1);
    desk.pass(secs(29));
    assert_eq!(desk.counts(), [0, 0, 2, 0, 0]);
    assert!(desk.claim(2).is_empty());
    desk.pass(secs(1));
    assert_eq!(desk.claim(2).len(), 2);
    assert_eq!(desk.extend(&[held[1].claim], LEASE).stale, [held[1].claim]);
}
