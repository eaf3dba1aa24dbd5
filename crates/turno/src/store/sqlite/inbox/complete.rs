//! Completes many items with few statements, because they were mostly claimed together.

use std::collections::{BTreeMap, HashSet};

use rusqlite::Connection;
use uuid::Uuid;

use super::super::classify;
use super::super::rows::{exec, prepare};
use super::claim::{self, ClaimRow};
use super::tally::Tally;
use super::{INBOX_ERROR_FORGET, ids, next_of_group, request};
use crate::error::Result;
use crate::store::*;

pub(crate) fn complete(db: &Connection, ask: &InboxComplete, now: i64) -> Result<Settled> {
    request::settled(db, (ask.request, "complete"), now, || {
        complete_all(db, &ask.claims, now)
    })
}

fn complete_all(db: &Connection, claims: &[ClaimId], now: i64) -> Result<Settled> {
    let mut together = BTreeMap::<Uuid, Vec<i64>>::new();
    for claim in claims {
        together.entry(claim.token).or_default().push(claim.item.0);
    }
    let mut tally = Tally::default();
    let mut done = HashSet::with_capacity(claims.len());
    for (token, items) in together {
        if let Some(claim) = claim::find(db, token)? {
            let completed = of_claim(db, &claim, &items, &mut tally, now)?;
            done.extend(completed.into_iter().map(|item| ClaimId {
                item: ItemId(item),
                token,
            }));
        }
    }
    tally.write(db)?;
    let count = done.len() as u64;
    // A claim that is given twice is completed once; the second one is stale.
    let stale = claims.iter().filter(|claim| !done.remove(*claim));
    Ok(Settled {
        stale: stale.copied().collect(),
        done: count,
    })
}

/// Completes the items that the claim holds. Returns which.
pub(crate) fn of_claim(
    db: &Connection,
    claim: &ClaimRow,
    items: &[i64],
    tally: &mut Tally,
    now: i64,
) -> Result<Vec<i64>> {
    let mut held = Vec::with_capacity(items.len());
    let mut groups = Vec::new();
    let mut failed_before = Vec::new();
    let mut complete_runs = || -> rusqlite::Result<()> {
        let mut find = prepare(db, query!(inbox_complete_find))?;
        let mut record_each = prepare(db, query!(inbox_done_insert_batch))?;
        let mut record_run = prepare(db, query!(inbox_done_insert_run))?;
        let mut delete = prepare(db, query!(inbox_complete))?;
        for (first, last) in ids::runs(items) {
            let mut rows = find.query((first, last, claim.id))?;
            let (before, mut has_keys) = (held.len(), false);
            while let Some(row) = rows.next()? {
                let id: i64 = row.get(0)?;
                groups.extend(row.get::<_, Option<String>>(1)?);
                let errors: i64 = row.get(2)?;
                failed_before.extend((errors > 0).then_some((id, errors)));
                has_keys |= row.get::<_, bool>(3)?;
                held.push(id);
            }
            // The claim holds all of them, if there are as many.
            let is_whole = i64::try_from(held.len() - before) == Ok(last - first + 1);
            if is_whole && !has_keys {
                let last = (last > first).then_some(last);
                record_run.execute((claim.queue, first, last, now, &claim.worker))?;
            } else {
                record_each.execute((first, last, claim.id, now, &claim.worker))?;
            }
            delete.execute((first, last, claim.id))?;
        }
        Ok(())
    };
    complete_runs().map_err(classify)?;
    for errors in failed_before {
        exec(db, INBOX_ERROR_FORGET, errors)?;
    }
    for group in groups {
        next_of_group(db, claim.queue, &group)?;
    }
    for _ in &held {
        tally.leaves(claim.queue, claim.id);
        tally.of(claim.queue).completed += 1;
    }
    Ok(held)
}
