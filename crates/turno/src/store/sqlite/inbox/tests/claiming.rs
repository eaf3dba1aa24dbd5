use super::*;

fn urgent(payload: &str, priority: u8) -> NewItem {
    NewItem {
        priority,
        ..item(payload)
    }
}

#[test]
fn by_priority_then_by_time_then_by_id() {
    let mut desk = Desk::new();
    let timed = |payload, seconds, priority| NewItem {
        priority,
        ..after(payload, secs(seconds))
    };
    desk.push(vec![
        urgent("low", 3),
        item("first"),
        timed("later", 2, 1),
        timed("sooner", 1, 1),
        item("second"),
        timed("urgent and timed", 2, 0),
        urgent("urgent", 0),
        timed("too late", 60, 0),
    ]);
    desk.pass(secs(2));
    assert!(desk.claim(0).is_empty());
    assert_eq!(
        payloads(&desk.claim(4)),
        ["urgent and timed", "urgent", "sooner", "later"]
    );
    assert_eq!(payloads(&desk.claim(10)), ["first", "second", "low"]);
}

#[test]
fn an_item_comes_with_all_that_was_pushed() {
    let desk = Desk::new();
    let pushed = NewItem {
        payload: r#"{"n": 1.10}"#.to_owned(),
        key: Some("k".to_owned()),
        label: None,
        priority: 2,
        due: None,
        group: Some("g".to_owned()),
        max_attempts: 7,
    };
    let id = desk.push(vec![pushed.clone()])[0].id;
    let ask = desk.ask(1);
    let got = desk.claim_with(&ask).remove(0);
    let expected = ClaimedItem {
        id,
        claim: ClaimId {
            item: id,
            token: ask.request,
        },
        attempt: 1,
        max_attempts: 7,
        payload: pushed.payload.into(),
        key: pushed.key,
        group: pushed.group,
        priority: 2,
        pushed_at: crate::clock::from_us(desk.now),
        expires_at: crate::clock::from_us(desk.now + as_us(LEASE)),
        abandoned: 0,
    };
    assert_eq!(got, expected);
}

#[test]
fn the_same_request_claims_nothing_new() {
    let mut desk = Desk::new();
    desk.push((0..6).map(|n| item(&n.to_string())).collect());
    let ask = desk.ask(3);
    let first = desk.claim_with(&ask);
    assert_eq!(desk.claim_with(&ask), first);
    desk.complete(&[first[1].claim]);
    assert_eq!(payloads(&desk.claim_with(&ask)), ["0", "2"]);
    desk.complete(&claims(&first));
    assert!(desk.claim_with(&ask).is_empty());
    assert_eq!(desk.counts(), [3, 0, 0, 3, 0]);
    // It is remembered for ten minutes, whatever is swept.
    desk.pass(secs(599));
    desk.sweep(secs(0), 100);
    assert!(desk.claim_with(&ask).is_empty());
    desk.pass(secs(2));
    desk.sweep(secs(0), 100);
    assert_eq!(desk.claim_with(&ask).len(), 3);
}

#[test]
fn an_unknown_queue_has_nothing() {
    let desk = Desk::new();
    assert!(desk.claim(5).is_empty() && desk.next_due().is_none());
    assert_eq!(desk.rows("turno_inbox_queue"), 0);
}

#[test]
fn next_due_is_the_next_time_or_the_end_of_a_claim() {
    let mut desk = Desk::new();
    desk.push(vec![after("a", secs(40)), item("b")]);
    desk.claim_one();
    assert_eq!(desk.next_due(), Some(LEASE));
    desk.pass(secs(10));
    assert_eq!(desk.next_due(), Some(secs(20)));
    let held = desk.list(ItemState::Processing).remove(0).id;
    assert_eq!(desk.reset(secs(0), 10), 1);
    let held_again = desk.claim_one();
    assert_eq!(held_again.claim.item, held);
    desk.complete(&[held_again.claim]);
    assert_eq!(desk.next_due(), Some(secs(30)));
    desk.pass(secs(30));
    desk.complete(&[desk.claim_one().claim]);
    assert_eq!(desk.next_due(), None);
}

#[test]
fn an_expired_claim_is_taken_over_and_the_attempt_counted() {
    let mut desk = Desk::new();
    desk.push(vec![item("a"), item("b")]);
    let old = desk.claim(2);
    desk.pass(LEASE);
    assert_eq!(desk.counts(), [2, 0, 0, 0, 0]);
    assert_eq!(desk.list(ItemState::Pending).len(), 2);
    let new = desk.claim(1);
    assert_eq!((payloads(&new), new[0].attempt), (vec!["a"], 2));
    assert_eq!(desk.counts(), [1, 0, 1, 0, 0]);
    // All of the old claim is stale, also the item that no other claim has.
    let settled = desk.complete(&claims(&old));
    assert_eq!((settled.done, settled.stale), (0, claims(&old)));

    let waiting = desk.list(ItemState::Pending).remove(0);
    assert_eq!((waiting.attempts, waiting.abandoned), (1, 1));
    let expected = AttemptError {
        attempt: 1,
        at: crate::clock::from_us(desk.now),
        kind: "abandoned".to_owned(),
        error: "the worker vanished: its claim was not extended in time".to_owned(),
        worker: Some("w1".to_owned()),
    };
    assert_eq!(waiting.errors, [expected]);
}

#[test]
fn an_expired_claim_works_until_it_is_taken_over() {
    let mut desk = Desk::new();
    desk.push(vec![item("a"), item("b"), item("c")]);
    let old = desk.claim(3);
    desk.pass(secs(31));
    assert_eq!(desk.complete(&[old[0].claim]).done, 1);
    assert_eq!(desk.extend(&[old[1].claim], LEASE).done, 1);
    assert!(desk.claim(3).is_empty());
    assert_eq!(desk.counts(), [0, 0, 2, 1, 0]);
}

#[test]
fn vanishing_too_often_is_a_failure() {
    let mut desk = Desk::new();
    desk.push(vec![item("a")]);
    for attempt in 1..=3 {
        assert_eq!(desk.claim_one().attempt, attempt);
        desk.pass(LEASE);
    }
    assert!(desk.claim(1).is_empty());
    assert_eq!(desk.counts(), [0, 0, 0, 0, 1]);
    let failed = desk.list(ItemState::Failed).remove(0);
    assert_eq!((failed.attempts, failed.abandoned), (3, 3));
    assert_eq!(failed.errors.len(), 3);
}
