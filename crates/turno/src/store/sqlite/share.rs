//! Shared holds and permits. The rule is `lock_is_shareable`, in `queries/rules.sql`.

use rusqlite::{Connection, named_params};

use super::lock::{acquire_params, find, late_release, released, take};
use super::rows::{Ending, Held, exec, lock_rows, one, record};
use crate::check::{self, MAX_PERMITS};
use crate::clock::as_us;
use crate::error::Result;
use crate::store::*;

fn permits(mode: LockMode) -> u32 {
    match mode {
        LockMode::Permits(permits) => permits,
        LockMode::Exclusive | LockMode::Shared => MAX_PERMITS,
    }
}

fn holds(db: &Connection, resource: &str, now: i64) -> Result<Vec<Held>> {
    let resource = named_params! {":resource": resource, ":now": now};
    lock_rows(db, query!(lock_hold_list), resource)
}

fn hold(db: &Connection, resource: &str, token: Token, now: i64) -> Result<Option<Held>> {
    Ok(holds(db, resource, now)?
        .into_iter()
        .find(|hold| hold.token == token))
}

/// Returns the holder if the call is busy. It only reads. `gate` is the lock row.
pub(super) fn lose(
    db: &Connection,
    ask: &LockAcquire,
    gate: Held,
    now: i64,
) -> Result<Option<Busy>> {
    let held: Vec<Held> = holds(db, &ask.resource, now)?
        .into_iter()
        .filter(|hold| hold.is_held)
        .collect();
    if held.iter().any(|hold| hold.owner == ask.owner) {
        return Ok(None);
    }
    let owner = named_params! {
        ":resource": ask.resource, ":owner": ask.owner, ":now": now, ":permits": permits(ask.mode),
    };
    if one(db, query!(lock_is_shareable), owner)? {
        return Ok(None);
    }
    // The caller waits for the hold that ends first.
    Ok(Some(held.into_iter().next().unwrap_or(gate).busy(now)))
}

pub(super) fn enter(db: &Connection, ask: &LockAcquire, now: i64) -> Result<LockOutcome> {
    if let Some(gate) = find(db, &ask.resource, now)? {
        if gate.is_exclusive() && gate.is_held {
            // An exclusive owner enters again; for other callers it is busy.
            return take(
                db,
                &LockAcquire {
                    mode: LockMode::Exclusive,
                    ..ask.clone()
                },
                now,
            );
        }
        if let Some(busy) = lose(db, ask, gate.clone(), now)? {
            return Ok(LockOutcome::Busy(busy));
        }
        if gate.is_exclusive() {
            super::lock::close(db, &gate, Ending::of(HistoryEvent::TakenOver), now)?;
        }
    }
    let holds = holds(db, &ask.resource, now)?;
    if let Some(mine) = holds
        .iter()
        .find(|hold| hold.owner == ask.owner && hold.is_held)
    {
        return enter_again(db, ask, mine.clone(), now);
    }
    for hold in holds.iter().filter(|hold| !hold.is_held) {
        end(db, hold, Ending::of(HistoryEvent::Expired), now)?;
    }

    let token = Token(one(
        db,
        query!(lock_next_shared_token),
        named_params! {":resource": ask.resource, ":now": now},
    )?);
    exec(
        db,
        query!(lock_hold_insert),
        acquire_params!(ask, now, ":token": token.0),
    )?;
    refresh(db, &ask.resource)?;
    let entered = hold(db, &ask.resource, token, now)?;
    Ok(entered
        .expect("the hold was inserted in this transaction")
        .granted(now, false))
}

fn enter_again(
    db: &Connection,
    ask: &LockAcquire,
    mut mine: Held,
    now: i64,
) -> Result<LockOutcome> {
    if !mine.has_hold(ask.request) {
        check::one_more_hold(mine.holds)?;
        mine.hold_ids.push_str(&ask.request.to_string());
        mine.holds += 1;
        mine.expires_at = mine.later(now + as_us(ask.ttl));
        update(db, &mine)?;
    }
    refresh(db, &ask.resource)?;
    let reentered = mine.is_again(ask.request);
    Ok(mine.granted(now, reentered))
}

