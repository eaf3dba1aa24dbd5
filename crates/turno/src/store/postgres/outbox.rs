//! The outbox: each verb is one call of a function.

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::batching::multirange;
use super::interval::{Interval, interval_text};
use super::json::Json;
use super::lead;
use super::rows::{big_count, count, count_in, get};
use super::{Argument, PostgresStore};
use crate::error::{Error, Kind, Result};
use crate::store::*;

pub(crate) const OUTBOX_EMIT: &str = query!(outbox_emit);
pub(crate) const SEEN: &str = query!(mark_processed);

#[async_trait]
impl OutboxStore for PostgresStore {
    async fn outbox_emit(&self, ask: &OutboxEmit) -> Result<Vec<Uuid>> {
        let columns = EmitColumns::of(&ask.events)?;
        let request = Some(ask.request.to_string());
        let row = self
            .calls
            .row(OUTBOX_EMIT, &columns.arguments(&request))
            .await?;
        emitted(&get::<Vec<&str>>(&row, "ids")?)
    }

    async fn outbox_claim(&self, ask: &OutboxClaim) -> Result<Vec<ClaimedEvent>> {
        let limit = count_in(ask.limit);
        let rows = self
            .calls
            .rows(
                query!(outbox_claim),
                &[
                    (&ask.relay, Type::TEXT),
                    (&limit, Type::INT4),
                    (&Interval(ask.lease), Type::INTERVAL),
                    (&(ask.order == Order::ByKey), Type::BOOL),
                    (&ask.token, Type::UUID),
                ],
            )
            .await?;
        rows.iter().map(claimed).collect()
    }

    async fn outbox_settle(&self, ask: &OutboxSettle) -> Result<OutboxSettled> {
        let refused: Vec<i64> = ask.refused.iter().map(|refusal| refusal.seq.0).collect();
        // PostgreSQL's text cannot contain a zero.
        let errors: Vec<String> = ask
            .refused
            .iter()
            .map(|refusal| refusal.error.replace('\0', "\u{fffd}"))
            .collect();
        let (retry_ins, dead) = after_refusals(ask.refused.iter().map(|refusal| refusal.next));
        let deferred: Vec<i64> = ask.deferred.iter().map(|it| it.seq.0).collect();
        let delays: Vec<Interval> = ask.deferred.iter().map(|it| Interval(it.delay)).collect();
        let row = self
            .calls
            .row(
                query!(outbox_settle),
                &[
                    (&ask.token, Type::UUID),
                    (&ranges(&ask.sent), Type::TEXT),
                    (&refused, Type::INT8_ARRAY),
                    (&errors, Type::TEXT_ARRAY),
                    (&retry_ins, Type::INTERVAL_ARRAY),
                    (&dead, Type::TEXT_ARRAY),
                    (&ranges(&ask.doubtful), Type::TEXT),
                    (&(ask.archive == Archive::Events), Type::BOOL),
                    (&ask.request, Type::UUID),
                    (&deferred, Type::INT8_ARRAY),
                    (&delays, Type::INTERVAL_ARRAY),
                ],
            )
            .await?;
        Ok(OutboxSettled {
            sent: big_count(&row, "sent")?,
            refused: big_count(&row, "refused")?,
            returned: big_count(&row, "returned")?,
            stale: big_count(&row, "stale")?,
        })
    }

    async fn outbox_recover(&self) -> Result<u64> {
        let row = self.calls.row(query!(outbox_recover), &[]).await?;
        big_count(&row, "many")
    }

    async fn outbox_lead(&self, ask: &OutboxLead) -> Result<Leadership> {
        lead::lead(&self.calls, ask).await
    }

