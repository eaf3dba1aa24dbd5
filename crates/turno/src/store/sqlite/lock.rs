//! Locks, each verb inside the writer's transaction. Exclusive locks are here, shared ones in `share.rs`. The functions match
//! those of the same names in PostgreSQL.

use rusqlite::{Connection, named_params};
use uuid::Uuid;

use super::rows::{Ending, Held, exec, first, holder, lock_row, many, one, record};
use super::share;
use crate::check;
use crate::clock::{as_us, between_us, from_us};
use crate::error::{Error, Kind, Result};
use crate::store::*;

/// Reason in the history of a release that came after the expiry, and before another holder.
const LATE_RELEASE: &str = "after its expiry";

pub(super) fn find(db: &Connection, resource: &str, now: i64) -> Result<Option<Held>> {
    let resource = named_params! {":resource": resource, ":now": now};
    lock_row(db, query!(lock_find), resource)
}

/// Returns the holder if the call is busy. It only reads, so that a busy call writes nothing.
pub(super) fn lose(db: &Connection, ask: &LockAcquire, now: i64) -> Result<Option<Busy>> {
    if ask.mode == LockMode::Exclusive {
        let owner = named_params! {":resource": ask.resource, ":owner": ask.owner, ":now": now};
        if first(db, query!(lock_is_takeable), owner)? != Some(false) {
            return Ok(None);
        }
    }
    let Some(held) = find(db, &ask.resource, now)? else {
        return Ok(None);
    };
    if held.is_held && held.is_exclusive() && held.owner == ask.owner {
        return Ok(None);
    }
    match ask.mode {
        LockMode::Exclusive => Ok(Some(held.busy(now))),
        LockMode::Shared | LockMode::Permits(_) => share::lose(db, ask, held, now),
    }
}

pub(super) fn acquire(db: &Connection, ask: &LockAcquire, now: i64) -> Result<LockOutcome> {
    match ask.mode {
        LockMode::Exclusive => take(db, ask, now),
        LockMode::Shared | LockMode::Permits(_) => share::enter(db, ask, now),
    }
}

/// The parameters that the statements of an exclusive and of a shared acquire have in common, and further ones.
macro_rules! acquire_params {
    ($ask:ident, $now:ident $(, $name:literal: $value:expr)*) => {
        rusqlite::named_params! {
            $($name: $value,)*
            ":resource": $ask.resource, ":owner": $ask.owner, ":now": $now,
            ":expires_at": $crate::store::sqlite::lock::expires_at($ask, $now),
            ":min_until": $ask.min_hold.map(|hold| $now + as_us(hold)),
            ":max_until": $ask.max_hold.map(|hold| $now + as_us(hold)),
            ":user": $ask.attribution.user, ":service": $ask.attribution.service,
            ":description": $ask.attribution.description, ":host": $ask.attribution.host,
            ":pid": $ask.attribution.pid, ":request": $ask.request.to_string(),
        }
    };
}

pub(super) use acquire_params;

/// Returns the first expiry of a new hold.
pub(super) fn expires_at(ask: &LockAcquire, now: i64) -> i64 {
    now + as_us(ask.ttl).min(ask.max_hold.map_or(i64::MAX, as_us))
}

/// Acquires an exclusive lock. The rule is `lock_is_takeable`, in `queries/rules.sql`.
pub(super) fn take(db: &Connection, ask: &LockAcquire, now: i64) -> Result<LockOutcome> {
    // Most locks are free and have a row.
    if let Some(token) = take_row(db, ask, None, now)? {
        return Ok(new_grant(ask, token, now));
    }
    let Some(was) = find(db, &ask.resource, now)? else {
        exec(db, query!(lock_insert), acquire_params!(ask, now))?;
        return Ok(new_grant(ask, token(db, &ask.resource)?, now));
    };
    if was.is_held && was.is_exclusive() && was.owner == ask.owner {
        return reenter(db, ask, was, now);
    }
    match take_row(db, ask, Some(was.token), now)? {
        Some(token) => {
            close(db, &was, Ending::of(HistoryEvent::TakenOver), now)?;
            Ok(new_grant(ask, token, now))
        }
        None => Ok(LockOutcome::Busy(was.busy(now))),
    }
}

/// Takes a row that is free or has this token, and returns its new token.
fn take_row(
    db: &Connection,
    ask: &LockAcquire,
    takes_over: Option<Token>,
    now: i64,
) -> Result<Option<Token>> {
    let takes_over = takes_over.map(|token| token.0);
    let params = acquire_params!(ask, now, ":takes_over": takes_over);
    if exec(db, query!(lock_acquire), params)? == 0 {
        return Ok(None);
    }
    token(db, &ask.resource).map(Some)
}

fn token(db: &Connection, resource: &str) -> Result<Token> {
    one(
        db,
        query!(lock_token),
        named_params! {":resource": resource},
    )
    .map(Token)
}

