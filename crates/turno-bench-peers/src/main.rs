//! Measures other queues with the same items: one peer, one measurement, one line of JSON.
//!
//! All are on PostgreSQL. The one on SQLite is in turno-bench-peers-sqlite, because two versions of SQLite cannot be linked
//! together. The store must be new and private: the peer's tables are created in it and stay there.

mod apalis_postgres;
mod awa;
mod consume;
mod graphile_worker;
mod measure;
mod peer;
mod pgmq;
mod postgres;
mod queries;
mod skip_locked;

use anyhow::Result;
use clap::{Parser, ValueEnum};

use crate::measure::{line, measure};
use crate::peer::Plan;
use crate::skip_locked::{InTransaction, Leased, SkipLocked};

#[derive(Parser)]
#[command(about)]
struct Args {
    /// Peer to measure.
    peer: Name,
    #[command(flatten)]
    plan: Plan,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// graphile_worker, the Rust implementation, on PostgreSQL.
    #[value(name = "graphile_worker")]
    GraphileWorker,
    /// apalis on PostgreSQL.
    ApalisPostgres,
    /// awa on PostgreSQL.
    Awa,
    /// The functions of the pgmq extension.
    Pgmq,
    /// Hand-written: claimed for some time with `for update skip locked`, then deleted.
    #[value(name = "skip_locked")]
    SkipLocked,
    /// Hand-written: one transaction from the claim to the deletion, open while the item is handled.
    #[value(name = "skip_locked_tx")]
    SkipLockedTx,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let plan = &args.plan;
    let measured = match args.peer {
        Name::GraphileWorker => measure::<graphile_worker::GraphileWorker>(plan).await?,
        Name::ApalisPostgres => measure::<apalis_postgres::ApalisPostgres>(plan).await?,
        Name::Awa => measure::<awa::Awa>(plan).await?,
        Name::Pgmq => measure::<pgmq::Pgmq>(plan).await?,
        Name::SkipLocked => measure::<SkipLocked<Leased>>(plan).await?,
        Name::SkipLockedTx => measure::<SkipLocked<InTransaction>>(plan).await?,
    };
    println!("{}", line(args.peer, plan, &measured)?);
    Ok(())
}
