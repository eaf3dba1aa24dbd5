//! Once, each verb inside the writer's transaction.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, named_params};

use super::caller::once_complete_in;
use super::history::OperatorAction;
use super::rows::{exec, many, one};
use super::{SqliteStore, classify};
use crate::clock::{self, as_us, between_us, from_us};
use crate::error::Result;
use crate::store::*;

pub(crate) const ONCE_COMPLETE: &str = query!(once_complete);
pub(crate) const ONCE_IS: &str = query!(once_has_ended);

/// State of a run that has its answer, in the table.
pub(crate) const DONE: &str = "done";
/// Lists the keys that are in flight or unknown.
const LIST_OPEN: &str = query!(once_list_open);
const RUNNING: &str = "running";
const RELEASED: &str = "released";

#[async_trait]
impl OnceStore for SqliteStore {
    async fn once_begin(&self, ask: &OnceBegin) -> Result<OnceOutcome> {
        let (look, ask) = (ask.clone(), ask.clone());
        self.writer
            .look_then_write(
                move |db| settled_already(db, &look, clock::now_us()),
                move |db| begin(db, &ask, clock::now_us()),
            )
            .await
    }

    async fn once_complete(&self, ask: &OnceComplete) -> Result<OnceSettled> {
        let ask = ask.clone();
        self.writer
            .write(move |db| {
                let settled = once_complete_in(db, &ask, clock::now_us())?;
                if settled == OnceSettled::Stale {
                    late(db, &ask.claim)?;
                }
                Ok(settled)
            })
            .await
    }

    async fn once_release(&self, ask: &OnceRelease) -> Result<OnceSettled> {
        let ask = ask.clone();
        self.writer
            .write(move |db| release(db, &ask, clock::now_us()))
            .await
    }

    async fn once_extend(&self, ask: &OnceExtend) -> Result<OnceSettled> {
        let ask = ask.clone();
        self.writer
            .write(move |db| {
                let until = clock::now_us().saturating_add(as_us(ask.lease));
                let params = (&ask.claim.key, ask.claim.token.0, until);
                let rows = exec(db, query!(once_extend), params)?;
                Ok(OnceSettled::of(rows > 0))
            })
            .await
    }

    async fn once_status(&self, key: &str) -> Result<Option<OnceView>> {
        let key = key.to_owned();
        self.read(move |db| {
            let now = clock::now_us();
            Ok(find(db, &key)?.and_then(|known| known.view(now)))
        })
        .await
    }

    async fn once_list(&self, ask: &OnceList) -> Result<Vec<OnceView>> {
        let ask = ask.clone();
        self.read(move |db| {
            let now = clock::now_us();
            let params = (
                ask.state.map(OnceState::as_str),
                &ask.prefix,
                &ask.after,
                ask.limit,
                now,
                as_us(UNKNOWN_KEPT),
            );
            // There may be millions of stored answers, and only a few keys in flight or unknown.
            let sql = match ask.state {
                Some(OnceState::InFlight | OnceState::Unknown) => LIST_OPEN,
                Some(OnceState::Done) | None => query!(once_list),
            };
            let page = many(db, sql, params, Known::from_row)?;
            Ok(page
                .into_iter()
                .filter_map(|known| known.view(now))
                .collect())
        })
        .await
    }

    async fn once_forget(&self, ask: &OnceForget) -> Result<bool> {
        let ask = ask.clone();
        self.writer
            .write(move |db| forget(db, &ask, clock::now_us()))
            .await
    }

    async fn once_resolve(&self, ask: &OnceResolve) -> Result<OnceResolved> {
        let ask = ask.clone();
        self.writer
            .write(move |db| resolve(db, &ask, clock::now_us()))
            .await
    }
}

fn resolve(db: &Connection, ask: &OnceResolve, now: i64) -> Result<OnceResolved> {
    let Some(known) = find(db, &ask.key)? else {
        return Ok(OnceResolved::NotFound);
    };
    match known.state(now) {
        Some(OnceState::Unknown) => {}
        Some(OnceState::InFlight) => return Ok(OnceResolved::InFlight(known.run(now))),
        Some(OnceState::Done) => return Ok(OnceResolved::Answered),
        None => return Ok(OnceResolved::NotFound),
    }
    let params = (&ask.key, &ask.answer, now);
    let action = OperatorAction {
        part: Part::Once,
        event: HistoryEvent::Resolved,
        resource: &ask.key,
        count: exec(db, query!(once_resolve), params)?,
        user: ask.user.as_deref(),
        reason: ask.reason.as_deref(),
    };
    action.record(db, now)?;
    Ok(OnceResolved::Resolved)
}

