//! Stores the results of all events of a claim at once.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use rusqlite::Connection;
use uuid::Uuid;

use super::NEVER_US;
use crate::error::Result;
use crate::store::sqlite::inbox::claim::{self, ClaimRow};
use crate::store::sqlite::inbox::{complete, held, ids, request, tally::Tally};
use crate::store::sqlite::rows::exec;
use crate::store::*;

const VERB: &str = "outbox_settle";

pub(super) fn settle(db: &Connection, ask: &OutboxSettle, now: i64) -> Result<OutboxSettled> {
    if let Some(answer) = request::find(db, ask.request, VERB)? {
        return read(&answer);
    }
    let Some(claim) = claim::find(db, ask.token)? else {
        return Ok(stale(ask));
    };
    let settled = of_claim(db, &claim, ask, now)?;
    let OutboxSettled {
        sent,
        refused,
        returned,
        stale,
    } = settled;
    let answer = format!("{sent} {refused} {returned} {stale}");
    request::remember(db, ask.request, VERB, now, &answer)?;
    Ok(settled)
}

fn stale(ask: &OutboxSettle) -> OutboxSettled {
    OutboxSettled {
        stale: (ask.sent.len() + ask.refused.len()) as u64,
        ..OutboxSettled::default()
    }
}

fn read(answer: &str) -> Result<OutboxSettled> {
    let numbers: Vec<u64> = answer
        .split(' ')
        .map(|number| number.parse().map_err(|_| ids::damaged(answer)))
        .collect::<Result<_>>()?;
    match numbers[..] {
        [sent, refused, returned, stale] => Ok(OutboxSettled {
            sent,
            refused,
            returned,
            stale,
        }),
        _ => Err(ids::damaged(answer)),
    }
}

fn of_claim(
    db: &Connection,
    claim: &ClaimRow,
    ask: &OutboxSettle,
    now: i64,
) -> Result<OutboxSettled> {
    let sent: Vec<i64> = ask.sent.iter().map(|seq| seq.0).collect();
    if ask.archive == Archive::Events {
        let archive = query!(outbox_archive);
        exec(
            db,
            archive,
            (ids::json(&sent), claim.id, now, &claim.worker),
        )?;
    }
    let mut tally = Tally::default();
    let mut settled = OutboxSettled {
        sent: complete::of_claim(db, claim, &sent, &mut tally, now)?.len() as u64,
        ..OutboxSettled::default()
    };
    let doubtful: HashSet<i64> = ask.doubtful.iter().map(|seq| seq.0).collect();
    let deferred: HashMap<i64, Duration> =
        ask.deferred.iter().map(|it| (it.seq.0, it.delay)).collect();
    for held in held::of_claim(db, claim)? {
        let refusal = ask
            .refused
            .iter()
            .find(|refusal| refusal.seq.0 == held.id());
        match refusal {
            Some(refusal) => {
                refuse(db, claim, held, refusal, &mut tally, now)?;
                settled.refused += 1;
            }
            None => {
                let held = match doubtful.contains(&held.id()) {
                    true => held.doubtful(),
                    false => held,
                };
                let delay = deferred.get(&held.id()).copied().unwrap_or_default();
                held.defer(db, &mut tally, delay, now)?;
                settled.returned += 1;
            }
        }
    }
    tally.write(db)?;
    settled.stale = stale(ask).stale - settled.sent - settled.refused;
    Ok(settled)
}

/// Stores a refusal: the event is retried, or dead.
fn refuse(
    db: &Connection,
    claim: &ClaimRow,
    held: held::Held<'_>,
    refusal: &Refusal,
    tally: &mut Tally,
    now: i64,
) -> Result<()> {
    if refusal.next == AfterRefusal::Dead(OnDead::Park) {
        let park = query!(outbox_park);
        exec(db, park, (held.id(), claim.id, now))?;
    }
    let retry_in = match refusal.next {
        AfterRefusal::Retry(pause) => Some(pause),
        AfterRefusal::Dead(OnDead::Block) => Some(Duration::from_micros(
            u64::try_from(NEVER_US.saturating_sub(now)).unwrap_or(0),
        )),
        AfterRefusal::Dead(_) => None,
    };
    let failure = Failure {
        claim: ClaimId {
            item: refusal.seq,
            token: Uuid::nil(),
        },
        error: refusal.error.clone(),
        retry_in,
        again: match retry_in {
            Some(_) => Again::Retry,
            None => Again::Never,
        },
    };
    held.end(db, tally, held::AttemptEnd::Failed(&failure), now)
}
