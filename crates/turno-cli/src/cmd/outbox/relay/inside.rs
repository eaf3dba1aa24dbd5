//! A relay inside another process, such as the server.

use std::ffi::OsString;
use std::sync::Arc;

use anyhow::Result;
use clap::Parser;
use turno::Turno;
use turno::outbox::Relay;
use turno::sink::Sink;

use super::flow::FlowArgs;
use super::sink::SinkArgs;
use crate::args;
use crate::config::Outbox;

/// Settings of a relay from the environment. The server has no options for them.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct EnvironmentArgs {
    #[command(flatten)]
    sink: SinkArgs,

    #[command(flatten)]
    flow: FlowArgs,
}

/// A relay with the settings of the environment and the file.
#[derive(Debug)]
pub(crate) struct Inside {
    sink: Arc<dyn Sink>,
    flow: FlowArgs,
    file: Outbox,
}

/// Whether the sink is a webhook without a secret to sign its requests.
pub(crate) fn has_unsigned_webhook(file: &Outbox) -> Result<bool> {
    let nothing = std::iter::empty::<OsString>();
    let said = EnvironmentArgs::try_parse_from(nothing).map_err(|error| args::refused(&error))?;
    Ok(said.sink.is_unsigned_webhook(file)?)
}

/// Returns the table of the application from which relays publish, if one is configured.
pub(crate) fn configured_table(file: &Outbox) -> Result<Option<String>> {
    let nothing = std::iter::empty::<OsString>();
    let said = EnvironmentArgs::try_parse_from(nothing).map_err(|error| args::refused(&error))?;
    Ok(said.flow.table(file))
}

impl Inside {
    /// Returns a relay, not connected, if a sink is configured.
    pub(crate) fn configured(file: &Outbox) -> Result<Option<Self>> {
        let nothing = std::iter::empty::<OsString>();
        let said =
            EnvironmentArgs::try_parse_from(nothing).map_err(|error| args::refused(&error))?;
        if !said.sink.is_named(file) {
            return Ok(None);
        }
        said.flow.check()?;
        Ok(Some(Inside {
            sink: said.sink.open(file)?.sink,
            flow: said.flow,
            file: file.clone(),
        }))
    }

    /// Returns the relay, not started.
    pub(crate) fn relay(&self, turno: &Turno) -> Relay {
        let (relay, _) = self.flow.relay(turno, self.sink.clone(), &self.file);
        relay
    }

    /// Returns the name of the sink, without secrets.
    pub(crate) fn sink_name(&self) -> String {
        self.sink.name()
    }
}
