//! Distribution of events: each to one relay, and in order where order is promised.

use turno::store::{AfterRefusal, Order};
use uuid::Uuid;

use crate::conformance::inbox::fixtures::LONG;
use crate::conformance::outbox::fixtures::*;
use crate::conformance::{TestStore, rule};

/// With order, only the first event of each key can be claimed, until it is settled.
#[rule]
async fn of_each_key_one_at_a_time(test_store: &TestStore) {
    let turno = test_store.turno().await;
    emit_keyed(&turno, &["a", "b"], 3).await;
    for pair in [[0, 1], [2, 3], [4, 5]] {
        let taken = take(&turno, 10, Order::ByKey).await;
        assert_eq!(taken.numbers(), pair);
        assert!(take(&turno, 10, Order::ByKey).await.events.is_empty());
        send(&turno, &taken).await;
    }
    assert_eq!(counts(&turno).await, [0, 0, 0, 6, 0, 0]);
}

/// Without order, all events can be claimed at once, in the order of their emission, by several relays.
#[rule]
async fn without_order_all_at_once(test_store: &TestStore) {
    let turno = test_store.turno().await;
    emit_keyed(&turno, &["a", "b"], 3).await;
    let first = take(&turno, 4, Order::AsEmitted).await;
    let second = take(&turno, 4, Order::AsEmitted).await;
    assert_eq!(first.numbers(), [0, 1, 2, 3]);
    assert_eq!(second.numbers(), [4, 5]);
    // Settled in reverse order: later events are not claimed twice.
    send(&turno, &second).await;
    assert!(take(&turno, 4, Order::AsEmitted).await.events.is_empty());
    send(&turno, &first).await;
    assert!(take(&turno, 4, Order::AsEmitted).await.events.is_empty());
    assert_eq!(counts(&turno).await, [0, 0, 0, 6, 0, 0]);
}

/// A relay with order and one without can share an outbox: no event is claimed twice, and none is skipped.
#[rule]
async fn relays_of_both_kinds_share_an_outbox(test_store: &TestStore) {
    let turno = test_store.turno().await;
    emit_keyed(&turno, &["a", "b", "c"], 20).await;
    let mut got = Vec::new();
    let mut held = std::collections::VecDeque::new();
    for round in 0.. {
        let order = if round % 2 == 0 {
            Order::ByKey
        } else {
            Order::AsEmitted
        };
        let taken = take(&turno, 7, order).await;
        got.extend(taken.numbers());
        let is_empty = taken.events.is_empty();
        if !is_empty {
            held.push_back(taken);
        }
        // Held claims block others: one is sent when nothing else can be claimed.
        if is_empty || held.len() > 2 {
            match held.pop_front() {
                Some(oldest) => send(&turno, &oldest).await,
                None => break,
            }
        }
    }
    got.sort_unstable();
    assert_eq!(got, (0..60).collect::<Vec<_>>());
}

/// A rejected event blocks its own key, and no other.
#[rule]
async fn a_refused_event_keeps_its_place(test_store: &TestStore) {
    let turno = test_store.turno().await;
    emit_keyed(&turno, &["a", "b"], 2).await;
    let taken = take(&turno, 10, Order::ByKey).await;
    let later = AfterRefusal::Retry(crate::conformance::inbox::fixtures::LATER);
    let mut ask = settlement(&taken);
    ask.refused.push(refusal(&taken.events[0], later));
    ask.sent.push(taken.events[1].seq);
    let settled = settle(&turno, &ask).await;
    assert_eq!((settled.sent, settled.refused, settled.returned), (1, 1, 0));
    assert_eq!(take(&turno, 10, Order::ByKey).await.numbers(), [3]);
    assert_eq!(counts(&turno).await, [1, 1, 1, 1, 0, 0]);
}

/// A rejected event is claimed again, with its attempts counted.
#[rule]
async fn a_refused_event_comes_again(test_store: &TestStore) {
    let turno = test_store.turno().await;
    emit_keyed(&turno, &["a"], 2).await;
    for refused in 0..3 {
        let taken = take(&turno, 10, Order::ByKey).await;
        assert_eq!(taken.numbers(), [0]);
        assert_eq!(
            (taken.events[0].refused, taken.events[0].doubtful),
            (refused, 0)
        );
        let mut ask = settlement(&taken);
        let now = AfterRefusal::Retry(std::time::Duration::ZERO);
        ask.refused.push(refusal(&taken.events[0], now));
        assert_eq!(settle(&turno, &ask).await.refused, 1);
    }
    for number in [0, 1] {
        let taken = take(&turno, 10, Order::ByKey).await;
        assert_eq!(taken.numbers(), [number]);
        send(&turno, &taken).await;
    }
}

