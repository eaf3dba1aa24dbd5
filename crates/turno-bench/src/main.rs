//! Turno beside its peers and beside the bare limit, in one run. Only the ratios mean anything.

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
    /// Seconds of each measurement of locks, of once and of serve.
    #[arg(long, default_value_t = 5.0, global = true)]
    seconds: f64,
    /// Items of each measurement of the inbox, and events of the outbox.
    #[arg(long, default_value_t = 50_000, global = true)]
    items: usize,
    /// How often each rate of inbox, outbox, once and serve is measured; the median counts.
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
    /// The program `turno`, optimised, whose start and memory are measured.
    #[arg(long, global = true)]
    turno: Option<std::path::PathBuf>,
}

#[derive(Subcommand)]
enum Bench {
    /// Locks on PostgreSQL: pairs, busy answers, peers, a million rows.
    Postgres,
    /// Locks on SQLite: group commit, a million rows.
    Sqlite,
    /// The inbox on PostgreSQL, beside its peers.
    Inbox,
    /// The inbox on SQLite, beside its peer.
    InboxSqlite,
    /// The outbox, from PostgreSQL to RabbitMQ.
    Outbox,
    /// Once: the layer on PostgreSQL.
    Once,
    /// The server: locks and inbox over HTTP on PostgreSQL, beside etcd; its start and its memory.
    Serve,
    /// All of them.
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
