//! Compares Turno with its peers and with the bare limit, in one run. Only the ratios are meaningful.

mod calls;
mod growth;
mod inbox;
mod latency;
mod locks;
mod once;
mod operations;
mod outbox;
mod queries;
mod rate;
mod record;
mod serve;
mod table;
mod units;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};

#[derive(Parser)]
#[command(about)]
struct Args {
    #[command(subcommand)]
    bench: Option<Bench>,
    /// Duration of each measurement of locks, once, serve and latency, and of the maximal rate of growth, in seconds.
    #[arg(long, default_value_t = 5.0, global = true)]
    seconds: f64,
    /// Number of items per measurement of inbox and units, and of events per outbox measurement.
    #[arg(long, default_value_t = 50_000, global = true)]
    items: usize,
    /// Number of measurements of each rate of inbox, outbox, once, serve and latency, and of each cost of units; of calls, half
    /// the number of turns. The result is the median. Latencies of all rounds count together.
    #[arg(long, default_value_t = 3, global = true)]
    rounds: usize,
    /// Only Turno, without the peers of inbox and units that are other programs.
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
    /// Duration of each run of growth, in minutes.
    #[arg(long, default_value_t = 30, global = true)]
    minutes: u32,
    /// Only one operation of latency, units or growth.
    #[arg(long, global = true)]
    operation: Option<operations::Kind>,
    /// Only calls whose name contains this.
    #[arg(long, global = true)]
    call: Option<String>,
    /// File that gets the results as JSON. Results of a part that is measured replace the earlier ones of that part.
    #[arg(long, global = true)]
    json: Option<PathBuf>,
    /// What readers of the results have to know, such as other programs that ran at the same time.
    #[arg(long, global = true)]
    note: Option<String>,
    /// Path of an optimised `turno` binary, whose start time and memory are measured.
    #[arg(long, global = true)]
    turno: Option<PathBuf>,
}

#[derive(Clone, Copy, Subcommand, ValueEnum)]
enum Bench {
    /// The cost of one call of each SQL function, beside bare statements.
    Calls,
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
    /// Latency at 50 and 80 % of the maximal rate, on PostgreSQL, compared with a peer each.
    Latency,
    /// WAL, dead rows, buffers and CPU time per item, event, pair of lock calls and request, on PostgreSQL.
    Units,
    /// Tables and latency under a steady load on PostgreSQL, with and without a snapshot held open.
    Growth,
    /// All benchmarks but growth, which takes an hour.
    All,
}

const ALL: [Bench; 10] = [
    Bench::Calls,
    Bench::Postgres,
    Bench::Sqlite,
    Bench::Inbox,
    Bench::InboxSqlite,
    Bench::Outbox,
    Bench::Once,
    Bench::Serve,
    Bench::Latency,
    Bench::Units,
];

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let one;
    let parts = match args.bench {
        None | Some(Bench::All) => &ALL[..],
        Some(part) => {
            one = [part];
            &one[..]
        }
    };
    for part in parts {
        run(*part, &args).await?;
        if let (Some(file), Some(part)) = (&args.json, part.to_possible_value()) {
            record::write(file, part.get_name(), args.note.as_deref())?;
        }
    }
    Ok(())
}

async fn run(part: Bench, args: &Args) -> Result<()> {
    let (seconds, rounds) = (args.seconds, args.rounds);
    let locks = rate::Run::new(seconds);
    match part {
        Bench::Calls => {
            let only = args.call.clone();
            calls::Bench { rounds, only }.run().await
        }
        Bench::Postgres => locks::postgres::run(&locks).await,
        Bench::Sqlite => locks::sqlite::run(&locks).await,
        Bench::Inbox => {
            let inbox = inbox::postgres::Bench {
                items: args.items,
                rounds,
                alone: args.alone,
                part: args.part,
            };
            inbox.run().await
        }
        Bench::InboxSqlite => inbox::sqlite::run(args.items).await,
        Bench::Outbox => {
            let outbox = outbox::Bench {
                events: args.items,
                rounds,
                part: args.outbox_part,
            };
            outbox.run().await
        }
        Bench::Once => {
            let once = once::Bench {
                seconds,
                rounds,
                part: args.once_part,
            };
            once.run().await
        }
        Bench::Serve => {
            let serve = serve::Bench {
                seconds,
                rounds,
                part: args.serve_part,
                turno: args.turno.clone(),
            };
            serve.run().await
        }
        Bench::Latency => {
            let latency = latency::Bench {
                seconds,
                rounds,
                operation: args.operation,
            };
            latency.run().await
        }
        Bench::Units => {
            let units = units::Bench {
                items: args.items,
                rounds,
                alone: args.alone,
                operation: args.operation,
            };
            units.run().await
        }
        Bench::Growth => {
            let growth = growth::Bench {
                minutes: args.minutes,
                seconds,
                operation: args.operation,
            };
            growth.run().await
        }
        Bench::All => Ok(()),
    }
}
