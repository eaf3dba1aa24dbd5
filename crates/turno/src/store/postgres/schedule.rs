//! Schedules.

use async_trait::async_trait;
use tokio_postgres::types::Type;

use super::PostgresStore;
use super::interval::Interval;
use super::rows::get;
use crate::error::Result;
use crate::store::*;

#[async_trait]
impl ScheduleStore for PostgresStore {
    async fn schedule_state(&self, name: &str) -> Result<ScheduleState> {
        let row = self
            .calls
            .row(query!(schedule_state), &[(&name, Type::TEXT)])
            .await?;
        Ok(ScheduleState {
            now: get(&row, "now")?,
            last: get(&row, "last")?,
        })
    }

    async fn schedule_tick(&self, ask: &ScheduleTick) -> Result<TickOutcome> {
        let item = ask.item.as_ref();
        let payload = item.map(|item| item.payload.as_str());
        let key = item.and_then(|item| item.key.as_deref());
        let group = item.and_then(|item| item.group.as_deref());
        let priority = item.map(|item| i32::from(item.priority));
        let attempts = item.map(|item| i32::from(item.max_attempts));
        let (delay, run_at) = match item.and_then(|item| item.due) {
            Some(Due::After(delay)) => (Some(Interval(delay)), None),
            Some(Due::At(time)) => (None, Some(time)),
            None => (None, None),
        };
        let row = self
            .calls
            .row(
                query!(schedule_tick),
                &[
                    (&ask.name, Type::TEXT),
                    (&ask.tick, Type::TIMESTAMPTZ),
                    (&ask.queue, Type::TEXT),
                    (&payload, Type::TEXT),
                    (&key, Type::TEXT),
                    (&priority, Type::INT4),
                    (&delay, Type::INTERVAL),
                    (&run_at, Type::TIMESTAMPTZ),
                    (&group, Type::TEXT),
                    (&attempts, Type::INT4),
                ],
            )
            .await?;
        Ok(if get(&row, "ours")? {
            TickOutcome::Ticked(get::<Option<i64>>(&row, "id")?.map(ItemId))
        } else {
            TickOutcome::Already
        })
    }
}
