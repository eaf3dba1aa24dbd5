//! Workers that are killed repeatedly: no item is lost, and none is processed twice.

use std::time::{Duration, Instant};

use turno_testkit::eventually;
use turno_testkit::history::{Violation, inbox};
use turno_testkit::on_each_store;

use crate::LONG;
use crate::fixture::{Fixture, item};
use crate::worker::{EFFECT, ONE, Options, Worker};

const WORKERS: usize = 8;
/// Shortest interval at which a worker is killed and replaced.
const PACE: Duration = Duration::from_millis(200);

on_each_store! {
    effects_happen_exactly_once => effects_happen_exactly_once;
    /// If the completion follows the effect, an item is still completed once; its effect may be repeated.
    items_are_completed_exactly_once => items_are_completed_exactly_once;
    an_effect_whose_worker_died_is_not_repeated => |fixture: &Fixture| assert_eq!(dying(fixture, "effect"), []);
    /// The control: an effect that is not committed together with the completion is repeated.
    an_effect_beside_its_completion_is_repeated => |fixture: &Fixture| {
        assert!(dying(fixture, "plain").iter().any(|broken| broken.promise == inbox::ONCE));
    };
}

fn effects_happen_exactly_once(fixture: &Fixture) {
    assert_eq!(work(fixture, EFFECT, 20_000), []);
}

fn items_are_completed_exactly_once(fixture: &Fixture) {
    let options = Options {
        ending: "plain",
        ..EFFECT
    };
    let mut broken = work(fixture, options, 4000);
    println!("{}: {} repeated effects", fixture.name, broken.len());
    // An effect is repeated by another attempt. Nothing else is wrong.
    broken.retain(|broken| ![inbox::ONCE, inbox::CLAIMS].contains(&broken.promise));
    assert_eq!(broken, []);
}

/// Has items processed by workers that are killed one after the other, and checks the state of the store. Returns the violations.
fn work(fixture: &Fixture, options: Options, items: usize) -> Vec<Violation> {
    let ids = fixture.push_recorded((0..items).map(|number| format!("work {number}")), item);
    let ids: Vec<i64> = ids.into_iter().map(|id| id.0).collect();
    let began = Instant::now();
    let kills = kill_until_done(fixture, options, items as u64);
    println!(
        "{}: {items} items ({}) in {:?}, with {kills} kills",
        fixture.name,
        options.ending,
        began.elapsed()
    );
    assert!(kills > 3, "only {kills} workers were killed");
    let stats = fixture.stats();
    let left = stats.pending + stats.scheduled + stats.processing + stats.failed;
    assert_eq!((stats.completed, left), (items as u64, 0), "{stats:?}");
    assert!(
        fixture.completions() == ids,
        "not every item was completed once"
    );
    fixture.violations(Vec::new())
}

/// Kills one worker after the other, each time after [`PACE`] and after one more completed item. Without the second condition,
/// a slow machine kills all of them before they have begun anything.
fn kill_until_done(fixture: &Fixture, options: Options, items: u64) -> usize {
    let mut workers: Vec<Worker> = (0..WORKERS)
        .map(|_| Worker::start(fixture, options))
        .collect();
    let mut kills = 0;
    let mut completed = fixture.stats().completed;
    while completed < items {
        let next = Instant::now() + PACE;
        eventually(LONG, "the time of the next kill", || {
            (Instant::now() >= next).then_some(())
        });
        completed = fixture
            .await_stats("another item", |stats| stats.completed > completed)
            .completed;
        let victim = &mut workers[kills % WORKERS];
        victim.process().kill_9();
        *victim = Worker::begin(fixture, options);
        kills += 1;
    }
    kills
}

/// Runs a worker that dies right after its effect was committed, and another one that continues. Returns the violations.
fn dying(fixture: &Fixture, ending: &'static str) -> Vec<Violation> {
    let options = Options { ending, ..ONE };
    fixture.push_recorded(["fatal"], item);
    let first = Worker::start(fixture, options);
    let status = first.process().wait_timeout(LONG).expect("it dies");
    assert!(!status.success());
    let _second = Worker::start(fixture, options);
    fixture.await_stats("the item's end", |stats| stats.completed == 1);
    fixture.violations(Vec::new())
}
