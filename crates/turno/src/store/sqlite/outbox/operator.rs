//! Lists and operator actions of the outbox.

use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::{NEVER_US, event_id};
use crate::clock::from_us;
use crate::error::Result;
use crate::store::sqlite::classify;
use crate::store::sqlite::history::OperatorAction;
use crate::store::sqlite::inbox::revive::{self, Failed};
use crate::store::sqlite::inbox::tally::Tally;
use crate::store::sqlite::inbox::{find_queue, list as items, next_of_group, stats as counts};
use crate::store::sqlite::rows::{exec, many, one};
use crate::store::*;

/// Tolerated clock difference between the creation of an event's id and the store.
const CLOCKS_DIFFER_US: i64 = 24 * 60 * 60 * 1_000_000;

pub(super) fn stats(db: &Connection, now: i64) -> Result<OutboxStats> {
    let ask = InboxStats {
        queue: Some(OUTBOX_QUEUE.to_owned()),
        prefix: String::new(),
    };
    // Without an event the outbox has no queue yet.
    let all = counts::stats(db, &ask, now)?.pop().unwrap_or_default();
    let blocked = match find_queue(db, OUTBOX_QUEUE)? {
        Some(queue) => u64::from(one::<u32>(
            db,
            query!(outbox_blocked_count),
            (queue, NEVER_US),
        )?),
        None => 0,
    };
    let parked: u32 = one(db, query!(outbox_parked_count), [])?;
    Ok(OutboxStats {
        total: all.total,
        pending: all.pending,
        scheduled: all.scheduled.saturating_sub(blocked),
        processing: all.processing,
        dispatched: all.completed,
        dead: all.failed,
        blocked,
        parked_keys: parked.into(),
        oldest_pending: all.oldest_pending,
    })
}

pub(super) fn list(db: &Connection, ask: &OutboxList, now: i64) -> Result<Vec<EventView>> {
    let Some(queue) = find_queue(db, OUTBOX_QUEUE)? else {
        return Ok(Vec::new());
    };
    let state = match ask.state {
        EventState::Pending => ItemState::Pending,
        EventState::Scheduled => return scheduled(db, queue, ask, now),
        EventState::Processing => ItemState::Processing,
        EventState::Dead => ItemState::Failed,
        EventState::Blocked => return blocked(db, queue, ask),
        EventState::Dispatched => return dispatched(db, queue, ask),
        EventState::Discarded => return Ok(Vec::new()),
    };
    let ask_items = InboxList {
        queue: OUTBOX_QUEUE.to_owned(),
        state,
        after: ask.after,
        limit: ask.limit,
    };
    let items = items::list(db, &ask_items, now)?.into_iter();
    Ok(items.map(|item| view(item, ask.state)).collect())
}

fn blocked(db: &Connection, queue: i64, ask: &OutboxList) -> Result<Vec<EventView>> {
    let after = ask.after.map_or(0, |seq| seq.0);
    let blocked = query!(outbox_list_blocked);
    let ids = many(db, blocked, (queue, NEVER_US, after, ask.limit), |row| {
        row.get(0)
    })?;
    with_times(db, ids, EventState::Blocked)
}

fn scheduled(db: &Connection, queue: i64, ask: &OutboxList, now: i64) -> Result<Vec<EventView>> {
    let after = ask.after.map_or(0, |seq| seq.0);
    let timed = query!(inbox_list_timed);
    let times = (queue, now.saturating_add(1), NEVER_US - 1, after, ask.limit);
    let ids = many(db, timed, times, |row| row.get(0))?;
    with_times(db, ids, EventState::Scheduled)
}

/// Events with a due time, including blocked ones.
fn with_times(db: &Connection, ids: Vec<i64>, state: EventState) -> Result<Vec<EventView>> {
    let mut events = Vec::with_capacity(ids.len());
    for id in ids {
        if let Some(item) = items::view(db, id, ItemState::Scheduled)? {
            events.push(view(item, state));
        }
    }
    Ok(events)
}

fn dispatched(db: &Connection, queue: i64, ask: &OutboxList) -> Result<Vec<EventView>> {
    let before = ask.after.map_or(i64::MAX, |seq| seq.0);
    let page = query!(outbox_list_dispatched);
    let rows = many(db, page, (queue, before, ask.limit), |row| {
        let key: Option<String> = row.get(1)?;
        let (seq, at, by): (i64, i64, String) = (row.get(0)?, row.get(2)?, row.get(3)?);
        Ok((seq, key, at, by))
    })?;
    rows.into_iter()
        .map(|(seq, key, at, by)| {
            let id = event_id(key.as_deref())?;
            Ok(gone(seq, id, EventState::Dispatched, at, by))
        })
        .collect()
}

