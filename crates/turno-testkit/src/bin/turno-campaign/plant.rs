//! Planted bugs: known mistakes in a copy of Turno's SQL functions, which a campaign must find.
//!
//! A bug is a replacement in the definition of a function, in the database of the campaign and nowhere else. If the text is not
//! there, planting fails, so a bug cannot vanish unnoticed when the function changes.

use anyhow::{Context, Result};
use turno_testkit::sql::{connect, replace_in_function};

/// A known bug.
#[derive(Debug, Clone, Copy)]
pub struct Plant {
    /// Name on the command line.
    pub name: &'static str,
    /// Functions in which it is, and what is replaced by what.
    changes: &'static [(&'static str, &'static str, &'static str)],
}

/// All bugs.
pub const PLANTS: &[Plant] = &[
    Plant {
        name: "guard-without-row-lock",
        changes: &[("lock_guard", "for share", "")],
    },
    Plant {
        name: "guard-without-token",
        changes: &[("lock_guard", "t.token = lock_guard.token", "true")],
    },
    Plant {
        name: "guard-without-expiry-and-lock",
        changes: &[
            ("lock_guard", "and t.expires_at > clock_timestamp()", ""),
            ("lock_guard", "for share", ""),
        ],
    },
    Plant {
        name: "takeover-before-expiry",
        changes: &[(
            "lock_is_held",
            "expires_at > clock_timestamp()",
            "expires_at > clock_timestamp() + interval '150 milliseconds'",
        )],
    },
    Plant {
        name: "release-without-token",
        changes: &[("lock_release", "and t.token = lock_release.token", "")],
    },
    Plant {
        name: "renew-without-token",
        changes: &[("lock_renew", "and t.token = lock_renew.token", "")],
    },
    Plant {
        name: "one-permit-too-many",
        changes: &[("lock_is_shareable", "live < most", "live <= most")],
    },
    Plant {
        name: "shared-beside-exclusive",
        changes: &[("lock_is_shareable", "l.mode = 'exclusive' and", "false and")],
    },
    Plant {
        name: "claim-without-late-commit-rule",
        changes: &[("inbox_raise_floor", "oldest >= own", "true")],
    },
    Plant {
        name: "claim-without-lock",
        changes: &[(
            "inbox_may_claim",
            "pg_try_advisory_xact_lock(1953853039, (id & 2147483647)::integer)",
            "true",
        )],
    },
    Plant {
        name: "complete-without-token",
        changes: &[(
            "inbox_complete_one",
            "b.token = inbox_complete_one.token",
            "true",
        )],
    },
    Plant {
        name: "claim-expires-early",
        changes: &[(
            "inbox_claim_has_expired",
            "until <= at",
            "until - interval '600 milliseconds' <= at",
        )],
    },
    Plant {
        name: "expired-claim-is-completed",
        changes: &[(
            "inbox_end_attempt",
            "if not found then\n    return null;",
            "if not found or true then\n    delete from turno.inbox_item t where t.id = inbox_end_attempt.id; return null;",
        )],
    },
    Plant {
        name: "group-without-order",
        changes: &[("inbox_heads", "order by i.id\n", "order by i.id desc\n")],
    },
    Plant {
        name: "group-is-never-busy",
        changes: &[("inbox_busy", "b.queue_id = inbox_busy.queue_id", "false")],
    },
    Plant {
        name: "outbox-without-order",
        changes: &[("outbox_claim", "outbox_claim.in_order)", "false)")],
    },
    Plant {
        name: "outbox-settle-forgets-what-is-left",
        changes: &[(
            "outbox_settle",
            "hit := b.ids * outbox_settle.sent",
            "hit := b.ids",
        )],
    },
    Plant {
        name: "duplicate-without-label",
        changes: &[("inbox_doubt", "(abandoned < 1000000)::integer", "0")],
    },
    Plant {
        name: "once-answer-without-token",
        changes: &[(
            "once_settle",
            "and t.token = once_settle.token\n    and t.state = 'running'",
            "",
        )],
    },
    Plant {
        name: "once-takeover-before-expiry",
        changes: &[(
            "once_begin",
            "if now = 'in_flight' then",
            "if now = 'in_flight' and o.until > clock_timestamp() + interval '250 milliseconds' then",
        )],
    },
    Plant {
        name: "once-runs-again",
        changes: &[(
            "once_begin",
            "if now = 'done' then",
            "if now = 'done' and random() < 0.9 then",
        )],
    },
    Plant {
        name: "commit-is-not-durable",
        changes: &[(
            "inbox_push_batch",
            "begin\n",
            "begin\n  perform set_config('synchronous_commit', 'off', true);\n",
        )],
    },
];

impl Plant {
    /// The bug with a name.
    pub fn named(name: &str) -> Result<Self> {
        let names: Vec<&str> = PLANTS.iter().map(|plant| plant.name).collect();
        let plant = PLANTS.iter().find(|plant| plant.name == name);
        plant
            .copied()
            .with_context(|| format!("--plant is one of {}", names.join(", ")))
    }

    /// Changes the functions in a database.
    pub async fn apply(self, url: &str) -> Result<()> {
        let client = connect(url).await?;
        for (function, from, to) in self.changes {
            replace_in_function(&client, function, from, to).await?;
        }
        Ok(())
    }
}
