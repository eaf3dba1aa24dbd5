//! `turno outbox relay`

mod flow;
mod inside;
mod reader;
mod sink;
mod watch;

use std::pin::pin;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use rustix::process::Signal;
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::outbox::RelayReport;

pub(crate) use self::inside::{Inside, configured_table, has_unsigned_webhook};
use self::watch::{End, Watch};
use super::table::EventSource;
use crate::context::Context;
use crate::output::number;
use crate::redact;
use crate::signals::{ENDING, Signals, exit_code};

/// Number of connections: settling a batch, claiming the next, extending claims, and reading the statistics run concurrently.
const CONNECTIONS: usize = 4;

/// Publish events to a sink until stopped
#[derive(Debug, Args)]
#[command(after_help = "\
A sink is amqp://user:password@host:5672/vhost or amqps://… (RabbitMQ), nats://… or tls://… (NATS
JetStream), https://… or http://… (a webhook), or stdout: (one line of JSON for each event).
Events are published at least once. Their ids are stable: receivers use them to remove duplicates.
While the sink is unavailable, no event is lost and no attempt is counted.
An event that the sink refuses is retried, and finally dead: see `turno outbox list --state dead`.
With --table the events are rows of a table of the application: see `turno adopt --as outbox`.
INT and TERM stop it after the events in flight are settled; a second signal ends it at once.
Every option except --until-empty can also be set in [outbox] of turno.toml. Keep secrets there, in
the environment or in files: other users of the machine can see the options of a command.")]
pub(crate) struct RelayArgs {
    #[command(flatten)]
    sink: sink::SinkArgs,

    #[command(flatten)]
    flow: flow::FlowArgs,

    /// End when no event is pending or processing; scheduled events are left
    #[arg(long)]
    until_empty: bool,
}

/// Result of a relay.
struct Done {
    report: RelayReport,
    /// Why it has ended on its own.
    end: Option<End>,
}

pub(crate) async fn run(context: &Context, args: RelayArgs) -> Result<ExitCode> {
    args.flow.check()?;
    let sink = args.sink.open(&context.outbox)?;
    let mut settings = context.settings.clone();
    settings.connections = CONNECTIONS;
    let prints_events = sink.is_stdout;
    let done = context
        .with(settings, async |turno| {
            relay(context, turno, &args, sink).await
        })
        .await?;
    tell(context, done.report, prints_events)?;
    match done.end {
        None | Some(End::Empty) => Ok(ExitCode::SUCCESS),
        Some(End::Blocked(blocked)) => Err(blocked.into()),
        // The relay has already printed the reason.
        Some(End::NoReader) => Ok(ExitCode::FAILURE),
    }
}

async fn relay(
    context: &Context,
    turno: &Turno,
    args: &RelayArgs,
    sink: sink::Opened,
) -> Result<Done> {
    let (relay, mode) = args.flow.relay(turno, sink.sink.clone(), &context.outbox);
    let mut signals = Signals::listen(&ENDING)?;
    tracing::info!(store = redact::url(&context.store), sink = sink.sink.name(), %mode, "relaying");
    let stop = CancellationToken::new();
    let mut end = None;
    let mut work = pin!(relay.run(stop.clone().cancelled_owned()));
    let source = EventSource::new(turno, args.flow.table(&context.outbox));
    let watch = Watch {
        source: &source,
        until_empty: args.until_empty,
        poll: args.flow.poll(&context.outbox),
        reader_gone: sink.reader_gone,
    };
    let mut watch = pin!(watch.end());
    loop {
        tokio::select! {
            report = &mut work => return Ok(Done { report: report?, end }),
            signal = signals.next() => stopped(signal, &stop),
            why = &mut watch, if end.is_none() => {
                end = Some(why);
                stop.cancel();
            }
        }
    }
}

/// The first signal starts a graceful shutdown, the second ends the process at once.
fn stopped(signal: Signal, stop: &CancellationToken) {
    if stop.is_cancelled() {
        // Does not even wait for the store: events in flight are published again when their claims have expired.
        std::process::exit(exit_code(signal.as_raw()).into());
    }
    tracing::info!(
        "shutting down: waiting for events in flight. A second signal ends the process at once"
    );
    stop.cancel();
}

/// Prints the report. If events are printed on standard output, nothing else is.
fn tell(context: &Context, report: RelayReport, prints_events: bool) -> Result<()> {
    if context.output.is_json() {
        if prints_events {
            context.output.note(&serde_json::to_string(&report)?);
            return Ok(());
        }
        return context.output.json(&report);
    }
    let header = [
        "SENT", "SKIPPED", "REFUSED", "DEAD", "RETURNED", "STALE", "OUTAGES",
    ];
    let RelayReport {
        sent,
        skipped,
        refused,
        dead,
        returned,
        stale,
        outages,
        ..
    } = report;
    let row = [sent, skipped, refused, dead, returned, stale, outages].map(number);
    let rows = vec![row.to_vec()];
    if prints_events {
        context.output.note_table(&header, rows);
        return Ok(());
    }
    context.output.table(&header, rows)
}