fn new_grant(ask: &LockAcquire, token: Token, now: i64) -> LockOutcome {
    let expires_at = expires_at(ask, now);
    LockOutcome::Acquired(Grant {
        resource: ask.resource.clone(),
        owner: ask.owner.clone(),
        token,
        holds: 1,
        acquired_at: from_us(now),
        expires_at: from_us(expires_at),
        remaining: between_us(now, expires_at),
        reentered: false,
    })
}

fn reenter(db: &Connection, ask: &LockAcquire, was: Held, now: i64) -> Result<LockOutcome> {
    if was.has_hold(ask.request) {
        let again = was.is_again(ask.request);
        return Ok(was.granted(now, again));
    }
    check::one_more_hold(was.holds)?;
    let again = lock_row(
        db,
        query!(lock_reenter),
        named_params! {
            ":resource": ask.resource, ":expires_at": now + as_us(ask.ttl), ":request": ask.request.to_string(),
        },
    )?;
    again
        .map(|held| held.granted(now, true))
        .ok_or_else(vanished)
}

/// Ends all holds of a row, with one history row each. Changes no lock row. Returns the number of holds.
pub(super) fn close(db: &Connection, held: &Held, ending: Ending<'_>, now: i64) -> Result<u64> {
    if held.holds == 0 {
        return Ok(0);
    }
    if held.is_exclusive() {
        record(db, held, ending, now)?;
        return Ok(1);
    }
    share::close(db, &held.resource, ending, now)
}

/// Returns the parameters of each of several resources.
pub(super) fn each(ask: &LockAcquireAll) -> impl Iterator<Item = LockAcquire> + '_ {
    ask.resources.iter().map(|resource| LockAcquire {
        resource: resource.clone(),
        ..ask.each.clone()
    })
}

/// Acquires all or none: a busy lock is an error until the savepoint has undone the others.
pub(super) fn acquire_all(
    db: &Connection,
    ask: &LockAcquireAll,
    now: i64,
) -> Result<LockAllOutcome> {
    let mut resources = ask.resources.clone();
    resources.sort_unstable();
    resources.dedup();
    let ask = LockAcquireAll {
        resources,
        each: ask.each.clone(),
    };
    exec(db, "savepoint together", [])?;
    let mut grants = Vec::with_capacity(ask.resources.len());
    for one in each(&ask) {
        match take(db, &one, now)? {
            LockOutcome::Acquired(grant) => grants.push(grant),
            LockOutcome::Busy(busy) => {
                exec(db, "rollback to together", [])?;
                exec(db, "release together", [])?;
                return Ok(LockAllOutcome::Busy(busy));
            }
        }
    }
    exec(db, "release together", [])?;
    Ok(LockAllOutcome::Acquired(grants))
}

pub(super) fn renew(db: &Connection, ask: &LockRenew, now: i64) -> Result<RenewOutcome> {
    let held = find(db, &ask.resource, now)?;
    let expires_at = now + as_us(ask.ttl);
    let renewed = match held {
        Some(held) if !held.is_exclusive() => share::renew(db, ask, expires_at, now)?,
        Some(held) if held.token == ask.token && held.holds > 0 && held.may_last(now) => {
            if held.has_expired(now) {
                record(db, &held, Ending::of(HistoryEvent::RenewedLate), now)?;
            }
            let renew = named_params! {":resource": ask.resource, ":expires_at": expires_at};
            Some(one(db, query!(lock_renew), renew)?)
        }
        _ => None,
    };
    match renewed {
        Some(until) => Ok(RenewOutcome::Renewed {
            expires_at: from_us(until),
            remaining: between_us(now, until),
        }),
        None => {
            late(db, &ask.resource, ask.token, "renew", now)?;
            Ok(RenewOutcome::Lost)
        }
    }
}

pub(super) fn release(db: &Connection, ask: &LockRelease, now: i64) -> Result<ReleaseOutcome> {
    // Most leases have one hold.
    if release_only_hold(db, ask, now)? {
        return Ok(ReleaseOutcome::Released { holds: 0 });
    }
    let mut held = match find(db, &ask.resource, now)? {
        Some(held) if !held.is_exclusive() => return share::release(db, ask, now),
        Some(held) if held.token == ask.token && held.holds > 0 => held,
        _ => return late_release(db, ask, now),
    };
    if held.give_back(ask) {
        exec(
            db,
            query!(lock_release),
            named_params! {":resource": ask.resource, ":hold_ids": held.hold_ids, ":requests": held.requests},
        )?;
        if held.holds == 0 {
            record(db, &held, released(&held, ask, now), now)?;
        }
    }
    Ok(ReleaseOutcome::Released { holds: held.holds })
}

/// Returns whether the hold was the only one of an exclusive lease, which has ended then.
fn release_only_hold(db: &Connection, ask: &LockRelease, now: i64) -> Result<bool> {
    let Some(hold) = ask.hold else {
        return Ok(false);
    };
    let hold =
        named_params! {":resource": ask.resource, ":token": ask.token.0, ":hold": hold.to_string()};
    if exec(db, query!(lock_release_only_hold), hold)? == 0 {
        return Ok(false);
    }
    let entry = named_params! {
        ":resource": ask.resource, ":now": now, ":late_reason": LATE_RELEASE, ":request": ask.request.to_string(),
    };
    exec(db, query!(history_insert_released), entry).map(|_| true)
}

