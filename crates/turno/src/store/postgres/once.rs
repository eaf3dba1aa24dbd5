//! Once: each verb is one call of a function. Concurrent begins and completions share a call.

use std::collections::HashMap;

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::PostgresStore;
use super::batching::{Batchable, CallAlone, Reply, column, replies};
use super::calls::{Calls, IfLocked};
use super::interval::{Interval, interval_text};
use super::json::Json;
use super::rows::{count, count_in, get};
use crate::error::Result;
use crate::store::*;

pub(crate) const ONCE_COMPLETE_IN: &str = query!(once_complete_in);

#[async_trait]
impl OnceStore for PostgresStore {
    async fn once_begin(&self, ask: &OnceBegin) -> Result<OnceOutcome> {
        self.once_begins.call(&self.calls, ask).await
    }

    async fn once_complete(&self, ask: &OnceComplete) -> Result<OnceSettled> {
        self.once_completions.call(&self.calls, ask).await
    }

    async fn once_release(&self, ask: &OnceRelease) -> Result<OnceSettled> {
        let claim = ask.claim.to_string();
        let row = self
            .calls
            .row(
                query!(once_release),
                &[
                    (&claim, Type::TEXT),
                    (&(ask.released == Released::Unknown), Type::BOOL),
                ],
            )
            .await?;
        get(&row, "done").map(OnceSettled::of)
    }

    async fn once_extend(&self, ask: &OnceExtend) -> Result<OnceSettled> {
        let claim = ask.claim.to_string();
        let row = self
            .calls
            .row(
                query!(once_extend),
                &[(&claim, Type::TEXT), (&Interval(ask.lease), Type::INTERVAL)],
            )
            .await?;
        get(&row, "done").map(OnceSettled::of)
    }

    async fn once_status(&self, key: &str) -> Result<Option<OnceView>> {
        let rows = self
            .calls
            .rows(query!(once_status), &[(&key, Type::TEXT)])
            .await?;
        rows.first().map(view).transpose()
    }

    async fn once_list(&self, ask: &OnceList) -> Result<Vec<OnceView>> {
        let rows = self
            .calls
            .rows(
                query!(once_list),
                &[
                    (&ask.state.map(OnceState::as_str), Type::TEXT),
                    (&ask.prefix, Type::TEXT),
                    (&ask.after, Type::TEXT),
                    (&count_in(ask.limit), Type::INT4),
                ],
            )
            .await?;
        rows.iter().map(view).collect()
    }

    async fn once_forget(&self, ask: &OnceForget) -> Result<bool> {
        let row = self
            .calls
            .row(
                query!(once_forget),
                &[
                    (&ask.key, Type::TEXT),
                    (&ask.user, Type::TEXT),
                    (&ask.reason, Type::TEXT),
                ],
            )
            .await?;
        get(&row, "done")
    }

    async fn once_resolve(&self, ask: &OnceResolve) -> Result<OnceResolved> {
        let row = self
            .calls
            .row(
                query!(once_resolve),
                &[
                    (&ask.key, Type::TEXT),
                    (&ask.answer, Type::TEXT),
                    (&ask.user, Type::TEXT),
                    (&ask.reason, Type::TEXT),
                ],
            )
            .await?;
        Ok(match get(&row, "outcome")? {
            "resolved" => OnceResolved::Resolved,
            "in_flight" => OnceResolved::InFlight(run(&row)?),
            "answered" => OnceResolved::Answered,
            "not_found" => OnceResolved::NotFound,
            other => return Err(unexpected("outcome", other)),
        })
    }
}

pub(super) struct Begins(pub(super) Calls);

impl Batchable for Begins {
    type Ask = OnceBegin;
    type Answer = OnceOutcome;
    /// While one batch commits, the next one reads.
    const CONCURRENCY: usize = 2;

    async fn call(&self, asks: Vec<OnceBegin>) -> Vec<Reply<OnceOutcome>> {
        let rows = match self.all(&asks).await {
            Ok(rows) => rows,
            Err(error) => return column(&asks, |_| Reply::failed(&error)),
        };
        // If a request has two rows, the later one counts.
        let of_request: HashMap<Uuid, &Row> = rows
            .iter()
            .filter_map(|row| Some((row.try_get("request").ok()?, row)))
            .collect();
        column(&asks, |ask| match of_request.get(&ask.request) {
            Some(row) if super::rows::is_later(row) => Reply::Locked,
            Some(row) => Reply::Done(outcome(row, &ask.key)),
            None => Reply::CallAlone,
        })
    }
}

impl CallAlone for Begins {
    fn lock(ask: &OnceBegin) -> String {
        format!("the key {:?}", ask.key)
    }

    async fn one(&self, ask: &OnceBegin, if_locked: IfLocked<'_>) -> Result<OnceOutcome> {
        let quota = ask.quota.as_ref();
        let row = self
            .0
            .row_if(
                if_locked,
                query!(once_begin),
                &[
                    (&ask.key, Type::TEXT),
                    (&ask.fingerprint, Type::TEXT),
                    (&Interval(ask.lease), Type::INTERVAL),
                    (&Interval(ask.ttl), Type::INTERVAL),
                    (&ask.unknown.as_str(), Type::TEXT),
                    (&ask.worker, Type::TEXT),
                    (&(ask.in_flight == WhileInFlight::Wait), Type::BOOL),
                    (&quota.map(|quota| &quota.scope), Type::TEXT),
                    (&quota.map(|quota| count_in(quota.most)), Type::INT4),
                    (&ask.request, Type::UUID),
                ],
            )
            .await?;
        outcome(&row, &ask.key)
    }
}

