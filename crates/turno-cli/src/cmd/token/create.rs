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

/// Create an access token, and print it once
#[derive(Debug, Args)]
#[command(after_help = "\
read allows reading only. operate also allows locks, pushing and settling items, emitting events and
once keys. admin also allows break, requeue, reset, discard, forget, resolve and sweep.
The store keeps only a hash, so the token cannot be shown again. Once a token was created, a server
rejects callers without one, even if all tokens are revoked.")]
pub(crate) struct CreateArgs {
    /// Name of the token: who or what uses it
    name: String,

    /// Role: read, operate or admin
    #[arg(
        long,
        value_name = "ROLE",
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["read", "operate", "admin"]).try_map(|word| word.parse::<Role>())
    )]
    role: Role,

    /// Only names with this prefix, such as payments/ [default: all names]
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    prefix: String,

    /// Time until the token expires, such as 90d [default: never]
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
        format!("names with the prefix {}", token.prefix)
    };
    let until = token
        .expires_at
        .map_or("until it is revoked".to_owned(), |end| {
            format!("until {}", time(end))
        });
    format!(
        "access token {} ({}): {} on {names}, {until}. Store it now: it is not shown again",
        token.id, token.name, token.role
    )
}
