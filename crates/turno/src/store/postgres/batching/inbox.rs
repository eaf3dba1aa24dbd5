//! Claims and completions that are made for many callers at once: consumers that take one item at a time, and workers of
//! one process.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::batcher::{Answer, Batchable};
use super::completions::{Marks, share};
use crate::check::MAX_ITEMS;
use crate::error::{Error, Kind, Result};
use crate::store::Batching;
use crate::store::postgres::calls::{Argument, Calls, IfLocked};
use crate::store::postgres::inbox;
use crate::store::postgres::interval::Interval;
use crate::store::postgres::rows::count_in;
use crate::store::*;

/// A call for more items than this goes alone: it has enough company.
const SMALL: usize = 16;

/// Claims of a few items.
pub(crate) struct Claims(pub(in crate::store::postgres) Calls);

/// Whether a claim can share a call with others.
pub(crate) fn is_small_claim(ask: &InboxClaim) -> bool {
    ask.limit as usize <= SMALL && ask.batching == Batching::Batched
}

/// Whether a completion can share a call with others.
pub(crate) fn is_small_completion(ask: &InboxComplete) -> bool {
    ask.claims.len() <= SMALL
}

impl Batchable for Claims {
    type Ask = InboxClaim;
    type Answer = Vec<ClaimedItem>;

    fn line(ask: &InboxClaim) -> &str {
        &ask.queue
    }

    async fn call(&self, asks: Vec<InboxClaim>) -> Vec<Answer<Vec<ClaimedItem>>> {
        let mut answers: Vec<_> = asks.iter().map(|_| Answer::Alone).collect();
        for places in alike(asks.iter()) {
            let ask = together(places.iter().map(|place| &asks[*place]));
            let claimed = self.one(&ask).await;
            let is_full = claimed
                .as_ref()
                .is_ok_and(|items| may_be_full(&self.0, items));
            let mut claimed = claimed.map(Vec::into_iter);
            for place in places {
                let own = asks[place].limit as usize;
                answers[place] = match &mut claimed {
                    Ok(items) if items.len() == 0 && is_full => Answer::Alone,
                    Ok(items) => Answer::Given(Ok(items.take(own).collect())),
                    Err(error) => Answer::Given(Err(error.clone())),
                };
            }
        }
        answers
    }

    async fn undelivered(&self, answer: Answer<Vec<ClaimedItem>>) {
        if let Answer::Given(Ok(items)) = answer {
            give_back(&self.0, &items).await;
        }
    }
}

/// The places of claims that can be made as one.
fn alike<'a>(asks: impl Iterator<Item = &'a InboxClaim>) -> Vec<Vec<usize>> {
    let mut kinds: HashMap<(&str, &str, Duration), Vec<usize>> = HashMap::new();
    for (place, ask) in asks.enumerate() {
        let kind = (ask.queue.as_str(), ask.worker.as_str(), ask.lease);
        kinds.entry(kind).or_default().push(place);
    }
    kinds.into_values().collect()
}

/// One claim for all of them. There is at least one.
fn together<'a>(mut asks: impl Iterator<Item = &'a InboxClaim>) -> InboxClaim {
    let mut all = asks.next().expect("at least one claim").clone();
    for ask in asks {
        // What all of them get is claimed under a token that is nobody's own: one that repeats its request must not be
        // given what the others had.
        all.request = Uuid::now_v7();
        all.limit += ask.limit;
    }
    all
}

/// What was claimed for somebody who has gone away would wait for the end of its lease.
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
        tracing::debug!(%error, "not given back; the claims end by themselves");
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
                IfLocked::Lane(&lock),
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

/// Whether a claim may have left items because of its limit in bytes.
fn may_be_full(claims: &Calls, items: &[ClaimedItem]) -> bool {
    let bytes: usize = items.iter().map(|item| item.payload.len()).sum();
    bytes >= usize::try_from(claims.max_claim_bytes / 2).unwrap_or(0)
}

fn claimed(rows: &[Row], ask: &InboxClaim) -> Result<Vec<ClaimedItem>> {
    rows.iter()
        .map(|row| inbox::claimed(row, ask.request))
        .collect()
}

