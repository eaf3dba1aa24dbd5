//! The three scenes that every way of keeping instances apart has to go through.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Result;

use crate::how::How;
use crate::instance::{LONG, Setup};
use crate::ledger::{Answer, Ledger, Manner};
use crate::stage::Stage;

/// More than one, because one may have begun before what it is to see; and one more.
const RUNS: u64 = 3;
/// How long nothing happens until instances are taken to wait that are known to. Others are given longer than a slow
/// machine needs: whoever stops waiting for the second call too soon does not see it.
const PATIENCE: Duration = Duration::from_secs(1);

/// What came of a race.
#[derive(Debug)]
pub struct Race {
    /// How many presentations there were.
    pub presentations: usize,
    /// How often the web service was called.
    pub calls: usize,
    /// How many presentations it was called for more than once.
    pub doubled: usize,
    /// Whether instances waited for calls that another one made.
    pub waited: bool,
    /// How many instances took part.
    pub instances: usize,
}

/// All instances see all presentations. The web service answers a call when a second one for the same presentation has
/// come; or when it is clear that none will come, because every instance has a presentation of its own in hand, or waits.
///
/// # Errors
/// If something does not start, or does not come to an end.
pub async fn race(setup: &Setup, how: How) -> Result<Race> {
    let stage = Stage::start(setup, how, Manner::WhenTwoHaveCalled).await?;
    let all = stage.presentations.len();
    let settled =
        |ledger: &Ledger| ledger.held().len() == stage.size() || ledger.accepted().len() == all;
    let patience = match how {
        How::ConditionalUpdateInTransaction => PATIENCE,
        _ => LONG,
    };
    let waited = !stage.service.settles(patience, settled).await;
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

/// What came of errors.
#[derive(Debug)]
pub struct Errors {
    /// How many presentations the web service has refused at first.
    pub refused: usize,
    /// How many of these it has accepted later.
    pub retried: usize,
}

/// The web service refuses each presentation once.
///
/// # Errors
/// If something does not start, or a presentation is not sent again.
pub async fn errors(setup: &Setup, how: How) -> Result<Errors> {
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

/// What came of a killed instance's presentations.
#[derive(Debug)]
pub struct Killed {
    /// The attempt, as the next instance counted, in which the presentation was accepted that the killed one had in
    /// hand; `None` if it never was.
    pub again: Option<u32>,
    /// How many are marked as processed, and the web service has never accepted them.
    pub lost: usize,
    /// How many are not processed, though the other instances have looked.
    pub left: usize,
}

/// An instance is killed with `kill -9` while it waits for the answer to its call.
///
/// # Errors
/// If something does not start, or does not come to an end.
pub async fn killed(setup: &Setup, how: How) -> Result<Killed> {
    let mut stage = Stage::start(setup, how, Manner::NeverTheFirst).await?;
    stage
        .service
        .wait_for(LONG, |ledger| !ledger.calls.is_empty())
        .await?;
    let victim = stage.service.ledger().calls[0];
    stage.kill_9(victim.instance).await?;
    match how {
        // The lease has to end first.
        How::Turno => stage.all_processed().await?,
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
