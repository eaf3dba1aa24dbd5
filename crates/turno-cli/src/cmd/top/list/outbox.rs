//! The outbox and its dead events.

use turno::outbox::{EventState, EventView, OutboxStats};

use super::*;
use crate::cmd::top::memory::Memory;
use crate::cmd::top::poller::MAX_ROWS;
use crate::duration::Shown;
use crate::payload::{self, cut};

const COLUMNS: &[Column] = &[
    column("TYPE", Side::Text, 0),
    column("STATE", Side::Left, 44),
    column("SINCE", Side::Left, 70),
    column("KEY", Side::Left, 84),
    column("REFUSED", Side::Right, 96),
    column("ERROR", Side::Text, 0),
    column("PAYLOAD", Side::Text, 110),
];
/// Maximum length of a payload or error in the table, in characters.
const CUT: usize = 120;
/// Maximum length in the details.
const CUT_LONG: usize = 2000;
const PLOT: usize = 20;
const HIDDEN: &str =
    "The outbox is not shown: --prefix or the access token limits the view to a prefix.";

pub(in crate::cmd::top) fn list(
    stats: Option<&OutboxStats>,
    events: &[EventView],
    memory: &Memory,
) -> List {
    List {
        columns: COLUMNS,
        summary: stats.map_or_else(Vec::new, |stats| summary(stats, memory)),
        rows: events.iter().map(row).collect(),
        empty: match stats {
            None => HIDDEN,
            Some(stats) if stats.total == 0 => "There are no events.",
            Some(_) => "No event is dead.",
        },
        fill: match stats {
            Some(stats) if stats.total == 0 => "turno outbox emit TicketCreatedEvent '{\"id\": 7}'",
            _ => "",
        },
        beyond: (events.len() >= MAX_ROWS as usize).then_some("turno outbox list --state dead"),
    }
}

fn summary(stats: &OutboxStats, memory: &Memory) -> Vec<Piece> {
    let count = memory.outbox();
    let lag = match stats.oldest_pending {
        Some(age) => format!("lag {}", Shown(age)),
        None => "no lag".to_owned(),
    };
    let mut all = vec![
        (lag, Tone::Normal),
        figure(stats.pending, "pending", Tone::Normal),
        figure(stats.processing, "processing", Tone::Normal),
        figure(stats.dead, "dead", alarm(stats.dead)),
        figure(stats.blocked, "blocked", alarm(stats.blocked)),
    ];
    if stats.parked_keys > 0 {
        all.push(figure(stats.parked_keys, "keys parked", Tone::Bad));
    }
    if stats.scheduled > 0 {
        all.push(figure(stats.scheduled, "scheduled", Tone::Normal));
    }
    all.push(figure(stats.dispatched, "dispatched", Tone::Normal));
    all.push((rate(count.rate()), Tone::Normal));
    all.push((count.plot(PLOT), Tone::Title));
    all
}

fn row(event: &EventView) -> Row {
    let kind = event.kind.clone().unwrap_or_else(|| event.id.to_string());
    let kind = printable(&kind);
    let error = event.errors.last().map(|error| cut(&error.error, CUT));
    let payload = event.payload.as_deref().map(payload::shown);
    let blocks = event.state == EventState::Blocked;
    let mut more = details([
        ("event", Some(event.id.to_string())),
        ("key", event.key.clone()),
        (
            "blocked",
            blocks.then(|| "it blocks its ordering key".to_owned()),
        ),
        (
            "doubtful",
            (event.doubtful > 0).then(|| "it may have been delivered".to_owned()),
        ),
        ("correlation", event.correlation_id.clone()),
        ("relay", event.by.clone()),
        ("emitted", event.emitted_at.map(at)),
        (
            "payload",
            payload.as_deref().map(|text| cut(text, CUT_LONG)),
        ),
    ]);
    more.extend(errors(&event.errors));
    Row {
        subject: Subject::Event(event.id),
        cells: vec![
            normal(&kind),
            toned(event.state, if blocks { Tone::Bad } else { Tone::Normal }),
            optional(event.at.map(at)),
            optional(event.key.as_deref()),
            normal(event.refused),
            toned(error.as_deref().unwrap_or("–"), Tone::Bad),
            optional(payload.as_deref().map(|text| cut(text, CUT))),
        ],
        details: more,
        actions: vec![
            Action::RequeueEvent {
                id: event.id,
                kind: kind.clone(),
            },
            Action::DiscardEvent { id: event.id, kind },
        ],
    }
}
