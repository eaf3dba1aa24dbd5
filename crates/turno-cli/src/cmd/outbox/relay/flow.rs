//! Options of a relay: the command line over the environment, over the file, over the library's defaults.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clap::builder::{BoolishValueParser, PossibleValuesParser, TypedValueParser as _};
use turno::Turno;
use turno::outbox::{Archive, Mode, OnDead, Relay};
use turno::sink::Sink;

use crate::config::Outbox;
use crate::fail::Usage;
use crate::{duration, name};

#[derive(Debug, Args)]
pub(super) struct FlowArgs {
    /// Table of the application to publish from, adopted with `turno adopt --as outbox` [default: Turno's outbox]
    #[arg(
        long,
        env = "TURNO_RELAY_TABLE",
        hide_env_values = true,
        value_name = "TABLE"
    )]
    table: Option<String>,

    /// Mode: single (one relay at a time), parallel (any number) or ordered (any number, the events of one key in order) [default: ordered]
    #[arg(
        long,
        env = "TURNO_RELAY_MODE",
        hide_env_values = true,
        hide_possible_values = true,
        value_name = "MODE",
        value_parser = PossibleValuesParser::new(["single", "parallel", "ordered"]).try_map(|word| word.parse::<Mode>())
    )]
    mode: Option<Mode>,

    /// Number of events per batch, up to 1000 [default: 50]
    #[arg(
        long,
        env = "TURNO_RELAY_BATCH",
        hide_env_values = true,
        value_name = "N"
    )]
    batch: Option<u32>,

    /// Maximum number of attempts; then an event is dead [default: 20, about eight hours with backoff; of a table: that of its adoption]
    #[arg(
        long,
        env = "TURNO_RELAY_MAX_ATTEMPTS",
        hide_env_values = true,
        value_name = "N"
    )]
    max_attempts: Option<u32>,

    /// Lease of claimed events: other relays take them over when it expires [default: 15s]
    #[arg(long, env = "TURNO_RELAY_LEASE", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    lease: Option<Duration>,

    /// Poll interval without notifications [default: idle_poll_max of turno.toml, 15m]
    #[arg(long, env = "TURNO_RELAY_POLL", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    poll: Option<Duration>,

    /// Name of the relay, for operators [default: this host and process]
    #[arg(
        long,
        env = "TURNO_RELAY_NAME",
        hide_env_values = true,
        value_name = "NAME"
    )]
    name: Option<String>,

    /// Advisory lock id of the leader election (--mode single) [default: 42]
    #[arg(
        long,
        env = "TURNO_RELAY_LOCK_ID",
        hide_env_values = true,
        value_name = "N",
        allow_negative_numbers = true
    )]
    lock_id: Option<i64>,

    /// Effect of a dead event on later events of its key: skip, block or park; TYPE=block for one type; can be repeated [default: skip]
    #[arg(long, env = "TURNO_RELAY_ON_DEAD", hide_env_values = true, value_name = "[TYPE=]CHOICE", value_parser = on_dead)]
    on_dead: Vec<Choice>,

    /// Archive dispatched events: keep whole events, not only their ids
    #[arg(
        long,
        env = "TURNO_RELAY_ARCHIVE",
        hide_env_values = true,
        value_name = "true|false",
        value_parser = BoolishValueParser::new(),
        hide_possible_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    archive: Option<bool>,
}

/// What happens on a dead event, for one type or for all.
#[derive(Debug, Clone)]
struct Choice {
    kind: Option<String>,
    choice: OnDead,
}

fn on_dead(text: &str) -> Result<Choice, String> {
    let (kind, choice) = of_type(text, "skip, block or park", "block")?;
    Ok(Choice { kind, choice })
}

/// Parses `CHOICE`, or `TYPE=CHOICE` for one type.
pub(super) fn of_type<T: FromStr>(
    text: &str,
    choices: &str,
    example: &str,
) -> Result<(Option<String>, T), String> {
    let (kind, word) = match text.rsplit_once('=') {
        Some(("", _)) => return Err(format!("give a type, as in TicketClosedEvent={example}")),
        Some((kind, word)) => (Some(kind.to_owned()), word),
        None => (None, text),
    };
    let choice = word.parse().map_err(|_| {
        format!("write {choices}, or one of them for a type, as in TicketClosedEvent={example}")
    })?;
    Ok((kind, choice))
}

impl FlowArgs {
    /// Rejects values that the library would reject under another name, and a poll interval of zero.
    pub(super) fn check(&self) -> Result<(), Usage> {
        if let Some(name) = &self.name {
            name::check(name).map_err(|rule| Usage::new("name", format!("name {rule}")))?;
        }
        if self.poll == Some(Duration::ZERO) {
            return Err(Usage::new(
                "poll",
                "poll must be above zero: give a duration such as 1s",
            ));
        }
        Ok(())
    }

    pub(super) fn poll(&self, file: &Outbox) -> Option<Duration> {
        self.poll.or(file.poll())
    }

    /// Returns the table to publish from; `None` for Turno's outbox.
    pub(super) fn table(&self, file: &Outbox) -> Option<String> {
        self.table.clone().or(file.table())
    }

    /// Returns the relay, not started, and its mode.
    pub(super) fn relay(&self, turno: &Turno, sink: Arc<dyn Sink>, file: &Outbox) -> (Relay, Mode) {
        let mode = self.mode.or(file.mode).unwrap_or_default();
        let relay = match self.table(file) {
            Some(table) => turno.outbox_table(table).relay(sink),
            None => turno.outbox().relay(sink),
        };
        let mut relay = relay.mode(mode);
        if let Some(poll) = self.poll(file) {
            relay = relay.poll(poll);
        }
        if let Some(batch) = self.batch.or(file.batch()) {
            relay = relay.batch(batch);
        }
        if let Some(attempts) = self.max_attempts.or(file.max_attempts()) {
            relay = relay.max_attempts(attempts);
        }
        if let Some(lease) = self.lease.or(file.lease()) {
            relay = relay.lease(lease);
        }
        if let Some(name) = self.name.clone().or(file.name()) {
            relay = relay.name(name);
        }
        if let Some(id) = self.lock_id.or(file.lock_id) {
            relay = relay.lock_id(id);
        }
        if self.archive.or(file.archive) == Some(true) {
            relay = relay.archive(Archive::Events);
        }
        (self.mourning(relay, file), mode)
    }

    /// Sets what happens on dead events. A later setting of a type overrides an earlier one.
    fn mourning(&self, mut relay: Relay, file: &Outbox) -> Relay {
        if let Some(choice) = file.on_dead {
            relay = relay.on_dead(choice);
        }
        for (kind, choice) in &file.on_dead_of {
            relay = relay.on_dead_of_type(kind, *choice);
        }
        for Choice { kind, choice } in &self.on_dead {
            relay = match kind {
                Some(kind) => relay.on_dead_of_type(kind, *choice),
                None => relay.on_dead(*choice),
            };
        }
        relay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_of_any_type_or_of_one() {
        let any = on_dead("park").unwrap();
        assert_eq!((any.kind, any.choice), (None, OnDead::Park));
        let one = on_dead("a=b=block").unwrap();
        assert_eq!(
            (one.kind.as_deref(), one.choice),
            (Some("a=b"), OnDead::Block)
        );
        for wrong in ["", "cry", "T=cry", "=block", "T="] {
            assert!(on_dead(wrong).is_err(), "{wrong}");
        }
    }
}
