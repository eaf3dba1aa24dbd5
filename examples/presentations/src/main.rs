//! Compares ways of coordinating instances that send presentations to a web service.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};
use presentations::database::Database;
use presentations::instance::{RAN, READY, STORE, Setup, application_name};
use presentations::scheduler::{self, Scheduler};
use presentations::strategy::{Fleet, Strategy};
use presentations::table;
use presentations::use_case::ProcessPresentationUseCase;
use presentations::web_service_client::WebServiceClient;
use tracing_subscriber::EnvFilter;
use turno::Turno;

/// Presentations wait in an inbox; several instances send them to a web service. Compares the ways of coordinating the
/// instances in one table. RUST_LOG=info shows what the instances do.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Program {
    #[command(subcommand)]
    role: Option<Role>,
    #[command(flatten)]
    compare: Compare,
}

#[derive(Debug, Args)]
struct Compare {
    /// sqlite:FILE or postgres://…, without a table `presentations`. Default: a temporary file.
    #[arg(long)]
    store: Option<String>,
    /// Number of instances, each a process.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=20))]
    instances: u32,
    /// Number of presentations, at least one per instance.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(2..=1000))]
    presentations: u32,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// One instance of the application. It exits when its standard input ends.
    Instance(InstanceArgs),
}

#[derive(Debug, Args)]
struct InstanceArgs {
    /// Database of the presentations.
    #[arg(long, env = STORE, hide_env_values = true)]
    store: String,
    /// Way of coordinating with other instances.
    #[arg(long)]
    how: Strategy,
    /// Instances that Turno's workers have to expect. With `mixed`, they work on the adopted table, not on Turno's inbox.
    #[arg(long, default_value = "uniform")]
    fleet: Fleet,
    /// URL of the web service.
    #[arg(long)]
    service: String,
    /// Number of this instance, from 0.
    #[arg(long)]
    instance_partition: u32,
    /// Total number of instances.
    #[arg(long)]
    total_instances: u32,
    /// Pause between two runs of the scheduler, in milliseconds.
    #[arg(long, default_value_t = 1000)]
    every_ms: u64,
    /// Lease of a claim in Turno, in milliseconds: how long to wait for an instance that may have died.
    #[arg(long, default_value_t = 30_000)]
    lease_ms: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let program = Program::parse();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::from_default_env())
        .with_writer(io::stderr)
        .init();
    match program.role {
        Some(Role::Instance(args)) => instance(args).await.map(|()| ExitCode::SUCCESS),
        None => compare(program.compare).await,
    }
}

async fn compare(args: Compare) -> Result<ExitCode> {
    ensure!(
        args.presentations >= args.instances,
        "there must be a presentation for each instance: give --presentations {} or more",
        args.instances
    );
    let folder = tempfile::tempdir().context("a temporary folder is needed")?;
    let file = || {
        format!(
            "sqlite:{}",
            folder.path().join("presentations.db").display()
        )
    };
    let setup = Setup {
        program: std::env::current_exe()?,
        store: args.store.unwrap_or_else(file),
        instances: args.instances,
        presentations: args.presentations,
        fleet: Fleet::Uniform,
    };
    let database = Database::open(&setup.store, "presentations").await?;
    database.create().await?;
    let compared = table::compare(&setup).await;
    database.drop_table().await?;
    let compared = compared?;
    table::print(&setup, &compared)?;
    Ok(match compared.rows.last() {
        Some(turno) if turno.is_clean() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

async fn instance(args: InstanceArgs) -> Result<()> {
    ensure!(
        args.how.is_possible_on(&args.store),
        "{} is not possible on SQLite: use postgres://…",
        args.how.name()
    );
    let number = args.instance_partition;
    let use_case = ProcessPresentationUseCase {
        how: args.how,
        database: Database::open(&args.store, &application_name(number)).await?,
        web_service: WebServiceClient::new(&args.service, number),
    };
    let every = Duration::from_millis(args.every_ms);
    if args.how == Strategy::Turno {
        let turno = Turno::connect(&args.store).await?;
        say(READY)?;
        let lease = Duration::from_millis(args.lease_ms);
        if args.fleet == Fleet::Mixed {
            let work = scheduler::work_on_table(&use_case, &turno, lease, every, || say(RAN));
            return tokio::select! {
                failed = work => failed,
                () = input_ended() => Ok(()),
            };
        }
        return scheduler::work(use_case, &turno, lease, every, input_ended()).await;
    }
    let scheduler = Scheduler {
        use_case,
        every,
        instance_partition: number,
        total_instances: args.total_instances,
    };
    say(READY)?;
    tokio::select! {
        failed = scheduler.run(|| say(RAN)) => failed,
        () = input_ended() => Ok(()),
    }
}

/// Resolves when standard input ends: the parent process wants this one to end, or has ended itself.
async fn input_ended() {
    let _ = tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await;
}

fn say(line: &str) -> Result<()> {
    Ok(writeln!(io::stdout(), "{line}")?)
}
