//! Statistics: exact after any operations.

use std::time::Duration;

use turno::inbox::{ClaimedItem, Inbox, ItemId, ItemState};

use crate::conformance::inbox::fixtures::*;
use crate::conformance::lock::fixtures::{TIMEOUT, secs};
use crate::conformance::{TestStore, rule};

/// What the statistics and the list of a queue say that has no items at all.
async fn assert_missing(inbox: &Inbox) {
    let list = async |after| inbox.list(ItemState::Pending, after, 10).await.map(drop);
    for asked in [
        inbox.stats().await.map(drop),
        list(None).await,
        list(Some(ItemId(7))).await,
    ] {
        let error = asked.unwrap_err();
        assert!(error.is_no_queue(), "{error:?}");
        assert!(error.to_string().contains(inbox.queue()), "{error}");
    }
}

/// A queue to which nothing was ever pushed is reported as missing, and not with zeros: its name may be mistyped.
#[rule]
async fn a_queue_without_a_push_is_missing(test_store: &TestStore) {
    let turno = test_store.turno().await;
    assert_missing(&turno.inbox("mial")).await;
    assert_eq!(turno.inbox_stats("").await.unwrap(), []);
    push(&turno.inbox("mial/2"), &["x"]).await;
    assert_missing(&turno.inbox("mial")).await;
    assert_missing(&turno.inbox("mial/")).await;
    // Its items may all be gone: the queue stays.
    let inbox = turno.inbox("mail");
    push(&inbox, &["x"]).await;
    set_aside(&inbox, take_one(&inbox).await.claim).await;
    assert_eq!(inbox.discard(None).await.unwrap(), 1);
    assert_eq!(inbox.stats().await.unwrap().total, 0);
    assert_eq!(inbox.list(ItemState::Pending, None, 10).await.unwrap(), []);
}

/// A claim on such a queue finds nothing, or waits for the first push; and it does not make the queue.
#[rule]
async fn a_claim_needs_no_push_before_it(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let inbox = turno.inbox("mail");
    assert_eq!(inbox.claim().take().await.unwrap(), []);
    assert_eq!(inbox.requeue(None).await.unwrap(), 0);
    assert_missing(&inbox).await;
    let waiting = {
        let claim = turno.inbox("mail").claim().wait(TIMEOUT);
        tokio::spawn(async move { claim.take().await.unwrap() })
    };
    push(&other.inbox("mail"), &["1"]).await;
    let items = waiting.await.unwrap();
    assert_eq!(items.len(), 1);
    inbox.complete(&[items[0].claim]).await.unwrap();
    assert_eq!(counts(&inbox).await, [0, 0, 0, 1, 0]);
}

/// Queues are listed by name, all or those with a prefix. The prefix is not a pattern.
#[rule]
async fn queues_are_listed_by_their_beginning(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for queue in ["a/1", "b", "a_1", "a/2", "a", "ab", "á"] {
        push(&turno.inbox(queue), &["x"]).await;
    }
    let named = async |prefix: &str| {
        let stats = turno.inbox_stats(prefix).await.unwrap();
        let names: Vec<String> = stats.into_iter().map(|stats| stats.queue).collect();
        names.join(" ")
    };
    assert_eq!(named("").await, "a a/1 a/2 a_1 ab b á");
    assert_eq!(named("a").await, "a a/1 a/2 a_1 ab");
    assert_eq!(named("a/").await, "a/1 a/2");
    assert_eq!(named("a_").await, "a_1");
    assert_eq!(named("%").await, "");
}

/// The age of the oldest claimable item; none if no item is pending.
#[rule]
async fn the_oldest_pending_item_is_known(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    let oldest = async || inbox.stats().await.unwrap().oldest_pending;
    push_all(&inbox, [item("later").delay(LATER)]).await;
    assert_eq!(oldest().await, None);
    push(&inbox, &["1"]).await;
    let wait = Duration::from_millis(30);
    crate::eventually_async(TIMEOUT, "an age", async || {
        oldest().await.is_some_and(|age| age >= wait).then_some(())
    })
    .await;
    let held = take_one(&inbox).await;
    assert_eq!(oldest().await, None);
    inbox.give_back(&[held.claim]).await.unwrap();
    let age = oldest().await.expect("it is pending again");
    assert!(age < secs(10), "since it was given back: {age:?}");
}

