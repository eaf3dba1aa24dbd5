//! The relay: at least once, in order, through outages, and around what is poisoned.

use std::sync::Arc;
use std::time::Duration;

use turno::outbox::{EventState, Mode, OnDead};

use super::Bed;
use super::kit::PATIENCE;
use super::outbox_kit::*;

const MODES: [Mode; 3] = [Mode::Single, Mode::Parallel, Mode::Ordered];

fn texts(numbers: std::ops::Range<u32>) -> Vec<String> {
    numbers.map(|number| number.to_string()).collect()
}

/// Everything arrives once, whatever the mode; in the order of each key, where that is promised.
pub async fn everything_arrives_once(bed: &Bed) {
    let turno = bed.turno().await;
    for mode in MODES {
        let sink = Scripted::new([]);
        let running = Running::start(relay(&turno, &sink).mode(mode).batch(7));
        emit_keyed(&turno, &["a", "b", "c"], 20).await;
        arrived(&sink, 60).await;
        let report = running.stop().await;
        assert_eq!((report.sent, report.stale, report.refused), (60, 0, 0));
        let got = sink.got();
        assert_eq!(got.len(), 60, "{mode}");
        for key in ["a", "b", "c"] {
            let of_key: Vec<u32> = got
                .iter()
                .filter(|event| event.key.as_deref() == Some(key))
                .map(|event| event.payload.parse().unwrap())
                .collect();
            assert_eq!(of_key.len(), 20);
            assert!(
                mode == Mode::Parallel || of_key.is_sorted(),
                "{mode}: {of_key:?}"
            );
        }
        if mode == Mode::Single {
            assert_eq!(sink.payloads(), texts(0..60), "{mode}: as emitted");
        }
        assert!(sink.batches().iter().all(|size| *size <= 7));
    }
}

/// An emission wakes an idle relay of another instance at once; it does not have to look by itself.
pub async fn an_emission_wakes_a_relay(bed: &Bed) {
    let (turno, elsewhere) = (bed.turno().await, bed.turno().await);
    let sink = Scripted::new([]);
    // Behind a pooler nobody is woken, and relays look more often.
    let running = Running::start(relay(&turno, &sink).poll(Duration::from_secs(3600)));
    for round in 1..=3 {
        emit(&elsewhere, &[event(round)]).await;
        arrived(&sink, round as usize).await;
    }
    running.stop().await;
}

/// A sink that goes away costs no attempt: nothing is dead, nothing is lost, and what may have arrived is labelled.
pub async fn an_outage_costs_nothing(bed: &Bed) {
    let turno = bed.turno().await;
    for mode in MODES {
        let sink = Scripted::new([Act::GoAway(3)]);
        let ids = emit_keyed(&turno, &["a", "b", "c", "d", "e"], 2).await;
        let running = Running::start(relay(&turno, &sink).mode(mode).max_attempts(1));
        crate::eventually_async(PATIENCE, "the outage", async || {
            sink.is_down().then_some(())
        })
        .await;
        // Two were confirmed.
        let waiting = crate::eventually_async(PATIENCE, "everything to go back", async || {
            let waiting = list(&turno, EventState::Pending).await;
            (waiting.len() == 8).then_some(waiting)
        })
        .await;
        assert!(waiting.iter().all(|event| event.refused == 0), "{mode}");
        assert_eq!(waiting.iter().filter(|event| event.doubtful > 0).count(), 1);
        sink.heal();
        arrived(&sink, 11).await;
        let report = running.stop().await;
        assert_eq!((report.sent, report.dead), (10, 0), "{mode}");
        let got = sink.got();
        let mut labelled = Vec::new();
        for id in &ids {
            let times: Vec<_> = got.iter().filter(|event| event.id == *id).collect();
            assert!(!times.is_empty(), "{mode}: lost");
            labelled.extend(times[1..].iter().map(|event| event.possible_duplicate));
        }
        assert_eq!(labelled, [true], "{mode}: the one that came twice");
        assert!(list(&turno, EventState::Dead).await.is_empty(), "{mode}");
    }
}

/// What is refused spends its attempts, alone, and is dead.
pub async fn a_refused_event_dies_alone(bed: &Bed) {
    let turno = bed.turno().await;
    for mode in MODES {
        let refuse = Act::Refuse(vec!["3".into(), "8".into()]);
        let sink = Scripted::new([refuse]);
        let ids = emit_keyed(&turno, &["a", "b", "c"], 5).await;
        let dead_before = counts(&turno).await[4];
        let running = Running::start(relay(&turno, &sink).mode(mode).max_attempts(3));
        arrived(&sink, 13).await;
        crate::eventually_async(PATIENCE, "two dead", async || {
            (counts(&turno).await[4] == dead_before + 2).then_some(())
        })
        .await;
        let report = running.stop().await;
        assert_eq!(
            (report.sent, report.refused, report.dead),
            (13, 6, 2),
            "{mode}"
        );
        for id in [ids[3], ids[8]] {
            let dead = turno.outbox().find(id).await.unwrap().unwrap();
            assert_eq!((dead.state, dead.refused), (EventState::Dead, 3), "{mode}");
            assert_eq!(dead.errors.len(), 3);
            assert_eq!(dead.errors[2].error, "nobody wants it");
        }
    }
}