    async fn outbox_stats(&self) -> Result<OutboxStats> {
        let row = self.calls.row(query!(outbox_stats), &[]).await?;
        Ok(OutboxStats {
            total: big_count(&row, "total")?,
            pending: big_count(&row, "pending")?,
            scheduled: big_count(&row, "scheduled")?,
            processing: big_count(&row, "processing")?,
            dispatched: big_count(&row, "dispatched")?,
            dead: big_count(&row, "dead")?,
            blocked: big_count(&row, "blocked")?,
            parked_keys: big_count(&row, "parked_keys")?,
            oldest_pending: get::<Option<Interval>>(&row, "oldest_pending")?.map(|age| age.0),
        })
    }

    async fn outbox_list(&self, ask: &OutboxList) -> Result<Vec<EventView>> {
        let rows = self
            .calls
            .rows(
                query!(outbox_list),
                &[
                    (&ask.state.as_str(), Type::TEXT),
                    (&ask.after.map(|seq| seq.0), Type::INT8),
                    (&count_in(ask.limit), Type::INT4),
                ],
            )
            .await?;
        rows.iter().map(view).collect()
    }

    async fn outbox_find(&self, id: Uuid) -> Result<Option<EventView>> {
        let rows = self
            .calls
            .rows(query!(outbox_find), &[(&id, Type::UUID)])
            .await?;
        rows.first().map(view).transpose()
    }

    async fn outbox_requeue(&self, ask: &OutboxRequeue) -> Result<u64> {
        let row = self
            .calls
            .row(
                query!(outbox_requeue),
                &[
                    (&ask.ids, Type::UUID_ARRAY),
                    (&count_in(ask.limit), Type::INT4),
                    (&ask.user, Type::TEXT),
                    (&ask.reason, Type::TEXT),
                ],
            )
            .await?;
        big_count(&row, "many")
    }

    async fn outbox_discard(&self, ask: &OutboxDiscard) -> Result<u64> {
        let row = self
            .calls
            .row(
                query!(outbox_discard),
                &[
                    (&ask.ids, Type::UUID_ARRAY),
                    (&ask.user, Type::TEXT),
                    (&ask.reason, Type::TEXT),
                ],
            )
            .await?;
        big_count(&row, "many")
    }
}

/// Columns of the events of an emission. A column that no event has is not sent.
pub(crate) struct EmitColumns<'a> {
    pub(crate) kinds: Vec<&'a str>,
    pub(crate) payloads: Vec<&'a str>,
    pub(crate) keys: Option<Vec<Option<&'a str>>>,
    pub(crate) correlation_ids: Option<Vec<Option<&'a str>>>,
    pub(crate) traceparents: Option<Vec<Option<&'a str>>>,
    pub(crate) tracestates: Option<Vec<Option<&'a str>>>,
    pub(crate) headers: Option<Vec<Option<String>>>,
    pub(crate) delays: Option<Vec<Option<String>>>,
    pub(crate) ids: Option<Vec<Option<String>>>,
}

impl<'a> EmitColumns<'a> {
    pub(crate) fn of(events: &'a [NewEvent]) -> Result<Self> {
        let headers = events
            .iter()
            .map(|event| match event.headers.is_empty() {
                true => Ok(None),
                false => serde_json::to_string(&event.headers).map(Some),
            })
            .collect::<Result<_, _>>()
            .map_err(|error| {
                Error::caused(Kind::invalid("headers"), "headers is not text", error)
            })?;
        Ok(EmitColumns {
            kinds: events.iter().map(|event| event.kind.as_str()).collect(),
            payloads: events.iter().map(|event| event.payload.as_str()).collect(),
            keys: some(events.iter().map(|event| event.key.as_deref()).collect()),
            correlation_ids: some(
                events
                    .iter()
                    .map(|event| event.correlation_id.as_deref())
                    .collect(),
            ),
            traceparents: some(
                events
                    .iter()
                    .map(|event| event.traceparent.as_deref())
                    .collect(),
            ),
            tracestates: some(
                events
                    .iter()
                    .map(|event| event.tracestate.as_deref())
                    .collect(),
            ),
            headers: some(headers),
            delays: some(
                events
                    .iter()
                    .map(|event| event.delay.map(interval_text))
                    .collect(),
            ),
            ids: some(
                events
                    .iter()
                    .map(|event| event.id.map(|id| id.to_string()))
                    .collect(),
            ),
        })
    }
}

