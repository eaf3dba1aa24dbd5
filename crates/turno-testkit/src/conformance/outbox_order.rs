//! Who gets which event: one relay each, and in order where order is kept.

use turno::store::{AfterRefusal, Order};
use uuid::Uuid;

use super::Bed;
use super::inbox_kit::LONG;
use super::outbox_kit::*;

/// In order, of each key only the first can be had, until it is settled.
pub async fn of_each_key_one_at_a_time(bed: &Bed) {
    let turno = bed.turno().await;
    emit_keyed(&turno, &["a", "b"], 3).await;
    for pair in [[0, 1], [2, 3], [4, 5]] {
        let taken = take(&turno, 10, Order::ByKey).await;
        assert_eq!(taken.numbers(), pair);
        assert!(take(&turno, 10, Order::ByKey).await.events.is_empty());
        send(&turno, &taken).await;
    }
    assert_eq!(counts(&turno).await, [0, 0, 0, 6, 0, 0]);
}

/// Not in order, all can be had at once, in the order of their emission, by several relays.
pub async fn without_order_all_at_once(bed: &Bed) {
    let turno = bed.turno().await;
    emit_keyed(&turno, &["a", "b"], 3).await;
    let first = take(&turno, 4, Order::AsEmitted).await;
    let second = take(&turno, 4, Order::AsEmitted).await;
    assert_eq!(first.numbers(), [0, 1, 2, 3]);
    assert_eq!(second.numbers(), [4, 5]);
    // Settled in the other order: what is behind is not given twice.
    send(&turno, &second).await;
    assert!(take(&turno, 4, Order::AsEmitted).await.events.is_empty());
    send(&turno, &first).await;
    assert!(take(&turno, 4, Order::AsEmitted).await.events.is_empty());
    assert_eq!(counts(&turno).await, [0, 0, 0, 6, 0, 0]);
}

/// A relay that keeps order and one that does not share an outbox: nothing is given twice, and nothing is forgotten.
pub async fn relays_of_both_kinds_share_an_outbox(bed: &Bed) {
    let turno = bed.turno().await;
    emit_keyed(&turno, &["a", "b", "c"], 20).await;
    let mut got = Vec::new();
    let mut held = Vec::new();
    for round in 0.. {
        let order = if round % 2 == 0 {
            Order::ByKey
        } else {
            Order::AsEmitted
        };
        let taken = take(&turno, 7, order).await;
        let is_empty = taken.events.is_empty();
        got.extend(taken.numbers());
        held.push(taken);
        if is_empty || held.len() > 2 {
            send(&turno, &held.remove(0)).await;
        }
        if is_empty && held.iter().all(|taken| taken.events.is_empty()) {
            break;
        }
    }
    got.sort_unstable();
    assert_eq!(got, (0..60).collect::<Vec<_>>());
}

/// What is refused keeps its key waiting, and nobody else's.
pub async fn a_refused_event_keeps_its_place(bed: &Bed) {
    let turno = bed.turno().await;
    emit_keyed(&turno, &["a", "b"], 2).await;
    let taken = take(&turno, 10, Order::ByKey).await;
    let later = AfterRefusal::Retry(super::inbox_kit::LATER);
    let mut ask = settlement(&taken);
    ask.refused.push(refusal(&taken.events[0], later));
    ask.sent.push(taken.events[1].seq);
    let settled = settle(&turno, &ask).await;
    assert_eq!((settled.sent, settled.refused, settled.returned), (1, 1, 0));
    assert_eq!(take(&turno, 10, Order::ByKey).await.numbers(), [3]);
    assert_eq!(counts(&turno).await, [1, 1, 1, 1, 0, 0]);
}

/// Refused, it comes again, with its attempts counted.
pub async fn a_refused_event_comes_again(bed: &Bed) {
    let turno = bed.turno().await;
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

/// What is not named goes back, no attempt spent; what may have arrived is remembered.
pub async fn what_is_not_named_goes_back(bed: &Bed) {
    let turno = bed.turno().await;
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

/// A relay that vanished leaves its batch to others: no attempt is spent, and it may have arrived.
pub async fn a_vanished_relay_spends_no_attempt(bed: &Bed) {
    let turno = bed.turno().await;
    emit_keyed(&turno, &["a", "b"], 1).await;
    for times in 0..7 {
        let taken = take(&turno, 10, Order::ByKey).await;
        assert_eq!(taken.events.len(), 2, "{times}");
        for event in &taken.events {
            assert_eq!((event.refused, event.doubtful), (0, times));
        }
        bed.expire_claims().await;
    }
}

/// A relay that comes back to life after others took over changes nothing.
pub async fn a_zombie_relay_settles_nothing(bed: &Bed) {
    let turno = bed.turno().await;
    emit_keyed(&turno, &["a"], 2).await;
    let zombie = take(&turno, 1, Order::ByKey).await;
    bed.expire_claims().await;
    let other = take(&turno, 1, Order::ByKey).await;
    assert_eq!(other.numbers(), [0]);
    let settled = settle(&turno, &all_sent(&zombie)).await;
    assert_eq!((settled.sent, settled.stale), (0, 1));
    assert_eq!(counts(&turno).await, [1, 0, 1, 0, 0, 0]);
    send(&turno, &other).await;
    assert_eq!(take(&turno, 1, Order::ByKey).await.numbers(), [1]);
}

/// Asked twice, because the answer was lost, a claim and a settlement answer the same and do nothing more.
pub async fn a_lost_answer_is_given_again(bed: &Bed) {
    let turno = bed.turno().await;
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

/// Whoever has become the only relay takes over at once what is in flight.
pub async fn the_only_relay_takes_over_at_once(bed: &Bed) {
    let turno = bed.turno().await;
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

/// A delayed event keeps its key waiting where order is kept, and comes at its time.
pub async fn a_delayed_event_comes_at_its_time(bed: &Bed) {
    let turno = bed.turno().await;
    emit(
        &turno,
        &[
            event(1).key("a").delay(LONG),
            event(2).key("a"),
            event(3).key("b"),
        ],
    )
    .await;
    assert_eq!(counts(&turno).await, [2, 1, 0, 0, 0, 0]);
    assert_eq!(take(&turno, 10, Order::ByKey).await.numbers(), [3]);
}
