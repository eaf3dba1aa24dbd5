//! A fresh run: the command runs, and its result is stored.
//!
//! The claim is extended while the command runs. Unlike the lease of a lock, it is not given up when it cannot be extended: as
//! long as no other run has taken over, the answer can still be stored.

use std::cell::RefCell;
use std::os::unix::process::ExitStatusExt as _;
use std::pin::pin;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;
use tokio::time::Instant;
use turno::once::{AutoExtend, Claim, OnceClaim, OnceSettled, Released};

use super::answer::Answer;
use super::capture::{self, Captured, Ends};
use super::run::Call;
use super::tell;
use crate::cmd::child::{Child, Prints, code_of};
use crate::cmd::exec;
use crate::signals::{ENDING, Signals};

/// Time between TERM and KILL when another run has taken over.
const GRACE: Duration = Duration::from_secs(2);
/// How long background processes of the command may go on printing.
const LINGER: Duration = Duration::from_secs(1);
/// Pause between two attempts to store an answer.
const AGAIN: Duration = Duration::from_millis(500);

/// New state of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The answer is stored.
    Done,
    /// The next call runs the command again.
    Released,
    /// The outcome of the work is unknown.
    Unknown,
}

impl End {
    fn as_str(self) -> &'static str {
        match self {
            End::Done => "done",
            End::Released => "released",
            End::Unknown => "unknown",
        }
    }
}

/// Result of a run.
#[derive(Debug)]
struct Ran {
    claim: OnceClaim,
    attempt: u32,
    end: End,
    answer: Answer,
}

