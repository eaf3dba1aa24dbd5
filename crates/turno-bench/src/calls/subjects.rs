//! What is called: each SQL function, and the pairs that belong together.

use crate::queries::query;

/// A function or a pair of functions, and the statements that it is compared with.
pub struct Subject {
    pub name: &'static str,
    /// Scripts of pgbench, in the order of [`VARIANTS`](super::VARIANTS).
    pub scripts: [&'static str; 3],
    pub rows: Rows,
    /// Smallest ratio of its rate to that of the bare statements.
    pub floor: Option<f64>,
}

/// Rows that must exist before the calls.
#[derive(Clone, Copy)]
pub enum Rows {
    /// A number that does not depend on the number of calls.
    Fixed { fill: &'static str, rows: usize },
    /// One for each call. With `make`, Turno's are made by calls of this script.
    PerCall {
        fill: &'static str,
        make: Option<&'static str>,
    },
}

const NEW_QUEUE: Rows = Rows::Fixed {
    fill: query("calls_fill_queue"),
    rows: 1,
};

/// Number of locks of the pairs. Each connection has its own, so that none is busy.
const LOCKS: usize = 1100;

pub const ALL: [Subject; 10] = [
    Subject {
        name: "lock_acquire",
        scripts: [
            query("lock_acquire_bare"),
            query("lock_acquire_same"),
            query("lock_acquire_turno"),
        ],
        rows: Rows::PerCall {
            fill: query("calls_fill_locks"),
            make: None,
        },
        floor: None,
    },
    Subject {
        name: "lock_release",
        scripts: [
            query("lock_release_bare"),
            query("lock_release_same"),
            query("lock_release_turno"),
        ],
        rows: Rows::PerCall {
            fill: query("calls_fill_holds"),
            make: Some(query("calls_make_holds")),
        },
        floor: None,
    },
    Subject {
        name: "lock_acquire + lock_release",
        scripts: [
            query("lock_pair_bare"),
            query("lock_pair_same"),
            query("lock_pair_turno"),
        ],
        rows: Rows::Fixed {
            fill: query("calls_fill_locks"),
            rows: LOCKS,
        },
        floor: Some(0.6),
    },
    Subject {
        name: "inbox_push",
        scripts: [
            query("inbox_push_bare"),
            query("inbox_push_same"),
            query("inbox_push_turno"),
        ],
        rows: NEW_QUEUE,
        floor: Some(0.6),
    },
    Subject {
        name: "inbox_claim",
        scripts: [
            query("inbox_claim_bare"),
            query("inbox_claim_same"),
            query("inbox_claim_turno"),
        ],
        rows: Rows::PerCall {
            fill: query("calls_fill_items"),
            make: None,
        },
        floor: None,
    },
    Subject {
        name: "inbox_complete",
        scripts: [
            query("inbox_complete_bare"),
            query("inbox_complete_same"),
            query("inbox_complete_turno"),
        ],
        rows: Rows::PerCall {
            fill: query("calls_fill_claims"),
            make: Some(query("calls_make_claims")),
        },
        floor: None,
    },
    Subject {
        name: "inbox_claim + inbox_complete",
        scripts: [
            query("inbox_pair_bare"),
            query("inbox_pair_same"),
            query("inbox_pair_turno"),
        ],
        rows: Rows::PerCall {
            fill: query("calls_fill_items"),
            make: None,
        },
        floor: Some(0.7),
    },
    Subject {
        name: "outbox_emit",
        scripts: [
            query("outbox_emit_bare"),
            query("outbox_emit_same"),
            query("outbox_emit_turno"),
        ],
        rows: NEW_QUEUE,
        floor: None,
    },
    Subject {
        name: "once_begin",
        scripts: [
            query("once_begin_bare"),
            query("once_begin_same"),
            query("once_begin_turno"),
        ],
        rows: NEW_QUEUE,
        floor: None,
    },
    Subject {
        name: "once_complete",
        scripts: [
            query("once_complete_bare"),
            query("once_complete_same"),
            query("once_complete_turno"),
        ],
        rows: Rows::PerCall {
            fill: query("calls_fill_runs"),
            make: Some(query("calls_make_runs")),
        },
        floor: None,
    },
];
