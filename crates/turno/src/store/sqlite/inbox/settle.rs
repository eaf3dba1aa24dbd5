//! Fails, gives back and extends items. A claim that is not valid any more is stale.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use rusqlite::Connection;
use uuid::Uuid;

use super::super::classify;
use super::super::rows::exec;
use super::claim::{self, ClaimRow};
use super::held::{self, AttemptEnd, HELD, Held};
use super::request;
use super::tally::Tally;
use crate::clock::as_us;
use crate::error::Result;
use crate::store::*;

pub(super) fn fail(db: &Connection, ask: &InboxFail, now: i64) -> Result<Settled> {
    request::settled(db, (ask.request, "fail"), now, || {
        let failures = ask.failures.iter().map(|failure| (failure.claim, failure));
        each(db, failures, |held, failure, tally| {
            held.end(db, tally, AttemptEnd::Failed(failure), now)
        })
    })
}

pub(super) fn give_back(db: &Connection, ask: &InboxGiveBack, now: i64) -> Result<Settled> {
    request::settled(db, (ask.request, "give_back"), now, || {
        let claims = ask.claims.iter().map(|claim| (*claim, ()));
        each(db, claims, |held, (), tally| held.give_back(db, tally, now))
    })
}

pub(super) fn extend(db: &Connection, ask: &InboxExtend, now: i64) -> Result<Settled> {
    let until = now.saturating_add(as_us(ask.lease));
    let mut known = Known::default();
    let mut statement = db.prepare_cached(HELD).map_err(classify)?;
    let mut seen = HashSet::new();
    let mut extended = HashSet::new();
    let mut settled = Settled::default();
    for claim in &ask.claims {
        let row = known.claim(db, claim.token)?;
        let held = match row {
            Some(row) => held::find(&mut statement, claim.item.0, row)?.map(|_| row),
            None => None,
        };
        match held {
            Some(row) => {
                if extended.insert(row.id) {
                    let extend = query!(inbox_claim_extend);
                    exec(db, extend, (row.id, until))?;
                }
                // A claim that is given twice is still held, and counts once.
                settled.done += u64::from(seen.insert(*claim));
            }
            None => settled.stale.push(*claim),
        }
    }
    Ok(settled)
}

/// Changes each item that its claim still holds.
fn each<T>(
    db: &Connection,
    claims: impl Iterator<Item = (ClaimId, T)>,
    mut change: impl FnMut(Held<'_>, T, &mut Tally) -> Result<()>,
) -> Result<Settled> {
    let mut known = Known::default();
    let mut tally = Tally::default();
    let mut statement = db.prepare_cached(HELD).map_err(classify)?;
    let mut settled = Settled::default();
    for (claim, with) in claims {
        let held = match known.claim(db, claim.token)? {
            Some(row) => held::find(&mut statement, claim.item.0, row)?,
            None => None,
        };
        match held {
            Some(held) => {
                change(held, with, &mut tally)?;
                settled.done += 1;
            }
            None => settled.stale.push(claim),
        }
    }
    tally.write(db)?;
    Ok(settled)
}

/// Cache of claims by token, because items that are settled together were mostly claimed together.
#[derive(Debug, Default)]
struct Known(HashMap<Uuid, Option<ClaimRow>>);

impl Known {
    fn claim(&mut self, db: &Connection, token: Uuid) -> Result<Option<&ClaimRow>> {
        let row = match self.0.entry(token) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(claim::find(db, token)?),
        };
        Ok(row.as_ref())
    }
}
