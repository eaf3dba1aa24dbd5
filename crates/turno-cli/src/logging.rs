//! Log on standard error.

mod repeats;

use std::io::IsTerminal;

use clap::ValueEnum;
use serde::Deserialize;
use tracing_subscriber::filter::FilterExt as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use self::repeats::{Repeats, Reporter};
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

/// The log and the traces, which must be flushed at the end.
pub(crate) struct Logging {
    reporter: Reporter,
    telemetry: Option<Telemetry>,
}

impl Logging {
    /// Writes and sends what is left.
    pub(crate) fn end(self) {
        self.reporter.end();
        if let Some(telemetry) = self.telemetry {
            telemetry.end();
        }
    }
}

/// The default filter. The broker's client logs every message that comes back, with its content, and each lost connection
/// as an error of its own, which Turno logs too: its lines are shown with `-vv` only.
fn default_filter(is_service: bool, verbose: u8) -> &'static str {
    match verbose {
        // A service logs what it works on, and that it waits.
        0 if is_service => "warn,turno=info,turno_server=info,lapin=off",
        0 => "warn,lapin=off",
        1 => "info,lapin=off",
        _ => "debug,lapin=error",
    }
}

/// Starts the log. Default level: warnings, and for services also Turno's own info messages. `-v` and `-vv` raise the level, and
/// `TURNO_LOG` overrides it. Lines that repeat a cause within a second are counted instead of logged.
///
/// Traces of services are sent too, if a collector is configured.
pub(crate) fn start(command: &Command, verbose: u8, context: &Context) -> anyhow::Result<Logging> {
    let is_drawn_over = command.has_screen() && std::io::stderr().is_terminal();
    let filter = match std::env::var(FILTER) {
        _ if is_drawn_over => EnvFilter::new("off"),
        Ok(filter) if !filter.is_empty() => EnvFilter::try_new(&filter).map_err(|error| {
            Usage::new(
                FILTER,
                format!("{FILTER} is not a filter ({error}): write, for example, turno=debug"),
            )
        })?,
        _ => EnvFilter::new(default_filter(command.is_service(), verbose)),
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
    let repeats = Repeats::default();
    let reporter = repeats.report()?;
    tracing_subscriber::registry()
        .with(log.with_filter(filter.and(repeats)))
        .with(telemetry.as_ref().map(Telemetry::layer))
        .init();
    Ok(Logging {
        reporter,
        telemetry,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether an error of the broker's client is logged.
    fn shows_errors_of_lapin(filter: &str) -> bool {
        let lines = repeats::tests::logged(EnvFilter::new(filter), || {
            tracing::error!(target: "lapin::io_loop", "the connection is broken");
        });
        !lines.is_empty()
    }

    #[test]
    fn errors_of_the_brokers_client_are_logged_only_if_asked_for() {
        for is_service in [false, true] {
            for verbose in [0, 1] {
                assert!(!shows_errors_of_lapin(default_filter(is_service, verbose)));
            }
            assert!(shows_errors_of_lapin(default_filter(is_service, 2)));
        }
        assert!(shows_errors_of_lapin("warn,lapin=error"), "TURNO_LOG");
    }
}
