//! `turno once --list`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use comfy_table::Cell;
use turno::once::{OnceList, OnceState, OnceView};
use turno_api::{once, page};

use crate::context::Context;
use crate::output::{number, optional, page, time};
use crate::payload::printable;

const STATES: [OnceState; 3] = [OnceState::Unknown, OnceState::InFlight, OnceState::Done];

#[derive(Debug, Args)]
pub(super) struct PageArgs {
    /// List: only keys in this state: unknown, in_flight or done
    #[arg(long, value_name = "STATE", conflicts_with_all = super::NO_LIST, hide_possible_values = true, value_parser = PossibleValuesParser::new(STATES.map(OnceState::as_str)).try_map(|word| word.parse::<OnceState>()))]
    state: Option<OnceState>,

    /// List: only keys with this prefix, such as pago/
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with_all = super::NO_LIST,
        default_value = "",
        hide_default_value = true
    )]
    prefix: String,

    /// List: maximum number of keys, up to 1000
    #[arg(long, value_name = "N", conflicts_with_all = super::NO_LIST, default_value_t = 100)]
    limit: u32,

    /// List: only keys after this one: the last key of the previous page
    #[arg(
        long,
        value_name = "KEY",
        conflicts_with_all = super::NO_LIST,
        default_value = "",
        hide_default_value = true
    )]
    after: String,
}

pub(super) async fn run(context: &Context, args: PageArgs) -> Result<ExitCode> {
    let limit = page(args.limit);
    let ask = OnceList {
        state: args.state,
        prefix: args.prefix,
        after: args.after,
        limit,
    };
    let keys = context
        .read_store(async |turno| Ok(turno.once_list(ask).await?))
        .await?;
    if context.output.is_json() {
        let next = page::next(&keys, limit, |view| view.key.clone());
        context.output.json(&once::Keys { keys, next })?;
    } else if keys.is_empty() {
        context.output.line(&match args.state {
            Some(state) => format!("no key is {state}"),
            None => "there are no keys".to_owned(),
        })?;
    } else {
        let header = [
            "KEY", "STATE", "ATTEMPT", "BEGAN", "UNTIL", "LATE", "WORKER",
        ];
        let rows = keys.iter().map(row).collect();
        context.output.table(&header, rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(view: &OnceView) -> Vec<Cell> {
    vec![
        Cell::new(&view.key),
        Cell::new(view.state),
        number(view.attempt),
        Cell::new(time(view.began_at)),
        Cell::new(time(view.expires_at)),
        number(view.late),
        optional(view.worker.as_deref().map(printable)),
    ]
}