/// An event that has left the outbox.
fn gone(seq: i64, id: Uuid, state: EventState, at: i64, by: String) -> EventView {
    EventView {
        seq: ItemId(seq),
        id,
        state,
        kind: None,
        key: None,
        correlation_id: None,
        traceparent: None,
        headers: Default::default(),
        payload: None,
        refused: 0,
        doubtful: 0,
        by: Some(by),
        emitted_at: None,
        at: Some(from_us(at)),
        errors: Vec::new(),
    }
}

fn view(item: ItemView, state: EventState) -> EventView {
    let view = EventView {
        seq: item.id,
        id: event_id(item.key.as_deref()).unwrap_or_default(),
        state,
        kind: None,
        key: item.group,
        correlation_id: None,
        traceparent: None,
        headers: Default::default(),
        payload: None,
        refused: item.attempts.saturating_sub(item.abandoned),
        doubtful: item.abandoned,
        by: item.worker,
        emitted_at: item.pushed_at,
        at: item.at.filter(|_| state != EventState::Blocked),
        errors: item.errors,
    };
    with_event(view, item.payload.as_deref())
}

pub(super) fn find(db: &Connection, id: Uuid, now: i64) -> Result<Option<EventView>> {
    let Some(queue) = find_queue(db, OUTBOX_QUEUE)? else {
        return Ok(None);
    };
    let name = id.to_string();
    if let Some((seq, _)) = dead(db, queue, &name)? {
        let item = items::view(db, seq, ItemState::Failed)?;
        return Ok(item.map(|item| view(item, EventState::Dead)));
    }
    let discarded = db
        .prepare_cached(query!(outbox_find_discarded))
        .and_then(|mut find| {
            find.query_row([&name], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
        })
        .map_err(classify)?;
    if let Some((at, by)) = discarded {
        return Ok(Some(gone(0, id, EventState::Discarded, at, by)));
    }
    if let Some(event) = sent(db, queue, id)? {
        return Ok(Some(event));
    }
    let waiting: Option<(i64, String)> = db
        .prepare_cached(query!(outbox_find_waiting))
        .and_then(|mut find| {
            find.query_row((queue, &name, now, NEVER_US), |row| row.try_into())
                .optional()
        })
        .map_err(classify)?;
    let Some((seq, state)) = waiting else {
        return Ok(None);
    };
    let state: EventState = state.parse()?;
    let as_item = match state {
        EventState::Processing => ItemState::Processing,
        EventState::Scheduled | EventState::Blocked => ItemState::Scheduled,
        _ => ItemState::Pending,
    };
    let item = items::view(db, seq, as_item)?;
    Ok(item.map(|item| view(item, state)))
}

fn sent(db: &Connection, queue: i64, id: Uuid) -> Result<Option<EventView>> {
    type Found = (EventView, Option<String>);
    // An event is dispatched after it was emitted, and most ids contain that time.
    let since = id.get_timestamp().map_or(0, |time| {
        let (seconds, nanos) = time.to_unix();
        let us = i64::try_from(seconds).unwrap_or(0) * 1_000_000 + i64::from(nanos) / 1000;
        us - CLOCKS_DIFFER_US
    });
    let found: Option<Found> = db
        .prepare_cached(query!(outbox_find_dispatched))
        .and_then(|mut find| {
            find.query_row((queue, id.to_string(), since), |row| {
                let state = EventState::Dispatched;
                let mut event = gone(row.get(0)?, id, state, row.get(1)?, row.get(2)?);
                event.key = row.get(3)?;
                event.emitted_at = row.get::<_, Option<i64>>(5)?.map(from_us);
                Ok((event, row.get(4)?))
            })
            .optional()
        })
        .map_err(classify)?;
    Ok(found.map(|(event, text)| with_event(event, text.as_deref())))
}

fn dead(db: &Connection, queue: i64, id: &str) -> Result<Option<Failed>> {
    db.prepare_cached(query!(outbox_dead_by_id))
        .and_then(|mut find| find.query_row((queue, id), revive::failed_row).optional())
        .map_err(classify)
}

/// A blocked event: its item id, its event id and its ordering key.
type Blocked = (i64, String, Option<String>);

/// Returns the blocked events with the given ids, or all.
fn blocked_among(db: &Connection, queue: i64, ids: Option<&[Uuid]>) -> Result<Vec<Blocked>> {
    let blocked = query!(outbox_list_blocked);
    let all: Vec<Blocked> = many(db, blocked, (queue, NEVER_US, 0, -1), |row| row.try_into())?;
    let Some(ids) = ids else {
        return Ok(all);
    };
    let names: std::collections::HashSet<String> = ids.iter().map(Uuid::to_string).collect();
    Ok(all
        .into_iter()
        .filter(|(_, id, _)| names.contains(id))
        .collect())
}

/// Requeues the events of a parked key together, in their order.
pub(super) fn requeue(db: &Connection, ask: &OutboxRequeue, now: i64) -> Result<u64> {
    let Some(queue) = find_queue(db, OUTBOX_QUEUE)? else {
        return Ok(0);
    };
    let chosen: Vec<Failed> = match &ask.ids {
        None => many(
            db,
            query!(inbox_failed_oldest),
            (queue, ask.limit),
            revive::failed_row,
        )?,
        Some(ids) => {
            let mut chosen = Vec::new();
            for id in ids {
                chosen.extend(dead(db, queue, &id.to_string())?);
            }
            chosen
        }
    };
    let mut all: std::collections::BTreeMap<i64, Option<String>> = chosen.into_iter().collect();
    let keys: std::collections::BTreeSet<String> = all.values().flatten().cloned().collect();
    for key in keys {
        if exec(db, query!(outbox_unpark), [&key])? > 0 {
            let behind = query!(outbox_dead_of_key);
            for seq in many(db, behind, (queue, &key), |row| row.get(0))? {
                all.insert(seq, Some(key.clone()));
            }
        }
    }
    let mut tally = Tally::default();
    let mut many = all.len() as u64;
    for failed in all {
        revive::revive(db, queue, failed, &mut tally, now)?;
    }
    for (seq, _, key) in blocked_among(db, queue, ask.ids.as_deref())? {
        exec(db, query!(outbox_unblock), (seq, now))?;
        tally.stops_waiting(queue, Some(NEVER_US));
        tally.waits(queue, Some(now));
        if let Some(key) = key {
            next_of_group(db, queue, &key)?;
        }
        many += 1;
    }
    tally.write(db)?;
    OperatorAction {
        part: Part::Outbox,
        event: HistoryEvent::Requeued,
        resource: "",
        count: many,
        user: ask.user.as_deref(),
        reason: ask.reason.as_deref(),
    }
    .record(db, now)
}

pub(super) fn discard(db: &Connection, ask: &OutboxDiscard, now: i64) -> Result<u64> {
    let Some(queue) = find_queue(db, OUTBOX_QUEUE)? else {
        return Ok(0);
    };
    let mut tally = Tally::default();
    let mut many_gone = 0;
    let give_up = |seq: i64, id: &str| -> Result<()> {
        revive::delete(db, seq)?;
        let record = query!(outbox_discard_insert);
        exec(db, record, (id, now, &ask.user)).map(drop)
    };
    for id in &ask.ids {
        let name = id.to_string();
        let Some((seq, key)) = dead(db, queue, &name)? else {
            continue;
        };
        give_up(seq, &name)?;
        tally.of(queue).failed -= 1;
        many_gone += 1;
        // A key without dead events continues.
        if let Some(key) = key {
            let behind = query!(outbox_dead_of_key);
            let left: Vec<i64> = many(db, behind, (queue, &key), |row| row.get(0))?;
            if left.is_empty() {
                exec(db, query!(outbox_unpark), [&key])?;
            }
        }
    }
    for (seq, name, key) in blocked_among(db, queue, Some(&ask.ids))? {
        give_up(seq, &name)?;
        tally.stops_waiting(queue, Some(NEVER_US));
        many_gone += 1;
        if let Some(key) = key {
            next_of_group(db, queue, &key)?;
        }
    }
    tally.write(db)?;
    OperatorAction {
        part: Part::Outbox,
        event: HistoryEvent::Discarded,
        resource: "",
        count: many_gone,
        user: Some(&ask.user),
        reason: ask.reason.as_deref(),
    }
    .record(db, now)
}
