use super::*;

#[test]
fn ids_grow_in_order_and_do_not_come_back() {
    let desk = Desk::new();
    let first = desk.push(vec![item("a"), item("b"), item("c")]);
    assert!(first.is_sorted_by(|a, b| a.id < b.id));
    let all = desk.claim(3);
    assert_eq!(desk.complete(&claims(&all)).done, 3);
    let later = desk.push(vec![item("d")]);
    assert!(later[0].id > first[2].id);
}

#[test]
fn a_key_is_stored_once_until_its_record_is_swept() {
    let mut desk = Desk::new();
    let first = desk.push(vec![keyed("a", "k"), keyed("b", "k"), keyed("c", "l")]);
    assert_eq!(first[1].id, first[0].id);
    assert_eq!(
        first.iter().map(|item| item.duplicate).collect::<Vec<_>>(),
        [false, true, false]
    );
    assert_eq!(desk.counts(), [2, 0, 0, 0, 0]);

    let again = |desk: &Desk| desk.push(vec![keyed("d", "k")])[0];
    let is_first = PushedItem {
        id: first[0].id,
        duplicate: true,
    };
    let held = desk.claim_one();
    assert_eq!(again(&desk), is_first);
    desk.fail_for_good(held.claim);
    assert_eq!(again(&desk), is_first);
    desk.requeue(None, 10);
    assert_eq!(again(&desk), is_first);
    let held = desk.claim_one();
    assert_eq!(held.claim.item, first[0].id);
    desk.complete(&[held.claim]);
    assert_eq!(again(&desk), is_first);

    desk.pass(secs(60));
    assert_eq!(desk.sweep(secs(61), 100), 0);
    assert_eq!(again(&desk), is_first);
    assert_eq!(desk.sweep(secs(59), 100), 1);
    assert!(!again(&desk).duplicate);
    // The other key was not touched.
    assert!(desk.push(vec![keyed("e", "l")])[0].duplicate);
    assert_eq!(desk.stats().completed, 1);
}

#[test]
fn keys_belong_to_a_queue() {
    let desk = Desk::new();
    desk.push(vec![keyed("a", "k")]);
    let elsewhere = InboxPush {
        queue: "other".to_owned(),
        items: vec![keyed("a", "k")],
        request: Uuid::new_v4(),
    };
    assert!(!push::push(&desk.db, &elsewhere, desk.now).unwrap()[0].duplicate);
}

#[test]
fn the_same_request_stores_nothing_more() {
    let desk = Desk::new();
    let request = Uuid::new_v4();
    let items = vec![item("a"), keyed("b", "k"), keyed("c", "k"), item("d")];
    let first = desk.push_as(request, items.clone());
    desk.push(vec![item("between")]);
    assert_eq!(desk.push_as(request, items), first);
    assert_eq!(desk.counts(), [4, 0, 0, 0, 0]);
    assert!(desk.push(Vec::new()).is_empty());
}

#[test]
fn what_is_due_later_is_scheduled() {
    let mut desk = Desk::new();
    let at = NewItem {
        due: Some(Due::At(crate::clock::from_us(desk.now + 5_000_000))),
        ..item("at")
    };
    let past = NewItem {
        due: Some(Due::At(crate::clock::from_us(desk.now - 5_000_000))),
        ..item("past")
    };
    desk.push(vec![
        after("after", secs(3)),
        at,
        past,
        after("none", secs(0)),
    ]);
    assert_eq!(desk.counts(), [2, 2, 0, 0, 0]);
    assert_eq!(payloads(&desk.claim(10)), ["past", "none"]);
    assert_eq!(desk.next_due(), Some(secs(3)));
    desk.pass(secs(3));
    assert_eq!(desk.counts(), [1, 1, 2, 0, 0]);
    assert_eq!(payloads(&desk.claim(10)), ["after"]);
    desk.pass(secs(2));
    assert_eq!(payloads(&desk.claim(10)), ["at"]);
    assert_eq!(desk.rows("turno_inbox_due"), 0);
}
