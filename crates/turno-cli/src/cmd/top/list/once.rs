//! Once keys that are in flight or unknown. An operator has to decide about the unknown ones.

use turno::once::{OnceState, OnceView};

use super::*;
use crate::cmd::top::poller::MAX_ROWS;

const COLUMNS: &[Column] = &[
    column("KEY", Side::Text, 0),
    column("STATE", Side::Left, 0),
    column("BEGAN", Side::Left, 60),
    column("UNTIL", Side::Left, 76),
    column("ATTEMPT", Side::Right, 90),
    column("LATE", Side::Right, 100),
    column("WORKER", Side::Text, 50),
];
const HELP: &str = "A run ended without an answer, so its work may or may not be done. Check the effects of the \
    work. Not done: forget the key (f), and the next request does the work. Done: resolve the key (c), and the work is not \
    done again.";

pub(in crate::cmd::top) fn list(keys: &[OnceView]) -> List {
    let count = |state| keys.iter().filter(|view| view.state == state).count() as u64;
    let unknown = count(OnceState::Unknown);
    let flying = count(OnceState::InFlight);
    List {
        columns: COLUMNS,
        summary: vec![
            figure(unknown, "unknown", alarm(unknown)),
            figure(flying, "in flight", Tone::Normal),
        ],
        rows: keys.iter().map(row).collect(),
        empty: "No key is in flight or unknown.",
        fill: "turno once pago/77 -- ./charge.sh 77",
        beyond: (unknown.max(flying) >= MAX_ROWS.into()).then_some("turno once --list"),
    }
}

fn row(view: &OnceView) -> Row {
    let is_unknown = view.state == OnceState::Unknown;
    let forget = Action::Forget {
        key: view.key.clone(),
    };
    let resolve = Action::Answer {
        key: view.key.clone(),
    };
    Row {
        subject: Subject::Key(view.key.clone()),
        cells: vec![
            normal(&view.key),
            toned(view.state, if is_unknown { Tone::Bad } else { Tone::Good }),
            normal(at(view.began_at)),
            normal(at(view.expires_at)),
            normal(view.attempt),
            count_in(view.late.into(), Tone::Warn),
            optional(view.worker.as_deref()),
        ],
        details: details([
            ("key", Some(view.key.clone())),
            ("claim", Some(view.claim.to_string())),
            ("worker", view.worker.clone()),
            ("scope", view.scope.clone()),
            ("fingerprint", view.fingerprint.clone()),
            ("unknown", is_unknown.then(|| HELP.to_owned())),
        ]),
        actions: if is_unknown {
            vec![forget, resolve]
        } else {
            Vec::new()
        },
    }
}
