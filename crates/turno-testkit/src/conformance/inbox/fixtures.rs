//! Helpers for the rules of the inbox, and direct access to its tables.

use std::time::Duration;

use turno::Turno;
use turno::inbox::{
    Again, ClaimId, ClaimedItem, Failure, Inbox, Item, ItemId, ItemState, ItemView, Settled,
};
use turno::store::{InboxClaim, InboxFailedItems};
use uuid::Uuid;

use crate::conformance::TestStore;

/// Lease that is longer than any rule.
pub(in crate::conformance) const LONG: Duration = Duration::from_secs(60);
/// Delay that is longer than any rule.
pub(in crate::conformance) const LATER: Duration = Duration::from_secs(3600);

/// Creates an item with a text as payload.
pub(in crate::conformance) fn item(payload: &str) -> Item {
    Item::new(payload)
}

/// Pushes one item per payload.
pub(in crate::conformance) async fn push(inbox: &Inbox, payloads: &[&str]) -> Vec<ItemId> {
    push_all(inbox, payloads.iter().map(|payload| item(payload))).await
}

/// Pushes items and returns their ids.
pub(in crate::conformance) async fn push_all(
    inbox: &Inbox,
    items: impl IntoIterator<Item = Item>,
) -> Vec<ItemId> {
    let pushed = inbox.push_many(items).await.unwrap();
    pushed.into_iter().map(|item| item.id).collect()
}

/// Claims up to `limit` items, with a long lease.
pub(in crate::conformance) async fn take(inbox: &Inbox, limit: u32) -> Vec<ClaimedItem> {
    let claim = inbox.claim().worker("w").limit(limit).lease(LONG);
    claim.take().await.unwrap()
}

/// Claims exactly one item, with a long lease.
pub(in crate::conformance) async fn take_one(inbox: &Inbox) -> ClaimedItem {
    let mut items = take(inbox, 1).await;
    items.pop().expect("something to claim")
}

/// Claims until there is an item.
pub(in crate::conformance) async fn take_soon(inbox: &Inbox) -> ClaimedItem {
    crate::eventually_async(
        crate::conformance::lock::fixtures::TIMEOUT,
        "an item to claim",
        async || take(inbox, 1).await.pop(),
    )
    .await
}

/// Returns a worker's claim request to the store.
pub(in crate::conformance) fn ask_claim(queue: &str, limit: u32) -> InboxClaim {
    InboxClaim {
        queue: queue.into(),
        worker: "w".into(),
        limit,
        lease: LONG,
        request: Uuid::now_v7(),
        batching: turno::Batching::Batched,
    }
}

pub(in crate::conformance) fn ids(items: &[ClaimedItem]) -> Vec<ItemId> {
    items.iter().map(|item| item.claim.item).collect()
}

pub(in crate::conformance) fn claims(items: &[ClaimedItem]) -> Vec<ClaimId> {
    items.iter().map(|item| item.claim).collect()
}

/// Returns the text in an item's payload.
pub(in crate::conformance) fn text(item: &ClaimedItem) -> String {
    serde_json::from_str(&item.payload).unwrap()
}

pub(in crate::conformance) fn texts(items: &[ClaimedItem]) -> Vec<String> {
    items.iter().map(text).collect()
}

/// Returns a failed attempt that may be retried.
pub(in crate::conformance) fn failure(claim: ClaimId, retry_in: Option<Duration>) -> Failure {
    Failure {
        claim,
        error: "no money".into(),
        retry_in,
        again: Again::Retry,
    }
}

/// Lets one item fail; the next attempt is due after `retry_in`.
pub(in crate::conformance) async fn fail(inbox: &Inbox, claim: ClaimId, retry_in: Duration) {
    let failed = inbox.fail(&[failure(claim, Some(retry_in))]).await;
    assert_eq!(failed.unwrap(), all_done(1));
}

/// Lets one item fail without a retry.
pub(in crate::conformance) async fn set_aside(inbox: &Inbox, claim: ClaimId) {
    let last = Failure {
        again: Again::Never,
        ..failure(claim, None)
    };
    assert_eq!(inbox.fail(&[last]).await.unwrap(), all_done(1));
}

pub(in crate::conformance) async fn complete(inbox: &Inbox, items: &[ClaimedItem]) {
    let settled = inbox.complete(&claims(items)).await.unwrap();
    assert_eq!(settled, all_done(items.len() as u64));
}

/// Applied to all claims; none was stale.
pub(in crate::conformance) fn all_done(done: u64) -> Settled {
    Settled {
        done,
        stale: Vec::new(),
    }
}

/// Applied to no claim; all were stale.
pub(in crate::conformance) fn all_stale(claims: &[ClaimId]) -> Settled {
    Settled {
        done: 0,
        stale: claims.to_vec(),
    }
}

/// Returns the numbers of pending, scheduled, processing, completed and failed items, in the order of [`ItemState::ALL`].
pub(in crate::conformance) async fn counts(inbox: &Inbox) -> [u64; 5] {
    let stats = match inbox.stats().await {
        Err(error) if error.is_no_queue() => return [0; 5],
        stats => stats.unwrap(),
    };
    let counts = [
        stats.pending,
        stats.scheduled,
        stats.processing,
        stats.completed,
        stats.failed,
    ];
    assert_eq!(stats.total, counts.iter().sum::<u64>(), "{stats:?}");
    counts
}

