//! `notes`: the triggers of the application, one process each, and a demonstration that starts them all at once.
#![forbid(unsafe_code)]

mod demo;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};
use notes::before::UnprotectedService;
use notes::processing::ProcessingService;
use notes::{Batch, Outcome, application};
use turno::Turno;
use turno::adopt::Reset;

/// Exit code `EX_TEMPFAIL`: another process has locked the note, try later.
const BUSY: u8 = 75;

/// Notes that are transcribed and analysed once; without a command, a demonstration
#[derive(Debug, Parser)]
struct Cli {
    /// PostgreSQL, postgres://…; the demonstration needs an empty database [default: a private server]
    #[arg(long, env = "TURNO_STORE", global = true, hide_env_values = true)]
    store: Option<String>,

    #[command(subcommand)]
    command: Option<Trigger>,
}

#[derive(Debug, Subcommand)]
enum Trigger {
    /// Add the processing lock to the table notes
    Migrate {
        /// Replace functions of these names that are there already
        #[arg(long, conflicts_with = "undo")]
        replace: bool,
        /// Remove the processing lock, and restore the functions that it replaced
        #[arg(long)]
        undo: bool,
    },
    /// Process the next notes of all users
    Cron {
        #[command(flatten)]
        run: Run,
        #[arg(long, default_value_t = 10)]
        limit: u32,
    },
    /// Process the next notes of one user
    Batch {
        #[command(flatten)]
        run: Run,
        #[arg(long)]
        user: String,
        #[arg(long, default_value_t = 10)]
        limit: u32,
    },
    /// Process one note of a user
    Manual {
        note: String,
        #[command(flatten)]
        run: Run,
        #[arg(long)]
        user: String,
    },
    /// Print the number of notes per state, as JSON
    Stats {
        #[command(flatten)]
        run: Run,
        #[arg(long)]
        user: Option<String>,
    },
    /// Mark abandoned notes as failed
    Cleanup {
        #[command(flatten)]
        run: Run,
    },
    /// Make stuck notes pending again
    Reset {
        #[command(flatten)]
        run: Run,
        /// Reset all unprocessed notes, as if they had never been attempted (for development)
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, Args)]
struct Run {
    /// Name that the services charge, also used in the output [default: the command]
    #[arg(long)]
    who: Option<String>,

    /// A lock older than this is abandoned
    #[arg(long, value_name = "MINUTES", default_value_t = 15)]
    timeout_minutes: u32,

    /// Run the original processing, without locks
    #[arg(long)]
    without_locks: bool,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    let Some(trigger) = cli.command else {
        demo::run(cli.store).await?;
        return Ok(ExitCode::SUCCESS);
    };
    let store = cli
        .store
        .context("give the database with --store postgres://… or TURNO_STORE")?;
    ensure!(
        store.starts_with("postgres"),
        "{store} is not PostgreSQL, and this example is about SQL functions"
    );
    fire(&store, trigger).await
}

async fn fire(store: &str, trigger: Trigger) -> Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    match trigger {
        Trigger::Migrate { replace, undo } => {
            let turno = Turno::connect(store).await?;
            let adoption = if undo {
                turno.unadopt("notes").await?
            } else if replace {
                application::adopt_over(&turno).await?
            } else {
                application::adopt(&turno).await?
            };
            println!("{}", serde_json::to_string_pretty(&adoption)?);
        }
        Trigger::Cron { run, limit } => batch(store, &run, "cron", None, limit).await?,
        Trigger::Batch { run, user, limit } => {
            batch(store, &run, "batch", Some(&user), limit).await?;
        }
        Trigger::Manual { note, run, user } => {
            let outcome = manual(store, &run, &note, &user).await?;
            say(run.who("manual"), &note, &outcome);
            code = match outcome {
                Outcome::Processed => ExitCode::SUCCESS,
                Outcome::Failed(_) => ExitCode::FAILURE,
                Outcome::Busy | Outcome::Overtaken => ExitCode::from(BUSY),
            };
        }
        Trigger::Stats { run, user } => {
            let service = service(store, &run, "stats").await?;
            let stats = service.get_processing_stats(user.as_deref()).await?;
            println!("{}", serde_json::to_string(&stats)?);
        }
        Trigger::Cleanup { run } => {
            let service = service(store, &run, "cleanup").await?;
            let cleaned = service.cleanup_abandoned().await?;
            println!("{cleaned} abandoned locks cleaned up");
        }
        Trigger::Reset { run, all } => {
            let which = if all {
                Reset::All
            } else {
                Reset::Stuck(run.timeout())
            };
            let service = service(store, &run, "reset").await?;
            println!(
                "{} notes reset",
                service.reset_stuck_processing(which).await?
            );
        }
    }
    Ok(code)
}

async fn batch(store: &str, run: &Run, name: &str, user: Option<&str>, limit: u32) -> Result<()> {
    let who = run.who(name);
    let Batch { cleaned, notes } = if run.without_locks {
        let before = UnprotectedService::new(application::connect(store).await?, who);
        before.process_batch(user, limit).await?
    } else {
        let service = service(store, run, name).await?;
        service.process_batch(user, limit).await?
    };
    println!("{who}: {cleaned} abandoned locks cleaned up");
    for (note, outcome) in notes {
        say(who, &note, &outcome);
    }
    Ok(())
}

async fn manual(store: &str, run: &Run, note: &str, user: &str) -> Result<Outcome> {
    if run.without_locks {
        let before = UnprotectedService::new(application::connect(store).await?, run.who("manual"));
        return before.process_note(note).await;
    }
    let service = service(store, run, "manual").await?;
    service.process_note(note, user).await
}

async fn service(store: &str, run: &Run, name: &str) -> Result<ProcessingService> {
    let turno = Turno::connect(store).await?;
    let db = application::connect(store).await?;
    Ok(ProcessingService::new(&turno, db, run.who(name)).timeout(run.timeout()))
}

fn say(who: &str, note: &str, outcome: &Outcome) {
    println!("{who}: note {note}: {outcome}");
}

impl Run {
    fn who<'a>(&'a self, name: &'a str) -> &'a str {
        self.who.as_deref().unwrap_or(name)
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(60 * u64::from(self.timeout_minutes))
    }
}
