//! Pushes whose transactions commit late, and in another order than their numbers: all items are found.

use std::time::Duration;

use crate::conformance::caller_writes::InboxTx;
use crate::conformance::inbox::fixtures::*;
use crate::conformance::lock::fixtures::TIMEOUT;
use crate::conformance::{Caller, TestStore, rule};

/// Pushes in a transaction. On a store with a single writer, it commits at once.
async fn begin(
    test_store: &TestStore,
    inbox: &turno::inbox::Inbox,
    items: &[turno::inbox::Item],
) -> Late {
    let callers: &[Caller] = test_store.callers();
    let tx = test_store.open_push(callers[0], inbox, items).await;
    if test_store.is_sqlite() {
        tx.commit().await;
        return Late(None);
    }
    Late(Some(tx))
}

/// A transaction that has pushed and not committed, on a store that can have several.
struct Late(Option<InboxTx>);

impl Late {
    async fn commit(self) {
        if let Some(tx) = self.0 {
            tx.commit().await;
        }
    }
}

/// The first push commits last, when later items have long been claimed and completed.
#[rule]
async fn who_commits_last_is_found(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["0"]).await;
    let first = begin(test_store, &inbox, &[item("1"), item("1")]).await;
    let second = begin(test_store, &inbox, &[item("2")]).await;
    second.commit().await;
    let mut found = Vec::new();
    for _ in 0..2 {
        let claimed = take_soon(&inbox).await;
        found.push(text(&claimed));
        complete(&inbox, &[claimed]).await;
    }
    first.commit().await;
    for _ in 0..2 {
        found.push(text(&take_soon(&inbox).await));
    }
    found.sort();
    assert_eq!(found, ["0", "1", "1", "2"]);
    assert_eq!(take(&inbox, 10).await, []);
}

/// After the store's clock was set back by an hour, an item without a time is due, and so is one whose time comes by the new
/// clock. Setting a clock back is the same as setting all that the store has noted ahead.
#[rule]
async fn a_clock_that_was_set_back_hides_nothing_that_is_due(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push_all(&inbox, [item("before").delay(Duration::from_millis(1))]).await;
    // With room for more: then the store knows that all that was due is claimed.
    let before = crate::eventually_async(TIMEOUT, "the first item", async || {
        Some(take(&inbox, 10).await).filter(|items| !items.is_empty())
    });
    complete(&inbox, &before.await).await;
    let late = begin(test_store, &inbox, &[item("late")]).await;
    push(&inbox, &["in line"]).await;
    if !test_store.is_sqlite() {
        complete(&inbox, &[take_soon(&inbox).await]).await;
        push(&inbox, &["in line"]).await;
        test_store
            .run(
                "update turno.inbox_cursor
            set due_from = due_from + {us:3600000000},
                due_at   = due_at + {us:3600000000},
                late_at  = late_at + {us:3600000000}",
            )
            .await;
    }
    test_store
        .run("update turno.inbox_item set pushed_at = pushed_at + {us:3600000000}")
        .await;
    late.commit().await;
    push_all(&inbox, [item("timed").delay(Duration::from_millis(1))]).await;
    let mut found = Vec::new();
    for _ in 0..3 {
        found.push(text(&take_soon(&inbox).await));
    }
    found.sort();
    assert_eq!(found, ["in line", "late", "timed"]);
}

/// Many that commit in any order, while others claim all the time, are all claimed once.
#[rule]
async fn commits_in_any_order_are_found(test_store: &TestStore) {
    const MANY: usize = 8;
    let inbox = test_store.turno().await.inbox("q");
    // The transaction that creates a queue blocks the others until it commits.
    push(&inbox, &["first"]).await;
    complete(&inbox, &take(&inbox, 1).await).await;
    let mut open = Vec::new();
    let mut found = Vec::new();
    for n in 0..MANY {
        let items = [
            item(&format!("{n}/a")),
            item(&format!("{n}/b")).priority(n as u8 % 4),
        ];
        open.push(begin(test_store, &inbox, &items).await);
    }
    fastrand::shuffle(&mut open);
    while let Some(late) = open.pop() {
        late.commit().await;
        // Sometimes the newest is claimed at once, and sometimes not.
        let claimed = take(&inbox, fastrand::u32(1..4)).await;
        found.extend(ids(&claimed));
        complete(&inbox, &claimed).await;
    }
    crate::eventually_async(TIMEOUT, "all that was committed", async || {
        found.extend(ids(&take(&inbox, 100).await));
        (found.len() >= 2 * MANY).then_some(())
    })
    .await;
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 2 * MANY, "each once");
    assert_eq!(take(&inbox, 10).await, []);
}

/// A push that is rolled back blocks no other item.
#[rule]
async fn a_rolled_back_push_delays_no_claim(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    for caller in test_store.callers() {
        let tx = test_store
            .open_push(*caller, &inbox, &[item("undone")])
            .await;
        tx.roll_back().await;
        push(&inbox, &["kept"]).await;
        assert_eq!(texts(&take(&inbox, 10).await), ["kept"], "{caller:?}");
    }
}

/// An earlier item of a group that commits late never runs concurrently with a later one.
#[rule]
async fn a_late_one_of_a_group_waits_for_the_other(test_store: &TestStore) {
    late_in_group(test_store, item("1").group("g")).await;
}

/// The same if it has a priority of its own, in which nothing was claimed yet.
#[rule]
async fn a_late_one_of_another_priority_waits_for_its_group(test_store: &TestStore) {
    late_in_group(test_store, item("1").group("g").priority(3)).await;
}

async fn late_in_group(test_store: &TestStore, late: turno::inbox::Item) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["0"]).await;
    let first = begin(test_store, &inbox, &[late]).await;
    let second = begin(test_store, &inbox, &[item("2").group("g")]).await;
    second.commit().await;
    complete(&inbox, &[take_soon(&inbox).await]).await;
    let one = take_soon(&inbox).await;
    first.commit().await;
    for _ in 0..5 {
        assert_eq!(take(&inbox, 10).await, [], "{} is at work", text(&one));
    }
    complete(&inbox, std::slice::from_ref(&one)).await;
    let other = take_soon(&inbox).await;
    let mut both = [text(&one), text(&other)];
    both.sort();
    assert_eq!(both, ["1", "2"]);
    complete(&inbox, &[other]).await;
    assert_eq!(counts(&inbox).await, [0, 0, 0, 3, 0]);
}
