//! Compares Turno with its peers and with the bare limit, in one run. Only the ratios are meaningful.

mod inbox;
mod locks;
mod once;
mod outbox;
mod rate;
mod serve;
mod table;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about)]
struct Args {
    #[command(subcommand)]
    bench: Option<Bench>,
    /// Duration of each measurement of locks, once and serve, in seconds.
    #[arg(long, default_value_t = 5.0, global = true)]
    seconds: f64,
    /// Number of items per inbox measurement, and of events per outbox measurement.
    #[arg(long, default_value_t = 50_000, global = true)]
    items: usize,
    /// Number of measurements of each rate of inbox, outbox, once and serve. The result is the median.
    #[arg(long, default_value_t = 3, global = true)]
    rounds: usize,
    /// Only Turno, without the peers of the inbox.
    #[arg(long, global = true)]
    alone: bool,
    /// Only one part of the inbox on PostgreSQL.
    #[arg(long, global = true)]
    part: Option<inbox::postgres::Part>,
    /// Only one part of the outbox.
    #[arg(long, global = true)]
    outbox_part: Option<outbox::Part>,
    /// Only one part of once.
    #[arg(long, global = true)]
    once_part: Option<once::Part>,
    /// Only one part of serve.
    #[arg(long, global = true)]
    serve_part: Option<serve::Part>,
    /// Path of an optimised `turno` binary, whose start time and memory are measured.
    #[arg(long, global = true)]
    turno: Option<std::path::PathBuf>,
}

#[derive(Subcommand)]
enum Bench {
    /// Locks on PostgreSQL: pairs, busy locks, peers, a million rows.
    Postgres,
    /// Locks on SQLite: group commit, a million rows.
    Sqlite,
    /// The inbox on PostgreSQL, compared with its peers.
    Inbox,
    /// The inbox on SQLite, compared with its peer.
    InboxSqlite,
    /// The outbox, from PostgreSQL to RabbitMQ.
    Outbox,
    /// Once: the layer on PostgreSQL.
    Once,
    /// The server: locks and inbox over HTTP on PostgreSQL, compared with etcd; start time and memory.
    Serve,
    /// All benchmarks.
    All,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let run = rate::Run::new(args.seconds);
    let inbox = inbox::postgres::Bench {
        items: args.items,
        rounds: args.rounds,
        alone: args.alone,
        part: args.part,
    };
    let outbox = outbox::Bench {
        events: args.items,
        rounds: args.rounds,
        part: args.outbox_part,
    };
    let once = once::Bench {
        seconds: args.seconds,
        rounds: args.rounds,
        part: args.once_part,
    };
    let serve = serve::Bench {
        seconds: args.seconds,
        rounds: args.rounds,
        part: args.serve_part,
        turno: args.turno,
    };
    match args.bench.unwrap_or(Bench::All) {
        Bench::Postgres => locks::postgres::run(&run).await,
        Bench::Sqlite => locks::sqlite::run(&run).await,
        Bench::Inbox => inbox.run().await,
        Bench::InboxSqlite => inbox::sqlite::run(args.items).await,
        Bench::Outbox => outbox.run().await,
        Bench::Once => once.run().await,
        Bench::Serve => serve.run().await,
        Bench::All => {
            locks::postgres::run(&run).await?;
            locks::sqlite::run(&run).await?;
            inbox.run().await?;
            inbox::sqlite::run(args.items).await?;
            outbox.run().await?;
            once.run().await?;
            serve.run().await
        }
    }
}
