//! `turno outbox …`

mod discard;
mod emit;
mod event;
mod list;
pub(crate) mod relay;
mod requeue;
mod show;
mod stats;
mod table;
mod view;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use uuid::Uuid;

pub(super) use self::discard::login;
use crate::context::Context;

/// Commands for the outbox.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Emit(emit::EmitArgs),
    Relay(Box<relay::RelayArgs>),
    Stats(stats::StatsArgs),
    List(list::ListArgs),
    Show(show::ShowArgs),
    Requeue(requeue::RequeueArgs),
    Discard(discard::DiscardArgs),
}

pub(crate) async fn run(context: &Context, verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Emit(args) => emit::run(context, args).await,
        Verb::Relay(args) => relay::run(context, *args).await,
        Verb::Stats(args) => stats::run(context, args).await,
        Verb::List(args) => list::run(context, args).await,
        Verb::Show(args) => show::run(context, args).await,
        Verb::Requeue(args) => requeue::run(context, args).await,
        Verb::Discard(args) => discard::run(context, args).await,
    }
}

/// Parses the id of an event.
fn id(text: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_| {
        "write an id as a UUID, such as 0190f1f4-2b3c-7d4e-8f50-112233445566".to_owned()
    })
}
