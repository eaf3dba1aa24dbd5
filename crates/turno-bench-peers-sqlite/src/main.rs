//! A peer whose SQLite cannot be linked together with that of the other peers: effectum.
//!
//! Called like the other peers, and measured by the same code.

mod effectum;
#[path = "../../turno-bench-peers/src/measure.rs"]
mod measure;
#[path = "../../turno-bench-peers/src/peer.rs"]
mod peer;
#[path = "../../turno-bench-peers/src/queries.rs"]
mod queries;

use anyhow::Result;
use clap::{Parser, ValueEnum};

use crate::measure::{line, measure};
use crate::peer::Plan;

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
    /// effectum, an embedded queue on SQLite.
    Effectum,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let measured = match args.peer {
        Name::Effectum => measure::<effectum::Effectum>(&args.plan).await?,
    };
    println!("{}", line(args.peer, &args.plan, &measured)?);
    Ok(())
}
