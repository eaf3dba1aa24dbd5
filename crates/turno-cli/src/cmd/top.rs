//! `turno top`: the dashboard on a terminal.
//!
//! One task polls the store or the server (`poller`), and one thread reads keys (`keys`). Their input changes the view (`view`),
//! which is drawn (`draw`). Operator actions (`action`) run concurrently, so that the screen does not freeze.

mod action;
mod draw;
mod keys;
mod list;
mod memory;
mod poller;
mod screen;
#[cfg(test)]
mod tests;
mod view;

use std::io::{IsTerminal as _, stdin, stdout};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use turno::Turno;

use self::action::{Action, ActionOutcome};
use self::keys::{Input, Keys};
use self::poller::{PollResult, Poller};
use self::screen::{Ink, Screen};
use self::view::{Step, View};
use crate::context::Context;
use crate::fail::Usage;
use crate::redact;
use crate::signals::{self, Signals};

/// Redraw interval without input: the remaining time of leases shrinks on its own.
const TICK: Duration = Duration::from_secs(1);
/// Maximum number of polls and outcomes that wait to be drawn.
const QUEUED: usize = 16;

/// Show locks, queues, outbox, once keys and history live, with operator actions
#[derive(Debug, Args)]
#[command(after_help = "\
Keys: 1 to 5 or Tab switch, arrows or j and k select, / filters, Enter opens, ? helps, q quits.
b breaks a lock, r requeues, d discards, s resets stuck items, f forgets an unknown once key, c
resolves one whose work was done. Each action requires a reason, which is stored in the history.
It polls about once per second, and less often if polls are slow.")]
pub(crate) struct TopArgs {
    /// Only names with this prefix, such as payments/; hides the outbox, whose events have no name
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    prefix: String,

    /// User, for the history [default: user of turno.toml, or the system user]
    #[arg(long, env = "TURNO_USER", hide_env_values = true, value_name = "NAME")]
    user: Option<String>,
}

pub(crate) async fn run(context: &Context, args: TopArgs) -> Result<ExitCode> {
    let is_shown = stdin().is_terminal() && stdout().is_terminal();
    if context.output.is_json() || !is_shown {
        return Err(Usage::new(
            "top",
            "turno top requires a terminal: in programs, use `turno lock list`, `turno inbox stats`, \
             `turno outbox stats`, `turno once --list` or `turno history`, with --json",
        )
        .into());
    }
    context
        .read_store(async |turno| watch(context, turno, args).await)
        .await
}

/// Runs until the user quits or a signal comes.
async fn watch(context: &Context, turno: &Turno, args: TopArgs) -> Result<ExitCode> {
    let poller = Poller::new(turno.clone(), args.prefix);
    let mut view = View::new(name(context));
    let (focus, focused) = watch::channel(view.focus());
    // If the first poll fails, the command fails.
    view.update(poller.poll(&focused.borrow().clone()).await?);
    let user = user(context, args.user);

    let (results, mut polled) = mpsc::channel::<PollResult>(QUEUED);
    let (outcomes, mut done) = mpsc::channel::<turno::Result<ActionOutcome>>(QUEUED);
    let mut tasks = JoinSet::new();
    tasks.spawn(poller.watch(focused, results));

    let ink = match context.output.color() {
        true => Ink::Colour,
        false => Ink::Plain,
    };
    let mut signals = Signals::listen(&signals::ENDING)?;
    let mut screen = Screen::open(ink)?;
    let mut keys = Keys::read();
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let code = loop {
        screen.draw(&mut view)?;
        tokio::select! {
            input = keys.next() => match input? {
                Input::Resized => {}
                Input::Key(key) => match view.key(key) {
                    Step::Stay => {}
                    Step::Quit => break ExitCode::SUCCESS,
                    Step::Do(action, reason) => {
                        let (turno, user, outcomes) = (turno.clone(), user.clone(), outcomes.clone());
                        tasks.spawn(act(turno, action, user, reason, outcomes));
                    }
                },
            },
            Some(result) = polled.recv() => match result {
                Ok(snapshot) => view.update(snapshot),
                Err(error) => view.poll_failed(error),
            },
            Some(outcome) = done.recv() => {
                view.show_outcome(outcome);
                // Poll at once, so that the change is visible.
                focus.send_modify(|_| {});
            }
            signal = signals.next() => {
                break ExitCode::from(signals::exit_code(signal.as_raw()));
            }
            _ = ticks.tick() => {}
        }
        let wanted = view.focus();
        focus.send_if_modified(|focus| {
            let is_new = *focus != wanted;
            *focus = wanted;
            is_new
        });
        while tasks.try_join_next().is_some() {}
    };
    drop(screen);
    tasks.shutdown().await;
    Ok(code)
}

async fn act(
    turno: Turno,
    action: Action,
    user: Option<String>,
    reason: String,
    outcomes: mpsc::Sender<turno::Result<ActionOutcome>>,
) {
    let outcome = action.carry_out(&turno, user.as_deref(), &reason).await;
    // An error means that the user has quit meanwhile.
    let _ = outcomes.send(outcome).await;
}

/// Returns the name of the store or server, without secrets.
fn name(context: &Context) -> String {
    match context.remote() {
        Some(remote) => redact::url(remote.url()),
        None => redact::url(&context.store),
    }
}

/// Returns the user of actions. A server takes the name of the access token, unless a user is given.
fn user(context: &Context, named: Option<String>) -> Option<String> {
    let named = named.or_else(|| context.settings.user.clone());
    match context.remote() {
        Some(_) => named,
        None => named.or_else(|| Some(super::outbox::login())),
    }
}
