//! User and reason of an operator action: options that several commands have in common.

use clap::Args;
use turno::inbox::Inbox;
use turno::outbox::{Outbox, OutboxTable};

/// For the history.
#[derive(Debug, Args)]
pub(super) struct OperatorArgs {
    /// Reason, for the history
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,

    /// User, for the history [default: user of turno.toml]
    #[arg(long, env = "TURNO_USER", hide_env_values = true, value_name = "NAME")]
    pub(super) user: Option<String>,
}

impl OperatorArgs {
    /// Sets user and reason on a queue.
    pub(super) fn inbox(self, mut inbox: Inbox) -> Inbox {
        if let Some(user) = self.user {
            inbox = inbox.user(user);
        }
        match self.reason {
            Some(reason) => inbox.reason(reason),
            None => inbox,
        }
    }

    /// Sets user and reason on an outbox table.
    pub(super) fn outbox_table(self, mut table: OutboxTable) -> OutboxTable {
        if let Some(user) = self.user {
            table = table.user(user);
        }
        match self.reason {
            Some(reason) => table.reason(reason),
            None => table,
        }
    }

    /// Sets user and reason on the outbox.
    pub(super) fn outbox(self, mut outbox: Outbox) -> Outbox {
        if let Some(user) = self.user {
            outbox = outbox.user(user);
        }
        match self.reason {
            Some(reason) => outbox.reason(reason),
            None => outbox,
        }
    }
}