/// What workers do: settle what is done, and fetch what is next.
pub(crate) struct Turns(pub(in crate::store::postgres) Calls);

impl Batchable for Turns {
    type Ask = InboxTurn;
    type Answer = (Settled, Vec<ClaimedItem>);
    /// While one of them waits for the disk, the other claims.
    const LANES: usize = 2;

    fn line(ask: &InboxTurn) -> &str {
        &ask.claim.queue
    }

    async fn call(&self, asks: Vec<InboxTurn>) -> Vec<Answer<Self::Answer>> {
        let mut answers: Vec<_> = asks.iter().map(|_| Answer::Alone).collect();
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
            let claim = together(places.iter().map(|place| &asks[*place].claim));
            match self.both(&completes, &claim).await {
                Ok((settled, claimed)) => {
                    let mut claimed = claimed.into_iter();
                    for (place, complete) in places.into_iter().zip(&completes) {
                        let own = asks[place].claim.limit as usize;
                        let items = claimed.by_ref().take(own).collect();
                        answers[place] = Answer::Given(Ok((share(complete, &settled), items)));
                    }
                }
                // A database that cannot be reached is everybody's; anything else may be one caller's.
                Err(error) if error.is_unavailable() => {
                    for place in places {
                        answers[place] = Answer::Given(Err(error.clone()));
                    }
                }
                Err(_) => {}
            }
        }
        answers
    }

    async fn undelivered(&self, answer: Answer<Self::Answer>) {
        if let Answer::Given(Ok((_, items))) = answer {
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

    /// Two transactions: claims take turns, and whoever claims must not keep the others waiting for the disk.
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
            None => Err(Error::new(Kind::Broken, "a completion was not answered")),
        }
    }
}

/// Whether a claim is there twice: the first is right and the second stale, and which is which only its own call can tell.
fn has_repeated(asks: &[InboxComplete]) -> bool {
    let claims: HashSet<ClaimId> = asks.iter().flat_map(|ask| &ask.claims).copied().collect();
    claims.len() < asks.iter().map(|ask| ask.claims.len()).sum()
}

/// Completions.
pub(crate) struct Completions(pub(in crate::store::postgres) Calls);

impl Batchable for Completions {
    type Ask = InboxComplete;
    type Answer = Settled;

    async fn call(&self, asks: Vec<InboxComplete>) -> Vec<Answer<Settled>> {
        if has_repeated(&asks) {
            return asks.iter().map(|_| Answer::Alone).collect();
        }
        let settled = self.together(&asks).await;
        let answer = |ask: &InboxComplete| match &settled {
            Ok(Some(settled)) => Answer::Given(Ok(share(ask, settled))),
            Ok(None) => Answer::Locked,
            // A database that cannot be reached is everybody's; anything else may be one caller's.
            Err(error) if error.is_unavailable() => Answer::Given(Err(error.clone())),
            Err(_) => Answer::Alone,
        };
        asks.iter().map(answer).collect()
    }
}

/// What a completion may have to wait for, as people read it.
pub(crate) fn completion_lock(ask: &InboxComplete) -> String {
    match ask.claims.first() {
        Some(claim) => format!("the claim {}", claim.token),
        None => "no claim".to_owned(),
    }
}

impl Completions {
    pub(crate) async fn one(
        &self,
        ask: &InboxComplete,
        if_locked: IfLocked<'_>,
    ) -> Result<Settled> {
        let marks = Marks::of(std::slice::from_ref(ask));
        let complete = query!(inbox_complete);
        let row = self
            .0
            .row_if(if_locked, complete, &marks.arguments())
            .await?;
        Ok(share(ask, &inbox::settled(&row)?))
    }

    /// What was done for all of them; `None` if another transaction is settling one of the claims.
    async fn together(&self, asks: &[InboxComplete]) -> Result<Option<Settled>> {
        let marks = Marks::of(asks);
        let complete = query!(inbox_complete_batch);
        let arguments = marks.arguments();
        let rows = self.0.rows_if(IfLocked::NoRows, complete, &arguments);
        rows.await?.first().map(inbox::settled).transpose()
    }
}
