//! Order within a group, with attempts that fail and workers that are killed.

use turno::inbox::Item;

use turno_testkit::history::{Violation, inbox};
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
        let grouped = |payload: &str| item(payload).group(payload.rsplit(' ').next().unwrap());
        assert_eq!(run(fixture, grouped, BETWEEN), []);
    };
    /// The control: without their groups, the same items are not in order.
    without_a_group_there_is_no_order => |fixture: &Fixture| {
        let violations = run(fixture, item, ITEMS);
        assert!(violations.iter().any(|broken| broken.promise == inbox::ORDER));
    };
}

/// Processes items of all groups concurrently, and kills a worker after every `between` completed items. Returns the violations.
fn run(fixture: &Fixture, make: impl Fn(&str) -> Item, between: u64) -> Vec<Violation> {
    // Items of one group are pushed one after the other, so that their order is known.
    for number in 0..EACH {
        let payload = |group| format!("flaky {number}-{group} prestamo-{group}");
        fixture.push_recorded((0..GROUPS).map(payload), &make);
    }
    let mut workers: Vec<Worker> = (0..WORKERS)
        .map(|_| Worker::start(fixture, EFFECT))
        .collect();
    let mut kills = 0;
    let mut next = between;
    while next < ITEMS {
        fixture.await_stats("the workers to go on", |stats| stats.completed >= next);
        let victim = &mut workers[kills % WORKERS];
        victim.process().kill_9();
        *victim = Worker::begin(fixture, EFFECT);
        kills += 1;
        next += between;
    }
    fixture.await_stats("all items", |stats| stats.completed == ITEMS);
    println!("{}: {kills} kills", fixture.name);
    let effects = fixture.effects();
    assert!(
        effects.iter().any(|effect| effect.attempt > 1),
        "no attempt failed"
    );
    fixture.violations(Vec::new())
}
