//! The queues, and the failed items of one.

use turno::inbox::{ItemView, QueueStats};

use super::*;
use crate::cmd::top::memory::Memory;
use crate::cmd::top::poller::MAX_ROWS;
use crate::duration::Shown;
use crate::payload::{self, cut};

const QUEUES: &[Column] = &[
    column("QUEUE", Side::Text, 0),
    column("PENDING", Side::Right, 0),
    column("SCHEDULED", Side::Right, 74),
    column("PROCESSING", Side::Right, 50),
    column("COMPLETED", Side::Right, 90),
    column("FAILED", Side::Right, 0),
    column("OLDEST", Side::Right, 60),
    column("DONE", Side::Right, 66),
    column("LAST MINUTE", Side::Left, 120),
];
const ITEMS: &[Column] = &[
    column("ID", Side::Right, 0),
    column("FAILED", Side::Left, 60),
    column("ATTEMPTS", Side::Right, 80),
    column("KEY", Side::Left, 100),
    column("ERROR", Side::Text, 0),
    column("PAYLOAD", Side::Text, 50),
];
/// Maximum length of a payload or error in the table, in characters.
const CUT: usize = 120;
/// Maximum length in the details.
const CUT_LONG: usize = 2000;
const PLOT: usize = 30;

pub(in crate::cmd::top) fn queues(queues: &[QueueStats], memory: &Memory) -> List {
    let sum = |count: fn(&QueueStats) -> u64| queues.iter().map(count).sum::<u64>();
    let failed = sum(|stats| stats.failed);
    List {
        columns: QUEUES,
        summary: vec![
            figure(sum(|stats| stats.pending), "pending", Tone::Normal),
            figure(sum(|stats| stats.processing), "processing", Tone::Normal),
            figure(failed, "failed", alarm(failed)),
        ],
        rows: queues.iter().map(|stats| queue(stats, memory)).collect(),
        empty: "There are no queues.",
        fill: "turno inbox push mail '{\"to\": \"ana\"}'",
        beyond: None,
    }
}

fn queue(stats: &QueueStats, memory: &Memory) -> Row {
    let count = memory.queue(&stats.queue);
    let requeue = (stats.failed > 0).then(|| Action::RequeueAll {
        queue: stats.queue.clone(),
        failed: stats.failed,
    });
    let reset = (stats.processing > 0).then(|| Action::Reset {
        queue: stats.queue.clone(),
    });
    Row {
        subject: Subject::Queue(stats.queue.clone()),
        cells: vec![
            normal(&stats.queue),
            count_in(stats.pending, Tone::Normal),
            count_in(stats.scheduled, Tone::Normal),
            count_in(stats.processing, Tone::Good),
            count_in(stats.completed, Tone::Normal),
            alarming(stats.failed),
            optional(stats.oldest_pending.map(Shown)),
            normal(rate(count.and_then(|count| count.rate()))),
            toned(
                count.map_or_else(String::new, |count| count.plot(PLOT)),
                Tone::Title,
            ),
        ],
        details: Vec::new(),
        actions: requeue.into_iter().chain(reset).collect(),
    }
}

pub(in crate::cmd::top) fn items(queue: &str, items: &[ItemView]) -> List {
    List {
        columns: ITEMS,
        summary: vec![
            (printable(queue), Tone::Title),
            figure(items.len(), "failed", alarm(items.len() as u64)),
            ("Esc goes back".to_owned(), Tone::Faint),
        ],
        rows: items.iter().map(|item| row(queue, item)).collect(),
        empty: "No item has failed.",
        fill: "turno inbox fail CLAIM --error 'no such address'",
        beyond: (items.len() >= MAX_ROWS as usize)
            .then_some("turno inbox list QUEUE --state failed"),
    }
}

fn row(queue: &str, item: &ItemView) -> Row {
    let error = item.errors.last().map(|error| cut(&error.error, CUT));
    let payload = item.payload.as_deref().map(payload::shown);
    let mut more = details([
        ("item", Some(item.id.to_string())),
        ("key", item.key.clone()),
        ("group", item.group.clone()),
        ("worker", item.worker.clone()),
        ("pushed", item.pushed_at.map(at)),
        (
            "payload",
            payload.as_deref().map(|text| cut(text, CUT_LONG)),
        ),
    ]);
    more.extend(errors(&item.errors));
    Row {
        subject: Subject::Item(item.id),
        cells: vec![
            normal(item.id),
            optional(item.at.map(at)),
            normal(item.attempts),
            optional(item.key.as_deref()),
            toned(error.as_deref().unwrap_or("no error message"), Tone::Bad),
            optional(payload.as_deref().map(|text| cut(text, CUT))),
        ],
        details: more,
        actions: vec![
            Action::Requeue {
                queue: queue.to_owned(),
                id: item.id,
            },
            Action::Discard {
                queue: queue.to_owned(),
                id: item.id,
            },
        ],
    }
}
