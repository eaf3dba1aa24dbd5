//! Order within a group, with attempts that fail and workers that are killed.

use std::collections::HashMap;

use turno::inbox::{Item, ItemId};

use turno_testkit::on_each_store;

use crate::fixture::{Fixture, item};
use crate::worker::{EFFECT, Worker};

const GROUPS: usize = 50;
const EACH: usize = 40;
const ITEMS: u64 = (GROUPS * EACH) as u64;
const WORKERS: usize = 4;
/// Number of completed items between two kills.
const BETWEEN: u64 = 250;

on_each_store! {
    a_group_is_done_in_order => |fixture: &Fixture| {
        let done = run(fixture, |item, group| item.group(group), BETWEEN);
        for (group, done) in done {
            assert_eq!(done.len(), EACH, "{group}");
            assert!(done.is_sorted(), "{group} was done in the order {done:?}");
        }
    };
    /// The control: without their groups, the same items are not in order.
    without_a_group_there_is_no_order => |fixture: &Fixture| {
        let done = run(fixture, |item, _| item, ITEMS);
        assert!(done.values().any(|done| !done.is_sorted()));
    };
}

/// Processes items of all groups concurrently, and kills a worker after every `between` completed items. Returns the
/// completed items of each group, in order.
fn run(
    fixture: &Fixture,
    put: fn(Item, String) -> Item,
    between: u64,
) -> HashMap<String, Vec<ItemId>> {
    let items = (0..GROUPS * EACH).map(|number| {
        let group = format!("prestamo-{}", number % GROUPS);
        put(item(&format!("flaky {group}")), group)
    });
    fixture.push(items);
    let mut workers: Vec<Worker> = (0..WORKERS)
        .map(|_| Worker::start(&fixture.url, EFFECT))
        .collect();
    let mut kills = 0;
    let mut next = between;
    while next < ITEMS {
        fixture.await_stats("the workers to go on", |stats| stats.completed >= next);
        let victim = &mut workers[kills % WORKERS];
        victim.process().kill_9();
        *victim = Worker::begin(&fixture.url, EFFECT);
        kills += 1;
        next += between;
    }
    fixture.await_stats("all items", |stats| stats.completed == ITEMS);
    println!("{}: {kills} kills", fixture.name);

    let effects = fixture.effects();
    assert_eq!(effects.len() as u64, ITEMS);
    assert!(
        effects.iter().any(|effect| effect.attempt > 1),
        "no attempt failed"
    );
    let mut done: HashMap<String, Vec<ItemId>> = HashMap::new();
    for effect in effects {
        let group = effect.payload.replace("flaky ", "");
        done.entry(group).or_default().push(ItemId(effect.item));
    }
    done
}
