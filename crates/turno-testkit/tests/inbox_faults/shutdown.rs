//! A worker that gets SIGTERM while it is processing items.

use std::time::{Duration, Instant};

use turno::inbox::ItemState;
use turno_testkit::eventually;
use turno_testkit::on_each_store;

use crate::LONG;
use crate::fixture::{Fixture, item};
use crate::worker::{EFFECT, Options, Report, Worker};

const BEGUN: u64 = 2;
const UNBEGUN: u64 = 20;
/// Promised maximum.
const AT_ONCE: Duration = Duration::from_secs(1);
/// Claims do not expire during the test.
const OPTIONS: Options = Options {
    lease: LONG,
    concurrency: BEGUN as usize,
    prefetch: UNBEGUN as usize,
    ..EFFECT
};

on_each_store! {
    it_gives_back_what_it_has_not_begun => it_gives_back_what_it_has_not_begun;
    /// The control: a worker that is killed gives nothing back.
    killed_it_gives_back_nothing => killed_it_gives_back_nothing;
}

fn it_gives_back_what_it_has_not_begun(fixture: &Fixture) {
    let worker = busy(fixture);
    worker.process().term();
    eventually(AT_ONCE, "what was not begun to be given back", || {
        let stats = fixture.stats();
        ((stats.pending, stats.processing) == (UNBEGUN, BEGUN)).then_some(())
    });
    let pending = fixture.list(ItemState::Pending);
    assert_eq!(pending.len() as u64, UNBEGUN);
    for item in &pending {
        assert_eq!((item.attempts, item.abandoned), (0, 0), "{item:?}");
        assert!(item.errors.is_empty(), "{item:?}");
    }
    // Any worker can claim them immediately, and their attempt is the first.
    let claim = fixture.inbox().claim().limit(100);
    let claimed = fixture.runtime.block_on(claim.take()).unwrap();
    assert_eq!(claimed.len() as u64, UNBEGUN);
    assert!(claimed.iter().all(|item| item.attempt == 1), "{claimed:?}");

    for _ in 0..BEGUN {
        worker.go();
    }
    for _ in 0..BEGUN {
        assert!(worker.outcome().starts_with("written "));
    }
    // The items that it has completed were completed by their handlers.
    let report = Report {
        completed: 0,
        failed: 0,
        given_back: UNBEGUN,
        lost: 0,
    };
    assert_eq!(worker.report(), report);
    assert_eq!(fixture.effects().len() as u64, BEGUN);
    let stats = fixture.stats();
    assert_eq!((stats.completed, stats.processing), (BEGUN, UNBEGUN));
}

fn killed_it_gives_back_nothing(fixture: &Fixture) {
    let worker = busy(fixture);
    worker.process().kill_9();
    let end = Instant::now() + AT_ONCE;
    eventually(LONG, "the time in which it would have been", || {
        assert_eq!(fixture.stats().processing, BEGUN + UNBEGUN);
        (Instant::now() >= end).then_some(())
    });
}

/// Starts a worker that has items in flight.
fn busy(fixture: &Fixture) -> Worker {
    let items = BEGUN + UNBEGUN;
    fixture.push((0..items).map(|number| item(&format!("held {number}"))));
    let worker = Worker::start(fixture, OPTIONS);
    for _ in 0..BEGUN {
        assert_eq!(worker.began().1, 1);
    }
    fixture.await_stats("full hands", |stats| stats.processing == items);
    worker
}
