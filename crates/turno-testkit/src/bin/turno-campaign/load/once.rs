//! Once: requests that several processes make at the same time, with their effect in the transaction of the answer.

use std::time::Duration;

use anyhow::Result;
use turno::once::{AfterUnknown, Begin, Claim, OnceSettled};
use turno_testkit::history::once::{Answer, Call};
use turno_testkit::history::{self, Pending};

use super::{Load, epoch, pause, unknown};
use crate::application::{Application, Ended, Part, Table, Wanted};

/// Keys of an epoch. With even numbers, a run begins again after one without an answer.
const KEYS: usize = 30;
const LEASE: Duration = Duration::from_millis(500);

pub async fn run(load: Load, task: usize) -> Result<()> {
    let mut application = Application::open(&load.url)?;
    let mut number = 0;
    while !load.stop.is_cancelled() {
        number += 1;
        let answer = super::unique(&load, task, number);
        request(&load, &mut application, &answer).await;
        pause().await;
    }
    Ok(())
}

async fn request(load: &Load, application: &mut Application, answer: &str) {
    let index = fastrand::usize(..KEYS);
    let key = format!("k{}-{index}", epoch());
    let runs_again = index % 2 == 0;
    let pending = call(
        load,
        Call::Begin {
            key: key.clone(),
            lease_us: i64::try_from(LEASE.as_micros()).unwrap_or(i64::MAX),
            runs_again,
        },
    );
    let after = if runs_again {
        AfterUnknown::Rerun
    } else {
        AfterUnknown::Refuse
    };
    let claim = match load
        .turno
        .once(&key)
        .lease(LEASE)
        .unknown(after)
        .begin()
        .await
    {
        Ok(Begin::Fresh(claim)) => {
            record(
                pending,
                Answer::Fresh {
                    token: claim.token().0,
                },
            );
            claim
        }
        Ok(Begin::Replay(answer)) => match answer.get::<String>() {
            Ok(Some(answer)) => return record(pending, Answer::Replay { answer }),
            other => return pending.answer(history::Answer::Broken(format!("{other:?}"))),
        },
        Ok(Begin::InFlight(_)) => return record(pending, Answer::InFlight),
        Ok(Begin::Unknown(_)) => return record(pending, Answer::Unknown),
        Ok(other) => return pending.answer(history::Answer::Broken(format!("{other:?}"))),
        Err(error) => return pending.failed(&error),
    };
    match fastrand::u8(..10) {
        0 => release(load, &key, claim).await,
        // It never ends, and becomes unknown.
        1 => {
            let _ = claim.detach();
        }
        // It ends late.
        2 => {
            tokio::time::sleep(LEASE * 3 / 2).await;
            complete(load, application, &key, claim, answer).await;
        }
        _ => complete(load, application, &key, claim, answer).await,
    }
}

async fn complete(
    load: &Load,
    application: &mut Application,
    key: &str,
    claim: Claim,
    answer: &str,
) {
    let pending = call(
        load,
        Call::Complete {
            key: key.to_owned(),
            token: claim.token().0,
            answer: answer.to_owned(),
        },
    );
    let part = Part::Answer(&claim);
    match application
        .write(Table::Answered, key, answer, part, Wanted::Commit)
        .await
    {
        Ok(Ended::Committed { .. }) => record(pending, Answer::Settled),
        Ok(Ended::Lost | Ended::RolledBack) => record(pending, Answer::Lost),
        Err(error) => unknown(pending, &error),
    }
    // Dropped, it would be released, which would not be in the history.
    let _ = claim.detach();
}

async fn release(load: &Load, key: &str, claim: Claim) {
    let pending = call(
        load,
        Call::Release {
            key: key.to_owned(),
            token: claim.token().0,
        },
    );
    match claim.release().await {
        Ok(OnceSettled::Done) => record(pending, Answer::Settled),
        Ok(OnceSettled::Stale) => record(pending, Answer::Lost),
        Err(error) => pending.failed(&error),
    }
}

fn call(load: &Load, call: Call) -> Pending {
    load.recorder.call(history::Call::Once(call))
}

fn record(pending: Pending, answer: Answer) {
    pending.answer(history::Answer::Once(answer));
}
