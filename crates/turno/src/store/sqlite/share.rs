//! Shared holds and permits. The rule: one more may enter while no live exclusive holder is there, fewer
//! than `permits` live holds are, and nobody who asked for FIFO stands ahead.

use rusqlite::{Connection, named_params};

use super::lock::{find, released, take};
use super::rows::{Ending, Held, exec, lock_rows, one, record};
use crate::check::MAX_PERMITS;
use crate::clock::as_us;
use crate::error::Result;
use crate::store::*;

fn most(mode: LockMode) -> usize {
    match mode {
        LockMode::Permits(permits) => permits as usize,
        LockMode::Exclusive | LockMode::Shared => MAX_PERMITS as usize,
    }
}

fn holds(db: &Connection, resource: &str) -> Result<Vec<Held>> {
    lock_rows(db, include_str!("sql/hold_list.sql"), named_params! {":resource": resource})
}

fn hold(db: &Connection, resource: &str, token: Token) -> Result<Option<Held>> {
    Ok(holds(db, resource)?.into_iter().find(|hold| hold.token == token))
}

/// Who is in the way of one more, if it is clear that somebody is. `held` is the live lock row.
pub(super) fn lose(db: &Connection, ask: &LockAcquire, held: Held, now: i64) -> Result<Option<Busy>> {
    if held.is_exclusive() {
        return Ok((held.owner != ask.owner).then(|| held.busy(now)));
    }
    let live: Vec<Held> = holds(db, &ask.resource)?.into_iter().filter(|hold| hold.is_live(now)).collect();
    if live.len() < most(ask.mode) || live.iter().any(|hold| hold.owner == ask.owner) {
        return Ok(None);
    }
    // The one that ends first is the one to wait for.
    Ok(live.into_iter().next().map(|hold| hold.busy(now)))
}

pub(super) fn enter(db: &Connection, ask: &LockAcquire, now: i64) -> Result<LockOutcome> {
    let gate = find(db, &ask.resource)?;
    if let Some(gate) = gate.as_ref().filter(|gate| gate.is_exclusive()) {
        if gate.is_live(now) && gate.owner == ask.owner {
            return take(db, ask, now);
        }
        if gate.is_live(now) {
            return Ok(LockOutcome::Busy(gate.clone().busy(now)));
        }
        super::lock::close(db, gate, Ending::of(HistoryEvent::TakenOver), now)?;
    }

    let (live, ended): (Vec<Held>, Vec<Held>) =
        holds(db, &ask.resource)?.into_iter().partition(|hold| hold.is_live(now));
    for hold in &ended {
        end(db, hold, Ending::of(HistoryEvent::Expired), now)?;
    }
    if let Some(mine) = live.iter().find(|hold| hold.owner == ask.owner) {
        return enter_again(db, ask, mine.clone(), now);
    }
    let in_line = one::<bool>(
        db,
        include_str!("sql/lock_is_next.sql"),
        named_params! {":resource": ask.resource, ":owner": ask.owner, ":now": now},
    )
    .map(|next| !next)?;
    let resting = live.is_empty() && gate.as_ref().and_then(|gate| gate.min_until).is_some_and(|until| until > now);
    if live.len() >= most(ask.mode) || resting || in_line {
        refresh(db, &ask.resource)?;
        let blocker = live.into_iter().next().or(gate);
        return Ok(LockOutcome::Busy(match blocker {
            Some(held) => held.busy(now),
            None => Busy { resource: ask.resource.clone(), holder: None, remaining: std::time::Duration::ZERO },
        }));
    }

    let token = Token(one(
        db,
        include_str!("sql/lock_gate_open.sql"),
        named_params! {":resource": ask.resource, ":now": now},
    )?);
    let who = &ask.attribution;
    exec(
        db,
        include_str!("sql/hold_insert.sql"),
        named_params! {
            ":resource": ask.resource, ":token": token.0, ":owner": ask.owner, ":now": now,
            ":expires_at": now + as_us(ask.ttl).min(ask.max_hold.map_or(i64::MAX, as_us)),
            ":min_until": ask.min_hold.map(|hold| now + as_us(hold)),
            ":max_until": ask.max_hold.map(|hold| now + as_us(hold)),
            ":user": who.user, ":service": who.service, ":description": who.description,
            ":host": who.host, ":pid": who.pid, ":request": ask.request.to_string(),
        },
    )?;
    refresh(db, &ask.resource)?;
    let entered = hold(db, &ask.resource, token)?;
    Ok(entered.expect("the hold was inserted in this transaction").granted(now, false))
}

