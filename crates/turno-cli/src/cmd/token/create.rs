//! `turno token create`

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use serde::Serialize;
use turno::access::{AccessNew, AccessView, Role};

use crate::context::Context;
use crate::duration;
use crate::output::time;

/// Make an access token, and print it once
#[derive(Debug, Args)]
#[command(after_help = "\
read may look. operate may also take locks, push and settle work, emit events and begin work that is
done once. admin may also do what a person decides: break, requeue, reset, discard, forget, resolve,
sweep.
The store keeps a hash only: what is printed here can not be shown again. From the first token on, a
server lets nobody in without one, also when all of them are revoked.")]
pub(crate) struct CreateArgs {
    /// What people call it: who or what uses it
    name: String,

    /// What it allows: read, operate or admin
    #[arg(
        long,
        value_name = "ROLE",
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["read", "operate", "admin"]).try_map(|word| word.parse::<Role>())
    )]
    role: Role,

    /// Only for names that begin with this, such as payments/ [default: all names]
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    prefix: String,

    /// It ends after this, such as 90d [default: when it is revoked]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    expires: Option<Duration>,
}

/// The JSON output.
#[derive(Serialize)]
struct Created<'a> {
    #[serde(flatten)]
    token: &'a AccessView,
    /// The value for `Authorization: Bearer`.
    secret: &'a str,
}

pub(crate) async fn run(context: &Context, args: CreateArgs) -> Result<ExitCode> {
    let new = AccessNew {
        prefix: args.prefix,
        expires_in: args.expires,
        ..AccessNew::new(args.name, args.role)
    };
    let (token, secret) = context
        .with_store(async |turno| Ok(turno.access_create(new).await?))
        .await?;
    if context.output.is_json() {
        context.output.json(&Created {
            token: &token,
            secret: secret.as_str(),
        })?;
    } else {
        context.output.line(secret.as_str())?;
        context.output.note(&described(&token));
    }
    Ok(ExitCode::SUCCESS)
}

fn described(token: &AccessView) -> String {
    let names = if token.prefix.is_empty() {
        "all names".to_owned()
    } else {
        format!("names that begin with {}", token.prefix)
    };
    let until = token
        .expires_at
        .map_or("until it is revoked".to_owned(), |end| {
            format!("until {}", time(end))
        });
    format!(
        "access token {} ({}): {} on {names}, {until}. Keep it now: it is not shown again",
        token.id, token.name, token.role
    )
}
