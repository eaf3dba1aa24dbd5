//! What can be said on the command line.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{ArgAction, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::context::Context;
use crate::logging::LogFormat;
use crate::output::{Format, Output};
use crate::{cmd, fail};

/// Locks with fencing tokens, a work inbox and an event outbox, on the database you already have
#[derive(Debug, Parser)]
#[command(
    name = "turno",
    version,
    disable_help_subcommand = true,
    after_help = "\
Options win over environment variables, those over turno.toml, and that over the defaults.
Durations are written 500ms, 30s, 5m, 1h30m, 1d, or as a whole number of milliseconds.
Exit codes: 0 done, 1 failed, 2 bad usage, 75 busy or nothing to do (try again later);
`turno run` and `turno once` pass their command's own code on."
)]
pub(crate) struct Cli {
    /// The store: sqlite:FILE or postgres://user@host/database [default: sqlite:turno.db]
    #[arg(
        long,
        global = true,
        env = "TURNO_STORE",
        value_name = "URL",
        hide_env_values = true,
        display_order = 100
    )]
    pub(crate) store: Option<String>,

    /// The configuration file [default: turno.toml, if it is in the current folder]
    #[arg(
        long,
        global = true,
        env = "TURNO_CONFIG",
        value_name = "FILE",
        hide_env_values = true,
        display_order = 101
    )]
    pub(crate) config: Option<PathBuf>,

    /// Print JSON instead of tables
    #[arg(long, global = true, display_order = 102)]
    json: bool,

    /// When to use colour: auto (on a terminal, unless NO_COLOR is set), always, never
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "auto",
        value_name = "WHEN",
        hide_possible_values = true,
        display_order = 103
    )]
    color: Color,

    /// Tell more on standard error, and twice still more [env: TURNO_LOG, a filter such as turno=debug]
    #[arg(short, long, global = true, action = ArgAction::Count, display_order = 104)]
    pub(crate) verbose: u8,

    /// Whether the store was named as an option, and not by the environment.
    #[arg(skip)]
    pub(crate) store_named: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Migrate(cmd::migrate::MigrateArgs),
    /// Take, give back and look at locks
    #[command(subcommand)]
    Lock(cmd::lock::Verb),
    Run(cmd::run::RunArgs),
    Once(cmd::once::OnceArgs),
    /// Push, take and settle work, and look at it
    #[command(subcommand)]
    Inbox(cmd::inbox::Verb),
    /// Emit events, relay them to a broker, and look at them
    #[command(subcommand)]
    Outbox(cmd::outbox::Verb),
    Gate(cmd::gate::GateArgs),
    Adopt(cmd::adopt::AdoptArgs),
    Sweep(cmd::sweep::SweepArgs),
    Serve(cmd::serve::ServeArgs),
    /// Examine the store: reach, schema, clock, durability
    Doctor,
    Demo(cmd::demo::DemoArgs),
    Completions(cmd::completions::CompletionsArgs),
}

impl Command {
    /// Whether it runs until it is stopped, and is read by its log.
    pub(crate) fn is_service(&self) -> bool {
        matches!(
            self,
            Command::Outbox(cmd::outbox::Verb::Relay(_)) | Command::Gate(_) | Command::Serve(_)
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    fn applies(self, stream: &impl IsTerminal) -> bool {
        match self {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                stream.is_terminal()
                    && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
            }
        }
    }
}

impl Cli {
    /// How to print, as far as the command line says.
    pub(crate) fn output(&self) -> Output {
        output(
            if self.json {

    /// Who reads the log.
    pub(crate) fn log_format(&self, context: &Context) -> LogFormat {
        match self {
            Command::Serve(args) => args.log_format(&context.serve),
            _ => LogFormat::default(),
        }
    }
                Format::Json
            } else {
                Format::Human
            },
            self.color,
        )
    }
}

fn output(format: Format, color: Color) -> Output {
    Output::new(
        format,
        color.applies(&std::io::stdout()),
        color.applies(&std::io::stderr()),
    )
}

/// Reads the command line. Help, version and bad usage are printed here, and end with their own code.
pub(crate) fn parse() -> Result<Cli, ExitCode> {
    // Looked for by hand: what cannot be parsed is still answered as it was asked for.
    let words: Vec<_> = std::env::args_os()
        .skip(1)
        .take_while(|word| word != "--")
        .collect();
    let said = |wanted: &str| words.iter().any(|word| word == wanted);
    let color = color_of(&words);
    let choice = match color {
        Color::Auto => ColorChoice::Auto,
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
    };
    let parsed = Cli::command()
        .color(choice)
        .try_get_matches()
        .and_then(|matches| {
            let mut cli = Cli::from_arg_matches(&matches)?;
            cli.store_named = names_store(&matches);
            Ok(cli)
        });
    parsed.map_err(|error| {
        if error.use_stderr() && said("--json") {
            return fail::usage(
                &without_usage(&error),
                field_of(&error).as_deref(),
                output(Format::Json, color),
            );
        }
        // Nothing is left to do if even this cannot be printed.
        let _ = error.print();
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    })
}

/// Global options may stand before or after the verbs, and clap tells of each level by itself.
fn names_store(matches: &clap::ArgMatches) -> bool {
    matches.value_source("store") == Some(ValueSource::CommandLine)
        || matches
            .subcommand()
            .is_some_and(|(_, inner)| names_store(inner))
}

fn color_of(words: &[impl AsRef<OsStr>]) -> Color {
    let mut words = words
        .iter()
        .map(|word| word.as_ref().to_str().unwrap_or_default());
    let mut color = Color::Auto;
    while let Some(word) = words.next() {
        let value = if word == "--color" {
            words.next()
        } else {
            word.strip_prefix("--color=")
        };
        color = value
            .and_then(|value| Color::from_str(value, false).ok())
            .unwrap_or(color);
    }
    color
}

/// The option that clap complains of, as the other faces name it: `--max-hold <DURATION>` is `max_hold`.
fn field_of(error: &clap::Error) -> Option<String> {
    let name = match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(name) => name,
        ContextValue::Strings(names) => names.first()?,
        _ => return None,
    };
    let word = name.split([' ', '=']).next()?;
    Some(
        word.trim_matches(['-', '<', '>', '.', '[', ']'])
            .replace('-', "_")
            .to_lowercase(),
    )
}

/// The complaint alone, without the usage and the tip that follow it.
fn without_usage(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let complaint: Vec<&str> = text
        .lines()
        .take_while(|line| !line.starts_with("Usage:"))
        .map(str::trim)
        .collect();
    complaint
        .join(" ")
        .trim()
        .trim_start_matches("error: ")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn colour_is_read_wherever_it_stands() {
        assert_eq!(
            color_of(&["lock", "--color", "never", "list"]),
            Color::Never
        );
        assert_eq!(color_of(&["--color=always"]), Color::Always);
        assert_eq!(color_of(&["--color", "mauve"]), Color::Auto);
        assert_eq!(color_of(&["lock"]), Color::Auto);
    }
}