fn forget(db: &Connection, ask: &OnceForget, now: i64) -> Result<bool> {
    let forget = query!(once_forget);
    let gone = many(db, forget, (&ask.key, now, as_us(UNKNOWN_KEPT)), |row| {
        row.get(0)
    })?;
    forgotten(db, &gone)?;
    let action = OperatorAction {
        part: Part::Once,
        event: HistoryEvent::Forgotten,
        resource: &ask.key,
        count: gone.len() as u64,
        user: ask.user.as_deref(),
        reason: ask.reason.as_deref(),
    };
    Ok(action.record(db, now)? > 0)
}

/// Deletes expired keys. Returns how many.
pub(super) fn sweep(db: &Connection, batch: u32, now: i64) -> Result<u64> {
    let params = (now, batch, as_us(UNKNOWN_KEPT));
    let gone = many(db, query!(sweep_once), params, |row| row.get(0))?;
    exec(db, query!(sweep_once_later), params)?;
    forgotten(db, &gone)?;
    Ok(gone.len() as u64)
}

/// Keeps new tokens larger than those of deleted rows.
fn forgotten(db: &Connection, tokens: &[i64]) -> Result<()> {
    match tokens.iter().max() {
        Some(token) => exec(db, query!(lock_floor_raise), [token]).map(drop),
        None => Ok(()),
    }
}

/// Counts a claim that came too late, if another run has begun.
fn late(db: &Connection, claim: &OnceClaim) -> Result<()> {
    let params = (&claim.key, claim.token.0);
    exec(db, query!(once_count_late), params).map(drop)
}

fn release(db: &Connection, ask: &OnceRelease, now: i64) -> Result<OnceSettled> {
    let (key, token) = (&ask.claim.key, ask.claim.token.0);
    let sql = match ask.released {
        Released::Undone => query!(once_release),
        Released::Unknown => query!(once_release_unknown),
    };
    let done = exec(db, sql, (key, token, now))? > 0
        || (ask.released == Released::Undone && one(db, ONCE_IS, (key, token, RELEASED))?);
    if !done {
        late(db, &ask.claim)?;
    }
    Ok(OnceSettled::of(done))
}

/// Returns the outcome, if nothing must be written for it.
fn settled_already(db: &Connection, ask: &OnceBegin, now: i64) -> Result<Option<OnceOutcome>> {
    let Some(known) = find(db, &ask.key)? else {
        return Ok(None);
    };
    let Some(state) = known.state(now) else {
        return Ok(None);
    };
    // A repetition of the same request, because its response was lost.
    let is_repeated = known.request == ask.request.to_string();
    if is_repeated && state == OnceState::InFlight {
        return Ok(Some(OnceOutcome::Fresh(known.grant(now))));
    }
    let differs = matches!((&known.fingerprint, &ask.fingerprint), (Some(a), Some(b)) if a != b);
    Ok(match state {
        _ if differs => Some(OnceOutcome::Mismatch),
        OnceState::Done => Some(OnceOutcome::Replay {
            answer: known.answer,
        }),
        OnceState::InFlight => Some(OnceOutcome::InFlight(known.run(now))),
        // If the response was lost for longer than the lease, nothing was done: it begins again.
        OnceState::Unknown if ask.unknown == AfterUnknown::Refuse && !is_repeated => {
            Some(OnceOutcome::Unknown(known.run(now)))
        }
        OnceState::Unknown => None,
    })
}