/// Events that a settlement does not name go back, without an attempt counted; those that may have arrived are marked.
#[rule]
async fn what_is_not_named_goes_back(test_store: &TestStore) {
    let turno = test_store.turno().await;
    emit_keyed(&turno, &["a"], 3).await;
    emit(&turno, &[event(9), event(10)]).await;
    let taken = take(&turno, 10, Order::AsEmitted).await;
    let mut ask = settlement(&taken);
    ask.sent.push(taken.events[0].seq);
    ask.doubtful
        .extend([taken.events[1].seq, taken.events[3].seq]);
    let settled = settle(&turno, &ask).await;
    assert_eq!((settled.sent, settled.returned, settled.stale), (1, 4, 0));
    let mut again = Vec::new();
    while again.len() < 4 {
        let taken = take(&turno, 10, Order::ByKey).await;
        assert!(!taken.events.is_empty(), "{again:?}");
        for (number, event) in taken.numbers().into_iter().zip(&taken.events) {
            again.push((number, event.refused, event.doubtful));
        }
        send(&turno, &taken).await;
    }
    again.sort_unstable();
    assert_eq!(again, [(1, 0, 1), (2, 0, 0), (9, 0, 1), (10, 0, 0)]);
}

/// The batch of a lost relay is claimed by others: no attempt is counted, and the events are marked as possibly sent.
#[rule]
async fn a_vanished_relay_spends_no_attempt(test_store: &TestStore) {
    let turno = test_store.turno().await;
    emit_keyed(&turno, &["a", "b"], 1).await;
    for times in 0..7 {
        let taken = take(&turno, 10, Order::ByKey).await;
        assert_eq!(taken.events.len(), 2, "{times}");
        for event in &taken.events {
            assert_eq!((event.refused, event.doubtful), (0, times));
        }
        test_store.expire_claims().await;
    }
}

/// A relay that continues after others have taken over changes nothing.
#[rule]
async fn a_zombie_relay_settles_nothing(test_store: &TestStore) {
    let turno = test_store.turno().await;
    emit_keyed(&turno, &["a"], 2).await;
    let zombie = take(&turno, 1, Order::ByKey).await;
    test_store.expire_claims().await;
    let other = take(&turno, 1, Order::ByKey).await;
    assert_eq!(other.numbers(), [0]);
    let settled = settle(&turno, &all_sent(&zombie)).await;
    assert_eq!((settled.sent, settled.stale), (0, 1));
    assert_eq!(counts(&turno).await, [1, 0, 1, 0, 0, 0]);
    send(&turno, &other).await;
    assert_eq!(take(&turno, 1, Order::ByKey).await.numbers(), [1]);
}

/// A claim and a settlement that are sent again, because the response was lost, return the same results and have no further
/// effect.
#[rule]
async fn a_lost_answer_is_given_again(test_store: &TestStore) {
    let turno = test_store.turno().await;
    emit_keyed(&turno, &["a", "b"], 2).await;
    let ask = ask(10, Order::ByKey);
    let first = turno.store().outbox_claim(&ask).await.unwrap();
    let again = turno.store().outbox_claim(&ask).await.unwrap();
    assert_eq!(first, again);
    let taken = Taken {
        token: ask.token,
        events: first,
    };
    let sent = all_sent(&taken);
    let settled = settle(&turno, &sent).await;
    assert_eq!(settled.sent, 2);
    assert_eq!(settle(&turno, &sent).await, settled);
    assert_eq!(counts(&turno).await, [2, 0, 0, 2, 0, 0]);
    let other = turno::store::OutboxSettle {
        request: Uuid::now_v7(),
        ..sent
    };
    assert_eq!(settle(&turno, &other).await.stale, 2);
}

/// A relay that becomes the leader takes over events in flight at once.
#[rule]
async fn the_only_relay_takes_over_at_once(test_store: &TestStore) {
    let turno = test_store.turno().await;
    emit_keyed(&turno, &["a", "b"], 1).await;
    let vanished = take(&turno, 10, Order::AsEmitted).await;
    assert_eq!(turno.store().outbox_recover().await.unwrap(), 2);
    let taken = take(&turno, 10, Order::AsEmitted).await;
    assert_eq!(taken.numbers(), [0, 1]);
    assert!(taken.events.iter().all(|event| event.doubtful == 1));
    assert_eq!(settle(&turno, &all_sent(&vanished)).await.stale, 2);
    send(&turno, &taken).await;
    assert_eq!(turno.store().outbox_recover().await.unwrap(), 0);
}

/// With order, a delayed event blocks its key, and is claimed at its due time.
#[rule]
async fn a_delayed_event_comes_at_its_time(test_store: &TestStore) {
    let turno = test_store.turno().await;
    emit(
        &turno,
        &[
            event(1).ordering_key("a").delay(LONG),
            event(2).ordering_key("a"),
            event(3).ordering_key("b"),
        ],
    )
    .await;
    assert_eq!(counts(&turno).await, [2, 1, 0, 0, 0, 0]);
    assert_eq!(take(&turno, 10, Order::ByKey).await.numbers(), [3]);
}
