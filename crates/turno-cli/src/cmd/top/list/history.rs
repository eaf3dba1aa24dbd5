//! The history, newest first, with operator actions. Late calls are highlighted.

use turno::history::{HistoryEntry, HistoryEvent};

use super::*;
use crate::cmd::top::poller::MAX_ROWS;

const COLUMNS: &[Column] = &[
    column("AT", Side::Left, 56),
    column("EVENT", Side::Left, 0),
    column("PART", Side::Left, 90),
    column("RESOURCE", Side::Text, 0),
    column("COUNT", Side::Right, 110),
    column("USER", Side::Text, 66),
    column("BY", Side::Text, 48),
    column("REASON", Side::Text, 40),
];

pub(in crate::cmd::top) fn list(entries: &[HistoryEntry]) -> List {
    let late = entries.iter().filter(|entry| is_late(entry.event)).count();
    List {
        columns: COLUMNS,
        summary: vec![
            ("newest first".to_owned(), Tone::Faint),
            figure(late, "late", alarm(late as u64)),
        ],
        rows: entries.iter().map(row).collect(),
        empty: "The history is empty.",
        fill: "turno run --lock nightly --ttl 30s -- ./report.sh",
        beyond: (entries.len() >= MAX_ROWS as usize).then_some("turno history"),
    }
}

fn is_late(event: HistoryEvent) -> bool {
    matches!(event, HistoryEvent::Late | HistoryEvent::RenewedLate)
}

fn row(entry: &HistoryEntry) -> Row {
    let who = &entry.attribution;
    let name = Some(&entry.resource).filter(|name| !name.is_empty());
    Row {
        subject: Subject::Entry(
            entry.id,
            entry.resource.clone(),
            entry.token.map(|token| token.0),
        ),
        cells: vec![
            toned(at(entry.at), Tone::Faint),
            toned(entry.event, tone(entry.event)),
            toned(entry.part, Tone::Faint),
            optional(name),
            optional(entry.count),
            optional(who.user.as_deref()),
            optional(entry.actor.as_deref()),
            optional(entry.reason.as_deref()),
        ],
        details: details([
            ("resource", name.cloned()),
            ("service", who.service.clone()),
            ("description", who.description.clone()),
            ("by", entry.actor.clone()),
            ("reason", entry.reason.clone()),
            ("owner", entry.owner.clone()),
            ("token", entry.token.map(|token| token.to_string())),
            ("host", who.host.clone()),
            ("pid", who.pid.map(|pid| pid.to_string())),
            ("since", entry.acquired_at.map(at)),
        ]),
        actions: Vec::new(),
    }
}

fn tone(event: HistoryEvent) -> Tone {
    match event {
        HistoryEvent::Acquired => Tone::Good,
        HistoryEvent::Released => Tone::Normal,
        HistoryEvent::RenewedLate
        | HistoryEvent::Expired
        | HistoryEvent::TakenOver
        | HistoryEvent::Requeued
        | HistoryEvent::Reset
        | HistoryEvent::Changed => Tone::Warn,
        HistoryEvent::Broken
        | HistoryEvent::Late
        | HistoryEvent::Discarded
        | HistoryEvent::Forgotten
        | HistoryEvent::Resolved => Tone::Bad,
    }
}
