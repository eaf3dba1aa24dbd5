//! Settings of a queue, and how many items they let begin.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};

use super::super::classify;
use super::super::history::OperatorAction;
use super::super::rows::{exec, first, one, prepare};
use super::count;
use crate::check;
use crate::clock::{as_us, between_us};
use crate::error::Result;
use crate::store::inbox::{queue_settings, settings_text};
use crate::store::*;

/// A queue with its settings, if it has any.
pub(super) struct Queue {
    pub(super) id: i64,
    pub(super) settings: Option<QueueSettings>,
    /// Number of items in flight, also of those whose claims have expired and were not taken over.
    running: i64,
}

/// Returns a queue, if something was ever pushed to it or it has settings.
pub(super) fn find(db: &Connection, name: &str) -> Result<Option<Queue>> {
    let row = prepare(db, query!(inbox_queue_settings)).and_then(|mut find| {
        let queue = |row: &rusqlite::Row<'_>| {
            let settings: Option<String> = row.get(1)?;
            Ok((row.get(0)?, settings, row.get(2)?))
        };
        find.query_row([name], queue).optional()
    });
    let Some((id, settings, running)) = row.map_err(classify)? else {
        return Ok(None);
    };
    let settings = settings.as_deref().map(queue_settings).transpose()?;
    Ok(Some(Queue {
        id,
        settings,
        running,
    }))
}

pub(crate) fn settings(db: &Connection, queue: &str) -> Result<QueueSettings> {
    let queue = find(db, queue)?;
    Ok(queue.and_then(|queue| queue.settings).unwrap_or_default())
}

pub(crate) fn configure(db: &Connection, ask: &InboxConfigure, now: i64) -> Result<QueueSettings> {
    let id: i64 = one(db, query!(inbox_queue_make), [&ask.queue])?;
    let was = settings(db, &ask.queue)?;
    let is = was.with(&ask.change);
    if is == was {
        return Ok(is);
    }
    let text = settings_text(&is)?;
    let stored = (is != QueueSettings::default()).then_some(&text);
    exec(db, query!(inbox_queue_configure), (id, stored))?;
    if is.rate != was.rate {
        exec(db, query!(inbox_rate_delete), [id])?;
    }
    let mut reason = format!("from {} to {text}", settings_text(&was)?);
    if let Some(own) = &ask.reason {
        reason = format!("{reason}: {own}");
    }
    reason.truncate(reason.floor_char_boundary(check::TEXT_BYTES));
    OperatorAction {
        part: Part::Inbox,
        event: HistoryEvent::Changed,
        resource: &ask.queue,
        count: 1,
        user: ask.user.as_deref(),
        reason: Some(&reason),
    }
    .record(db, now)?;
    Ok(is)
}

impl Queue {
    /// Returns how many items may begin now, at most `limit`. Expired claims have been taken over.
    pub(super) fn admitted(&self, db: &Connection, limit: u32, now: i64) -> Result<u32> {
        let Some(settings) = &self.settings else {
            return Ok(limit);
        };
        if settings.paused {
            return Ok(0);
        }
        let free = self.free().map_or(limit, |free| limit.min(free));
        match &settings.rate {
            Some(rate) if free > 0 => Ok(free.min(Pace::read(db, self.id, rate, now)?.room(now))),
            _ => Ok(free),
        }
    }

    /// How many more items may be in flight, if that is limited.
    fn free(&self) -> Option<u32> {
        let most = self.settings.as_ref()?.max_running?;
        let running = u32::try_from(self.running).unwrap_or(u32::MAX);
        Some(most.saturating_sub(running))
    }

