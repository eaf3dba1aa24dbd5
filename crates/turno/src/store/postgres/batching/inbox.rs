//! Batched claims and completions: of callers that claim one item at a time, and of the workers of one process.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::batcher::{Batchable, CallAlone, Reply, column};
use super::completions::{Marks, share};
use crate::check::MAX_ITEMS;
use crate::error::{Error, Kind, Result};
use crate::store::Batching;
use crate::store::postgres::calls::{Argument, Calls, IfLocked};
use crate::store::postgres::inbox;
use crate::store::postgres::interval::Interval;
use crate::store::postgres::rows::count_in;
use crate::store::*;

/// A call for more items is large enough without a batch.
const MAX_BATCHED_ITEMS: usize = 16;

/// Claims of a few items.
pub(crate) struct Claims(pub(in crate::store::postgres) Calls);

/// Returns whether a claim can share a batch with others.
pub(crate) fn is_small_claim(ask: &InboxClaim) -> bool {
    ask.limit as usize <= MAX_BATCHED_ITEMS && ask.batching == Batching::Batched
}

impl Batchable for Claims {
    type Ask = InboxClaim;
    type Answer = Vec<ClaimedItem>;

    fn partition(ask: &InboxClaim) -> &str {
        &ask.queue
    }

    async fn call(&self, asks: Vec<InboxClaim>) -> Vec<Reply<Vec<ClaimedItem>>> {
        let mut replies = column(&asks, |_| Reply::CallAlone);
        for places in alike(asks.iter()) {
            let ask = merged(places.iter().map(|place| &asks[*place]));
            let claimed = self.one(&ask).await;
            let is_full = claimed
                .as_ref()
                .is_ok_and(|items| may_be_full(&self.0, items));
            let mut claimed = claimed.map(Vec::into_iter);
            for place in places {
                let own = asks[place].limit as usize;
                replies[place] = match &mut claimed {
                    Ok(items) if items.len() == 0 && is_full => Reply::CallAlone,
                    Ok(items) => Reply::Done(Ok(items.take(own).collect())),
                    Err(error) => Reply::Done(Err(error.clone())),
                };
            }
        }
        replies
    }

    async fn undelivered(&self, reply: Reply<Vec<ClaimedItem>>) {
        if let Reply::Done(Ok(items)) = reply {
            give_back(&self.0, &items).await;
        }
    }
}

/// Groups claims that can be made as one: the same queue, worker and lease. Returns the places of each group.
fn alike<'a>(asks: impl Iterator<Item = &'a InboxClaim>) -> Vec<Vec<usize>> {
    let mut kinds: HashMap<(&str, &str, Duration), Vec<usize>> = HashMap::new();
    for (place, ask) in asks.enumerate() {
        let kind = (ask.queue.as_str(), ask.worker.as_str(), ask.lease);
        kinds.entry(kind).or_default().push(place);
    }
    kinds.into_values().collect()
}

/// Returns one claim for all of them. There is at least one.
fn merged<'a>(mut asks: impl Iterator<Item = &'a InboxClaim>) -> InboxClaim {
    let mut all = asks.next().expect("at least one claim").clone();
    for ask in asks {
        // A new request id, because a caller that repeats its own request must not get the items of the others.
        all.request = Uuid::now_v7();
        all.limit += ask.limit;
    }
    all
}

/// Gives back the items of a cancelled caller, which otherwise wait for the end of the lease.
async fn give_back(calls: &Calls, items: &[ClaimedItem]) {
    if items.is_empty() {
        return;
    }
    let claims: Vec<ClaimId> = items.iter().map(|item| item.claim).collect();
    let (ids, tokens) = inbox::parts(&claims);
    let arguments: [Argument<'_>; 3] = [
        (&ids, Type::INT8_ARRAY),
        (&tokens, Type::UUID_ARRAY),
        (&None::<Uuid>, Type::UUID),
    ];
    let given = calls.row(query!(inbox_give_back), &arguments);
    if let Err(error) = given.await {
        tracing::debug!(%error, "items of a cancelled caller were not given back; their claims expire");
    }
}

impl Claims {
    pub(crate) async fn one(&self, ask: &InboxClaim) -> Result<Vec<ClaimedItem>> {
        let limit = count_in(ask.limit);
        let lease = Interval(ask.lease);
        let lock = format!("the claims of queue {:?}", ask.queue);
        let rows = self
            .0
            .rows_if(
                IfLocked::Slots(&lock),
                query!(inbox_claim),
                &claim_arguments(ask, &limit, &lease, &self.0.max_claim_bytes),
            )
            .await?;
        claimed(&rows, ask)
    }
}

fn claim_arguments<'a>(
    ask: &'a InboxClaim,
    limit: &'a i32,
    lease: &'a Interval,
    max_bytes: &'a i32,
) -> [Argument<'a>; 6] {
    [
        (&ask.queue, Type::TEXT),
        (&ask.worker, Type::TEXT),
        (limit, Type::INT4),
        (lease, Type::INTERVAL),
        (&ask.request, Type::UUID),
        (max_bytes, Type::INT4),
    ]
}

/// Returns whether a claim may have left items because of its limit in bytes.
fn may_be_full(claims: &Calls, items: &[ClaimedItem]) -> bool {
    let bytes: usize = items.iter().map(|item| item.payload.len()).sum();
    bytes >= usize::try_from(claims.max_claim_bytes / 2).unwrap_or(0)
}

fn claimed(rows: &[Row], ask: &InboxClaim) -> Result<Vec<ClaimedItem>> {
    rows.iter()
        .map(|row| inbox::claimed(row, ask.request))
        .collect()
}

