//! The caller's own transaction: items and completions exist if and only if it commits.

use std::time::Duration;

use turno::inbox::{Inbox, ItemState};

use crate::conformance::caller_writes::Write;
use crate::conformance::inbox::fixtures::*;
use crate::conformance::lock::fixtures::TIMEOUT;
use crate::conformance::{Caller, TestStore, rule};

/// Completes held items, in a transaction that stays open.
async fn open_complete(
    test_store: &TestStore,
    caller: Caller,
    inbox: &Inbox,
    held: &[turno::inbox::ClaimedItem],
) -> turno::Result<crate::conformance::caller_writes::InboxTx> {
    let write = Write::Complete(inbox.clone(), claims(held));
    test_store.open_inbox(caller, write).await
}

/// Items that are pushed in a transaction are visible to no other caller before the commit, and then to all, as they were
/// pushed.
#[rule]
async fn a_push_commits_with_its_transaction(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for caller in test_store.callers() {
        let inbox = turno.inbox(format!("{caller:?}"));
        let items = [
            item("a").unique_key("k").priority(2).max_attempts(9),
            item("b").group("g"),
            item("c").delay(LATER),
            item("d").at(turno::clock::machine() + LATER),
        ];
        let tx = test_store.open_push(*caller, &inbox, &items).await;
        assert_eq!(take(&inbox, 10).await, [], "{caller:?}");
        assert_eq!(counts(&inbox).await, [0; 5], "{caller:?}");
        let pushed = tx.commit().await;
        assert!(pushed.iter().all(|item| !item.duplicate), "{caller:?}");
        assert!(pushed.is_sorted_by_key(|item| item.id), "{caller:?}");
        assert_eq!(counts(&inbox).await, [2, 2, 0, 0, 0], "{caller:?}");
        let claimed = take(&inbox, 10).await;
        assert_eq!(texts(&claimed), ["b", "a"], "{caller:?}");
        assert_eq!(claimed[0].group.as_deref(), Some("g"));
        assert_eq!(claimed[1].key.as_deref(), Some("k"));
        assert_eq!((claimed[1].priority, claimed[1].max_attempts), (2, 9));
        assert_eq!(ids(&claimed), [pushed[1].id, pushed[0].id]);
        complete(&inbox, &claimed).await;
    }
}

/// A rollback leaves no item, no count, and no key.
#[rule]
async fn a_push_is_undone_with_its_transaction(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for caller in test_store.callers() {
        let inbox = turno.inbox(format!("{caller:?}"));
        let items = [item("a").unique_key("k"), item("b").delay(LATER)];
        let tx = test_store.open_push(*caller, &inbox, &items).await;
        tx.roll_back().await;
        assert_eq!(counts(&inbox).await, [0; 5], "{caller:?}");
        let pushed = inbox.push(item("again").unique_key("k")).await.unwrap();
        assert!(!pushed.duplicate, "{caller:?}");
        assert_eq!(texts(&take(&inbox, 10).await), ["again"], "{caller:?}");
    }
}

/// Unique keys work in a transaction as they do outside.
#[rule]
async fn a_push_in_a_transaction_knows_keys(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for caller in test_store.callers() {
        let inbox = turno.inbox(format!("{caller:?}"));
        let known = inbox.push(item("a").unique_key("a")).await.unwrap();
        let items = [
            item("x").unique_key("a"),
            item("b").unique_key("b"),
            item("y").unique_key("b"),
        ];
        let pushed = test_store
            .open_push(*caller, &inbox, &items)
            .await
            .commit()
            .await;
        let duplicates: Vec<bool> = pushed.iter().map(|item| item.duplicate).collect();
        assert_eq!(duplicates, [true, false, true], "{caller:?}");
        assert_eq!(pushed[0].id, known.id);
        assert_eq!(pushed[2].id, pushed[1].id);
        assert_eq!(texts(&take(&inbox, 10).await), ["a", "b"], "{caller:?}");
    }
}

/// Invalid arguments are rejected in a transaction too, with their field named.
#[rule]
async fn a_push_in_a_transaction_is_checked(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    for caller in test_store.callers() {
        let write = Write::Push(inbox.clone(), vec![item("a"), item("b").priority(4)]);
        let error = test_store.open_inbox(*caller, write).await.err().unwrap();
        assert_eq!(error.field(), Some("priority"), "{caller:?}: {error}");
    }
    assert_eq!(test_store.stored_items().await, 0);
}

/// A push in a transaction wakes a waiting worker.
#[rule]
async fn a_committed_push_reaches_a_waiting_claim(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for caller in test_store.callers() {
        let inbox = turno.inbox(format!("{caller:?}"));
        let waiting = tokio::spawn(inbox.claim().lease(LONG).wait(TIMEOUT).take());
        let tx = test_store.open_push(*caller, &inbox, &[item("a")]).await;
        tx.commit().await;
        let claimed = waiting.await.unwrap().unwrap();
        assert_eq!(texts(&claimed), ["a"], "{caller:?}");
    }
}

