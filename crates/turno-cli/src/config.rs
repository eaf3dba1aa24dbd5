//! `turno.toml`: the settings that all commands of an installation share.
//!
//! An unreadable file, an unknown key and an invalid value are errors that name the key and the line: a setting that is
//! silently ignored is worse than none. Errors do not show the line itself, which may have a password.

mod once;
mod outbox;
mod schedule;
mod serve;
pub(crate) mod value;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;
use turno::lock::Sweep;

pub(crate) use self::once::Once;
pub(crate) use self::outbox::Outbox;
pub(crate) use self::schedule::Schedule;
pub(crate) use self::serve::{MOST, MOST_CONNECTIONS, Serve};
use self::value::{Attempts, Bytes, Name, Time, WireDuration};
use crate::fail::Usage;

/// Default of `cleanup.interval`.
const SWEEP_INTERVAL: Duration = Duration::from_secs(300);

/// Default path of the file.
pub(crate) const DEFAULT_FILE: &str = "turno.toml";

/// The whole file. All keys are optional.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct File {
    pub(crate) store: Option<String>,
    /// A file with the store's URL, for a URL with a password in it.
    pub(crate) store_file: Option<PathBuf>,
    pub(crate) server: Option<String>,
    /// A file and not the token itself, because many users can read `turno.toml`.
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) ca_file: Option<PathBuf>,
    idle_poll_max: Option<Time>,
    call_timeout: Option<Time>,
    connection_max_age: Option<Time>,
    pub(crate) lock: Lock,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
    pub(crate) once: Once,
    pub(crate) serve: Serve,
    #[serde(rename = "schedule")]
    pub(crate) schedules: Vec<Schedule>,
    pub(crate) cleanup: Option<Cleanup>,
    pub(crate) application: Application,
}

/// Settings of locks.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Lock {
    timeout: Option<Spanned<Time>>,
    max_ttl: Option<Time>,
    pub(crate) retry: Retry,
}

/// Retry policy for a busy lock.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Retry {
    max: Option<Attempts>,
    delay: Option<WireDuration>,
}

/// Settings of the inbox.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Inbox {
    max_payload: Option<Bytes>,
    max_claim_bytes: Option<Bytes>,
    lease: Option<Spanned<Time>>,
}

/// Settings of the sweep.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Cleanup {
    pub(crate) enabled: bool,
    interval: Option<Time>,
    purge_after: Option<WireDuration>,
    keep_history: Option<WireDuration>,
    keep_completed: Option<WireDuration>,
    keep_failed: Option<WireDuration>,
    keep_archive: Option<WireDuration>,
    keep_seen: Option<WireDuration>,
}

impl Default for Cleanup {
    fn default() -> Self {
        Cleanup {
            enabled: true,
            interval: None,
            purge_after: None,
            keep_history: None,
            keep_completed: None,
            keep_failed: None,
            keep_archive: None,
            keep_seen: None,
        }
    }
}

/// Defaults of the caller's identity.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Application {
    service: Option<Name>,
    user: Option<Name>,
}

impl File {
    pub(crate) fn idle_poll_max(&self) -> Option<Duration> {
        self.idle_poll_max.map(|time| time.0)
    }

    pub(crate) fn call_timeout(&self) -> Option<Duration> {
        self.call_timeout.map(|time| time.0)
    }

    pub(crate) fn connection_max_age(&self) -> Option<Duration> {
        self.connection_max_age.map(|time| time.0)
    }
}

impl Lock {
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout.as_ref().map(|timeout| timeout.get_ref().0)
    }

    pub(crate) fn max_ttl(&self) -> Option<Duration> {
        self.max_ttl.map(|time| time.0)
    }
}

impl Retry {
    pub(crate) fn max(&self) -> Option<u32> {
        self.max.map(|tries| tries.0)
    }

    pub(crate) fn delay(&self) -> Option<Duration> {
        self.delay.map(|pause| pause.0)
    }
}