    /// Records that items have begun.
    pub(super) fn began(&self, db: &Connection, items: usize, now: i64) -> Result<()> {
        match self.settings.as_ref().and_then(|settings| settings.rate) {
            Some(rate) if items > 0 => {
                let pace = Pace::read(db, self.id, &rate, now)?;
                exec(
                    db,
                    query!(inbox_rate_set),
                    (self.id, pace.after(count(items))),
                )
                .map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Returns how long to wait for what may be due already: until an item may begin. `None` if no time is known.
    pub(super) fn delay(
        &self,
        db: &Connection,
        due: Duration,
        now: i64,
    ) -> Result<Option<Duration>> {
        let Some(settings) = &self.settings else {
            return Ok(Some(due));
        };
        if settings.paused {
            return Ok(None);
        }
        let mut due = due;
        if self.free() == Some(0) {
            let ends: Option<Option<i64>> = first(db, query!(inbox_claim_first_end), [self.id])?;
            due = due.max(between_us(now, ends.flatten().unwrap_or(now)));
        }
        if let Some(rate) = &settings.rate {
            let begins = Pace::read(db, self.id, rate, now)?.next();
            due = due.max(between_us(now, begins));
        }
        Ok(Some(due))
    }
}

/// A rate, and the time that was taken of it (GCRA).
struct Pace {
    /// When the time that was taken ends.
    taken: i64,
    /// The time that each item takes, rounded up, so that there are never more than the rate allows.
    step: i64,
    burst: i64,
}

impl Pace {
    fn read(db: &Connection, queue: i64, rate: &Rate, now: i64) -> Result<Self> {
        let taken: Option<i64> = first(db, query!(inbox_rate_find), [queue])?;
        Ok(Pace::new(rate, taken, now))
    }

    fn new(rate: &Rate, taken: Option<i64>, now: i64) -> Self {
        let count = i64::from(rate.count.max(1));
        let per = as_us(rate.per.0);
        let step = (per / count + i64::from(per % count > 0)).max(1);
        let burst = i64::from(rate.burst.max(1));
        // If the clock was set back, at most as far ahead as a whole burst.
        let furthest = now.saturating_add(step.saturating_mul(burst));
        Pace {
            taken: taken.unwrap_or(now).min(furthest).max(now),
            step,
            burst,
        }
    }

    /// How many items may begin now.
    fn room(&self, now: i64) -> u32 {
        let ahead = self.taken - now;
        let taken = ahead / self.step + i64::from(ahead % self.step > 0);
        u32::try_from(self.burst - taken).unwrap_or(0)
    }

    /// When the time that is taken ends, after so many more items.
    fn after(&self, items: i64) -> i64 {
        self.taken.saturating_add(items.saturating_mul(self.step))
    }

    /// When the next item may begin.
    fn next(&self) -> i64 {
        self.taken - (self.burst - 1) * self.step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000_000;

    /// Lets as many items begin as the rate allows, at each of these times; returns the numbers.
    fn begun(rate: Rate, times: &[i64]) -> Vec<u32> {
        let mut taken = None;
        let mut begin = |at: &i64| {
            let pace = Pace::new(&rate, taken, NOW + at);
            let room = pace.room(NOW + at);
            taken = Some(pace.after(i64::from(room)));
            room
        };
        times.iter().map(&mut begin).collect()
    }

    #[test]
    fn items_begin_at_equal_intervals() {
        let rate = Rate::new(4, Duration::from_micros(100));
        assert_eq!(
            begun(rate, &[0, 24, 25, 49, 50, 1000, 1001]),
            [1, 0, 1, 0, 1, 1, 0]
        );
        // 33.3 is rounded up.
        let rate = Rate::new(3, Duration::from_micros(100));
        assert_eq!(
            begun(rate, &[0, 33, 34, 67, 68, 100, 102]),
            [1, 0, 1, 0, 1, 0, 1]
        );
    }

    #[test]
    fn a_burst_begins_at_once_and_is_earned_again() {
        let rate = Rate::new(4, Duration::from_micros(100)).burst(3);
        assert_eq!(begun(rate, &[0, 1, 25, 80, 1000]), [3, 0, 1, 2, 3]);
    }

    #[test]
    fn a_clock_that_was_set_back_stops_nothing_for_long() {
        let rate = Rate::new(4, Duration::from_micros(100));
        let pace = Pace::new(&rate, Some(NOW + 1_000_000), NOW);
        assert_eq!((pace.room(NOW), pace.next()), (0, NOW + 25));
    }
}
