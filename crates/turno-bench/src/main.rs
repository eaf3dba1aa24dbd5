//! Turno beside its peers and beside the bare limit, in one run. Only the ratios mean anything.

mod locks;
mod rate;
mod table;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about)]
struct Args {
    #[command(subcommand)]
    bench: Option<Bench>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5.0, global = true)]
    seconds: f64,
}

#[derive(Subcommand)]
enum Bench {
    /// Locks on PostgreSQL: pairs, busy answers, peers, a million rows.
    Postgres,
    /// Locks on SQLite: group commit, a million rows.
    Sqlite,
    /// All of them.
    All,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let run = rate::Run::new(args.seconds);
    match args.bench.unwrap_or(Bench::All) {
        Bench::Postgres => locks::postgres::run(&run).await,
        Bench::Sqlite => locks::sqlite::run(&run).await,
        Bench::All => {
            locks::postgres::run(&run).await?;
            locks::sqlite::run(&run).await
        }
    }
}
