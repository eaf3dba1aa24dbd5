use super::*;

#[test]
fn a_queue_without_a_push_has_no_stats() {
    let desk = Desk::new();
    for queue in [None, Some(QUEUE.to_owned())] {
        let ask = InboxStats {
            queue,
            ..InboxStats::default()
        };
        assert!(stats::stats(&desk.db, &ask, desk.now).unwrap().is_empty());
    }
}

#[test]
fn a_prefix_is_the_beginning_of_a_name_and_nothing_else() {
    let desk = Desk::new();
    for queue in ["pay/b", "pay/a", "payments", "p%y/", "other"] {
        let ask = InboxPush {
            queue: queue.to_owned(),
            items: vec![item("a")],
            request: Uuid::new_v4(),
        };
        push::push(&desk.db, &ask, desk.now).unwrap();
    }
    let names = |prefix: &str| {
        let ask = InboxStats {
            queue: None,
            prefix: prefix.to_owned(),
        };
        let all = stats::stats(&desk.db, &ask, desk.now).unwrap();
        all.into_iter().map(|queue| queue.queue).collect::<Vec<_>>()
    };
    assert_eq!(names("pay/"), ["pay/a", "pay/b"]);
    assert_eq!(names("p%"), ["p%y/"]);
    assert_eq!(names("").len(), 5);
}

#[test]
fn the_oldest_pending_item_has_been_due_for() {
    let mut desk = Desk::new();
    let oldest = |desk: &Desk| desk.stats().oldest_pending;
    assert_eq!(oldest(&desk), None);
    desk.push(vec![NewItem {
        priority: 3,
        ..after("timed", secs(10))
    }]);
    assert_eq!(oldest(&desk), None);
    desk.pass(secs(12));
    assert_eq!(oldest(&desk), Some(secs(2)));
    desk.push(vec![grouped("a1", "a"), grouped("a2", "a")]);
    desk.pass(secs(1));
    assert_eq!(oldest(&desk), Some(secs(3)));
    let held = desk.claim(2);
    assert_eq!(payloads(&held), ["a1", "timed"]);
    assert_eq!(oldest(&desk), Some(secs(1)), "of the one behind its group");
    desk.pass(secs(28));
    desk.complete(&[held[0].claim]);
    desk.complete(&[desk.claim_one().claim]);
    assert_eq!(oldest(&desk), None);
    desk.pass(secs(5));
    assert_eq!(
        oldest(&desk),
        Some(secs(3)),
        "of the one whose claim has expired"
    );
}

#[test]
fn scheduled_items_are_counted_to_the_microsecond_across_all_spans() {
    let mut desk = Desk::new();
    let far = [
        1,
        65_535,
        65_536,
        65_537,
        1_000_000,
        268_435_455,
        268_435_456,
        300_000_000,
        86_400_000_000,
        1_099_511_627_776,
        1_099_511_627_777,
        315_360_000_000_000,
    ];
    let items = far.map(|us| after("x", Duration::from_micros(us)));
    desk.push(items.to_vec());
    let began = desk.now;
    for (passed, us) in (1..).zip(far) {
        desk.now = began + i64::try_from(us).unwrap();
        assert_eq!(desk.counts(), [passed, 12 - passed, 0, 0, 0], "after {us}");
        desk.now -= 1;
        assert_eq!(
            desk.counts(),
            [passed - 1, 13 - passed, 0, 0, 0],
            "before {us}"
        );
    }
}

#[test]
fn pages_of_each_state() {
    let mut desk = Desk::new();
    let timed = |n: u8| NewItem {
        priority: n % 4,
        ..after("t", secs(u64::from(20 - n)))
    };
    desk.push((0..8).map(timed).collect());
    desk.push(
        (0..8)
            .map(|n| NewItem {
                priority: n % 4,
                ..item("r")
            })
            .collect(),
    );
    desk.push((0..4).map(|_| grouped("g", "g")).collect());
    desk.pass(secs(15));
    let ids = |state, after: Option<i64>, limit| {
        let page = desk.page(state, after.map(ItemId), limit);
        assert!(page.iter().all(|item| item.state == state));
        page.iter().map(|item| item.id.0).collect::<Vec<_>>()
    };
    assert_eq!(ids(ItemState::Scheduled, None, 3), [1, 2, 3]);
    assert_eq!(ids(ItemState::Scheduled, Some(3), 3), [4, 5]);
    assert_eq!(ids(ItemState::Pending, None, 5), [6, 7, 8, 9, 10]);
    assert_eq!(
        ids(ItemState::Pending, Some(10), 100),
        (11..=20).collect::<Vec<_>>()
    );
    let scheduled = &desk.list(ItemState::Scheduled)[0];
    assert_eq!(
        scheduled.at,
        Some(crate::clock::from_us(desk.now + 5_000_000))
    );
    let pending = desk.list(ItemState::Pending);
    assert_eq!(
        pending[2].at,
        Some(crate::clock::from_us(desk.now - 2_000_000))
    );
    assert_eq!(pending[3].at, pending[3].pushed_at);
    let held = desk.claim(5);
    assert_eq!(ids(ItemState::Processing, None, 100).len(), 5);
    let processing = &desk.list(ItemState::Processing)[0];
    assert_eq!(processing.at, Some(crate::clock::from_us(desk.now)));
    assert_eq!(processing.worker.as_deref(), Some("w1"));
    assert_eq!(held.len() + desk.list(ItemState::Pending).len(), 15);
}

#[test]
fn a_sweep_keeps_to_its_batch_and_to_the_counts() {
    let mut desk = Desk::new();
    desk.push((0..10).map(|n| keyed("x", &n.to_string())).collect());
    desk.complete(&claims(&desk.claim(10)));
    desk.pass(secs(601));
    // A batch of each kind: completions, and once two requests and an empty claim.
    assert_eq!(desk.sweep(secs(60), 4), 4 + 2 + 1);
    assert_eq!(desk.rows("turno_inbox_key"), 6);
    assert_eq!(desk.sweep(secs(60), 4), 4);
    assert_eq!(desk.sweep(secs(60), 4), 2);
    assert_eq!(desk.sweep(secs(60), 4), 0);
    for table in ["key", "done", "request", "claim", "item"] {
        assert_eq!(desk.rows(&format!("turno_inbox_{table}")), 0, "{table}");
    }
    assert_eq!(desk.counts(), [0, 0, 0, 10, 0]);
}

#[test]
fn a_sweep_leaves_expired_claims_alone() {
    let mut desk = Desk::new();
    desk.push(vec![item("a")]);
    let held = desk.claim_one();
    desk.pass(secs(3600));
    desk.sweep(secs(0), 100);
    assert_eq!(desk.complete(&[held.claim]).done, 1);
}
