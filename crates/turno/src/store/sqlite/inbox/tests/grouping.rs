use super::*;

#[test]
fn one_at_a_time_in_order() {
    let desk = Desk::new();
    desk.push(vec![
        grouped("a1", "a"),
        grouped("a2", "a"),
        item("x"),
        grouped("b1", "b"),
        grouped("a3", "a"),
    ]);
    assert_eq!(desk.counts(), [5, 0, 0, 0, 0]);
    let first = desk.claim(10);
    assert_eq!(payloads(&first), ["a1", "x", "b1"]);
    assert!(desk.claim(10).is_empty());
    desk.complete(&[first[0].claim]);
    let second = desk.claim(10);
    assert_eq!(payloads(&second), ["a2"]);
    desk.fail_for_good(second[0].claim);
    assert_eq!(payloads(&desk.claim(10)), ["a3"]);
}

#[test]
fn a_group_belongs_to_a_queue() {
    let desk = Desk::new();
    desk.push(vec![grouped("a1", "a")]);
    let elsewhere = InboxPush {
        queue: "other".to_owned(),
        items: vec![grouped("o1", "a")],
        request: Uuid::new_v4(),
    };
    push::push(&desk.db, &elsewhere, desk.now).unwrap();
    desk.claim_one();
    let ask = InboxClaim {
        queue: "other".to_owned(),
        ..desk.ask(5)
    };
    assert_eq!(payloads(&desk.claim_with(&ask)), ["o1"]);
}

#[test]
fn a_delayed_head_holds_its_group_up() {
    let mut desk = Desk::new();
    desk.push(vec![
        NewItem {
            due: Some(Due::After(secs(10))),
            ..grouped("a1", "a")
        },
        NewItem {
            priority: 0,
            ..grouped("a2", "a")
        },
        NewItem {
            due: Some(Due::After(secs(5))),
            ..grouped("a3", "a")
        },
    ]);
    assert_eq!(desk.counts(), [1, 2, 0, 0, 0]);
    assert!(desk.claim(10).is_empty());
    desk.pass(secs(6));
    assert_eq!(desk.counts(), [2, 1, 0, 0, 0]);
    assert!(desk.claim(10).is_empty());
    desk.pass(secs(4));
    for expected in ["a1", "a2", "a3"] {
        let held = desk.claim(10);
        assert_eq!(payloads(&held), [expected]);
        desk.complete(&claims(&held));
    }
    assert_eq!(desk.counts(), [0, 0, 0, 3, 0]);
    assert_eq!(desk.rows("turno_inbox_due"), 0);
}

#[test]
fn a_failed_head_goes_before_the_others_again() {
    let mut desk = Desk::new();
    desk.push(vec![grouped("a1", "a"), grouped("a2", "a")]);
    desk.fail(desk.claim_one().claim, Some(secs(10)));
    assert!(desk.claim(10).is_empty());
    desk.pass(secs(10));
    let head = desk.claim_one();
    assert_eq!(head.payload, "a1");
    desk.give_back(&[head.claim]);
    let head = desk.claim_one();
    assert_eq!(head.payload, "a1");
    // Its worker dies. No item of the group overtakes it, and it fails after its last attempt.
    desk.pass(LEASE);
    let head = desk.claim(10);
    assert_eq!((payloads(&head), head[0].attempt), (vec!["a1"], 3));
    desk.pass(LEASE);
    assert_eq!(payloads(&desk.claim(10)), ["a2"]);
    assert_eq!(desk.counts(), [0, 0, 1, 0, 1]);
}

#[test]
fn a_reset_head_stays_the_head() {
    let desk = Desk::new();
    desk.push(vec![grouped("a1", "a"), grouped("a2", "a")]);
    desk.claim_one();
    assert_eq!(desk.reset(secs(0), 10), 1);
    assert_eq!(payloads(&desk.claim(10)), ["a1"]);
}

#[test]
fn a_requeued_item_goes_back_to_its_old_place() {
    let desk = Desk::new();
    desk.push(vec![
        grouped("a1", "a"),
        grouped("a2", "a"),
        grouped("a3", "a"),
    ]);
    desk.fail_for_good(desk.claim_one().claim);
    // The next one waits to be claimed: it steps back.
    assert_eq!(desk.requeue(None, 10), 1);
    let held = desk.claim(10);
    assert_eq!(payloads(&held), ["a1"]);
    desk.fail_for_good(held[0].claim);
    // The next one is being worked on: it is not overtaken, and goes behind when it comes back.
    let second = desk.claim_one();
    assert_eq!(second.payload, "a2");
    assert_eq!(desk.requeue(None, 10), 1);
    assert!(desk.claim(10).is_empty());
    desk.fail(second.claim, Some(secs(0)));
    for expected in ["a1", "a2", "a3"] {
        let held = desk.claim(10);
        assert_eq!(payloads(&held), [expected]);
        desk.complete(&claims(&held));
    }
}

#[test]
fn a_failed_item_alone_does_not_hold_up_what_is_pushed_later() {
    let desk = Desk::new();
    desk.push(vec![grouped("a1", "a")]);
    desk.fail_for_good(desk.claim_one().claim);
    desk.push(vec![grouped("a2", "a")]);
    assert_eq!(payloads(&desk.claim(10)), ["a2"]);
}
