//! `turno once KEY -- COMMAND…`
//!
//! Begins a run, or reports the state of the key.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use sha2::{Digest as _, Sha256};
use turno::Turno;
use turno::once::{AfterUnknown, Begin, DEFAULT_LEASE, DEFAULT_TTL};

use super::replay::{self, Notice};
use super::tell;
use crate::cmd::child::{Reach, stopped_by};
use crate::context::Context;
use crate::signals::Signals;
use crate::{duration, size};

/// Maximum of `--max-output`, in bytes.
const MAX_OUTPUT: usize = 16 * 1024 * 1024;
/// Maximum factor by which text grows as JSON: a control character is written `\u001b`.
const ESCAPED: usize = 6;
/// Size of an answer without the output, in bytes.
const FRAME: usize = 4096;

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// Lease of the run; it is extended while the command runs [default: 30s]
    #[arg(long, env = "TURNO_ONCE_LEASE", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    lease: Option<Duration>,

    /// TTL of the answer; 0 stores none, and rejects only calls that come while the command runs [default: 24h]
    #[arg(long, env = "TURNO_ONCE_TTL", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    ttl: Option<Duration>,

    /// Maximum time to wait for the answer of a run that is in flight [default: do not wait]
    #[arg(long, conflicts_with_all = super::NO_RUN, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    wait: Option<Duration>,

    /// What to do if the key is unknown: refuse or rerun
    #[arg(long, conflicts_with_all = super::NO_RUN, value_name = "WHAT", default_value = AfterUnknown::Refuse.as_str(), hide_possible_values = true, value_parser = PossibleValuesParser::new([AfterUnknown::Refuse, AfterUnknown::Rerun].map(AfterUnknown::as_str)).map(after_unknown))]
    unknown: AfterUnknown,

    /// Do not store failures: after one, the next call runs the command again
    #[arg(long, conflicts_with_all = super::NO_RUN)]
    pub(super) retry_failures: bool,

    /// Maximum size of the stored output; of a larger one, only the exit code is stored
    #[arg(long, conflicts_with_all = super::NO_RUN, value_name = "SIZE", default_value = "1MiB", value_parser = max_output)]
    pub(super) max_output: usize,

    /// Do not report that an answer is a replay, or was too large to store
    #[arg(short, long, conflicts_with_all = super::NO_RUN)]
    pub(super) quiet: bool,
}

fn after_unknown(word: String) -> AfterUnknown {
    match word {
        word if word == AfterUnknown::Rerun.as_str() => AfterUnknown::Rerun,
        _ => AfterUnknown::Refuse,
    }
}

fn max_output(text: &str) -> Result<usize, String> {
    match size::parse(text)? {
        bytes if bytes > MAX_OUTPUT => Err(format!(
            "the maximum is {}MiB: let the command write to a file",
            MAX_OUTPUT / 1024 / 1024
        )),
        bytes => Ok(bytes),
    }
}

/// A command to run, and its options.
pub(super) struct Call<'a> {
    pub(super) context: &'a Context,
    pub(super) turno: &'a Turno,
    pub(super) args: &'a RunArgs,
    pub(super) lease: Duration,
    pub(super) command: &'a [OsString],
    pub(super) reach: Reach,
}

pub(super) async fn run(
    context: &Context,
    key: &str,
    args: RunArgs,
    command: &[OsString],
) -> Result<ExitCode> {
    let reach = Reach::here();
    let mut signals = Signals::listen(reach.signals())?;
    let mut settings = super::settings(context)?;
    settings.max_payload = args.max_output * ESCAPED + FRAME;
    context
        .with(settings, async |turno| {
            let call = Call {
                context,
                turno,
                args: &args,
                lease: args.lease.or(context.once.lease()).unwrap_or(DEFAULT_LEASE),
                command,
                reach,
            };
            call.make(key, &mut signals).await
        })
        .await
}

impl Call<'_> {
    async fn make(&self, key: &str, signals: &mut Signals) -> Result<ExitCode> {
        let ttl = self.args.ttl.or(self.context.once.ttl());
        let once = self
            .turno
            .once(key)
            .fingerprint(fingerprint(self.command))
            .lease(self.lease)
            .ttl(ttl.unwrap_or(DEFAULT_TTL))
            .unknown(self.args.unknown)
            .wait(self.args.wait.unwrap_or_default());
        let begun = tokio::select! {
            begun = once.begin() => begun?,
            signal = signals.next() => return Ok(stopped_by(signal)),
        };
        match begun {
            Begin::Fresh(claim) => self.fresh(claim, signals).await,
            Begin::Replay(answer) => {
                let notice = if self.args.quiet {
                    Notice::Omit
                } else {
                    Notice::Print
                };
                replay::run(self.context, key, &answer, notice, signals).await
            }
            Begin::InFlight(run) => Ok(tell::in_flight(self.context, key, &run)),
            Begin::Mismatch => Ok(tell::mismatch(self.context, key)),
            Begin::Unknown(run) => Ok(tell::unknown(self.context, key, &run)),
            Begin::OverQuota => bail!("{key} is over a quota, although none was requested"),
        }
    }
}

/// Returns the hash of the command line. Each word is hashed with its length, so that `a b` differs from `ab`.
fn fingerprint(command: &[impl AsRef<OsStr>]) -> String {
    let mut hash = Sha256::new();
    for word in command {
        let bytes = word.as_ref().as_bytes();
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    }
    BASE64.encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_line_has_its_own_fingerprint() {
        let lines: [&[&str]; 6] = [
            &["a", "b"],
            &["ab"],
            &["a b"],
            &["b", "a"],
            &["a", "b", ""],
            &["", "a", "b"],
        ];
        let prints: std::collections::HashSet<String> =
            lines.iter().map(|line| fingerprint(line)).collect();
        assert_eq!(prints.len(), lines.len());
        // Stored fingerprints must stay valid.
        assert_eq!(
            fingerprint(&["true"]),
            "dw6nntlDq7kZhsChPUwtlu0FrKFi4HVf7GJDZ1aId3c"
        );
    }

    #[test]
    fn output_is_bounded() {
        assert_eq!(max_output("0"), Ok(0));
        assert_eq!(max_output("16MiB"), Ok(MAX_OUTPUT));
        assert!(max_output("16777217").is_err());
    }
}