impl EmitColumns<'_> {
    /// Returns the arguments of [`OUTBOX_EMIT`], without a request id in the caller's transaction.
    pub(crate) fn arguments<'b>(&'b self, request: &'b Option<String>) -> [Argument<'b>; 10] {
        [
            (&self.kinds, Type::TEXT_ARRAY),
            (&self.payloads, Type::TEXT_ARRAY),
            (&self.keys, Type::TEXT_ARRAY),
            (&self.correlation_ids, Type::TEXT_ARRAY),
            (&self.traceparents, Type::TEXT_ARRAY),
            (&self.tracestates, Type::TEXT_ARRAY),
            (&self.headers, Type::TEXT_ARRAY),
            (&self.delays, Type::TEXT_ARRAY),
            (&self.ids, Type::TEXT_ARRAY),
            (request, Type::TEXT),
        ]
    }
}

/// Returns a column, if any event has a value in it.
fn some<T>(column: Vec<Option<T>>) -> Option<Vec<Option<T>>> {
    column.iter().any(Option::is_some).then_some(column)
}

/// Returns the ids of `outbox_emit_batch`.
pub(crate) fn emitted(ids: &[impl AsRef<str>]) -> Result<Vec<Uuid>> {
    ids.iter()
        .map(|id| {
            Uuid::try_parse(id.as_ref())
                .map_err(|error| Error::caused(Kind::Broken, "an event's id is not one", error))
        })
        .collect()
}

/// Returns, for each refused event, the pause before its next attempt, or what it does to its key if it is dead.
pub(super) fn after_refusals(
    next: impl Iterator<Item = AfterRefusal>,
) -> (Vec<Option<Interval>>, Vec<Option<&'static str>>) {
    next.map(|next| match next {
        AfterRefusal::Retry(pause) => (Some(Interval(pause)), None),
        AfterRefusal::Dead(choice) => (None, Some(choice.as_str())),
    })
    .unzip()
}

fn ranges(seqs: &[ItemId]) -> String {
    let mut seqs: Vec<i64> = seqs.iter().map(|seq| seq.0).collect();
    seqs.sort_unstable();
    multirange(&seqs)
}

/// Reads columns by position: a claim has many rows, and each name costs a search.
fn claimed(row: &Row) -> Result<ClaimedEvent> {
    let read = || -> Result<ClaimedEvent, tokio_postgres::Error> {
        let number = |column| -> Result<u32, tokio_postgres::Error> {
            Ok(u32::try_from(row.try_get::<_, i32>(column)?).unwrap_or(0))
        };
        Ok(ClaimedEvent {
            seq: ItemId(row.try_get(0)?),
            id: row.try_get(1)?,
            key: row.try_get(2)?,
            event: row.try_get::<_, Json>(3)?.0,
            emitted_at: row.try_get(4)?,
            refused: number(5)?,
            doubtful: number(6)?,
            parked: row.try_get(7)?,
        })
    };
    read().map_err(super::rows::not_as_expected)
}

fn view(row: &Row) -> Result<EventView> {
    let errors: Option<&str> = get(row, "errors")?;
    let view = EventView {
        seq: ItemId(get(row, "seq")?),
        id: get(row, "id")?,
        state: get::<&str>(row, "state")?.parse()?,
        kind: None,
        key: get(row, "key")?,
        correlation_id: None,
        traceparent: None,
        headers: Default::default(),
        payload: None,
        refused: count(row, "refused")?,
        doubtful: count(row, "doubtful")?,
        by: get(row, "by")?,
        emitted_at: get(row, "emitted_at")?,
        at: get(row, "at")?,
        errors: errors.map_or(Ok(Vec::new()), attempt_errors)?,
    };
    Ok(with_event(view, get(row, "event")?))
}