impl Inbox {
    pub(crate) fn max_payload(&self) -> Option<usize> {
        self.max_payload.map(|bytes| bytes.0)
    }

    pub(crate) fn max_claim_bytes(&self) -> Option<usize> {
        self.max_claim_bytes.map(|bytes| bytes.0)
    }

    pub(crate) fn lease(&self) -> Option<Duration> {
        self.lease.as_ref().map(|lease| lease.get_ref().0)
    }
}

impl Cleanup {
    /// Returns the interval between two sweeps.
    pub(crate) fn interval(&self) -> Duration {
        self.interval.map_or(SWEEP_INTERVAL, |time| time.0)
    }

    /// Returns the retention times: those of the file over the defaults.
    pub(crate) fn sweep(&self) -> Sweep {
        let defaults = Sweep::default();
        let or =
            |value: Option<WireDuration>, default| value.map_or(default, |WireDuration(time)| time);
        Sweep {
            purge_after: or(self.purge_after, defaults.purge_after),
            keep_history: or(self.keep_history, defaults.keep_history),
            keep_completed: or(self.keep_completed, defaults.keep_completed),
            keep_failed: self.keep_failed.map(|time| time.0),
            keep_archive: or(self.keep_archive, defaults.keep_archive),
            keep_seen: or(self.keep_seen, defaults.keep_seen),
            ..defaults
        }
    }
}

impl Application {
    pub(crate) fn service(&self) -> Option<&str> {
        self.service.as_ref().map(|name| name.0.as_str())
    }

    pub(crate) fn user(&self) -> Option<&str> {
        self.user.as_ref().map(|name| name.0.as_str())
    }
}

/// Reads the named file, or the default file if it exists.
pub(crate) fn read(named: Option<&Path>) -> Result<File, Usage> {
    let path = named.unwrap_or(Path::new(DEFAULT_FILE));
    match std::fs::read_to_string(path) {
        Ok(text) => parse(path, &text),
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
            Ok(File::default())
        }
        Err(error) => Err(Usage::new(
            "config",
            format!(
                "{} cannot be read ({error}): give another file with --config, or remove it",
                path.display()
            ),
        )),
    }
}

fn parse(path: &Path, text: &str) -> Result<File, Usage> {
    let wrong = |span: Option<Range<usize>>, message: &str| {
        let (line, key) = place(text, span.map_or(0, |span| span.start));
        let named = key
            .as_deref()
            .map_or(String::new(), |key| format!(", {key}"));
        let detail = format!("{}, line {line}{named}: {message}", path.display());
        Usage::new(key.unwrap_or_else(|| "config".to_owned()), detail)
    };
    let file: File = toml::from_str(text).map_err(|error| wrong(error.span(), error.message()))?;
    let max_ttl = file.lock.max_ttl().unwrap_or(turno::MAX_TTL);
    if let Some(timeout) = &file.lock.timeout
        && timeout.get_ref().0 > max_ttl
    {
        return Err(wrong(
            Some(timeout.span()),
            &format!(
                "the timeout is above the maximum of {max_ttl:?}: lower it, or raise lock.max_ttl"
            ),
        ));
    }
    if let Some(lease) = &file.inbox.lease
        && lease.get_ref().0 > turno::MAX_TTL
    {
        let most = turno::MAX_TTL;
        return Err(wrong(
            Some(lease.span()),
            &format!("the lease is above the maximum of {most:?}: lower it, and extend claims"),
        ));
    }
    Ok(file)
}

