//! `turno demo`: five scenarios from real systems, which fail without Turno and work with it.

mod actor;
mod afore;
mod broker;
mod desk;
mod figures;
mod flowpay;
mod ledger;
mod notes;
mod part;
mod presentations;
mod scenario;
mod set;
mod show;
mod stage;
mod ticketflow;
pub(crate) mod worker;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum as _};
use turno::Turno;
use uuid::Uuid;

use self::figures::Shown;
use self::scenario::Scenario;
use self::set::{Set, Variant};
use self::stage::{Stage, Stopped};
use crate::context::Context;
use crate::fail::Usage;
use crate::signals::exit_code;

/// Show what fails without Turno and works with it, with real processes
#[derive(Debug, Args)]
#[command(after_help = "\
Scenarios, each run first without Turno and then with it:
  flowpay        lock: processes register payments on one loan at the same moment
  presentations  inbox: instances call a web service for each presentation; one is killed with -9
  notes          inbox: cron, manual and batch runs process the same notes; each run costs money
  afore          once: the same certification requests reach all instances at the same moment
  ticketflow     outbox: processes store tickets and publish events; some are killed with -9
Without a NAME all scenarios run, which takes less than a minute. Nothing has to be installed or
started: by default the store is a temporary SQLite file. With --store, use a separate database: its
outbox must be empty, and no relay may run on it.

Exits with 0 if nothing was duplicated or lost with Turno, else with 1.")]
pub(crate) struct DemoArgs {
    /// Scenario to run [default: all]
    #[arg(value_name = "NAME", value_enum, hide_possible_values = true)]
    name: Option<Scenario>,

    /// List the scenarios without running them
    #[arg(long, conflicts_with = "name")]
    list: bool,

    /// ticketflow: publish to RabbitMQ at amqp://… instead of a file; leaves an exchange and a queue named turno.demo
    #[arg(
        long,
        env = worker::BROKER,
        hide_env_values = true,
        value_name = "URL"
    )]
    broker: Option<String>,
}

pub(crate) async fn run(context: &Context, args: DemoArgs) -> Result<ExitCode> {
    if args.list {
        show::list(context.output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let scenarios = match args.name {
        Some(one) => vec![one],
        None => Scenario::value_variants().to_vec(),
    };
    let folder = tempfile::tempdir().context("a temporary folder could not be created")?;
    let store = store(context, folder.path())?;
    // Migrated once, before the processes start. An unavailable store is reported here.
    let turno = Turno::connect(&store).await?;
    let shown = async {
        let broker = args
            .broker
            .filter(|_| scenarios.contains(&Scenario::Ticketflow));
        if let Some(url) = &broker {
            broker::check(url).await?;
        }
        if scenarios.contains(&Scenario::Ticketflow) {
            ticketflow::check(&turno).await?;
        }
        let mut stage = Stage::new(context.output)?;
        let mut shown = Vec::new();
        for scenario in scenarios {
            let mut runs = Vec::new();
            for &how in scenario.ways() {
                let set = Set {
                    scenario,
                    how,
                    folder: folder
                        .path()
                        .join(format!("{}-{}", scenario.name(), how.word())),
                    run: Uuid::now_v7().simple().to_string(),
                    store: (how == Variant::Turno).then(|| store.clone()),
                    broker: broker.clone(),
                };
                runs.push(stage.play(&set, &turno).await?);
            }
            shown.push(Shown { scenario, runs });
        }
        anyhow::Ok(shown)
    };
    let shown = shown.await;
    turno.close().await;
    match shown {
        Ok(shown) => show::table(context.output, &shown),
        Err(error) => match error.downcast_ref::<Stopped>() {
            Some(Stopped(signal)) => Ok(ExitCode::from(exit_code(signal.as_raw()))),
            None => Err(error),
        },
    }
}

/// Returns the store that was named as an option, or a temporary one.
fn store(context: &Context, folder: &Path) -> Result<String> {
    match &context.named_store {
        Some(store) if store.contains(":memory:") => Err(Usage::new(
            "store",
            "the demonstration has several processes, which cannot share a store in memory: use a file, or no --store",
        )
        .into()),
        Some(store) => Ok(store.clone()),
        None => Ok(format!("sqlite:{}", folder.join("demo.db").display())),
    }
}
