//! Many items behind one that is not completed: the others are processed.

use std::time::{Duration, Instant};

use turno::inbox::{ClaimedItem, ItemId};

use crate::place::{Place, item};
use crate::worker::{How, ONE, Worker};
use crate::{LONG, on_each_store};

const BEHIND: usize = 100_000;
const OTHERS: usize = 500;
/// Maximum number of items per claim.
const LIMIT: usize = 100;
/// Number of items behind it that are checked.
const FIRST: usize = 100;

on_each_store! {
    others_pass_a_stuck_group => others_pass_a_stuck_group;
}

fn others_pass_a_stuck_group(place: &Place) {
    let (worker, behind) = stuck(place);
    let others = place.push((0..OTHERS).map(|number| {
        let other = item("work");
        // Half of them in groups of two.
        if number % 2 == 0 {
            other
        } else {
            other.group(format!("group-{}", number / 4))
        }
    }));

    let began = Instant::now();
    let mut passed: Vec<ItemId> = Vec::new();
    let mut claims = 0;
    while passed.len() < OTHERS {
        let claimed = take(place, LIMIT, Duration::ZERO);
        claims += 1;
        passed.extend(claimed.iter().map(|item| item.claim.item));
        complete(place, &claimed);
        // One additional claim for the second items of the groups, which wait for the first ones, and one for the rest.
        assert!(
            claims <= OTHERS / LIMIT + 2,
            "{} others passed",
            passed.len()
        );
    }
    println!("{}: {claims} claims in {:?}", place.name, began.elapsed());
    passed.sort_unstable();
    assert!(passed == others, "others than the others passed");
    assert!(take(place, LIMIT, Duration::ZERO).is_empty());
    let stats = place.stats();
    assert_eq!((stats.pending, stats.processing), (BEHIND as u64, 1));

    // It ends after this item, and claims no more.
    worker.process().term();
    worker.go();
    assert!(worker.outcome().starts_with("written "));
    worker.report();
    for next in &behind[..FIRST] {
        let claimed = take(place, LIMIT, LONG);
        let items: Vec<ItemId> = claimed.iter().map(|item| item.claim.item).collect();
        assert_eq!(items, [*next]);
        complete(place, &claimed);
    }
}

/// Starts a worker that holds the first item of a group, and returns the items behind it.
fn stuck(place: &Place) -> (Worker, Vec<ItemId>) {
    let how = How { lease: LONG, ..ONE };
    let head = place.push([item("held").group("stuck")])[0];
    let worker = Worker::start(&place.url, how);
    assert_eq!(worker.began().0, head.0);
    let behind = place.push((0..BEHIND).map(|_| item("work").group("stuck")));
    (worker, behind)
}

fn take(place: &Place, limit: usize, wait: Duration) -> Vec<ClaimedItem> {
    let limit = u32::try_from(limit).unwrap();
    let claim = place.inbox().claim().limit(limit).lease(LONG).wait(wait);
    place.runtime.block_on(claim.take()).unwrap()
}

fn complete(place: &Place, items: &[ClaimedItem]) {
    let claims: Vec<_> = items.iter().map(|item| item.claim).collect();
    let settled = place.runtime.block_on(place.inbox().complete(&claims));
    let settled = settled.unwrap();
    assert_eq!(
        (settled.done as usize, settled.stale.len()),
        (items.len(), 0)
    );
}