/// Returns the line of an offset, and the full key of that line.
fn place(text: &str, offset: usize) -> (usize, Option<String>) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count();
    let key = |text: &str| text.split_once('=').map(|(key, _)| key.trim().to_owned());
    let section = text
        .lines()
        .take(line)
        .filter_map(|line| line.trim().strip_prefix('[')?.split(']').next())
        .map(|section| section.trim_start_matches('['))
        .last();
    let key = text
        .lines()
        .nth(line)
        .and_then(key)
        .map(|key| match section {
            Some(section) => format!("{}.{key}", section.trim()),
            None => key,
        });
    (line + 1, key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Usage {
        parse(Path::new("turno.toml"), text).expect_err(text)
    }

    #[test]
    fn the_example_is_valid_and_says_the_defaults() {
        let text = include_str!("../../../turno.toml.example");
        let file = parse(Path::new("turno.toml.example"), text).expect("the example is valid");
        let defaults = turno::Settings::default();
        assert_eq!(file.store.as_deref(), Some(crate::context::DEFAULT_STORE));
        assert!(
            file.server.is_none() && file.token_file.is_none() && file.ca_file.is_none(),
            "a store is the default"
        );
        assert_eq!(file.lock.timeout(), Some(defaults.ttl));
        assert_eq!(file.lock.max_ttl(), Some(defaults.max_ttl));
        assert_eq!(file.lock.retry.delay(), Some(defaults.retry.delay));
        let (sweep, cleanup) = (
            Sweep::default(),
            file.cleanup.expect("the section is there"),
        );
        assert_eq!(cleanup.interval(), Cleanup::default().interval());
        let said = cleanup.sweep();
        assert_eq!(
            [said.purge_after, said.keep_history, said.keep_completed],
            [sweep.purge_after, sweep.keep_history, sweep.keep_completed]
        );
        assert_eq!(said.keep_failed, sweep.keep_failed);
        assert_eq!(
            [said.keep_archive, said.keep_seen],
            [sweep.keep_archive, sweep.keep_seen]
        );
        assert_eq!(file.inbox.max_payload(), Some(defaults.max_payload));
        assert_eq!(file.inbox.max_claim_bytes(), Some(defaults.max_claim_bytes));
        assert_eq!(file.inbox.lease(), Some(defaults.ttl));
        assert_eq!(file.outbox.max_payload(), Some(defaults.max_payload));
        assert_eq!(file.outbox.mode, Some(turno::outbox::Mode::default()));
        assert_eq!(file.outbox.on_dead, Some(turno::outbox::OnDead::default()));
        assert!(file.outbox.sink.is_none(), "where events go has no default");
        assert_eq!(file.once.lease(), Some(turno::once::DEFAULT_LEASE));
        assert_eq!(file.once.ttl(), Some(turno::once::DEFAULT_TTL));
        assert!(
            file.once.answer_keys_file.is_none(),
            "a secret has no default"
        );
        let server = turno_server::Options::default();
        assert_eq!(file.serve.listen, turno_server::ADDRESS.parse().ok());
        assert_eq!(file.serve.insecure, Some(false));
        assert_eq!(
            file.serve.connections().map(|count| count as usize),
            Some(defaults.connections)
        );
        assert_eq!(
            file.serve.max_connections().map(|count| count as usize),
            Some(server.max_connections)
        );
        assert_eq!(file.serve.max_body(), Some(server.max_body));
        assert_eq!(file.serve.max_wait(), Some(server.max_wait));
        assert_eq!(file.serve.drain(), Some(server.drain));
        assert!(file.serve.rate().is_none() && file.serve.tls_cert.is_none());
        assert!(file.schedules.is_empty(), "nothing is pushed by default");
    }

    #[test]
    fn every_key_may_be_absent() {
        let file = parse(Path::new("turno.toml"), "").expect("an empty file is valid");
        assert!(file.store.is_none() && file.cleanup.is_none());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, field, line, says) in [
            ("store = 5", "store", 1, "string"),
            ("\n[lock]\ntimeout = \"soon\"", "lock.timeout", 3, "30s"),
            ("[lock]\ntimeout = \"0s\"", "lock.timeout", 2, "above zero"),
            ("[lock]\ntimeout = -5", "lock.timeout", 2, "negative"),
            ("[lock]\ntimeout = \"25h\"", "lock.timeout", 2, "max_ttl"),
            ("[lock]\nretry.max = 0", "lock.retry.max", 2, "1 or more"),
            ("[lock]\nretry.max = true", "lock.retry.max", 2, "boolean"),
            ("[lock.retry]\nmax = -1", "lock.retry.max", 2, "-1"),
            (
                "[lock]\n\ntimeuot = \"30s\"",
                "lock.timeuot",
                3,
                "unknown field `timeuot`",
            ),
            ("[application]\nuser = \"\"", "application.user", 2, "255"),
            (
                "[inbox]\nmax_payload = 0",
                "inbox.max_payload",
                2,
                "1 or more",
            ),
            (
                "[inbox]\nmax_payload = \"1M\"",
                "inbox.max_payload",
                2,
                "string",
            ),
            ("[inbox]\n\nlease = \"25h\"", "inbox.lease", 3, "extend"),
            ("[inbox]\nlease = \"0s\"", "inbox.lease", 2, "above zero"),
            ("[inbox]\nlease = 30", "inbox.lease", 2, "30s"),
            ("[outbox]\nbatch = 0", "outbox.batch", 2, "1 and 1000"),
            ("[outbox]\nbatch = 1001", "outbox.batch", 2, "1 and 1000"),
            ("[outbox]\nmode = \"fast\"", "outbox.mode", 2, "parallel"),
            ("[outbox]\non_dead = \"cry\"", "outbox.on_dead", 2, "park"),
            ("[outbox]\nlease = \"25h\"", "outbox.lease", 2, "lower it"),
            ("[outbox]\narchive = 1", "outbox.archive", 2, "boolean"),
            ("[outbox]\nsnik = \"\"", "outbox.snik", 2, "unknown"),
            ("[once]\nlease = \"25h\"", "once.lease", 2, "lower it"),
            ("[once]\nttl = \"-1s\"", "once.ttl", 2, "negative"),
            (
                "[once]\nanswer_keys = \"\"",
                "once.answer_keys",
                2,
                "unknown",
            ),
            (
                "[cleanup]\nkeep_seen = \"soon\"",
                "cleanup.keep_seen",
                2,
                "30s",
            ),
            (
                "[cleanup]\nkeep_completed = \"-1s\"",
                "cleanup.keep_completed",
                2,
                "negative",
            ),
            (
                "[cleanup]\nenabled = \"yes\"",
                "cleanup.enabled",
                2,
                "boolean",
            ),
            ("[serve]\nlisten = \"here\"", "serve.listen", 2, "address"),
            ("[serve]\nrate = 0", "serve.rate", 2, "between 1"),
            (
                "[serve]\nmax_wait = \"0s\"",
                "serve.max_wait",
                2,
                "above zero",
            ),
            (
                "[serve]\nlog_format = \"xml\"",
                "serve.log_format",
                2,
                "json",
            ),
            ("[[schedule]]\nname = \"\"", "schedule.name", 2, "255"),
            (
                "[[schedule]]\nname = \"a\"\ncron = \"0 3 * * *\"\npayload = nan",
                "schedule.payload",
                4,
                "JSON",
            ),
            ("[lock]\ntimeout = \"30s", "lock.timeout", 2, ""),
        ] {
            let usage = refused(text);
            assert_eq!(usage.field, field, "{text}: {usage}");
            assert!(
                usage.detail.contains(&format!("line {line}")),
                "{text}: {usage}"
            );
            assert!(usage.detail.contains(says), "{text}: {usage}");
        }
    }

    #[test]
    fn a_password_in_a_broken_line_is_not_shown() {
        for text in [
            "store = \"postgres://ana:s3cret@db/app",
            "[outbox]\nsink = \"amqp://ana:s3cret@broker/",
            "[outbox]\nsecret = \"whsec_s3cret\" x",
            "[once]\nanswer_keys = \"a:s3cret\"",
        ] {
            let usage = refused(text);
            assert!(!usage.detail.contains("s3cret"), "{usage}");
        }
    }
}
