//! Options of acquiring a lock, shared by `lock acquire` and `run`.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use rustix::process::Signal;
use turno::lock::{Acquire, AcquireOptions, Busy, LockMode, WaitOrder};
use turno::{Settings, Turno};

use crate::context::Context;
use crate::duration;
use crate::output::language;
use crate::signals::Signals;

#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    /// TTL of the lease, unless it is renewed [default: 30s]
    #[arg(long, env = "TURNO_TTL", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    ttl: Option<Duration>,

    /// Maximum time to wait for a busy lock [default: do not wait]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    wait: Option<Duration>,

    /// Wait in first in, first out order
    #[arg(long, requires = "wait")]
    fifo: bool,

    /// Owner of the lock, for programs; the same owner can acquire it again [default: a new UUID]
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,

    /// User who holds the lock
    #[arg(long, env = "TURNO_USER", hide_env_values = true, value_name = "NAME")]
    user: Option<String>,

    /// Application that holds the lock
    #[arg(
        long,
        env = "TURNO_SERVICE",
        hide_env_values = true,
        value_name = "NAME"
    )]
    service: Option<String>,

    /// Description of the work
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Acquire a shared lock, which several shared holders can hold
    #[arg(long, conflicts_with = "permits")]
    shared: bool,

    /// Acquire one of N permits; all callers of a resource must give the same number
    #[arg(long, value_name = "N")]
    permits: Option<u32>,

    /// Minimum time before the lock can be acquired again, even if it is released earlier
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    min_hold: Option<Duration>,

    /// Maximum time that the lock can be held, including renewals
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    max_hold: Option<Duration>,

    /// Maximum number of attempts at a busy lock, instead of --wait [default: 1]
    #[arg(long, env = "TURNO_RETRY_MAX", hide_env_values = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    retry_max: Option<u32>,

    /// Pause between two attempts [default: 500ms]
    #[arg(long, env = "TURNO_RETRY_DELAY", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    retry_delay: Option<Duration>,

    /// Maximum TTL that is accepted [default: 24h]
    #[arg(long, env = "TURNO_MAX_TTL", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    max_ttl: Option<Duration>,
}

/// Outcome of acquiring a lock.
pub(crate) enum AcquireResult {
    /// The store's outcome.
    Answered(Acquire),
    /// A signal came first; the lock is not held.
    Stopped(Signal),
}

impl LockArgs {
    /// Returns the settings of the file, overridden by these options.
    pub(crate) fn settings(&self, context: &Context) -> Settings {
        let mut settings = context.settings.clone();
        settings.ttl = self.ttl.unwrap_or(settings.ttl);
        settings.max_ttl = self.max_ttl.unwrap_or(settings.max_ttl);
        settings.retry.max = self.retry_max.unwrap_or(settings.retry.max);
        settings.retry.delay = self.retry_delay.unwrap_or(settings.retry.delay);
        settings.user = self.user.clone().or(settings.user);
        settings.service = self.service.clone().or(settings.service);
        settings
    }

    /// Acquires the lock, until there is an outcome or a signal comes.
    pub(crate) async fn ask(
        self,
        turno: &Turno,
        resource: &str,
        signals: &mut Signals,
    ) -> Result<AcquireResult> {
        let mode = self.shared.then_some(LockMode::Shared);
        let lock = turno.lock(resource).options(AcquireOptions {
            owner: self.owner,
            description: self.description,
            wait: self.wait.map(Into::into),
            order: self.fifo.then_some(WaitOrder::Fifo),
            mode: self.permits.map(LockMode::Permits).or(mode),
            min_hold: self.min_hold.map(Into::into),
            max_hold: self.max_hold.map(Into::into),
            // The settings have the TTL, the user and the service.
            ..AcquireOptions::default()
        });
        tokio::select! {
            answer = lock.acquire() => Ok(AcquireResult::Answered(answer?)),
            // Dropping the call also removes the waiter registration.
            signal = signals.next() => Ok(AcquireResult::Stopped(signal)),
        }
    }
}

/// Prints the holder of a busy lock.
pub(crate) fn tell_busy(context: &Context, busy: &Busy) -> Result<()> {
    if context.output.is_json() {
        return context.output.json(busy);
    }
    context
        .output
        .note(&format!("{}: {}", busy.resource, busy.message(language())));
    Ok(())
}
