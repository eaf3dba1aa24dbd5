//! Workers that are killed repeatedly: no item is lost, and none is processed twice.

use std::time::{Duration, Instant};

use turno_testkit::eventually;
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
    an_effect_whose_worker_died_is_not_repeated => |fixture: &Fixture| assert_eq!(dying(fixture, "effect"), [1]);
    /// The control: an effect that is not committed together with the completion is repeated.
    an_effect_beside_its_completion_is_repeated => |fixture: &Fixture| assert_eq!(dying(fixture, "plain"), [1, 2]);
}

fn effects_happen_exactly_once(fixture: &Fixture) {
    const ITEMS: usize = 20_000;
    let ids = work(fixture, EFFECT, ITEMS);
    let mut items: Vec<i64> = fixture.effects().iter().map(|effect| effect.item).collect();
    items.sort_unstable();
    assert_eq!(items.len(), ITEMS);
    assert!(items == ids, "not every item has one effect");
}

fn items_are_completed_exactly_once(fixture: &Fixture) {
    const ITEMS: usize = 4000;
    let options = Options {
        ending: "plain",
        ..EFFECT
    };
    let ids = work(fixture, options, ITEMS);
    let mut items: Vec<i64> = fixture.effects().iter().map(|effect| effect.item).collect();
    println!("{}: {} effects of {ITEMS} items", fixture.name, items.len());
    items.sort_unstable();
    items.dedup();
    assert!(items == ids, "not every item has an effect");
}

/// Has items processed by workers that are killed one after the other, and checks the state of the store. Returns their ids.
fn work(fixture: &Fixture, options: Options, items: usize) -> Vec<i64> {
    let ids = fixture.push((0..items).map(|number| item(&format!("work {number}"))));
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
    ids
}

/// Kills one worker after the other, each time after [`PACE`] and after one more completed item. Without the second condition,
/// a slow machine kills all of them before they have begun anything.
fn kill_until_done(fixture: &Fixture, options: Options, items: u64) -> usize {
    let mut workers: Vec<Worker> = (0..WORKERS)
        .map(|_| Worker::start(&fixture.url, options))
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
        *victim = Worker::begin(&fixture.url, options);
        kills += 1;
    }
    kills
}

/// Runs a worker that dies right after its effect was committed, and another one that continues. Returns the attempts
/// that had an effect.
fn dying(fixture: &Fixture, ending: &'static str) -> Vec<i64> {
    let options = Options { ending, ..ONE };
    fixture.push([item("fatal")]);
    let first = Worker::start(&fixture.url, options);
    let status = first.process().wait_timeout(LONG).expect("it dies");
    assert!(!status.success());
    let _second = Worker::start(&fixture.url, options);
    fixture.await_stats("the item's end", |stats| stats.completed == 1);
    let effects = fixture.effects();
    effects.iter().map(|effect| effect.attempt).collect()
}
