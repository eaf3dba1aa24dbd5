//! The outbox: events are items of a separate queue, and the rules of items apply to them.

mod operator;
mod settle;

use async_trait::async_trait;
use rusqlite::Connection;
use uuid::Uuid;

use super::SqliteStore;
use super::inbox::{claim, find_queue, push, request};
use super::rows::{many, one};
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::store::*;

/// Due time of a blocked event, in the year 9999: it keeps its place until an operator decides.
const NEVER_US: i64 = 253_370_764_800_000_000;

#[async_trait]
impl OutboxStore for SqliteStore {
    async fn outbox_emit(&self, ask: &OutboxEmit) -> Result<Vec<Uuid>> {
        let (items, ids) = items(&ask.events)?;
        let ask = InboxPush {
            queue: OUTBOX_QUEUE.to_owned(),
            items,
            request: ask.request,
        };
        self.writer
            .write(move |db| emit(db, &ask, &ids, clock::now_us()))
            .await
    }

    async fn outbox_claim(&self, ask: &OutboxClaim) -> Result<Vec<ClaimedEvent>> {
        let order = ask.order;
        let ask = InboxClaim {
            queue: OUTBOX_QUEUE.to_owned(),
            worker: ask.relay.clone(),
            limit: ask.limit.min(MAX_BATCH),
            lease: ask.lease,
            request: ask.token,
            batching: crate::Batching::Alone,
        };
        let look = ask.clone();
        let how = (order, self.max_claim_bytes);
        self.writer
            .look_then_write(
                move |db| {
                    claim::look(db, &look, order, clock::now_us())?
                        .map(|items| events(db, items))
                        .transpose()
                },
                move |db| events(db, claim::claim(db, &ask, how, clock::now_us())?),
            )
            .await
    }

    async fn outbox_settle(&self, ask: &OutboxSettle) -> Result<OutboxSettled> {
        let ask = ask.clone();
        self.writer
            .write(move |db| settle::settle(db, &ask, clock::now_us()))
            .await
    }

    async fn outbox_recover(&self) -> Result<u64> {
        self.writer
            .write(|db| {
                let Some(queue) = find_queue(db, OUTBOX_QUEUE)? else {
                    return Ok(0);
                };
                let recover = query!(outbox_recover);
                let ended = many(db, recover, (queue, clock::now_us()), |row| {
                    row.get::<_, u32>(0)
                })?;
                Ok(ended.into_iter().map(u64::from).sum())
            })
            .await
    }

    async fn outbox_lead(&self, _: &OutboxLead) -> Result<Leadership> {
        // SQLite has no session locks. A relay that must be the only one acquires a lease.
        Ok(Leadership::NotHere)
    }

    async fn outbox_stats(&self) -> Result<OutboxStats> {
        self.read(|db| operator::stats(db, clock::now_us())).await
    }

    async fn outbox_list(&self, ask: &OutboxList) -> Result<Vec<EventView>> {
        let ask = ask.clone();
        self.read(move |db| operator::list(db, &ask, clock::now_us()))
            .await
    }

    async fn outbox_find(&self, id: Uuid) -> Result<Option<EventView>> {
        self.read(move |db| operator::find(db, id, clock::now_us()))
            .await
    }

    async fn outbox_requeue(&self, ask: &OutboxRequeue) -> Result<u64> {
        let ask = ask.clone();
        self.writer
            .write(move |db| operator::requeue(db, &ask, clock::now_us()))
            .await
    }

    async fn outbox_discard(&self, ask: &OutboxDiscard) -> Result<u64> {
        let ask = ask.clone();
        self.writer
            .write(move |db| operator::discard(db, &ask, clock::now_us()))
            .await
    }
}

/// Stores events. A repetition stores nothing and returns the ids of the first call.
fn emit(db: &Connection, ask: &InboxPush, ids: &[Uuid], now: i64) -> Result<Vec<Uuid>> {
    const VERB: &str = "outbox_emit";
    if let Some(answer) = request::find(db, ask.request, VERB)? {
        return answer
            .split(' ')
            .map(|id| event_id(Some(id)))
            .collect::<Result<_>>();
    }
    push::store(db, ask, now)?;
    let names: Vec<String> = ids.iter().map(Uuid::to_string).collect();
    request::remember(db, ask.request, VERB, now, &names.join(" "))?;
    Ok(ids.to_vec())
}

/// Returns the items of events, and the events' ids.
pub(crate) fn items(events: &[NewEvent]) -> Result<(Vec<NewItem>, Vec<Uuid>)> {
    let ids: Vec<Uuid> = events
        .iter()
        .map(|event| event.id.unwrap_or_else(Uuid::now_v7))
        .collect();
    let items = events
        .iter()
        .zip(&ids)
        .map(|(event, id)| event_item(event, *id))
        .collect::<Result<_>>()?;
    Ok((items, ids))
}

fn events(db: &Connection, items: Vec<ClaimedItem>) -> Result<Vec<ClaimedEvent>> {
    items
        .into_iter()
        .map(|item| {
            let parked = match &item.group {
                Some(key) => one(db, query!(outbox_is_parked), [key])?,
                None => false,
            };
            Ok(ClaimedEvent {
                seq: item.claim.item,
                // An event without an id is claimed with the nil id, and the relay sets it aside. An error here would fail
                // the claim of all others.
                id: event_id(item.key.as_deref()).unwrap_or_default(),
                key: item.group,
                event: item.payload.into(),
                emitted_at: item.pushed_at,
                refused: item
                    .attempt
                    .saturating_sub(1)
                    .saturating_sub(item.abandoned),
                doubtful: item.abandoned,
                parked,
            })
        })
        .collect()
}

fn event_id(key: Option<&str>) -> Result<Uuid> {
    Uuid::try_parse(key.unwrap_or_default())
        .map_err(|error| Error::caused(Kind::Broken, "an event is stored without its id", error))
}
