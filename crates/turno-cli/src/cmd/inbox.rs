//! `turno inbox …`

mod claim;
mod complete;
mod discard;
mod extend;
mod fail;
mod failed;
mod field;
mod give_back;
mod list;
mod push;
mod requeue;
mod reset;
mod settings;
mod settle;
mod stats;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::context::Context;

/// Commands for the inbox.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Push(push::PushArgs),
    Claim(claim::ClaimArgs),
    Complete(complete::CompleteArgs),
    Fail(fail::FailArgs),
    Extend(extend::ExtendArgs),
    GiveBack(give_back::GiveBackArgs),
    Stats(stats::StatsArgs),
    List(list::ListArgs),
    Requeue(requeue::RequeueArgs),
    Discard(discard::DiscardArgs),
    Reset(reset::ResetArgs),
    Settings(settings::SettingsArgs),
    Pause(settings::PauseArgs),
    Resume(settings::ResumeArgs),
}

pub(crate) async fn run(context: &Context, verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Push(args) => push::run(context, args).await,
        Verb::Claim(args) => claim::run(context, args).await,
        Verb::Complete(args) => complete::run(context, args).await,
        Verb::Fail(args) => fail::run(context, args).await,
        Verb::Extend(args) => extend::run(context, args).await,
        Verb::GiveBack(args) => give_back::run(context, args).await,
        Verb::Stats(args) => stats::run(context, args).await,
        Verb::List(args) => list::run(context, args).await,
        Verb::Requeue(args) => requeue::run(context, args).await,
        Verb::Discard(args) => discard::run(context, args).await,
        Verb::Reset(args) => reset::run(context, args).await,
        Verb::Settings(args) => settings::run(context, args).await,
        Verb::Pause(args) => settings::pause(context, args).await,
        Verb::Resume(args) => settings::resume(context, args).await,
    }
}