/// Calls of workers: complete items, and claim the next ones.
pub(crate) struct Turns(pub(in crate::store::postgres) Calls);

impl Batchable for Turns {
    type Ask = InboxTurn;
    type Answer = (Settled, Vec<ClaimedItem>);
    /// While one batch commits, the next one claims.
    const CONCURRENCY: usize = 2;

    fn partition(ask: &InboxTurn) -> &str {
        &ask.claim.queue
    }

    async fn call(&self, asks: Vec<InboxTurn>) -> Vec<Reply<Self::Answer>> {
        let mut replies = column(&asks, |_| Reply::CallAlone);
        for mut places in alike(asks.iter().map(|ask| &ask.claim)) {
            let mut room = MAX_ITEMS as u32;
            places.retain(|place| {
                let fits = asks[*place].claim.limit <= room;
                room -= if fits { asks[*place].claim.limit } else { 0 };
                fits
            });
            if places.is_empty() {
                continue;
            }
            let completes: Vec<InboxComplete> = places
                .iter()
                .map(|place| asks[*place].complete.clone())
                .collect();
            if has_repeated(&completes) {
                continue;
            }
            let claim = merged(places.iter().map(|place| &asks[*place].claim));
            match self.both(&completes, &claim).await {
                Ok((settled, claimed)) => {
                    let mut claimed = claimed.into_iter();
                    for (place, complete) in places.into_iter().zip(&completes) {
                        let own = asks[place].claim.limit as usize;
                        let items = claimed.by_ref().take(own).collect();
                        replies[place] = Reply::Done(Ok((share(complete, &settled), items)));
                    }
                }
                Err(error) => {
                    for place in places {
                        replies[place] = Reply::failed(&error);
                    }
                }
            }
        }
        replies
    }

    async fn undelivered(&self, reply: Reply<Self::Answer>) {
        if let Reply::Done(Ok((_, items))) = reply {
            give_back(&self.0, &items).await;
        }
    }
}

impl Turns {
    pub(crate) async fn one(&self, ask: &InboxTurn) -> Result<(Settled, Vec<ClaimedItem>)> {
        let completes = std::slice::from_ref(&ask.complete);
        let (settled, claimed) = self.both(completes, &ask.claim).await?;
        Ok((share(&ask.complete, &settled), claimed))
    }

    /// Two transactions: the claims of a queue run one after the other, so a claim must not wait for the commit of completions.
    async fn both(
        &self,
        completes: &[InboxComplete],
        claim: &InboxClaim,
    ) -> Result<(Settled, Vec<ClaimedItem>)> {
        let marks = Marks::of(completes);
        let (limit, lease) = (count_in(claim.limit), Interval(claim.lease));
        let (settled, rows) = self
            .0
            .pair(
                IfLocked::Retry,
                (query!(inbox_complete), &marks.arguments()),
                (
                    query!(inbox_claim),
                    &claim_arguments(claim, &limit, &lease, &self.0.max_claim_bytes),
                ),
            )
            .await?;
        match settled.first() {
            Some(row) => Ok((inbox::settled(row)?, claimed(&rows, claim)?)),
            None => Err(Error::new(
                Kind::Broken,
                "the database answered a completion with no row",
            )),
        }
    }
}

/// Returns whether a claim occurs twice. Then the first completion succeeds and the second is stale, and only separate calls can
/// tell which is which.
fn has_repeated(asks: &[InboxComplete]) -> bool {
    let claims: HashSet<ClaimId> = asks.iter().flat_map(|ask| &ask.claims).copied().collect();
    claims.len() < asks.iter().map(|ask| ask.claims.len()).sum()
}

pub(crate) struct Completions(pub(in crate::store::postgres) Calls);

impl Batchable for Completions {
    type Ask = InboxComplete;
    type Answer = Settled;

    async fn call(&self, asks: Vec<InboxComplete>) -> Vec<Reply<Settled>> {
        if has_repeated(&asks) {
            return column(&asks, |_| Reply::CallAlone);
        }
        let settled = self.all(&asks).await;
        column(&asks, |ask| match &settled {
            Ok(Some(settled)) => Reply::Done(Ok(share(ask, settled))),
            Ok(None) => Reply::Locked,
            Err(error) => Reply::failed(error),
        })
    }
}

impl Completions {
    /// Completes the claims of all callers. Returns `None` if another transaction settles one of the claims.
    async fn all(&self, asks: &[InboxComplete]) -> Result<Option<Settled>> {
        let marks = Marks::of(asks);
        let complete = query!(inbox_complete_batch);
        let arguments = marks.arguments();
        let rows = self.0.rows_if(IfLocked::NoRows, complete, &arguments);
        rows.await?.first().map(inbox::settled).transpose()
    }
}

impl CallAlone for Completions {
    fn lock(ask: &InboxComplete) -> String {
        match ask.claims.first() {
            Some(claim) => format!("the claim {}", claim.token),
            None => "no claim".to_owned(),
        }
    }

    fn is_small(ask: &InboxComplete) -> bool {
        ask.claims.len() <= MAX_BATCHED_ITEMS
    }

    async fn one(&self, ask: &InboxComplete, if_locked: IfLocked<'_>) -> Result<Settled> {
        let marks = Marks::of(std::slice::from_ref(ask));
        let complete = query!(inbox_complete);
        let row = self
            .0
            .row_if(if_locked, complete, &marks.arguments())
            .await?;
        Ok(share(ask, &inbox::settled(&row)?))
    }
}
