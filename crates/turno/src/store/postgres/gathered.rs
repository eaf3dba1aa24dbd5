//! Claims and completions that are made for many callers at once: consumers that take one item at a time.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::calls::Calls;
use super::gather::{Answer, Together};
use super::inbox;
use super::interval::Interval;
use super::marks::{Marks, share};
use super::rows::count_in;
use crate::error::Result;
use crate::store::*;

/// A call for more items than this goes alone: it has enough company.
const SMALL: usize = 16;

/// Claims of a few items.
pub(super) struct Claims(pub(super) Calls);

/// Whether a claim can share a call with others.
pub(super) fn is_small_claim(ask: &InboxClaim) -> bool {
    ask.limit as usize <= SMALL
}

/// Whether a completion can share a call with others.
pub(super) fn is_small_completion(ask: &InboxComplete) -> bool {
    ask.claims.len() <= SMALL
}

impl Together for Claims {
    type Ask = InboxClaim;
    type Answer = Vec<ClaimedItem>;

    async fn call(&self, asks: Vec<InboxClaim>) -> Vec<Answer<Vec<ClaimedItem>>> {
        let mut kinds: HashMap<(&str, &str, Duration), Vec<usize>> = HashMap::new();
        for (place, ask) in asks.iter().enumerate() {
            let kind = (ask.queue.as_str(), ask.worker.as_str(), ask.lease);
            kinds.entry(kind).or_default().push(place);
        }
        let mut answers: Vec<Answer<Vec<ClaimedItem>>> = std::iter::repeat_with(|| Answer::Alone)
            .take(asks.len())
            .collect();
        for places in kinds.into_values() {
            let mut ask = asks[places[0]].clone();
            if places.len() > 1 {
                // What all of them get is claimed together, under a token that is nobody's own: one that repeats its
                // request must not be given what the others had.
                ask.request = Uuid::now_v7();
                ask.limit = places.iter().map(|place| asks[*place].limit).sum();
            }
            let mut claimed = self.one(&ask).await.map(Vec::into_iter);
            for place in places {
                answers[place] = Answer::Given(match &mut claimed {
                    Ok(items) => Ok(items.take(asks[place].limit as usize).collect()),
                    Err(error) => Err(error.clone()),
                });
            }
        }
        answers
    }
}

impl Claims {
    pub(super) async fn one(&self, ask: &InboxClaim) -> Result<Vec<ClaimedItem>> {
        let limit = count_in(ask.limit);
        let rows = self
            .0
            .rows(
                include_str!("call/inbox_claim.sql"),
                &[
                    (&ask.queue, Type::TEXT),
                    (&ask.worker, Type::TEXT),
                    (&limit, Type::INT4),
                    (&Interval(ask.lease), Type::INTERVAL),
                    (&ask.request, Type::UUID),
                ],
            )
            .await?;
        rows.iter()
            .map(|row| inbox::claimed(row, ask.request))
            .collect()
    }
}

/// Completions.
pub(super) struct Completions(pub(super) Calls);

impl Together for Completions {
    type Ask = InboxComplete;
    type Answer = Settled;

    async fn call(&self, asks: Vec<InboxComplete>) -> Vec<Answer<Settled>> {
        let claims: HashSet<ClaimId> = asks.iter().flat_map(|ask| &ask.claims).copied().collect();
        if claims.len() < asks.iter().map(|ask| ask.claims.len()).sum() {
            // The same claim twice: the first is right and the second stale, and which is which is told by its place.
            return asks.iter().map(|_| Answer::Alone).collect();
        }
        let settled = self.all(&asks).await;
        let answer = |ask: &InboxComplete| match &settled {
            Ok(settled) => Answer::Given(Ok(share(ask, settled))),
            // A database that cannot be reached is everybody's; anything else may be one caller's.
            Err(error) if error.is_unavailable() => Answer::Given(Err(error.clone())),
            Err(_) => Answer::Alone,
        };
        asks.iter().map(answer).collect()
    }
}

impl Completions {
    pub(super) async fn one(&self, ask: &InboxComplete) -> Result<Settled> {
        let all = self.all(std::slice::from_ref(ask)).await?;
        Ok(share(ask, &all))
    }

    async fn all(&self, asks: &[InboxComplete]) -> Result<Settled> {
        let marks = Marks::of(asks);
        let row = self
            .0
            .row(include_str!("call/inbox_complete.sql"), &marks.arguments())
            .await?;
        inbox::settled(&row)
    }
}
