//! Outbox: tickets whose events reach RabbitMQ if and only if they are committed.
//!
//! `ticketflow` without a command starts private servers and runs the demonstration; `migrate`, `api`, `worker` and `consumer`
//! are its processes.
#![forbid(unsafe_code)]

mod announce;
mod api;
#[allow(dead_code, reason = "the tests look at more than the show does")]
mod cast;
mod consumer;
mod db;
mod demo;
mod fault;
mod metrics;
mod publisher;
mod settings;
mod tally;
mod tap;
mod ticket;
mod topology;
mod worker;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::Router;
use clap::{Args, Parser, Subcommand};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::filter::LevelFilter;
use turno::Turno;

use crate::announce::{Announcer, SinOutbox};
use crate::consumer::{Consumer, Idempotency};
use crate::db::Db;
use crate::metrics::Metrics;
use crate::publisher::RabbitMqPublisher;
use crate::settings::Settings;
use crate::worker::WorkerOptions;

/// Tickets whose events reach RabbitMQ if and only if they are committed.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    role: Option<Role>,
    /// Store of the demonstration, with the broker of appsettings.json. Default: private servers.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
}

#[derive(Subcommand)]
enum Role {
    /// Creates the tables, once.
    Migrate(CommonOptions),
    /// The tickets API.
    Api {
        #[command(flatten)]
        place: CommonOptions,
        /// Publishes directly, as is usual: the control.
        #[arg(long, value_enum)]
        sin_outbox: Option<SinOutbox>,
    },
    /// Publishes committed events. Run any number; one is active at a time.
    Worker {
        #[command(flatten)]
        place: CommonOptions,
        #[command(flatten)]
        options: WorkerOptions,
    },
    /// Handles events. Run any number; they share one queue.
    Consumer {
        #[command(flatten)]
        place: CommonOptions,
        /// Does not check for duplicate events: the control.
        #[arg(long)]
        sin_seen: bool,
    },
}

impl Role {
    fn options(&self) -> &CommonOptions {
        match self {
            Role::Migrate(place)
            | Role::Api { place, .. }
            | Role::Worker { place, .. }
            | Role::Consumer { place, .. } => place,
        }
    }
}

/// Options of all processes.
#[derive(Args)]
struct CommonOptions {
    /// sqlite:FILE or postgres://…: the tickets and Turno's tables, in one database.
    #[arg(long, env = "TICKETFLOW_STORE", value_name = "URL")]
    store: String,
    #[arg(long, default_value = "appsettings.json", value_name = "FILE")]
    config: PathBuf,
    /// Level of the log: `info`, or `debug` for a line with routing key and correlation id per message.
    #[arg(long, default_value = "info", value_name = "LEVEL")]
    log: LevelFilter,
    /// Address to listen on, for `/metrics` and the API.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

#[tokio::main]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    let Some(role) = cli.role else {
        return demo::run(cli.store).await;
    };
    tracing_subscriber::fmt()
        .without_time()
        .with_target(false)
        .with_ansi(false)
        .with_max_level(role.options().log)
        .init();
    match role {
        Role::Migrate(place) => {
            Turno::connect(&place.store).await?;
            Db::connect(&place.store).await?.migrate().await
        }
        Role::Api { place, sin_outbox } => run_api(place, sin_outbox).await,
        Role::Worker { place, options } => run_worker(place, options).await,
        Role::Consumer { place, sin_seen } => {
            let idempotency = match sin_seen {
                true => Idempotency::None,
                false => Idempotency::Seen,
            };
            run_consumer(place, idempotency).await
        }
    }
}

async fn run_api(place: CommonOptions, sin_outbox: Option<SinOutbox>) -> Result<()> {
    let turno = Turno::connect(&place.store).await?;
    let announcer = match sin_outbox {
        None => Announcer::Outbox(turno.clone()),
        Some(when) => {
            let settings = Settings::read(&place.config)?;
            let publisher = RabbitMqPublisher::new(&settings.rabbitmq)?;
            Announcer::Usual(when, Box::new(publisher))
        }
    };
    let db = Db::connect(&place.store).await?;
    let metrics = Metrics {
        turno,
        publisher: None,
        consumer: None,
    };
    let router = api::router(api::Api { db, announcer }).merge(metrics::router(metrics));
    let stop = stop_on_signal()?;
    serve(listen(place.listen).await?, router, stop).await
}

async fn run_worker(place: CommonOptions, options: WorkerOptions) -> Result<()> {
    let settings = Settings::read(&place.config)?;
    let turno = Turno::connect(&place.store).await?;
    let publisher = RabbitMqPublisher::new(&settings.rabbitmq)?;
    let stop = stop_on_signal()?;
    let metrics = Metrics {
        turno: turno.clone(),
        publisher: Some(publisher.counts.clone()),
        consumer: None,
    };
    let listener = listen(place.listen).await?;
    let work = worker::run(&turno, publisher, options, stop.clone());
    let (report, ()) = tokio::try_join!(
        work,
        serve(listener, metrics::router(metrics), stop.clone())
    )?;
    tracing::info!(
        "Worker detenido. Exitosos: {}, Fallidos: {}, Muertos: {}, Omitidos: {}",
        report.sent,
        report.refused,
        report.dead,
        report.skipped
    );
    Ok(())
}

async fn run_consumer(place: CommonOptions, idempotency: Idempotency) -> Result<()> {
    let settings = Settings::read(&place.config)?;
    let turno = Turno::connect(&place.store).await?;
    let counts = Arc::default();
    let consumer = Consumer {
        turno: turno.clone(),
        db: Db::connect(&place.store).await?,
        idempotency,
        counts: Arc::clone(&counts),
    };
    topology::declare(&settings.rabbitmq).await?;
    let stop = stop_on_signal()?;
    let metrics = Metrics {
        turno,
        publisher: None,
        consumer: Some(counts),
    };
    let listener = listen(place.listen).await?;
    tokio::try_join!(
        consumer.run(&settings, stop.clone()),
        serve(listener, metrics::router(metrics), stop.clone())
    )?;
    Ok(())
}

/// Binds the address and prints it, in the first line of a process's output, before it begins to work.
async fn listen(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("could not listen on {address}"))?;
    // One write, so that a kill can lose the line but never truncate it.
    let line = format!("listening {}\n", listener.local_addr()?);
    std::io::stdout().write_all(line.as_bytes())?;
    Ok(listener)
}

/// Serves requests until cancelled.
async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) -> Result<()> {
    axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await?;
    Ok(())
}

/// Returns a token that SIGTERM and SIGINT cancel.
fn stop_on_signal() -> Result<CancellationToken> {
    let stop = CancellationToken::new();
    let (mut term, mut int) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let outcome = stop.clone();
    // Ends with the process.
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        outcome.cancel();
    });
    Ok(stop)
}
