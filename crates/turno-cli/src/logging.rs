//! What the library has to say, on standard error.

use std::io::IsTerminal;

use clap::ValueEnum;
use serde::Deserialize;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::args::Command;
use crate::context::Context;
use crate::fail::Usage;
use crate::telemetry::{self, Telemetry};

const FILTER: &str = "TURNO_LOG";

/// Who reads the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    /// People: one line each, in words.
    #[default]
    Human,
    /// Programs: one object each.
    Json,
}

/// Warnings by default, and of what runs as a service its own words too; `-v` and `-vv` say more, and `TURNO_LOG` has the last word.
///
/// Of what runs as a service, traces are sent too, if anybody collects them: what is answered is to be ended when all is done.
pub(crate) fn start(
    command: &Command,
    verbose: u8,
    context: &Context,
) -> anyhow::Result<Option<Telemetry>> {
    let is_drawn_over = command.has_screen() && std::io::stderr().is_terminal();
    let filter = match std::env::var(FILTER) {
        _ if is_drawn_over => EnvFilter::new("off"),
        Ok(filter) if !filter.is_empty() => EnvFilter::try_new(&filter).map_err(|error| {
            Usage::new(
                FILTER,
                format!("{FILTER} is no filter ({error}): write turno=debug, for example"),
            )
        })?,
        _ => EnvFilter::new(match verbose {
            // Whoever starts a relay sees what it works on, and that it waits.
            // The broker's client would show every message that comes back, with all that it says.
            0 if command.is_service() => "warn,turno=info,turno_server=info,lapin=error",
            0 => "warn,lapin=error",
            1 => "info,lapin=error",
            _ => "debug,lapin=error",
        }),
    };
    let log = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(context.output.color_stderr() && std::io::stderr().is_terminal());
    let log = match command.log_format(context) {
        LogFormat::Human => log.with_target(verbose > 1).boxed(),
        LogFormat::Json => log.json().flatten_event(true).boxed(),
    };
    let telemetry = if command.is_service() {
        telemetry::start()?
    } else {
        None
    };
    tracing_subscriber::registry()
        .with(log.with_filter(filter))
        .with(telemetry.as_ref().map(Telemetry::layer))
        .init();
    Ok(telemetry)
}