/// An item that waits for its group is pending, and may be the oldest.
#[rule]
async fn who_waits_for_its_group_is_pending(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push_all(&inbox, ["1", "2"].map(|text| item(text).group("g"))).await;
    let held = take_one(&inbox).await;
    let stats = inbox.stats().await.unwrap();
    assert_eq!((stats.pending, stats.processing), (1, 1));
    assert!(stats.oldest_pending.is_some());
    complete(&inbox, &[held]).await;
    assert_eq!(counts(&inbox).await, [1, 0, 0, 1, 0]);
}

/// Scheduled items become pending by time alone.
#[rule]
async fn time_makes_items_pending(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    let soon = [1, 2, 3].map(|n| item("x").delay(Duration::from_millis(100 * n)));
    push_all(&inbox, soon).await;
    crate::eventually_async(TIMEOUT, "all to be due", async || {
        let [pending, scheduled, ..] = counts(&inbox).await;
        assert_eq!(pending + scheduled, 3);
        (pending == 3).then_some(())
    })
    .await;
    assert_eq!(take(&inbox, 10).await.len(), 3);
    assert_eq!(counts(&inbox).await, [0, 0, 3, 0, 0]);
}

/// Makes one random change. Claimed items are kept in `held`, whose claims may be stale.
async fn change(test_store: &TestStore, inbox: &Inbox, held: &mut Vec<ClaimedItem>) {
    let any = |held: &mut Vec<ClaimedItem>| {
        let many = fastrand::usize(0..=held.len().min(3));
        let some: Vec<ClaimedItem> = held.drain(..many).collect();
        claims(&some)
    };
    match fastrand::u32(0..100) {
        0..30 => {
            let items = (0..fastrand::usize(1..6)).map(|_| random_item());
            inbox.push_many(items).await.unwrap();
        }
        30..60 => {
            held.extend(take(inbox, fastrand::u32(1..5)).await);
            fastrand::shuffle(held);
        }
        60..72 => drop(inbox.complete(&any(held)).await.unwrap()),
        72..84 => {
            let pauses = [Duration::ZERO, LATER];
            let failures = any(held).into_iter().map(|claim| {
                let retry_in = pauses[fastrand::usize(0..2)];
                failure(claim, Some(retry_in))
            });
            let failures: Vec<_> = failures.collect();
            inbox.fail(&failures).await.unwrap();
        }
        84..90 => drop(inbox.give_back(&any(held)).await.unwrap()),
        90..94 => drop(inbox.requeue(None).await.unwrap()),
        94..96 => drop(inbox.reset(Duration::ZERO).await.unwrap()),
        96..98 => test_store.expire_claims().await,
        // Extended whether settled or not: at worst the claim is stale.
        _ => drop(inbox.extend(&claims(held), LONG).await.unwrap()),
    }
}

fn random_item() -> turno::inbox::Item {
    let mut item = item("x")
        .priority(fastrand::u8(0..4))
        .max_attempts(fastrand::u16(1..4));
    if fastrand::u8(0..4) == 0 {
        item = item.delay(LATER);
    }
    if fastrand::u8(0..3) == 0 {
        item = item.unique_key(fastrand::u8(0..30).to_string());
    }
    if fastrand::bool() {
        item = item.group(fastrand::u8(0..4).to_string());
    }
    item
}

/// After any changes, the counters match the lists.
#[rule]
async fn the_counters_are_what_the_lists_show(test_store: &TestStore) {
    let seed = fastrand::get_seed();
    let inbox = test_store.turno().await.inbox("q");
    let mut held = Vec::new();
    for step in 0..150 {
        change(test_store, &inbox, &mut held).await;
        if step % 5 == 0 {
            let mut shown = [0; 5];
            for (count, state) in shown.iter_mut().zip(ItemState::ALL) {
                *count = list(&inbox, state).await.len() as u64;
            }
            assert_eq!(counts(&inbox).await, shown, "step {step} of seed {seed}");
        }
    }
}

/// Statistics of a queue that is being changed are consistent at each moment.
#[rule]
async fn the_counters_add_up_under_load(test_store: &TestStore) {
    const ITEMS: usize = 60;
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["x"; ITEMS]).await;
    let working = tokio::spawn({
        let inbox = test_store.turno().await.inbox("q");
        async move {
            loop {
                let some = take(&inbox, 4).await;
                if some.is_empty() {
                    break;
                }
                complete(&inbox, &some).await;
            }
        }
    });
    crate::eventually_async(TIMEOUT, "all to be completed", async || {
        let stats = inbox.stats().await.unwrap();
        assert_eq!(stats.total, ITEMS as u64, "{stats:?}");
        (stats.completed == ITEMS as u64).then_some(())
    })
    .await;
    working.await.unwrap();
}