impl Call<'_> {
    /// Runs the command and stores its result.
    pub(super) async fn fresh(&self, claim: Claim, signals: &mut Signals) -> Result<ExitCode> {
        let renewal = claim.auto_extend();
        let variables = [
            ("TURNO_ONCE_KEY", claim.key().to_owned()),
            ("TURNO_ONCE_TOKEN", claim.token().to_string()),
            ("TURNO_ONCE_ATTEMPT", claim.attempt().to_string()),
        ];
        let mut child = match Child::start(self.command, &variables, self.reach, Prints::ToUs) {
            Ok(child) => child,
            Err(error) => {
                drop(renewal);
                claim.release().await?;
                return Err(error);
            }
        };
        let (status, captured) = self.follow(&mut child, &claim, signals).await?;
        // Our messages begin on a line of their own. Without a message, no line break is added.
        let is_mid_line = captured.is_mid_line;
        let own_line = || {
            if is_mid_line {
                self.context.output.note("");
            }
        };
        let Some(status) = status else {
            own_line();
            return Ok(tell::stale(self.context, claim.id()));
        };
        let ran = Ran {
            claim: claim.id().clone(),
            attempt: claim.attempt(),
            end: self.end(status, &captured, &child),
            answer: captured.answer(code_of(status)),
        };
        match self.settle(claim, renewal, &ran, signals).await {
            Ok(OnceSettled::Done) => {
                if let Some(word) = self.word(&ran) {
                    own_line();
                    self.context.output.note(&word);
                }
                Ok(ExitCode::from(ran.answer.exit_code))
            }
            Ok(OnceSettled::Stale) => {
                own_line();
                Ok(tell::stale(self.context, &ran.claim))
            }
            Err(error) => {
                own_line();
                let code = ran.answer.exit_code;
                Ok(tell::lost_answer(self.context, &ran.claim, code, &error))
            }
        }
    }

    /// Passes on the command's output and the signals to it, until it ends. If another run takes over first, the command is
    /// stopped and there is no status.
    async fn follow(
        &self,
        child: &mut Child,
        claim: &Claim,
        signals: &mut Signals,
    ) -> Result<(Option<ExitStatus>, Captured)> {
        let captured = RefCell::new(Captured::new(self.args.max_output));
        let ends = Ends::default();
        let streams = child
            .take_output()
            .context("the command was started without its pipes")?;
        let (status, read) = tokio::join!(
            async {
                let status = self.watch(child, claim, signals).await;
                linger(&ends, signals).await;
                status
            },
            capture::both(streams, &captured, &ends, self.context.output),
        );
        read?;
        Ok((status?, captured.into_inner()))
    }

    async fn watch(
        &self,
        child: &mut Child,
        claim: &Claim,
        signals: &mut Signals,
    ) -> Result<Option<ExitStatus>> {
        let is_ours = async || {
            let extended = self.turno.once_extend(claim.id(), self.lease).await;
            !matches!(extended, Ok(OnceSettled::Stale))
        };
        let ended = child.watch(signals, claim.stale(), is_ours).await?;
        if ended.is_none() {
            child.stop(tokio::time::sleep(GRACE)).await?;
        }
        Ok(ended)
    }

    fn end(&self, status: ExitStatus, captured: &Captured, child: &Child) -> End {
        let code = code_of(status);
        let is_there = self
            .command
            .first()
            .is_none_or(|program| !exec::never_ran(program, code, captured.stderr()));
        if status.signal().is_some() {
            End::Unknown
        } else if status.success() {
            End::Done
        } else if !is_there || self.args.retry_failures {
            End::Released
        } else if child.is_terminating() {
            // It was interrupted, and handled the signal with its own exit code.
            End::Unknown
        } else {
            End::Done
        }
    }

    /// Stores the result. Retries for the length of a lease if the store is unavailable: the work is done and cannot be repeated.
    async fn settle(
        &self,
        claim: Claim,
        renewal: AutoExtend,
        ran: &Ran,
        signals: &mut Signals,
    ) -> turno::Result<OnceSettled> {
        let released = match ran.end {
            End::Done => {
                let answer = ran.answer.stored();
                let settled =
                    with_retry(self.lease, signals, async || claim.complete(&answer).await);
                let settled = settled.await;
                drop(renewal);
                return settled;
            }
            End::Released => Released::Undone,
            End::Unknown => Released::Unknown,
        };
        // First: a claim that is released must not be extended.
        drop(renewal);
        let claim = claim.detach();
        with_retry(self.lease, signals, async || {
            self.turno.once_release(&claim, released).await
        })
        .await
    }

    /// Returns the message about a settled run, if there is one.
    fn word(&self, ran: &Ran) -> Option<String> {
        let Ran {
            claim,
            attempt,
            end,
            answer,
        } = ran;
        let is_kept = answer.output.is_some();
        if self.context.output.is_json() {
            let word = json!({
                "claim": claim,
                "attempt": attempt,
                "state": end.as_str(),
                "exit_code": answer.exit_code,
                "output_bytes": answer.output_bytes,
                "output_kept": is_kept && *end == End::Done,
            });
            return Some(word.to_string());
        }
        let key = &claim.key;
        let detail = match end {
            End::Unknown => format!(
                "the command was interrupted, so its outcome is not known: {key} is unknown. Check its effects; then \
                 `turno once {key} --done` or `--forget`, or run the command again with --unknown rerun"
            ),
            End::Done if !is_kept && !self.args.quiet => format!(
                "the output of {} bytes is larger than --max-output, and was not stored: a replay prints none",
                answer.output_bytes
            ),
            End::Done | End::Released => return None,
        };
        let warning = self.context.output.alert("warning:", "33");
        Some(format!("{warning} {detail}"))
    }
}

/// Gives background processes of the command a moment to close the pipes. A signal now ends the wait and the output.
async fn linger(ends: &Ends, signals: &mut Signals) {
    let mut moment = pin!(tokio::time::sleep(LINGER));
    loop {
        tokio::select! {
            biased;
            () = ends.over.cancelled() => return,
            () = &mut moment, if !ends.cut.is_cancelled() => ends.cut.cancel(),
            signal = signals.next() => if ENDING.contains(&signal) {
                ends.cut.cancel();
                ends.mute.cancel();
            }
        }
    }
}

/// Retries a call while the store is unavailable, until the time is over or a signal comes.
async fn with_retry<T>(
    timeout: Duration,
    signals: &mut Signals,
    ask: impl AsyncFn() -> turno::Result<T>,
) -> turno::Result<T> {
    let deadline = Instant::now() + timeout;
    loop {
        match ask().await {
            Err(error) if error.is_unavailable() && Instant::now() < deadline => {
                tokio::select! {
                    () = tokio::time::sleep(AGAIN) => {}
                    signal = signals.next() => if ENDING.contains(&signal) {
                        return Err(error);
                    }
                }
            }
            answered => return answered,
        }
    }
}
