//! The locks that are held: holder, description, remaining time and waiters.

use std::time::Duration;

use turno::MAX_PAGE;
use turno::lock::LockHolder;

use super::*;
use crate::cmd::top::memory::Memory;
use crate::duration::Shown;

const COLUMNS: &[Column] = &[
    column("RESOURCE", Side::Text, 0),
    column("USER", Side::Text, 34),
    column("SERVICE", Side::Text, 100),
    column("DESCRIPTION", Side::Text, 66),
    column("HELD", Side::Right, 84),
    column("", Side::Left, 56),
    column("LEFT", Side::Right, 0),
    column("WAITING", Side::Right, 48),
];
/// Length of a bar in characters.
const BAR: usize = 10;
/// Below this fraction of its lease, the remaining time is highlighted.
const LITTLE: f64 = 0.2;

/// Returns the list of locks. `ago`: age of the poll.
pub(in crate::cmd::top) fn list(locks: &[LockHolder], memory: &Memory, ago: Duration) -> List {
    let waiters: u64 = locks.iter().map(|lock| lock.waiters).sum();
    let is_full = locks.len() >= MAX_PAGE as usize;
    let held = format!("{}{}", locks.len(), if is_full { "+" } else { "" });
    let waiting = if waiters > 0 { Tone::Warn } else { Tone::Faint };
    List {
        columns: COLUMNS,
        summary: vec![
            figure(held, "held", Tone::Normal),
            figure(waiters, "waiting", waiting),
        ],
        rows: locks.iter().map(|lock| row(lock, memory, ago)).collect(),
        empty: "No lock is held.",
        fill: "turno lock acquire PRESTAMO/123 --ttl 300s --user 1 --description \"Registro de pago\"",
        beyond: is_full.then_some("turno lock list"),
    }
}

fn row(lock: &LockHolder, memory: &Memory, ago: Duration) -> Row {
    let who = &lock.attribution;
    let left = lock.remaining.saturating_sub(ago);
    let share = left.as_secs_f64() / memory.whole(lock).as_secs_f64().max(0.001);
    let tone = if share < LITTLE {
        Tone::Warn
    } else {
        Tone::Good
    };
    // By the store's clock, as far as it is known, and not by this machine's.
    let held = lock.expires_at.duration_since(lock.acquired_at);
    let held = Duration::try_from(held)
        .unwrap_or_default()
        .saturating_sub(left);
    let holder = who.user.as_ref().map(|user| format!("user {user}"));
    let holder = holder.or_else(|| who.service.clone());
    Row {
        subject: Subject::Lock(lock.resource.clone(), lock.owner.clone(), lock.token.0),
        cells: vec![
            normal(&lock.resource),
            optional(who.user.as_deref()),
            optional(who.service.as_deref()),
            optional(who.description.as_deref()),
            toned(Shown(held), Tone::Faint),
            bar(share, tone),
            match left.is_zero() {
                true => toned("expired", Tone::Bad),
                false => toned(
                    Shown(left),
                    if share < LITTLE {
                        Tone::Warn
                    } else {
                        Tone::Normal
                    },
                ),
            },
            count_in(lock.waiters, Tone::Warn),
        ],
        details: details([
            ("resource", Some(lock.resource.clone())),
            ("user", who.user.clone()),
            ("service", who.service.clone()),
            ("description", who.description.clone()),
            ("owner", Some(lock.owner.clone())),
            ("token", Some(lock.token.to_string())),
            (
                "mode",
                (lock.mode != "exclusive").then(|| lock.mode.clone()),
            ),
            ("holds", (lock.holds > 1).then(|| lock.holds.to_string())),
            ("host", who.host.clone()),
            ("pid", who.pid.map(|pid| pid.to_string())),
            ("since", Some(at(lock.acquired_at))),
            ("until", Some(at(lock.expires_at))),
        ]),
        actions: vec![Action::Break {
            resource: lock.resource.clone(),
            token: lock.token,
            holder: printable(&holder.unwrap_or_else(|| "its holder".to_owned())),
        }],
    }
}

fn bar(share: f64, tone: Tone) -> Cell {
    let full = (share.clamp(0.0, 1.0) * BAR as f64).ceil() as usize;
    vec![
        ("━".repeat(full), tone),
        ("─".repeat(BAR - full), Tone::Faint),
    ]
}
