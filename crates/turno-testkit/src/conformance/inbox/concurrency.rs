//! Many concurrent workers, on separate connections, that fail, give back and get lost.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use turno::inbox::{ClaimedItem, Inbox, ItemId};

use crate::conformance::inbox::fixtures::*;
use crate::conformance::lock::fixtures::TIMEOUT;
use crate::conformance::{TestStore, rule};

const WORKERS: usize = 4;
const ITEMS: usize = 60;
const GROUPS: usize = 5;
/// Short lease, so that claims of lost workers expire while the others work.
const SHORT: Duration = Duration::from_millis(60);

/// Expected state of all claims.
#[derive(Default)]
struct Board {
    /// Held by claims that do not end while the rule runs.
    held: HashSet<ItemId>,
    /// Completed items per group, in order; items without a group are under `None`.
    done: HashMap<Option<String>, Vec<ItemId>>,
}

impl Board {
    fn done(&self) -> usize {
        self.done.values().map(Vec::len).sum()
    }

    fn finish(&mut self, item: &ClaimedItem) {
        let group = self.done.entry(item.group.clone());
        group.or_default().push(item.claim.item);
    }

    /// Checks that these items are not held by another claim.
    fn take(&mut self, items: &[ClaimedItem]) {
        for item in items {
            assert!(self.held.insert(item.claim.item), "claimed twice: {item:?}");
            let done = self.done.values().flatten();
            assert!(
                done.into_iter().all(|done| *done != item.claim.item),
                "claimed after it was done: {item:?}"
            );
        }
    }
}

/// How long a claim lasts, and how long a worker takes before it ends the items of one.
#[derive(Clone, Copy)]
struct Pace {
    lease: Duration,
    work: Duration,
}

/// One worker: claims items, and ends them at random in one of several ways.
async fn work(inbox: Inbox, board: Arc<Mutex<Board>>, pace: Pace, rng: &mut fastrand::Rng) {
    let all = || board.lock().unwrap().done() == ITEMS;
    while !all() {
        let limit = rng.u32(1..5);
        if rng.u8(0..5) == 0 {
            // Gets lost. Its items can be claimed again when its claims expire.
            let claim = inbox.claim().limit(limit).lease(SHORT);
            claim.take().await.unwrap();
            continue;
        }
        let claim = inbox.claim().limit(limit).lease(pace.lease).wait(SHORT);
        let items = claim.take().await.unwrap();
        board.lock().unwrap().take(&items);
        tokio::time::sleep(pace.work).await;
        for item in items {
            settle(&inbox, &board, item, rng).await;
        }
    }
}

async fn settle(inbox: &Inbox, board: &Mutex<Board>, item: ClaimedItem, rng: &mut fastrand::Rng) {
    let claim = item.claim;
    // Recorded before the call: afterwards another worker may be faster.
    board.lock().unwrap().held.remove(&claim.item);
    match rng.u8(0..10) {
        0..6 => {
            board.lock().unwrap().finish(&item);
            let settled = inbox.complete(&[claim]).await.unwrap();
            assert_eq!(settled, all_done(1), "{claim} was lost");
        }
        6..8 => fail(inbox, claim, Duration::from_millis(rng.u64(0..5))).await,
        _ => {
            let settled = inbox.give_back(&[claim]).await.unwrap();
            assert_eq!(settled, all_done(1), "{claim} was lost");
        }
    }
}

/// No item is claimed twice, none is lost, and each group is in order.
#[rule]
async fn a_crowd_of_workers_does_each_item_once(test_store: &TestStore) {
    let pace = Pace {
        lease: LONG,
        work: Duration::ZERO,
    };
    crowd(test_store, pace).await.unwrap();
}

/// The control: with leases that expire during the work, workers hold the same items, and the crowd notices.
#[rule]
async fn with_leases_too_short_a_crowd_does_items_twice(test_store: &TestStore) {
    let pace = Pace {
        lease: Duration::from_millis(1),
        work: SHORT,
    };
    let noticed = crowd(test_store, pace).await.unwrap_err();
    assert!(noticed.is_panic());
}

/// Lets workers do all items, and checks that each is done once, by one worker at a time, and in the order of its group.
/// Returns the error of a worker that noticed something else.
async fn crowd(test_store: &TestStore, pace: Pace) -> Result<(), JoinError> {
    let seed = fastrand::get_seed();
    let inbox = test_store.turno().await.inbox("q");
    let items = (0..ITEMS).map(|n| {
        let item = item(&n.to_string()).max_attempts(1000);
        let item = item.priority(fastrand::u8(0..4));
        match n % (2 * GROUPS) {
            group if group < GROUPS => item.group(group.to_string()),
            _ => item,
        }
    });
    let pushed = push_all(&inbox, items).await;
    let board = Arc::new(Mutex::new(Board::default()));
    let mut tasks = JoinSet::new();
    for worker in 0..WORKERS {
        let (inbox, board) = (test_store.turno().await.inbox("q"), board.clone());
        tasks.spawn(async move {
            let mut rng = fastrand::Rng::with_seed(seed.wrapping_add(worker as u64));
            work(inbox, board, pace, &mut rng).await;
        });
    }
    let working = tokio::time::timeout(TIMEOUT, async {
        while let Some(worker) = tasks.join_next().await {
            worker?;
        }
        Ok(())
    });
    let Ok(worked) = working.await else {
        panic!("not all is done, with seed {seed}");
    };
    worked?;
    assert_eq!(counts(&inbox).await, [0, 0, 0, ITEMS as u64, 0]);
    let board = board.lock().unwrap();
    for (group, done) in &board.done {
        assert!(group.is_none() || done.is_sorted(), "{group:?}: {done:?}");
    }
    let mut all: Vec<ItemId> = board.done.values().flatten().copied().collect();
    all.sort();
    assert_eq!(all, pushed, "each once, with seed {seed}");
    Ok(())
}
