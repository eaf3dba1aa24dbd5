use super::*;

#[test]
fn requeue_revives_the_oldest_failures_with_all_their_attempts() {
    let mut desk = Desk::new();
    let pushed = ids(&desk.push(vec![keyed("a", "k"), item("b"), item("c")]));
    let held = desk.claim(3);
    for n in [2, 0, 1] {
        desk.pass(secs(1));
        desk.fail_for_good(held[n].claim);
    }
    assert_eq!(desk.counts(), [0, 0, 0, 0, 3]);
    let listed: Vec<ItemId> = desk.list(ItemState::Failed).iter().map(|i| i.id).collect();
    assert_eq!(listed, pushed);
    let second: Vec<ItemView> = desk.page(ItemState::Failed, Some(pushed[0]), 1);
    assert_eq!(second[0].id, pushed[1]);

    assert_eq!(desk.requeue(None, 2), 2);
    assert_eq!(desk.counts(), [2, 0, 0, 0, 1]);
    let again = desk.claim(5);
    assert_eq!(payloads(&again), ["a", "c"]);
    assert_eq!((again[0].attempt, again[0].key.as_deref()), (1, Some("k")));
    let view = desk.list(ItemState::Processing).remove(0);
    assert_eq!(
        (view.attempts, view.abandoned, view.errors.len()),
        (0, 0, 1)
    );

    let other = InboxFailedItems {
        queue: "other".to_owned(),
        ids: Some(pushed.clone()),
        limit: 10,
        user: None,
        reason: None,
    };
    assert_eq!(revive::requeue(&desk.db, &other, desk.now).unwrap(), 0);
    let mut twice = pushed.clone();
    twice.extend(pushed);
    assert_eq!(desk.requeue(Some(twice), 10), 1);
    assert_eq!(desk.counts(), [1, 0, 2, 0, 0]);
}

#[test]
fn reset_takes_away_what_is_held_for_long() {
    let mut desk = Desk::new();
    desk.push((0..5).map(|n| item(&n.to_string())).collect());
    let old = desk.claim(2);
    desk.pass(secs(5));
    let young = desk.claim(1);
    desk.pass(secs(5));
    assert_eq!(desk.reset(secs(11), 10), 0);
    assert_eq!(desk.reset(secs(10), 10), 2);
    assert_eq!(desk.counts(), [4, 0, 1, 0, 0]);
    assert_eq!(desk.complete(&claims(&old)).done, 0);
    assert_eq!(desk.complete(&claims(&young)).done, 1);
    let again = desk.claim(1);
    assert_eq!((payloads(&again), again[0].attempt), (vec!["0"], 1));
}

#[test]
fn reset_takes_whole_claims_and_about_as_many_as_asked() {
    let desk = Desk::new();
    desk.push((0..6).map(|n| item(&n.to_string())).collect());
    for _ in 0..3 {
        desk.claim(2);
    }
    assert_eq!(desk.reset(secs(0), 3), 4);
    assert_eq!(desk.reset(secs(0), 3), 2);
}