/// What makes the other side break off is found among its neighbours, and charged alone.
pub async fn poison_is_found_by_halves(bed: &Bed) {
    let turno = bed.turno().await;
    let poison = Act::Poisoned(vec!["5".into(), "23".into()]);
    let sink = Scripted::new([poison]);
    let events: Vec<_> = (0..40).map(event).collect();
    let ids = emit(&turno, &events).await;
    let running = Running::start(relay(&turno, &sink).max_attempts(2).batch(40));
    settles_at(&turno, [0, 0, 0, 38, 2, 0]).await;
    let report = running.stop().await;
    assert_eq!((report.sent, report.refused, report.dead), (38, 4, 2));
    for (number, id) in ids.iter().enumerate() {
        let event = turno.outbox().find(*id).await.unwrap().unwrap();
        let poisoned = number == 5 || number == 23;
        let expected = if poisoned {
            EventState::Dead
        } else {
            EventState::Dispatched
        };
        assert_eq!(event.state, expected, "{number}");
    }
    let mut seen = std::collections::HashSet::new();
    for event in sink.got() {
        // Whatever is published again is labelled.
        assert!(
            seen.insert(event.id) || event.possible_duplicate,
            "{event:?}"
        );
    }
}

/// What a dead event does to its key is chosen for each type.
pub async fn a_dead_event_does_to_its_key_as_chosen(bed: &Bed) {
    let turno = bed.turno().await;
    let event = |kind: &str, number: u32| turno::outbox::Event::new(kind, &number).key(kind);
    let kinds = ["skip", "block", "park"];
    let events: Vec<_> = (0..3)
        .flat_map(|n| kinds.map(|kind| event(kind, n)))
        .collect();
    emit(&turno, &events).await;
    let sink = Scripted::new([Act::Refuse(vec!["0".into()])]);
    let running = Running::start(
        relay(&turno, &sink)
            .max_attempts(1)
            .on_dead(OnDead::Park)
            .on_dead_of_type("skip", OnDead::Skip)
            .on_dead_of_type("block", OnDead::Block),
    );
    settles_at(&turno, [2, 0, 0, 2, 4, 1]).await;
    running.stop().await;
    let got: Vec<_> = sink.got().into_iter().map(|event| event.kind).collect();
    assert_eq!(got, ["skip", "skip"]);
}

/// A relay that vanishes leaves what it had in flight to the next one, labelled.
pub async fn a_vanished_relay_is_followed_by_another(bed: &Bed) {
    let turno = bed.turno().await;
    for mode in MODES {
        let stuck: Arc<Stuck> = Arc::default();
        let ids = emit_keyed(&turno, &["a", "b"], 2).await;
        let lost = turno.outbox().relay(stuck.clone()).mode(mode).name("lost");
        // Short: a claim that was on its way when it vanished ends by itself.
        let lost = Running::start(lost.lease(Duration::from_secs(2)));
        stuck.began.notified().await;
        lost.vanish().await;
        if mode != Mode::Single {
            bed.expire_claims().await;
        }
        let sink = Scripted::new([]);
        let running = Running::start(relay(&turno, &sink).mode(mode));
        arrived(&sink, 4).await;
        running.stop().await;
        let got = sink.got();
        assert_eq!(got.len(), ids.len(), "{mode}");
        assert!(
            got.iter().filter(|event| event.possible_duplicate).count() >= 2,
            "{mode}"
        );
        assert!(got.iter().all(|event| event.attempt == 1), "{mode}");
    }
}

/// Of two relays that want to be alone, one works and the other waits; it takes over when the first has gone.
pub async fn one_relay_at_a_time(bed: &Bed) {
    let turno = bed.turno().await;
    let (one, two) = (Scripted::new([]), Scripted::new([]));
    let first = Running::start(relay(&turno, &one).mode(Mode::Single).name("one"));
    emit(&turno, &[event(1)]).await;
    arrived(&one, 1).await;
    let second = Running::start(
        relay(&bed.turno().await, &two)
            .mode(Mode::Single)
            .name("two"),
    );
    let more: Vec<_> = (2..50).map(event).collect();
    emit(&turno, &more).await;
    arrived(&one, 49).await;
    assert!(two.got().is_empty());
    first.stop().await;
    emit(&turno, &[event(50)]).await;
    arrived(&two, 1).await;
    second.stop().await;
    assert_eq!(two.payloads(), ["50"]);
}

/// Told to stop, a relay finishes what it has begun and gives back the rest.
pub async fn a_relay_told_to_stop_gives_back(bed: &Bed) {
    let turno = bed.turno().await;
    let events: Vec<_> = (0..100).map(event).collect();
    emit(&turno, &events).await;
    let sink = Scripted::new([]);
    let running = Running::start(relay(&turno, &sink).batch(10));
    arrived(&sink, 10).await;
    let report = running.stop().await;
    assert_eq!(report.sent as usize, sink.got().len());
    let left = counts(&turno).await;
    assert_eq!(left[2], 0, "nothing is held");
    assert_eq!(left[0] + left[3], 100);
}

/// A sink that never answers.
#[derive(Debug, Default)]
struct Stuck {
    began: tokio::sync::Notify,
}

#[async_trait::async_trait]
impl turno::sink::Sink for Stuck {
    fn name(&self) -> String {
        "a sink that never answers".into()
    }

    async fn ready(&self) -> Result<(), turno::sink::Outage> {
        Ok(())
    }

    async fn publish(&self, _: &[turno::sink::Outgoing]) -> Vec<turno::sink::Fate> {
        self.began.notify_one();
        std::future::pending().await
    }
}
