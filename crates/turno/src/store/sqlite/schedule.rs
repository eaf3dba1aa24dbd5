//! Schedules. A tick and its item are one job of the writer, and so one transaction.

use async_trait::async_trait;
use rusqlite::Connection;
use uuid::Uuid;

use super::SqliteStore;
use super::caller::push_in;
use super::rows::{exec, one};
use crate::clock::{self, from_us};
use crate::error::Result;
use crate::store::*;

#[async_trait]
impl ScheduleStore for SqliteStore {
    async fn schedule_state(&self, name: &str) -> Result<ScheduleState> {
        let (look, name) = (name.to_owned(), name.to_owned());
        self.writer
            .look_then_write(
                move |db| last(db, &look).map(|last| last.map(state)),
                move |db| {
                    let now = clock::now_us();
                    exec(db, query!(schedule_begin), (&name, now))?;
                    Ok(state(last(db, &name)?.unwrap_or(now)))
                },
            )
            .await
    }

    async fn schedule_tick(&self, ask: &ScheduleTick) -> Result<TickOutcome> {
        let ask = ask.clone();
        self.writer.write(move |db| tick(db, &ask)).await
    }
}

fn last(db: &Connection, name: &str) -> Result<Option<i64>> {
    one(db, query!(schedule_last), [name])
}

fn state(last: i64) -> ScheduleState {
    ScheduleState {
        now: from_us(clock::now_us()),
        last: from_us(last),
    }
}

fn tick(db: &Connection, ask: &ScheduleTick) -> Result<TickOutcome> {
    let at = ask.tick.as_microsecond();
    if exec(db, query!(schedule_tick), (&ask.name, at))? == 0 {
        return Ok(TickOutcome::Already);
    }
    let push = InboxPush {
        queue: ask.queue.clone(),
        items: ask.item.iter().cloned().collect(),
        request: Uuid::nil(),
    };
    let pushed = push_in(db, &push, clock::now_us())?;
    Ok(TickOutcome::Ticked(pushed.first().map(|item| item.id)))
}