/// A completion in a transaction takes effect at the commit, and the next item of its group can be claimed.
#[rule]
async fn a_completion_commits_with_its_transaction(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for caller in test_store.callers() {
        let inbox = turno.inbox(format!("{caller:?}"));
        push_all(&inbox, ["1", "2"].map(|text| item(text).group("g"))).await;
        push_all(&inbox, [item("3").unique_key("k").priority(3)]).await;
        let held = take(&inbox, 10).await;
        assert_eq!(texts(&held), ["1", "3"]);
        let tx = open_complete(test_store, *caller, &inbox, &held)
            .await
            .unwrap();
        assert_eq!(counts(&inbox).await, [1, 0, 2, 0, 0], "{caller:?}");
        tx.commit().await;
        assert_eq!(counts(&inbox).await, [1, 0, 0, 2, 0], "{caller:?}");
        let done = list(&inbox, ItemState::Completed).await;
        assert!(done.iter().all(|item| item.worker.as_deref() == Some("w")));
        let known = inbox.push(item("x").unique_key("k")).await.unwrap();
        assert!(known.duplicate, "{caller:?}");
        assert_eq!(texts(&take(&inbox, 10).await), ["2"], "{caller:?}");
    }
}

/// After a rollback, the items are claimed as before.
#[rule]
async fn a_completion_is_undone_with_its_transaction(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for caller in test_store.callers() {
        let inbox = turno.inbox(format!("{caller:?}"));
        push_all(&inbox, ["1", "2"].map(|text| item(text).group("g"))).await;
        let held = take(&inbox, 10).await;
        let tx = open_complete(test_store, *caller, &inbox, &held)
            .await
            .unwrap();
        tx.roll_back().await;
        assert_eq!(counts(&inbox).await, [1, 0, 1, 0, 0], "{caller:?}");
        assert_eq!(take(&inbox, 10).await, [], "{caller:?}");
        complete(&inbox, &held).await;
    }
}

/// A claim that is stale fails the transaction as lost, and nothing is applied.
#[rule]
async fn a_stale_completion_fails_its_transaction(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for caller in test_store.callers() {
        let inbox = turno.inbox(format!("{caller:?}"));
        push(&inbox, &["1", "2"]).await;
        let stale = take(&inbox, 1).await;
        test_store.expire_claims().await;
        let held = take(&inbox, 2).await;
        let both = [held[1].clone(), stale[0].clone()];
        let error = open_complete(test_store, *caller, &inbox, &both)
            .await
            .err();
        assert!(error.expect("refused").is_lost(), "{caller:?}");
        assert_eq!(counts(&inbox).await, [0, 0, 2, 0, 0], "{caller:?}");
        let twice = [held[0].clone(), held[0].clone()];
        let error = open_complete(test_store, *caller, &inbox, &twice)
            .await
            .err();
        assert!(error.expect("refused").is_lost(), "{caller:?}");
        complete(&inbox, &held).await;
    }
}

/// While a transaction that completes an item is open, the item cannot be taken over, even after the claim's expiry.
#[rule]
async fn an_item_being_completed_is_not_taken_over(test_store: &TestStore) {
    let (turno, rival) = (test_store.turno().await, test_store.turno().await);
    for caller in test_store.callers() {
        for commits in [true, false] {
            let queue = format!("{caller:?}/{commits}");
            let (inbox, theirs) = (turno.inbox(&queue), rival.inbox(&queue));
            push(&inbox, &["1"]).await;
            // A short lease, because on some stores times cannot be shifted while the transaction is open.
            let claim = inbox.claim().lease(Duration::from_millis(150));
            let held = claim.take().await.unwrap();
            let tx = open_complete(test_store, *caller, &inbox, &held)
                .await
                .unwrap();
            crate::eventually_async(TIMEOUT, "the claim's end", async || {
                (turno::clock::machine() > held[0].expires_at).then_some(())
            })
            .await;
            let taking = tokio::spawn(async move { take(&theirs, 1).await });
            if commits {
                tx.commit().await;
                assert_eq!(taking.await.unwrap(), [], "{queue}");
                assert_eq!(counts(&inbox).await, [0, 0, 0, 1, 0], "{queue}");
            } else {
                tx.roll_back().await;
                let taken = match taking.await.unwrap().pop() {
                    Some(taken) => taken,
                    None => take_soon(&inbox).await,
                };
                assert_eq!(taken.attempt, 2, "{queue}");
            }
        }
    }
}