/// Releases a lock that is not held: a repetition, because the response was lost, or a stale release.
pub(super) fn late_release(db: &Connection, ask: &LockRelease, now: i64) -> Result<ReleaseOutcome> {
    if was_ended(db, &ask.resource, ask.token, ask.request, ask.hold)? {
        return Ok(ReleaseOutcome::Released { holds: 0 });
    }
    late(db, &ask.resource, ask.token, "release", now)?;
    Ok(ReleaseOutcome::Lost)
}

fn was_ended(
    db: &Connection,
    resource: &str,
    token: Token,
    request: Uuid,
    hold: Option<Uuid>,
) -> Result<bool> {
    let hold = hold.map(|hold| hold.to_string());
    let ended = named_params! {":resource": resource, ":token": token.0, ":request": request.to_string(), ":hold": hold};
    one(db, query!(history_has_end), ended)
}

/// Returns how the history records a release, which may come after the expiry.
pub(super) fn released(held: &Held, ask: &LockRelease, now: i64) -> Ending<'static> {
    let reason = (held.expires_at <= now).then_some(LATE_RELEASE);
    Ending {
        event: HistoryEvent::Released,
        actor: None,
        reason,
        request: Some(ask.request),
    }
}

pub(super) fn break_open(db: &Connection, ask: &LockBreak, now: i64) -> Result<BreakOutcome> {
    if was_ended(db, &ask.resource, ask.token, ask.request, None)? {
        return Ok(BreakOutcome::Broken);
    }
    let ending = Ending {
        event: HistoryEvent::Broken,
        actor: ask.user.as_deref(),
        reason: Some(ask.reason.as_str()),
        request: Some(ask.request),
    };
    let held = match find(db, &ask.resource, now)? {
        Some(held) if !held.is_exclusive() => return share::break_open(db, ask, ending, now),
        Some(held) if held.token == ask.token && held.holds > 0 => held,
        _ => return Ok(BreakOutcome::NotHeld),
    };
    record(db, &held, ending, now)?;
    exec(
        db,
        query!(lock_free),
        named_params! {":resource": ask.resource, ":min_until": None::<i64>},
    )?;
    Ok(BreakOutcome::Broken)
}

pub(super) fn late(
    db: &Connection,
    resource: &str,
    token: Token,
    what: &str,
    now: i64,
) -> Result<()> {
    let late = named_params! {":resource": resource, ":token": token.0, ":what": what, ":now": now};
    exec(db, query!(history_insert_late), late).map(drop)
}

pub(super) fn wait(db: &Connection, ask: &LockWait, now: i64) -> Result<WaitOutcome> {
    let alive_until = now + as_us(WAITER_ALIVE);
    let (fifo, who) = (ask.order == WaitOrder::Fifo, &ask.attribution);
    exec(
        db,
        query!(lock_waiter_delete_expired),
        named_params! {":resource": ask.resource, ":owner": ask.owner, ":now": now},
    )?;
    exec(
        db,
        query!(lock_waiter_register),
        named_params! {
            ":resource": ask.resource, ":owner": ask.owner, ":fifo": fifo, ":now": now, ":alive_until": alive_until,
            ":user": who.user, ":service": who.service, ":description": who.description,
        },
    )?;
    if fifo {
        let mark = named_params! {":resource": ask.resource, ":alive_until": alive_until};
        exec(db, query!(lock_waiter_mark), mark)?;
    }
    Ok(WaitOutcome::Registered)
}

pub(super) fn leave(db: &Connection, ask: &LockLeave) -> Result<()> {
    let leave = named_params! {":resource": ask.resource, ":owner": ask.owner};
    exec(db, query!(lock_waiter_unregister), leave).map(drop)
}

pub(super) fn status(db: &Connection, resource: &str, now: i64) -> Result<LockStatus> {
    let ask = named_params! {
        ":resource": resource, ":prefix": "", ":after": "", ":limit": crate::check::MAX_PERMITS, ":now": now,
    };
    let holders = many(db, query!(lock_list), ask, |row| holder(row, now))?;
    let waiters: i64 = one(
        db,
        query!(lock_waiter_count),
        named_params! {":resource": resource, ":now": now},
    )?;
    Ok(LockStatus {
        resource: resource.to_owned(),
        holders,
        waiters: waiters.try_into().unwrap_or(0),
    })
}

pub(super) fn list(db: &Connection, ask: &LockList, now: i64) -> Result<Vec<LockHolder>> {
    let ask = named_params! {
        ":resource": None::<&str>, ":prefix": ask.prefix, ":after": ask.after, ":limit": ask.limit, ":now": now,
    };
    many(db, query!(lock_list), ask, |row| holder(row, now))
}

/// Returns the error for a row that has disappeared within the transaction.
fn vanished() -> Error {
    Error::new(
        Kind::Broken,
        "a lock row has vanished inside a transaction; please report it",
    )
}
