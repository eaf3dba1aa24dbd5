//! Many items behind one that is not completed: the others are processed.

use std::time::{Duration, Instant};

use turno::inbox::{ClaimedItem, ItemId};

use turno_testkit::on_each_store;

use crate::LONG;
use crate::fixture::{Fixture, item};
use crate::worker::{ONE, Options, Worker};

const BEHIND: usize = 100_000;
const OTHERS: usize = 500;
/// Maximum number of items per claim.
const LIMIT: usize = 100;
/// Number of items behind it that are checked.
const FIRST: usize = 100;

on_each_store! {
    others_pass_a_stuck_group => others_pass_a_stuck_group;
    /// The control: items of the stuck group itself do not pass.
    the_stuck_group_does_not_pass => the_stuck_group_does_not_pass;
}

fn others_pass_a_stuck_group(fixture: &Fixture) {
    let (worker, behind) = stuck(fixture, BEHIND);
    let others = fixture.push((0..OTHERS).map(|number| {
        let other = item("work");
        // Half of them in groups of two.
        if number % 2 == 0 {
            other
        } else {
            other.group(format!("group-{}", number / 4))
        }
    }));

    let began = Instant::now();
    assert!(
        passed(fixture) == others,
        "not all, or others than the others passed"
    );
    println!("{}: passed in {:?}", fixture.name, began.elapsed());
    assert!(take(fixture, LIMIT, Duration::ZERO).is_empty());
    let stats = fixture.stats();
    assert_eq!((stats.pending, stats.processing), (BEHIND as u64, 1));

    // It ends after this item, and claims no more.
    worker.process().term();
    worker.go();
    assert!(worker.outcome().starts_with("written "));
    worker.report();
    for next in &behind[..FIRST] {
        let claimed = take(fixture, LIMIT, LONG);
        let items: Vec<ItemId> = claimed.iter().map(|item| item.claim.item).collect();
        assert_eq!(items, [*next]);
        complete(fixture, &claimed);
    }
}

fn the_stuck_group_does_not_pass(fixture: &Fixture) {
    let (_worker, _) = stuck(fixture, OTHERS);
    assert_eq!(passed(fixture), []);
}

/// Completes what can be claimed with as many claims as the others need. Returns the items, in the order of their ids.
fn passed(fixture: &Fixture) -> Vec<ItemId> {
    let mut passed: Vec<ItemId> = Vec::new();
    // One additional claim for the second items of the groups, which wait for the first ones, and one for the rest.
    for _ in 0..OTHERS / LIMIT + 2 {
        let claimed = take(fixture, LIMIT, Duration::ZERO);
        passed.extend(claimed.iter().map(|item| item.claim.item));
        complete(fixture, &claimed);
    }
    passed.sort_unstable();
    passed
}

/// Starts a worker that holds the first item of a group, and returns the items behind it.
fn stuck(fixture: &Fixture, behind: usize) -> (Worker, Vec<ItemId>) {
    let options = Options { lease: LONG, ..ONE };
    let head = fixture.push([item("held").group("stuck")])[0];
    let worker = Worker::start(fixture, options);
    assert_eq!(worker.began().0, head.0);
    let behind = fixture.push((0..behind).map(|_| item("work").group("stuck")));
    (worker, behind)
}

fn take(fixture: &Fixture, limit: usize, wait: Duration) -> Vec<ClaimedItem> {
    let limit = u32::try_from(limit).unwrap();
    let claim = fixture.inbox().claim().limit(limit).lease(LONG).wait(wait);
    fixture.runtime.block_on(claim.take()).unwrap()
}

fn complete(fixture: &Fixture, items: &[ClaimedItem]) {
    let claims: Vec<_> = items.iter().map(|item| item.claim).collect();
    let settled = fixture.runtime.block_on(fixture.inbox().complete(&claims));
    let settled = settled.unwrap();
    assert_eq!(
        (settled.done as usize, settled.stale.len()),
        (items.len(), 0)
    );
}
