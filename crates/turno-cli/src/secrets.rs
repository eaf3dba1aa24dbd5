//! Secrets: options that show one to every user of the machine, and files that hold one.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::fail::Usage;
use crate::redact;

/// A file with more than this holds something else.
const MAX_SECRET_FILE_BYTES: u64 = 64 * 1024;

/// An option whose value is a secret, or can have one in it.
struct SecretOption {
    /// As clap names it.
    id: &'static str,
    /// What the secret is, if the value has one in it.
    secret: fn(&str) -> Option<&'static str>,
    /// What to use instead.
    instead: &'static str,
}

const SECRET_OPTIONS: [SecretOption; 6] = [
    SecretOption {
        id: "store",
        secret: password,
        instead: "PGPASSWORD, ~/.pgpass, TURNO_STORE or TURNO_STORE_FILE",
    },
    SecretOption {
        id: "server",
        secret: password,
        instead: "TURNO_SERVER, and TURNO_TOKEN for the access token",
    },
    SecretOption {
        id: "sink",
        secret: password_or_token,
        instead: "TURNO_SINK, --sink-file (TURNO_SINK_FILE), or sink in [outbox] of turno.toml",
    },
    SecretOption {
        id: "secret",
        secret: |_| Some("secret"),
        instead: "TURNO_WEBHOOK_SECRET, --secret-file (TURNO_WEBHOOK_SECRET_FILE), or secret in [outbox] of turno.toml",
    },
    SecretOption {
        id: "broker",
        secret: password,
        instead: "TURNO_DEMO_BROKER",
    },
    SecretOption {
        id: "upstream",
        secret: password,
        instead: "TURNO_UPSTREAM",
    },
];

fn password(url: &str) -> Option<&'static str> {
    redact::has_password(url).then_some("password")
}

/// NATS takes a token in the place of the user: nats://TOKEN@host.
fn password_or_token(url: &str) -> Option<&'static str> {
    let is_nats = ["nats:", "tls:"].iter().any(|scheme| {
        url.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    password(url).or_else(|| (is_nats && url.contains('@')).then_some("token"))
}

/// One warning for each secret on the command line. Secrets of the environment and of files are not visible to other users.
pub(crate) fn warnings(matches: &ArgMatches) -> Vec<String> {
    let mut warnings: Vec<String> = SECRET_OPTIONS
        .iter()
        .filter(|option| matches.ids().any(|id| id.as_str() == option.id))
        .filter(|option| matches.value_source(option.id) == Some(ValueSource::CommandLine))
        .filter_map(|option| {
            let values = matches.try_get_raw(option.id).ok().flatten()?;
            let secret = values
                .filter_map(|value| value.to_str())
                .find_map(option.secret)?;
            let SecretOption { id, instead, .. } = option;
            Some(format!(
                "the {secret} in --{id} is visible to all users of this machine (ps): use {instead} instead"
            ))
        })
        .collect();
    // A global option may stand before or after the verb; clap has it at both levels then.
    if let Some((_, inner)) = matches.subcommand() {
        for warning in self::warnings(inner) {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }
    warnings
}

/// The secret in a file, which is all that is in it. `field` names the option or the setting that names the file.
pub(crate) fn of_file(field: &str, path: &Path) -> Result<String, Usage> {
    let wrong = |reason: &str| {
        let detail = format!("{field} names {}, which {reason}", path.display());
        Usage::new(field, detail)
    };
    let mut text = String::new();
    let read = File::open(path).and_then(|file| {
        file.take(MAX_SECRET_FILE_BYTES + 1)
            .read_to_string(&mut text)
    });
    match read {
        Err(error) => Err(wrong(&format!("cannot be read ({error})"))),
        Ok(bytes) if bytes as u64 > MAX_SECRET_FILE_BYTES => Err(wrong("is too long")),
        Ok(_) => match text.trim() {
            "" => Err(wrong("is empty: write the value into the file")),
            secret => Ok(secret.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    fn warned(words: &[&str]) -> Vec<String> {
        let words = [&["turno"], words].concat();
        warnings(&Cli::command().get_matches_from(words))
    }

    #[test]
    fn a_secret_in_an_option_is_warned_about_and_not_shown() {
        let relay = ["outbox", "relay", "--sink"];
        for (words, option) in [
            (
                &["--store", "postgres://a:s3cret@db/x", "doctor"][..],
                "--store",
            ),
            (
                &["doctor", "--store", "postgres://a:s3cret@db/x"],
                "--store",
            ),
            (&["--server", "http://a:s3cret@h", "doctor"], "--server"),
            (
                &[relay[0], relay[1], relay[2], "amqp://a:s3cret@h"],
                "--sink",
            ),
            (&[relay[0], relay[1], relay[2], "nats://s3cret@h"], "--sink"),
            (&["outbox", "relay", "--secret", "whsec_s3cret"], "--secret"),
            (&["demo", "--broker", "amqp://a:s3cret@h"], "--broker"),
        ] {
            let warned = warned(words);
            assert_eq!(warned.len(), 1, "{words:?}: {warned:?}");
            assert!(
                warned[0].contains(option) && !warned[0].contains("s3cret"),
                "{warned:?}"
            );
        }
        for words in [
            &["doctor"][..],
            &["--store", "postgres://a@db/x", "doctor"],
            &[relay[0], relay[1], relay[2], "amqp://h"],
            &["outbox", "relay", "--secret-file", "secret"],
        ] {
            assert!(warned(words).is_empty(), "{words:?}");
        }
    }
}
