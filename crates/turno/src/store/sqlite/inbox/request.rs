//! Results by request id: a request that is repeated, because its response was lost, gets the same result.

use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::super::classify;
use super::super::rows::exec;
use super::ids;
use crate::error::Result;
use crate::store::*;

pub(crate) fn find(db: &Connection, request: Uuid, verb: &str) -> Result<Option<String>> {
    db.prepare_cached(query!(inbox_request_find))
        .and_then(|mut find| {
            find.query_row((request.as_bytes(), verb), |row| row.get(0))
                .optional()
        })
        .map_err(classify)
}

pub(crate) fn remember(
    db: &Connection,
    request: Uuid,
    verb: &str,
    now: i64,
    answer: &str,
) -> Result<()> {
    let row = (request.as_bytes(), verb, now, answer);
    exec(db, query!(inbox_request_insert), row).map(drop)
}

pub(crate) fn pushed(db: &Connection, request: Uuid) -> Result<Option<Vec<PushedItem>>> {
    let Some(answer) = find(db, request, "push")? else {
        return Ok(None);
    };
    let pushed = ids::decode(&answer)?.into_iter();
    Ok(Some(
        pushed
            .map(|(duplicate, id)| PushedItem {
                id: ItemId(id),
                duplicate,
            })
            .collect(),
    ))
}

pub(crate) fn remember_pushed(
    db: &Connection,
    request: Uuid,
    pushed: &[PushedItem],
    now: i64,
) -> Result<()> {
    if pushed.is_empty() {
        return Ok(());
    }
    let answer = ids::encode(pushed.iter().map(|item| (item.duplicate, item.id.0)));
    remember(db, request, "push", now, &answer)
}

/// Settles claims, unless the request is a repetition. A result without settled claims is not stored, because a stale claim stays
/// stale.
pub(crate) fn settled(
    db: &Connection,
    (request, verb): (Uuid, &str),
    now: i64,
    settle: impl FnOnce() -> Result<Settled>,
) -> Result<Settled> {
    if let Some(answer) = find(db, request, verb)? {
        return decode(&answer);
    }
    let settled = settle()?;
    if settled.done > 0 {
        remember(db, request, verb, now, &encode(&settled))?;
    }
    Ok(settled)
}

/// Returns a result as text: the number of settled claims, and then the stale ones: `2 17@… 18@…`.
fn encode(settled: &Settled) -> String {
    let mut words = vec![settled.done.to_string()];
    words.extend(settled.stale.iter().map(ClaimId::to_string));
    words.join(" ")
}

fn decode(answer: &str) -> Result<Settled> {
    let (done, stale) = answer.split_once(' ').unwrap_or((answer, ""));
    Ok(Settled {
        done: done.parse().map_err(|_| ids::damaged(answer))?,
        stale: stale
            .split_ascii_whitespace()
            .map(|claim| claim.parse().map_err(|_| ids::damaged(answer)))
            .collect::<Result<_>>()?,
    })
}