impl Begins {
    async fn all(&self, asks: &[OnceBegin]) -> Result<Vec<Row>> {
        let quotas = column(asks, |ask| ask.quota.as_ref());
        let scopes = column(&quotas, |quota| quota.map(|quota| &*quota.scope));
        let most = column(&quotas, |quota| quota.map(|quota| count_in(quota.most)));
        let fingerprints = column(asks, |ask| ask.fingerprint.as_deref());
        let waits = column(asks, |ask| ask.in_flight == WhileInFlight::Wait);
        self.0
            .rows(
                query!(once_begin_batch),
                &[
                    (&column(asks, |ask| &*ask.key), Type::TEXT_ARRAY),
                    (&fingerprints, Type::TEXT_ARRAY),
                    (
                        &column(asks, |ask| Interval(ask.lease)),
                        Type::INTERVAL_ARRAY,
                    ),
                    (&column(asks, |ask| Interval(ask.ttl)), Type::INTERVAL_ARRAY),
                    (&column(asks, |ask| ask.unknown.as_str()), Type::TEXT_ARRAY),
                    (&column(asks, |ask| ask.worker.as_deref()), Type::TEXT_ARRAY),
                    (&waits, Type::BOOL_ARRAY),
                    (&scopes, Type::TEXT_ARRAY),
                    (&most, Type::INT4_ARRAY),
                    (&column(asks, |ask| ask.request), Type::UUID_ARRAY),
                ],
            )
            .await
    }
}

pub(super) struct OnceCompletions(pub(super) Calls);

impl Batchable for OnceCompletions {
    type Ask = OnceComplete;
    type Answer = OnceSettled;
    const CONCURRENCY: usize = 2;

    async fn call(&self, asks: Vec<OnceComplete>) -> Vec<Reply<OnceSettled>> {
        let rows = self
            .0
            .rows(
                query!(once_complete_batch),
                &[
                    (&column(&asks, |ask| &*ask.claim.key), Type::TEXT_ARRAY),
                    (&column(&asks, |ask| ask.claim.token.0), Type::INT8_ARRAY),
                    (
                        &column(&asks, |ask| ask.answer.as_deref()),
                        Type::TEXT_ARRAY,
                    ),
                    (
                        &column(&asks, |ask| ask.ttl.map(Interval)),
                        Type::INTERVAL_ARRAY,
                    ),
                ],
            )
            .await;
        replies(asks.len(), rows, settled)
    }
}

impl CallAlone for OnceCompletions {
    fn lock(ask: &OnceComplete) -> String {
        format!("the run of key {:?}", ask.claim.key)
    }

    async fn one(&self, ask: &OnceComplete, if_locked: IfLocked<'_>) -> Result<OnceSettled> {
        let (claim, ttl) = (ask.claim.to_string(), ttl_text(ask));
        let done = self
            .0
            .rows_if(
                if_locked,
                ONCE_COMPLETE_IN,
                &[
                    (&claim, Type::TEXT),
                    (&ask.answer, Type::TEXT),
                    (&ttl, Type::TEXT),
                ],
            )
            .await;
        match done {
            Ok(_) => Ok(OnceSettled::Done),
            Err(error) if error.is_lost() => Ok(OnceSettled::Stale),
            Err(error) => Err(error),
        }
    }
}

/// Returns how long an answer is kept, as text, because not every driver supports intervals.
pub(crate) fn ttl_text(ask: &OnceComplete) -> Option<String> {
    ask.ttl.map(interval_text)
}

fn outcome(row: &Row, key: &str) -> Result<OnceOutcome> {
    Ok(match get(row, "outcome")? {
        "fresh" => OnceOutcome::Fresh(OnceGrant {
            claim: OnceClaim {
                key: key.to_owned(),
                token: Token(get(row, "token")?),
            },
            attempt: count(row, "attempt")?,
            expires_at: get(row, "expires_at")?,
            remaining: get::<Interval>(row, "remaining")?.0,
        }),
        "replay" => OnceOutcome::Replay {
            answer: get::<Option<Json>>(row, "answer")?.map(|answer| answer.0),
        },
        "in_flight" => OnceOutcome::InFlight(run(row)?),
        "unknown" => OnceOutcome::Unknown(run(row)?),
        "mismatch" => OnceOutcome::Mismatch,
        "over_quota" => OnceOutcome::OverQuota,
        other => return Err(unexpected("outcome", other)),
    })
}

fn run(row: &Row) -> Result<OnceRun> {
    Ok(OnceRun {
        worker: get(row, "worker")?,
        attempt: count(row, "attempt")?,
        began_at: get(row, "began_at")?,
        expires_at: get(row, "expires_at")?,
        remaining: get::<Interval>(row, "remaining")?.0,
    })
}

fn settled(row: &Row) -> Result<OnceSettled> {
    match get(row, "outcome")? {
        "done" => Ok(OnceSettled::Done),
        "stale" => Ok(OnceSettled::Stale),
        other => Err(unexpected("outcome", other)),
    }
}

fn state(word: &str) -> Result<OnceState> {
    word.parse().map_err(|_| unexpected("state", word))
}

fn view(row: &Row) -> Result<OnceView> {
    Ok(OnceView {
        claim: get::<&str>(row, "claim")?.parse()?,
        key: get(row, "key")?,
        state: state(get(row, "state")?)?,
        attempt: count(row, "attempt")?,
        fingerprint: get(row, "fingerprint")?,
        worker: get(row, "worker")?,
        scope: get(row, "scope")?,
        began_at: get(row, "began_at")?,
        expires_at: get(row, "expires_at")?,
        late: count(row, "late")?,
        answer: get::<Option<Json>>(row, "answer")?.map(|answer| answer.0.into()),
    })
}
