//! Lists of a queue's items, for operators.

use turno::inbox::{Inbox, ItemId, ItemState};

use crate::conformance::inbox::fixtures::*;
use crate::conformance::{TestStore, rule};

/// Returns the ids of a state, in pages of `size`.
async fn in_pages(inbox: &Inbox, state: ItemState, size: u32) -> Vec<ItemId> {
    let mut all: Vec<ItemId> = Vec::new();
    loop {
        let page = inbox.list(state, all.last().copied(), size).await.unwrap();
        assert!(page.len() <= size as usize);
        assert!(page.iter().all(|item| item.state == state));
        if page.is_empty() {
            return all;
        }
        all.extend(page.iter().map(|item| item.id));
    }
}

/// Creates the same number of items in each state, in turns, and returns them by state.
async fn some_of_each(inbox: &Inbox, each: usize) -> Vec<(ItemState, Vec<ItemId>)> {
    let mut by_state: Vec<_> = ItemState::ALL.map(|state| (state, Vec::new())).into();
    for _ in 0..each {
        for (state, ids) in &mut by_state {
            let priority = fastrand::u8(0..4);
            let item = item("x").priority(priority);
            let id = match state {
                ItemState::Scheduled => push_all(inbox, [item.delay(LATER)]).await[0],
                _ => push_all(inbox, [item]).await[0],
            };
            ids.push(id);
        }
    }
    // All claimable items are claimed, and then each is brought to its state.
    for claimed in take(inbox, 1000).await {
        let place = by_state
            .iter()
            .find(|(_, ids)| ids.contains(&claimed.claim.item));
        match place.unwrap().0 {
            ItemState::Pending => drop(inbox.give_back(&[claimed.claim]).await.unwrap()),
            ItemState::Completed => complete(inbox, &[claimed]).await,
            ItemState::Failed => set_aside(inbox, claimed.claim).await,
            _ => {}
        }
    }
    by_state
}

/// Each item is in the list of its state, once, in order, for any page size.
#[rule]
async fn pages_of_items_are_complete(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let inbox = turno.inbox("q");
    push(&turno.inbox("another"), &["x"]).await;
    let by_state = some_of_each(&inbox, 5).await;
    for (state, mut expected) in by_state {
        if state == ItemState::Completed {
            expected.reverse();
        }
        for size in [1, 2, 5, 100] {
            let listed = in_pages(&inbox, state, size).await;
            assert_eq!(listed, expected, "{state} by {size}");
        }
    }
    for state in ItemState::ALL {
        assert_eq!(listed(&turno.inbox("unknown"), state).await, []);
    }
}

/// Items that were completed by one call are listed one by one, also those with a key.
#[rule]
async fn pages_of_items_completed_together_are_complete(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push_all(&inbox, (0..9).map(|_| item("x"))).await;
    push_all(&inbox, [item("x").unique_key("k")]).await;
    push_all(&inbox, (0..5).map(|_| item("x"))).await;
    let mut expected = Vec::new();
    for many in [4, 1, 10] {
        let claimed = take(&inbox, many).await;
        expected.extend(ids(&claimed));
        complete(&inbox, &claimed).await;
    }
    expected.reverse();
    for size in [1, 2, 3, 5, 100] {
        let listed = in_pages(&inbox, ItemState::Completed, size).await;
        assert_eq!(listed, expected, "by {size}");
    }
    assert_eq!(counts(&inbox).await, [0, 0, 0, 15, 0]);
}

/// Each state's list has all data of an item, and the time since which it is in that state.
#[rule]
async fn a_list_tells_everything(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    let whole = || item("x").group("g").priority(2);
    push_all(&inbox, [whole().unique_key("k")]).await;
    let shown = only(&inbox, ItemState::Pending).await;
    assert_eq!(shown.payload.as_deref(), Some("\"x\""));
    assert_eq!(shown.key.as_deref(), Some("k"));
    assert_eq!(shown.group.as_deref(), Some("g"));
    assert_eq!(shown.priority, Some(2));
    assert_eq!(shown.at, shown.pushed_at, "due since its push");

    let claimed = take_one(&inbox).await;
    let shown = only(&inbox, ItemState::Processing).await;
    assert_eq!(shown.pushed_at, Some(claimed.pushed_at));
    let at = shown.at.unwrap();
    assert!(at >= claimed.pushed_at && at < claimed.expires_at, "{at}");

    inbox.give_back(&[claimed.claim]).await.unwrap();
    let back = only(&inbox, ItemState::Pending).await;
    assert!(back.at.unwrap() >= at, "due since it was given back");
    complete(&inbox, &take(&inbox, 1).await).await;
    let done = only(&inbox, ItemState::Completed).await;
    assert!(done.at.unwrap() >= back.at.unwrap());
    assert_eq!(done.worker.as_deref(), Some("w"));
    assert_eq!((done.payload, done.key, done.group), (None, None, None));
    assert_eq!((done.attempts, done.errors), (0, Vec::new()));
}

/// A page has at least one item, and has a maximum size.
#[rule]
async fn the_size_of_a_page_is_bounded(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["x"; 1001]).await;
    let page = async |limit| {
        let page = inbox.list(ItemState::Pending, None, limit).await;
        page.unwrap().len()
    };
    assert_eq!(page(0).await, 1);
    assert_eq!(page(u32::MAX).await, 1000);
}