/// Returns the new expiry, or `None` if the hold has ended.
pub(super) fn renew(
    db: &Connection,
    ask: &LockRenew,
    expires_at: i64,
    now: i64,
) -> Result<Option<i64>> {
    let mine = hold(db, &ask.resource, ask.token, now)?;
    let Some(mut mine) = mine.filter(|hold| hold.may_last(now)) else {
        return Ok(None);
    };
    if mine.has_expired(now) {
        record(db, &mine, Ending::of(HistoryEvent::RenewedLate), now)?;
    }
    mine.expires_at = mine.later(expires_at);
    update(db, &mine)?;
    refresh(db, &ask.resource)?;
    Ok(Some(mine.expires_at))
}

pub(super) fn release(db: &Connection, ask: &LockRelease, now: i64) -> Result<ReleaseOutcome> {
    let Some(mut mine) = hold(db, &ask.resource, ask.token, now)? else {
        return late_release(db, ask, now);
    };
    if !mine.give_back(ask) {
        return Ok(ReleaseOutcome::Released { holds: mine.holds });
    }
    if mine.holds > 0 {
        update(db, &mine)?;
        return Ok(ReleaseOutcome::Released { holds: mine.holds });
    }
    end(db, &mine, released(&mine, ask, now), now)?;
    let rested = find(db, &ask.resource, now)?.and_then(|gate| gate.min_until);
    rest(db, &ask.resource, rested.max(mine.min_until))?;
    refresh(db, &ask.resource)?;
    Ok(ReleaseOutcome::Released { holds: 0 })
}

pub(super) fn break_open(
    db: &Connection,
    ask: &LockBreak,
    ending: Ending<'_>,
    now: i64,
) -> Result<BreakOutcome> {
    let Some(held) = hold(db, &ask.resource, ask.token, now)? else {
        return Ok(BreakOutcome::NotHeld);
    };
    end(db, &held, ending, now)?;
    // A broken hold is free at once, without its min_hold; the refresh restores that of the other holds.
    rest(db, &ask.resource, None)?;
    refresh(db, &ask.resource)?;
    Ok(BreakOutcome::Broken)
}

/// Ends all holds of a resource. Returns how many there were.
pub(super) fn close(db: &Connection, resource: &str, ending: Ending<'_>, now: i64) -> Result<u64> {
    let holds = holds(db, resource, now)?;
    holds
        .iter()
        .try_for_each(|hold| end(db, hold, ending, now))?;
    Ok(holds.len() as u64)
}

fn rest(db: &Connection, resource: &str, min_until: Option<i64>) -> Result<()> {
    let rest = named_params! {":resource": resource, ":min_until": min_until};
    exec(db, query!(lock_set_min_until), rest).map(drop)
}

fn end(db: &Connection, hold: &Held, ending: Ending<'_>, now: i64) -> Result<()> {
    let which = named_params! {":resource": hold.resource, ":token": hold.token.0};
    exec(db, query!(lock_hold_delete), which)?;
    record(db, hold, ending, now)
}

fn update(db: &Connection, hold: &Held) -> Result<()> {
    exec(
        db,
        query!(lock_hold_update),
        named_params! {
            ":resource": hold.resource, ":token": hold.token.0, ":holds": hold.holds,
            ":expires_at": hold.expires_at, ":hold_ids": hold.hold_ids, ":requests": hold.requests,
        },
    )
    .map(drop)
}

/// Updates the lock row from its holds.
fn refresh(db: &Connection, resource: &str) -> Result<()> {
    exec(
        db,
        query!(lock_sum_holds),
        named_params! {":resource": resource},
    )
    .map(drop)
}