fn enter_again(db: &Connection, ask: &LockAcquire, mut mine: Held, now: i64) -> Result<LockOutcome> {
    if !mine.remembers(ask.request) {
        mine.requests = mine.remembering(ask.request);
        mine.holds += 1;
        mine.expires_at = mine.later(now + as_us(ask.ttl));
        update(db, &mine)?;
    }
    refresh(db, &ask.resource)?;
    let reentered = mine.holds > 1;
    Ok(mine.granted(now, reentered))
}

/// The new expiry, or `None` if the hold is no more.
pub(super) fn renew(db: &Connection, ask: &LockRenew, expires_at: i64, now: i64) -> Result<Option<i64>> {
    let Some(mut mine) = hold(db, &ask.resource, ask.token)?.filter(|hold| hold.may_last(now)) else {
        return Ok(None);
    };
    if !mine.is_live(now) {
        record(db, &mine, Ending::of(HistoryEvent::RenewedLate), now)?;
    }
    mine.expires_at = mine.later(expires_at);
    update(db, &mine)?;
    refresh(db, &ask.resource)?;
    Ok(Some(mine.expires_at))
}

pub(super) fn release(db: &Connection, ask: &LockRelease, now: i64) -> Result<ReleaseOutcome> {
    let Some(mut mine) = hold(db, &ask.resource, ask.token)? else {
        let released = named_params! {":resource": ask.resource, ":token": ask.token.0};
        // Released before: this is the same request again, because its answer was lost.
        if one(db, include_str!("sql/history_released.sql"), released)? {
            return Ok(ReleaseOutcome::Released { holds: 0 });
        }
        super::lock::late(db, &ask.resource, ask.token, "release", now)?;
        return Ok(ReleaseOutcome::Lost);
    };
    if mine.remembers(ask.request) {
        return Ok(ReleaseOutcome::Released { holds: mine.holds });
    }
    if mine.holds > 1 {
        mine.requests = mine.remembering(ask.request);
        mine.holds -= 1;
        update(db, &mine)?;
        return Ok(ReleaseOutcome::Released { holds: mine.holds });
    }
    end(db, &mine, released(&mine, now), now)?;
    if let Some(until) = mine.min_until {
        let rest = named_params! {":resource": ask.resource, ":min_until": until};
        exec(db, include_str!("sql/gate_min_until.sql"), rest)?;
    }
    refresh(db, &ask.resource)?;
    Ok(ReleaseOutcome::Released { holds: 0 })
}

pub(super) fn break_open(db: &Connection, ask: &LockBreak, ending: Ending<'_>, now: i64) -> Result<BreakOutcome> {
    let Some(held) = hold(db, &ask.resource, ask.token)? else {
        return Ok(BreakOutcome::NotHeld);
    };
    end(db, &held, ending, now)?;
    refresh(db, &ask.resource)?;
    Ok(BreakOutcome::Broken)
}

/// Ends all holds of a resource.
pub(super) fn close(db: &Connection, resource: &str, ending: Ending<'_>, now: i64) -> Result<()> {
    holds(db, resource)?.iter().try_for_each(|hold| end(db, hold, ending, now))
}

fn end(db: &Connection, hold: &Held, ending: Ending<'_>, now: i64) -> Result<()> {
    let which = named_params! {":resource": hold.resource, ":token": hold.token.0};
    exec(db, include_str!("sql/hold_delete.sql"), which)?;
    record(db, hold, ending, now)
}

fn update(db: &Connection, hold: &Held) -> Result<()> {
    exec(
        db,
        include_str!("sql/hold_update.sql"),
        named_params! {
            ":resource": hold.resource, ":token": hold.token.0, ":holds": hold.holds,
            ":expires_at": hold.expires_at, ":requests": hold.requests,
        },
    )
    .map(drop)
}

/// Makes the lock row tell what its holds tell.
fn refresh(db: &Connection, resource: &str) -> Result<()> {
    exec(db, include_str!("sql/lock_gate.sql"), named_params! {":resource": resource}).map(drop)
}