fn begin(db: &Connection, ask: &OnceBegin, now: i64) -> Result<OnceOutcome> {
    if let Some(outcome) = settled_already(db, ask, now)? {
        return Ok(outcome);
    }
    let known = find(db, &ask.key)?;
    let is_live = known.is_some_and(|known| known.state(now).is_some());
    if let (Some(quota), false) = (&ask.quota, is_live) {
        let params = (&quota.scope, now, quota.most, as_us(UNKNOWN_KEPT));
        if one(db, query!(once_scope_is_full), params)? {
            return Ok(OnceOutcome::OverQuota);
        }
    }
    let until = now.saturating_add(as_us(ask.lease));
    let begun = db
        .prepare_cached(query!(once_begin))
        .and_then(|mut begin| {
            begin.query_row(
                named_params! {
                    ":key": ask.key, ":fingerprint": ask.fingerprint, ":request": ask.request.to_string(),
                    ":worker": ask.worker, ":now": now, ":until": until, ":ttl": as_us(ask.ttl),
                    ":scope": ask.quota.as_ref().map(|quota| &quota.scope),
                    ":sweep_at": until.saturating_add(as_us(ask.ttl)), ":unknown": as_us(UNKNOWN_KEPT),
                },
                Known::from_row,
            )
        })
        .map_err(classify)?;
    Ok(OnceOutcome::Fresh(begun.grant(now)))
}

fn find(db: &Connection, key: &str) -> Result<Option<Known>> {
    db.prepare_cached(query!(once_find))
        .and_then(|mut find| find.query_row([key], Known::from_row).optional())
        .map_err(classify)
}

/// A row of the table.
struct Known {
    key: String,
    fingerprint: Option<String>,
    word: String,
    token: Token,
    attempt: u32,
    request: String,
    worker: Option<String>,
    began_at: i64,
    until: i64,
    ttl: i64,
    scope: Option<String>,
    late: u32,
    answer: Option<String>,
}

impl Known {
    /// Reads columns by position, which is the same in every query.
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Known {
            key: row.get(0)?,
            fingerprint: row.get(1)?,
            word: row.get(2)?,
            token: Token(row.get(3)?),
            attempt: row.get(4)?,
            request: row.get(5)?,
            worker: row.get(6)?,
            began_at: row.get(7)?,
            until: row.get(8)?,
            ttl: row.get(9)?,
            scope: row.get(10)?,
            late: row.get(11)?,
            answer: row.get(12)?,
        })
    }

    /// Returns the state of the row now; `None` if it has expired.
    fn state(&self, now: i64) -> Option<OnceState> {
        let unknown_until = self.until.saturating_add(self.ttl.max(as_us(UNKNOWN_KEPT)));
        match self.word.as_str() {
            DONE if self.until > now => Some(OnceState::Done),
            RUNNING if self.until > now => Some(OnceState::InFlight),
            RUNNING if unknown_until > now => Some(OnceState::Unknown),
            _ => None,
        }
    }

    fn claim(&self) -> OnceClaim {
        OnceClaim {
            key: self.key.clone(),
            token: self.token,
        }
    }

    fn grant(&self, now: i64) -> OnceGrant {
        OnceGrant {
            claim: self.claim(),
            attempt: self.attempt,
            expires_at: from_us(self.until),
            remaining: between_us(now, self.until),
        }
    }

    fn run(self, now: i64) -> OnceRun {
        OnceRun {
            worker: self.worker,
            attempt: self.attempt,
            began_at: from_us(self.began_at),
            expires_at: from_us(self.until),
            remaining: between_us(now, self.until),
        }
    }

    fn view(self, now: i64) -> Option<OnceView> {
        Some(OnceView {
            state: self.state(now)?,
            claim: self.claim(),
            key: self.key,
            attempt: self.attempt,
            fingerprint: self.fingerprint,
            worker: self.worker,
            scope: self.scope,
            began_at: from_us(self.began_at),
            expires_at: from_us(self.until),
            late: self.late,
            answer: self.answer.map(Into::into),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::migrate;

    #[test]
    fn open_keys_are_found_without_a_look_at_kept_answers() {
        let db = Connection::open_in_memory().unwrap();
        migrate::migrate(&db).unwrap();
        let mut explain = db
            .prepare(&format!("explain query plan {LIST_OPEN}"))
            .unwrap();
        let plan = explain.raw_query().mapped(|row| row.get::<_, String>(3));
        let plan: Vec<String> = plan.collect::<rusqlite::Result<_>>().unwrap();
        assert!(
            plan.iter().all(|step| step.contains("turno_once_open")),
            "{plan:?}"
        );
    }
}
