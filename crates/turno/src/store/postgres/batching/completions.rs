//! Arguments of completions: a few ranges of items for each claim token and request id, instead of single items.

use std::collections::HashSet;
use std::fmt::Write;

use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::store::postgres::Argument;
use crate::store::{ClaimId, InboxComplete, Settled};

/// Highest number of an item: a claim is parsed with at most 18 digits. It also bounds a range, whose end is one higher.
const MAX_ITEM: i64 = 999_999_999_999_999_999;

/// The arguments of `inbox_complete_batch`.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Marks {
    tokens: Vec<Uuid>,
    ranges: Vec<String>,
    requests: Vec<Uuid>,
}

impl Marks {
    pub(crate) fn of(asks: &[InboxComplete]) -> Self {
        let mut all: Vec<(Uuid, Uuid, i64)> = asks
            .iter()
            .flat_map(|ask| {
                let mark = |claim: &ClaimId| (claim.token, ask.request, claim.item.0);
                ask.claims
                    .iter()
                    .filter(|claim| is_possible(claim))
                    .map(mark)
            })
            .collect();
        all.sort_unstable();
        all.dedup();
        let mut marks = Marks::default();
        for same in all.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            marks.tokens.push(same[0].0);
            marks.requests.push(same[0].1);
            let items: Vec<i64> = same.iter().map(|mark| mark.2).collect();
            marks.ranges.push(multirange(&items));
        }
        marks
    }

    pub(crate) fn arguments(&self) -> [Argument<'_>; 3] {
        [
            (&self.tokens, Type::UUID_ARRAY),
            (&self.ranges, Type::TEXT_ARRAY),
            (&self.requests, Type::UUID_ARRAY),
        ]
    }
}

fn is_possible(claim: &ClaimId) -> bool {
    (0..=MAX_ITEM).contains(&claim.item.0)
}

/// Returns a multirange as text: `{[1,3],[7,7]}`.
pub(crate) fn multirange(sorted: &[i64]) -> String {
    let mut text = String::from("{");
    for row in sorted.chunk_by(|a, b| a + 1 == *b) {
        let comma = if text.len() > 1 { "," } else { "" };
        // Writing to a string does not fail.
        let _ = write!(text, "{comma}[{},{}]", row[0], row[row.len() - 1]);
    }
    text.push('}');
    text
}

/// Returns one caller's part of the result of a batch. Of a claim that the caller passes twice, the second is stale.
pub(crate) fn share(ask: &InboxComplete, all: &Settled) -> Settled {
    if all.stale.is_empty() && all.done == ask.claims.len() as u64 {
        return all.clone();
    }
    let wrong: HashSet<ClaimId> = all.stale.iter().copied().collect();
    let mut seen = HashSet::with_capacity(ask.claims.len());
    let stale: Vec<ClaimId> = ask
        .claims
        .iter()
        .filter(|claim| !seen.insert(**claim) || wrong.contains(*claim) || !is_possible(claim))
        .copied()
        .collect();
    Settled {
        done: (ask.claims.len() - stale.len()) as u64,
        stale,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ItemId;

    fn ask(request: u128, claims: &[(i64, u128)]) -> InboxComplete {
        InboxComplete {
            claims: claims
                .iter()
                .map(|(item, token)| ClaimId {
                    item: ItemId(*item),
                    token: Uuid::from_u128(*token),
                })
                .collect(),
            request: Uuid::from_u128(request),
        }
    }

    #[test]
    fn neighbours_are_one_range_and_repetitions_none() {
        let marks = Marks::of(&[
            ask(9, &[(3, 1), (1, 1), (2, 1), (7, 1), (2, 1), (4, 2)]),
            ask(8, &[(5, 1)]),
        ]);
        let id = Uuid::from_u128;
        assert_eq!(
            marks,
            Marks {
                tokens: vec![id(1), id(1), id(2)],
                ranges: vec!["{[5,5]}".into(), "{[1,3],[7,7]}".into(), "{[4,4]}".into()],
                requests: vec![id(8), id(9), id(9)],
            }
        );
    }

    #[test]
    fn each_caller_gets_its_own_part() {
        let (first, second) = (ask(1, &[(1, 1), (2, 1), (1, 1)]), ask(2, &[(3, 1)]));
        let stale = second.claims.clone();
        let all = Settled { done: 2, stale };
        let repeated = vec![first.claims[2]];
        let expected = Settled {
            done: 2,
            stale: repeated,
        };
        assert_eq!(share(&first, &all), expected);
        assert_eq!(share(&second, &all).stale, second.claims);
    }
}
