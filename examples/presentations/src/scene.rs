//! The four scenes that each way of coordinating instances is tested in.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::instance::{LONG, Setup};
use crate::ledger::{Answer, Ledger, Manner};
use crate::stage::Stage;
use crate::strategy::Strategy;

/// Number of scheduler runs to wait for. The first one may have started too early to see the change; the others add certainty.
const RUNS: u64 = 3;
/// How long nothing may change before instances that are known to block each other are assumed to wait. For the other ways the
/// limit is longer than a slow machine needs, because stopping too early would miss the second call.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Presentations of the scene that is timed.
const TIMED_PRESENTATIONS: u32 = 150;
/// Rounds of that scene.
const TIMED_ROUNDS: usize = 3;

/// Result of the race.
#[derive(Debug)]
pub struct Race {
    /// Number of presentations.
    pub presentations: usize,
    /// Number of calls to the web service.
    pub calls: usize,
    /// Number of presentations with more than one call.
    pub doubled: usize,
    /// Whether instances waited for calls of other instances.
    pub waited: bool,
    /// Number of instances.
    pub instances: usize,
}

/// All instances see all presentations. The web service responds to a call when a second one for the same presentation has
/// arrived, or when none will come because each instance has its own call in flight or waits.
///
/// # Errors
/// Returns an error if a part does not start or the scene does not end.
pub async fn race(setup: &Setup, how: Strategy) -> Result<Race> {
    let stage = Stage::start(setup, how, Manner::WhenTwoHaveCalled).await?;
    let all = stage.presentations.len();
    let settled =
        |ledger: &Ledger| ledger.held().len() == stage.size() || ledger.accepted().len() == all;
    let timeout = match how {
        Strategy::ConditionalUpdateInTransaction => TIMEOUT,
        _ => LONG,
    };
    let waited = !stage.service.settles(timeout, settled).await;
    stage.service.release();
    stage.all_processed().await?;
    stage.more_runs(RUNS).await?;
    let race = {
        let ledger = stage.service.ledger();
        let instances: HashSet<u32> = ledger.calls.iter().map(|call| call.instance).collect();
        let times = ledger.accepted();
        Race {
            presentations: all,
            calls: ledger.calls.len(),
            doubled: times.values().filter(|times| **times > 1).count(),
            waited,
            instances: instances.len(),
        }
    };
    stage.stop().await?;
    Ok(race)
}

/// Result of the scene with errors.
#[derive(Debug)]
pub struct Errors {
    /// Number of presentations that the web service rejected at first.
    pub refused: usize,
    /// Number of those that it accepted later.
    pub retried: usize,
}

/// The web service rejects each presentation once.
///
/// # Errors
/// Returns an error if a part does not start or a presentation is not sent again.
pub async fn errors(setup: &Setup, how: Strategy) -> Result<Errors> {
    let stage = Stage::start(setup, how, Manner::RefuseFirst).await?;
    stage.all_processed().await?;
    let errors = {
        let ledger = stage.service.ledger();
        let refused = ledger
            .calls
            .iter()
            .filter(|call| call.answer == Some(Answer::Refused));
        let times = ledger.accepted();
        Errors {
            refused: refused.clone().count(),
            retried: refused
                .filter(|call| times.contains_key(&call.presentation))
                .count(),
        }
    };
    stage.stop().await?;
    Ok(errors)
}

/// Result of the scene with a killed instance.
#[derive(Debug)]
pub struct Killed {
    /// Attempt in which the presentation of the killed instance was accepted, as counted by the next instance. `None` if it
    /// never was.
    pub again: Option<u32>,
    /// Number of presentations that are marked as processed but were never accepted by the web service.
    pub lost: usize,
    /// Number of presentations that are still unprocessed after runs of the other instances.
    pub left: usize,
}

/// Kills an instance with `kill -9` while it waits for the response to its call.
///
/// # Errors
/// Returns an error if a part does not start or the scene does not end.
pub async fn killed(setup: &Setup, how: Strategy) -> Result<Killed> {
    let mut stage = Stage::start(setup, how, Manner::NeverTheFirst).await?;
    stage
        .service
        .wait_for(LONG, |ledger| !ledger.calls.is_empty())
        .await?;
    let victim = stage.service.ledger().calls[0];
    stage.kill_9(victim.instance).await?;
    match how {
        // The lease has to expire first.
        Strategy::Turno => stage.all_processed().await?,
        _ => stage.more_runs(RUNS).await?,
    }
    let marked = stage.database.processed().await?;
    let killed = {
        let ledger = stage.service.ledger();
        let times = ledger.accepted();
        let never = |id: &&uuid::Uuid| !times.contains_key(*id);
        let lost = marked.iter().filter(never).count();
        let again = ledger.calls.iter().find(|call| {
            call.presentation == victim.presentation && call.answer == Some(Answer::Accepted)
        });
        Killed {
            again: again.map(|call| call.attempt),
            lost,
            left: stage.presentations.iter().filter(never).count() - lost,
        }
    };
    stage.stop().await?;
    Ok(killed)
}

/// Result of the scene that is timed.
#[derive(Debug)]
pub struct Speed {
    /// Presentations that were sent and marked per second, by all instances together: the median of the rounds.
    pub per_second: f64,
}

/// The web service accepts each call at once, so that the time is that of the coordination.
///
/// # Errors
/// Returns an error if a part does not start or a presentation is not processed.
pub async fn speed(setup: &Setup, how: Strategy) -> Result<Speed> {
    let setup = Setup {
        presentations: TIMED_PRESENTATIONS,
        ..setup.clone()
    };
    let mut rounds = Vec::new();
    for _ in 0..TIMED_ROUNDS {
        let stage = Stage::start(&setup, how, Manner::AcceptAll).await?;
        let begun = Instant::now();
        stage.all_processed().await?;
        rounds.push(f64::from(TIMED_PRESENTATIONS) / begun.elapsed().as_secs_f64());
        stage.stop().await?;
    }
    rounds.sort_by(f64::total_cmp);
    Ok(Speed {
        per_second: rounds[TIMED_ROUNDS / 2],
    })
}
