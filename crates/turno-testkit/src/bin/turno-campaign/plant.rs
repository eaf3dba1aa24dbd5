//! Planted bugs: known mistakes, which a campaign must find.
//!
//! Most are a replacement in the definition of an SQL function, in the database of the campaign and nowhere else. If the text is not
//! there, planting fails, so a bug cannot vanish unnoticed when the function changes. One is a setting of that database, and a bug of the
//! relay is a sink of the campaign.

use anyhow::{Context, Result};
use turno_testkit::sql::{connect, replace_in_function};

/// A known bug.
#[derive(Debug, Clone, Copy)]
pub struct Plant {
    /// Name on the command line.
    pub name: &'static str,
    bug: Bug,
}

#[derive(Debug, Clone, Copy)]
enum Bug {
    /// Functions in which it is, and what is replaced by what.
    Sql(&'static [(&'static str, &'static str, &'static str)]),
    /// A setting that is left on all sessions of the database.
    Setting(&'static str),
    /// The relays mark events as published before the broker has confirmed them.
    EarlyMark,
}

/// All bugs.
pub const PLANTS: &[Plant] = &[
    Plant {
        name: "guard-without-row-lock",
        bug: Bug::Sql(&[("lock_guard", "for share", "")]),
    },
    Plant {
        name: "guard-without-token",
        bug: Bug::Sql(&[("lock_guard", "t.token = lock_guard.token", "true")]),
    },
    Plant {
        name: "guard-without-expiry-and-lock",
        bug: Bug::Sql(&[
            ("lock_guard", "and t.expires_at > clock_timestamp()", ""),
            ("lock_guard", "for share", ""),
        ]),
    },
    Plant {
        name: "takeover-before-expiry",
        bug: Bug::Sql(&[(
            "lock_is_held",
            "expires_at > clock_timestamp()",
            "expires_at > clock_timestamp() + interval '150 milliseconds'",
        )]),
    },
    Plant {
        name: "release-without-token",
        bug: Bug::Sql(&[("lock_release", "and t.token = lock_release.token", "")]),
    },
    Plant {
        name: "renew-without-token",
        bug: Bug::Sql(&[("lock_renew", "and t.token = lock_renew.token", "")]),
    },
    Plant {
        name: "one-permit-too-many",
        bug: Bug::Sql(&[("lock_is_shareable", "live < most", "live <= most")]),
    },
    Plant {
        name: "shared-beside-exclusive",
        bug: Bug::Sql(&[("lock_is_shareable", "l.mode = 'exclusive' and", "false and")]),
    },
    Plant {
        name: "claim-without-late-commit-rule",
        bug: Bug::Sql(&[("inbox_raise_floor", "oldest >= own", "true")]),
    },
    Plant {
        name: "claim-without-lock",
        bug: Bug::Sql(&[(
            "inbox_may_claim",
            "pg_try_advisory_xact_lock(1953853039, (id & 2147483647)::integer)",
            "true",
        )]),
    },
    Plant {
        name: "complete-without-token",
        bug: Bug::Sql(&[(
            "inbox_complete_one",
            "b.token = inbox_complete_one.token",
            "true",
        )]),
    },
    Plant {
        name: "claim-expires-early",
        bug: Bug::Sql(&[(
            "inbox_claim_has_expired",
            "until <= at",
            "until - interval '600 milliseconds' <= at",
        )]),
    },
    Plant {
        name: "expired-claim-is-completed",
        bug: Bug::Sql(&[(
            "inbox_end_attempt",
            "if not found then\n    return null;",
            "if not found or true then\n    delete from turno.inbox_item t where t.id = inbox_end_attempt.id; return null;",
        )]),
    },
    Plant {
        name: "group-without-order",
        bug: Bug::Sql(&[("inbox_heads", "order by i.id\n", "order by i.id desc\n")]),
    },
    Plant {
        name: "group-is-never-busy",
        bug: Bug::Sql(&[("inbox_busy", "b.queue_id = inbox_busy.queue_id", "false")]),
    },
    Plant {
        name: "one-running-too-many",
        bug: Bug::Sql(&[(
            "inbox_admitted",
            "(settings->>'max_running')::bigint",
            "(settings->>'max_running')::bigint + 1",
        )]),
    },
    Plant {
        name: "outbox-without-order",
        bug: Bug::Sql(&[("outbox_claim", "outbox_claim.in_order)", "false)")]),
    },
    Plant {
        name: "outbox-settle-forgets-what-is-left",
        bug: Bug::Sql(&[(
            "outbox_settle",
            "hit := b.ids * outbox_settle.sent",
            "hit := b.ids",
        )]),
    },
    Plant {
        name: "duplicate-without-label",
        bug: Bug::Sql(&[("inbox_doubt", "(abandoned < 1000000)::integer", "0")]),
    },
    Plant {
        name: "once-answer-without-token",
        bug: Bug::Sql(&[(
            "once_settle",
            "and t.token = once_settle.token\n    and t.state = 'running'",
            "",
        )]),
    },
    Plant {
        name: "once-takeover-before-expiry",
        bug: Bug::Sql(&[(
            "once_begin",
            "if now = 'in_flight' then",
            "if now = 'in_flight' and o.until > clock_timestamp() + interval '250 milliseconds' then",
        )]),
    },
    Plant {
        name: "once-runs-again",
        bug: Bug::Sql(&[(
            "once_begin",
            "if now = 'done' then",
            "if now = 'done' and random() < 0.9 then",
        )]),
    },
    Plant {
        name: "commit-is-not-durable",
        bug: Bug::Setting("synchronous_commit = off"),
    },
    Plant {
        name: "relay-marks-before-the-confirm",
        bug: Bug::EarlyMark,
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

    /// Changes the functions or settings of a database.
    pub async fn apply(self, url: &str) -> Result<()> {
        let client = connect(url).await?;
        match self.bug {
            Bug::Sql(changes) => {
                for (function, from, to) in changes {
                    replace_in_function(&client, function, from, to).await?;
                }
            }
            Bug::Setting(setting) => {
                let database: String = client
                    .query_one("select current_database()", &[])
                    .await?
                    .get(0);
                let alter = format!("alter database {database} set {setting}");
                client.batch_execute(&alter).await?;
            }
            Bug::EarlyMark => {}
        }
        Ok(())
    }

    /// Whether the relays mark events too early.
    pub fn marks_early(self) -> bool {
        matches!(self.bug, Bug::EarlyMark)
    }
}
