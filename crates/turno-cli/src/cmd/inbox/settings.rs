//! `turno inbox settings`, `pause` and `resume`

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use turno::inbox::{QueueSettings, Rate, SettingsChange};

use crate::cmd::operator::OperatorArgs;
use crate::context::Context;
use crate::duration::{self, Shown};

/// Show the settings of a queue, or change them
#[derive(Debug, Args)]
#[command(after_help = "\
The settings hold for all workers of the queue. An option that is absent changes nothing.
A rate lets items begin at equal intervals: 100/1m is one item every 0.6 s. With --burst 20, up to 20 begin at once.")]
pub(crate) struct SettingsArgs {
    /// Queue
    queue: String,

    /// Maximum number of items in flight, or none
    #[arg(long, value_name = "N|none", value_parser = parse_most)]
    max_running: Option<Most>,

    /// How many items may begin in a time, such as 100/1m, or none
    #[arg(long, value_name = "N/DURATION|none", value_parser = parse_rate)]
    rate: Option<Pace>,

    /// How many items of the rate may begin at once [default: 1]
    #[arg(long, value_name = "N", requires = "rate")]
    burst: Option<u32>,

    #[command(flatten)]
    operator: OperatorArgs,
}

/// Pause a queue: workers get no items until it is resumed
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    /// Queue
    queue: String,

    #[command(flatten)]
    operator: OperatorArgs,
}

/// Resume a paused queue
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// Queue
    queue: String,

    #[command(flatten)]
    operator: OperatorArgs,
}

/// A number, or none.
#[derive(Debug, Clone, Copy)]
struct Most(Option<u32>);

/// A rate, or none.
#[derive(Debug, Clone, Copy)]
struct Pace(Option<Rate>);

fn parse_most(text: &str) -> Result<Most, String> {
    match text {
        "none" => Ok(Most(None)),
        number => match number.parse() {
            Ok(most) => Ok(Most(Some(most))),
            Err(_) => Err("give a number such as 3, or none".to_owned()),
        },
    }
}

fn parse_rate(text: &str) -> Result<Pace, String> {
    if text == "none" {
        return Ok(Pace(None));
    }
    let expected = || "give a number of items and a time such as 100/1m, or none".to_owned();
    let (count, per) = text.split_once('/').ok_or_else(expected)?;
    let count = count.trim().parse().map_err(|_| expected())?;
    let per: Duration = duration::above_zero(per)?;
    Ok(Pace(Some(Rate::new(count, per))))
}

pub(crate) async fn run(context: &Context, args: SettingsArgs) -> Result<ExitCode> {
    let mut change = SettingsChange::default();
    if let Some(Most(most)) = args.max_running {
        change = change.max_running(most);
    }
    if let Some(Pace(rate)) = args.rate {
        change = change.rate(rate.map(|rate| rate.burst(args.burst.unwrap_or(rate.burst))));
    }
    if change == SettingsChange::default() {
        let settings = context
            .read_store(async |turno| Ok(turno.inbox(&args.queue).settings().await?))
            .await?;
        return show(context, &settings);
    }
    configure(context, &args.queue, change, args.operator).await
}

pub(crate) async fn pause(context: &Context, args: PauseArgs) -> Result<ExitCode> {
    let change = SettingsChange::default().paused(true);
    configure(context, &args.queue, change, args.operator).await
}

pub(crate) async fn resume(context: &Context, args: ResumeArgs) -> Result<ExitCode> {
    let change = SettingsChange::default().paused(false);
    configure(context, &args.queue, change, args.operator).await
}

async fn configure(
    context: &Context,
    queue: &str,
    change: SettingsChange,
    operator: OperatorArgs,
) -> Result<ExitCode> {
    let settings = context
        .with_store(async |turno| {
            let inbox = operator.inbox(turno.inbox(queue));
            Ok(inbox.configure(change).await?)
        })
        .await?;
    show(context, &settings)
}

fn show(context: &Context, settings: &QueueSettings) -> Result<ExitCode> {
    if context.output.is_json() {
        context.output.json(settings)?;
        return Ok(ExitCode::SUCCESS);
    }
    let paused = if settings.paused { "yes" } else { "no" };
    let most = settings
        .max_running
        .map_or("none".to_owned(), |most| most.to_string());
    let rate = match settings.rate {
        Some(Rate { count, per, burst }) => {
            format!("{count} in {}, at once: {burst}", Shown(per.0))
        }
        None => "none".to_owned(),
    };
    for (name, value) in [("paused", paused), ("max_running", &most), ("rate", &rate)] {
        context.output.line(&format!("{name}: {value}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
