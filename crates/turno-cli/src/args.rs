//! The command line.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgAction, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::context::Context;
use crate::fail::Usage;
use crate::logging::LogFormat;
use crate::output::{Format, Output};
use crate::{cmd, fail, secrets};

/// Locks with fencing tokens, a work inbox and an event outbox, on the database you already have
#[derive(Debug, Parser)]
#[command(
    name = "turno",
    version,
    after_help = "\
Order of precedence: options, environment variables, turno.toml, defaults.
Durations have a unit: 500ms, 30s, 5m, 1h30m, 1d.
Exit codes: 0 success, 1 failure, 2 invalid usage, 75 busy or nothing to do (retry later);
`turno run` and `turno once` exit with the code of their command."
)]
pub(crate) struct Cli {
    /// URL of the store: sqlite:FILE or postgres://user@host/database; postgres:// alone uses PGHOST, PGUSER and
    /// so on. Put a URL with a password into TURNO_STORE or into the file TURNO_STORE_FILE [default: sqlite:turno.db]
    #[arg(
        long,
        global = true,
        env = "TURNO_STORE",
        value_name = "URL",
        hide_env_values = true,
        display_order = 100
    )]
    pub(crate) store: Option<String>,

    /// URL of a server to use instead of a store: http://host:7117 or https://…; its access token is in TURNO_TOKEN
    #[arg(
        long,
        global = true,
        env = "TURNO_SERVER",
        value_name = "URL",
        hide_env_values = true,
        display_order = 100
    )]
    pub(crate) server: Option<String>,

    /// Configuration file [default: turno.toml in the current folder, if it exists]
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

    /// Use of colour: auto (on a terminal, unless NO_COLOR is set), always, never
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

    /// Log more on standard error; can be repeated [env: TURNO_LOG, a filter such as turno=debug]
    #[arg(short, long, global = true, action = ArgAction::Count, display_order = 104)]
    pub(crate) verbose: u8,

    /// Whether the store was named by an option and not by the environment.
    #[arg(skip)]
    pub(crate) store_named: bool,

    /// Whether the server was named by an option and not by the environment.
    #[arg(skip)]
    pub(crate) server_named: bool,

    /// What to warn about: secrets that were given as options.
    #[arg(skip)]
    pub(crate) secret_warnings: Vec<String>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(cmd::serve::ServeArgs),
    Migrate(cmd::migrate::MigrateArgs),
    /// Acquire, release and inspect locks
    #[command(subcommand)]
    Lock(cmd::lock::Verb),
    Run(cmd::run::RunArgs),
    Once(cmd::once::OnceArgs),
    /// Push, claim, settle and inspect work items
    #[command(subcommand)]
    Inbox(cmd::inbox::Verb),
    /// Emit events, relay them to a broker, and inspect them
    #[command(subcommand)]
    Outbox(cmd::outbox::Verb),
    History(cmd::history::HistoryArgs),
    Gate(cmd::gate::GateArgs),
    Adopt(cmd::adopt::AdoptArgs),
    Sweep(cmd::sweep::SweepArgs),
    /// Create, list and revoke access tokens of `turno serve`
    #[command(subcommand)]
    Token(cmd::token::Verb),
    /// Check the store: connection, schema, clock, durability
    Doctor,
    Top(cmd::top::TopArgs),
    Demo(cmd::demo::DemoArgs),
    Completions(cmd::completions::CompletionsArgs),
}

impl Command {
    /// Returns the name of the command, if it needs a store and does not work through a server.
    pub(crate) fn needs_store(&self) -> Option<&'static str> {
        match self {
            Command::Serve(_) => Some("serve"),
            Command::Token(_) => Some("token"),
            Command::Migrate(_) => Some("migrate"),
            Command::Outbox(cmd::outbox::Verb::Relay(_)) => Some("outbox relay"),
            Command::Gate(_) => Some("gate"),
            Command::Adopt(_) => Some("adopt"),
            Command::Demo(_) => Some("demo"),
            _ => None,
        }
    }

    /// Whether the command is a service: it runs until it is stopped, and reports through its log.
    pub(crate) fn is_service(&self) -> bool {
        matches!(
            self,
            Command::Outbox(cmd::outbox::Verb::Relay(_)) | Command::Gate(_) | Command::Serve(_)
        )
    }

    /// Whether the command draws on the terminal. Then nothing else may write there.
    pub(crate) fn has_screen(&self) -> bool {
        matches!(self, Command::Top(_))
    }

    /// Returns the format of the log.
    pub(crate) fn log_format(&self, context: &Context) -> LogFormat {
        match self {
            Command::Serve(args) => args.log_format(&context.serve),
            _ => LogFormat::default(),
        }
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
    /// Returns the output settings of the command line.
    pub(crate) fn output(&self) -> Output {
        output(
            if self.json {
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

/// Parses the command line. Prints help, version and usage errors, and returns their exit code.
pub(crate) fn parse() -> Result<Cli, ExitCode> {
    // Scanned without clap, so that usage errors too are printed in the requested format.
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
            cli.store_named = names(&matches, "store");
            cli.server_named = names(&matches, "server");
            cli.secret_warnings = secrets::warnings(&matches);
            if cli.store_named && cli.server_named {
                return Err(both());
            }
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
        // Nothing is left to do if printing fails.
        let _ = error.print();
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    })
}

/// Whether an option was given. Global options may stand before or after the verbs, and clap reports each level separately.
fn names(matches: &clap::ArgMatches, option: &str) -> bool {
    matches.value_source(option) == Some(ValueSource::CommandLine)
        || matches
            .subcommand()
            .is_some_and(|(_, inner)| names(inner, option))
}

/// Conflict of `--store` and `--server`. Not left to clap, which would also reject an option beside the other one's variable,
/// although the option takes precedence.
fn both() -> clap::Error {
    let mut error = clap::Error::new(ErrorKind::ArgumentConflict).with_cmd(&Cli::command());
    error.insert(
        ContextKind::InvalidArg,
        ContextValue::String("--server <URL>".to_owned()),
    );
    error.insert(
        ContextKind::PriorArg,
        ContextValue::String("--store <URL>".to_owned()),
    );
    error
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

/// Converts an error of clap to a usage error.
pub(crate) fn refused(error: &clap::Error) -> Usage {
    Usage::new(field_of(error).unwrap_or_default(), without_usage(error))
}

/// Returns the option of a clap error, under the name that the other interfaces use: `--max-hold <DURATION>` is `max_hold`.
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

/// Returns the message of a clap error, without the usage and the tip after it.
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