/// Returns all items in a state, over all pages.
pub(in crate::conformance) async fn list(inbox: &Inbox, state: ItemState) -> Vec<ItemView> {
    let mut all: Vec<ItemView> = Vec::new();
    loop {
        let after = all.last().map(|item| item.id);
        let page = match inbox.list(state, after, 1000).await {
            Err(error) if error.is_no_queue() => Vec::new(),
            page => page.unwrap(),
        };
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

/// Returns the ids of all items in a state.
pub(in crate::conformance) async fn listed(inbox: &Inbox, state: ItemState) -> Vec<ItemId> {
    let all = list(inbox, state).await;
    all.into_iter().map(|item| item.id).collect()
}

/// Returns the only item in a state.
pub(in crate::conformance) async fn only(inbox: &Inbox, state: ItemState) -> ItemView {
    let mut all = list(inbox, state).await;
    assert_eq!(all.len(), 1, "{state}: {all:?}");
    all.remove(0)
}

impl TestStore {
    /// Shifts the times of all claims until they have expired.
    pub(in crate::conformance) async fn expire_claims(&self) {
        let by = "until - {now} + {us:1000000}";
        self.run(&format!(
            "update turno.inbox_claim set claimed_at = claimed_at - ({by}), until = until - ({by}); {}",
            self.dialect().forget_expiry()
        ))
        .await;
    }

    /// Makes all claims older by this duration, without ending them sooner.
    pub(in crate::conformance) async fn age_claims(&self, by: Duration) {
        self.run(&format!(
            "update turno.inbox_claim set claimed_at = claimed_at - {{us:{}}}",
            by.as_micros()
        ))
        .await;
    }

    /// Makes records of completed items, keys of discarded items and stored request results older by this duration.
    pub(in crate::conformance) async fn age_records(&self, by: Duration) {
        let by = format!("{{us:{}}}", by.as_micros());
        self.run(&format!(
            "update turno.inbox_done set at = at - {by}; update turno.inbox_request set at = at - {by}; \
             update turno.inbox_key set done_at = done_at - {by} where done_at is not null"
        ))
        .await;
    }

    /// Makes failures of items and deaths of events older by this duration.
    pub(in crate::conformance) async fn age_failures(&self, by: Duration) {
        let statement = self.dialect().age_failures(by.as_micros());
        self.run(&statement).await;
    }

    /// Number of stored items, in all states but completed.
    pub(in crate::conformance) async fn stored_items(&self) -> i64 {
        self.number(self.dialect().count_items()).await
    }
}

/// A queue with failed items and others, and another queue with a failed item: a decision about some of them must leave the
/// rest alone.
pub(in crate::conformance) struct FailedAndOthers {
    pub(in crate::conformance) inbox: Inbox,
    other: Inbox,
    /// The first two have failed, the third is in hand, the fourth waits.
    pub(in crate::conformance) pushed: Vec<ItemId>,
    held: ClaimedItem,
    elsewhere: Vec<ItemId>,
}

impl FailedAndOthers {
    pub(in crate::conformance) async fn set_up(turno: &Turno) -> Self {
        let (inbox, other) = (turno.inbox("q"), turno.inbox("other"));
        let pushed = push(&inbox, &["1", "2", "3", "4"]).await;
        let elsewhere = push(&other, &["x"]).await;
        let mut items = take(&inbox, 3).await;
        let held = items.pop().expect("three items");
        for item in items {
            set_aside(&inbox, item.claim).await;
        }
        set_aside(&other, take_one(&other).await.claim).await;
        FailedAndOthers {
            inbox,
            other,
            pushed,
            held,
            elsewhere,
        }
    }

    /// The second failed item, twice, and items of which none has failed in this queue.
    pub(in crate::conformance) fn named(&self) -> [ItemId; 5] {
        let pushed = &self.pushed;
        [
            pushed[1],
            pushed[2],
            pushed[3],
            self.elsewhere[0],
            pushed[1],
        ]
    }

    /// The failed items that were not named are still failed, and what was in hand is so still.
    pub(in crate::conformance) async fn assert_others_untouched(&self) {
        let failed = listed(&self.inbox, ItemState::Failed).await;
        assert_eq!(failed, self.pushed[..1]);
        let elsewhere = listed(&self.other, ItemState::Failed).await;
        assert_eq!(elsewhere, self.elsewhere);
        complete(&self.inbox, std::slice::from_ref(&self.held)).await;
    }
}

/// Three items that have failed: the third one first, then the first, then the second.
pub(in crate::conformance) async fn three_failed(inbox: &Inbox) -> Vec<ItemId> {
    let pushed = push(inbox, &["1", "2", "3"]).await;
    let held = claims(&take(inbox, 3).await);
    for n in [2, 0, 1] {
        set_aside(inbox, held[n]).await;
    }
    pushed
}

/// The two items of a queue that failed first, for a decision of one step.
pub(in crate::conformance) fn two_oldest(inbox: &Inbox) -> InboxFailedItems {
    InboxFailedItems {
        queue: inbox.queue().into(),
        ids: None,
        limit: 2,
        user: None,
        reason: None,
    }
}
