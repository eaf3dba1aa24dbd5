//! The inbox: pushes with and without groups and keys, and workers that write an effect and complete the item in one transaction.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::json;
use tokio::sync::Mutex;
use turno::Turno;
use turno::inbox::{ClaimId, Failure, Item, Job, Rate, SettingsChange};
use turno_testkit::history::inbox::{Answer, Call};
use turno_testkit::history::{self, Pending};

use super::{Load, epoch, pause, unknown};
use crate::application::{Application, Claimed, Ended, Part, Table, Wanted};

/// Queues: without groups, so that items are claimed side by side; with groups; with both; one whose items are claimed by calls, one
/// at a time; and one with settings.
pub const QUEUES: [&str; 5] = ["plain", "grouped", "mixed", SINGLE, LIMITED];
const SINGLE: &str = "single";
/// The queue with settings.
pub const LIMITED: &str = "limited";
/// How many items of the limited queue may run at a time.
pub const MAX_RUNNING: u32 = 4;
/// How many of them may begin in a second.
const MAX_PER_SECOND: u32 = 100;
/// The longest handler of the limited queue, without those that outlive their claims.
const LIMITED_WORK: Duration = Duration::from_millis(20);
/// Groups of a queue, and keys of an epoch.
const GROUPS: usize = 12;
const KEYS: usize = 10;
const LEASE: Duration = Duration::from_millis(800);
/// Lease of claims by calls, which are not extended in the background.
const SINGLE_LEASE: Duration = Duration::from_millis(500);
/// Longest wait of a claim by a call.
const CLAIM_WAIT: Duration = Duration::from_millis(200);
/// Pause before a retry.
const RETRY: Duration = Duration::from_millis(20);
/// Connections of the handlers of a process.
const CONNECTIONS: usize = 4;

/// Sets what the load expects of the queues.
pub async fn configure(turno: &Turno) -> Result<()> {
    let rate = Rate::new(MAX_PER_SECOND, Duration::from_secs(1)).burst(MAX_RUNNING);
    let change = SettingsChange::default()
        .max_running(MAX_RUNNING)
        .rate(rate);
    turno.inbox(LIMITED).configure(change).await?;
    Ok(())
}

pub async fn push(load: Load, task: usize) -> Result<()> {
    let mut number = 0;
    while !load.stop.is_cancelled() {
        number += 1;
        let name = super::unique(&load, task, number);
        let queue = *fastrand::choice(&QUEUES).unwrap_or(&"plain");
        let has_group = queue == "grouped" || (queue == "mixed" && fastrand::bool());
        let group = has_group.then(|| format!("g{}", fastrand::usize(..GROUPS)));
        let has_key = fastrand::u8(..5) == 0;
        let key = has_key.then(|| format!("k{}-{}", epoch(), fastrand::usize(..KEYS)));
        push_one(&load, queue, name, group, key).await;
        pause().await;
    }
    Ok(())
}

async fn push_one(
    load: &Load,
    queue: &str,
    name: String,
    group: Option<String>,
    key: Option<String>,
) {
    let mut item = Item::new(&json!({ "name": name, "group": group }));
    if let Some(group) = &group {
        item = item.group(group);
    }
    if let Some(key) = &key {
        item = item.unique_key(key);
    }
    let pending = call(
        load,
        Call::Push {
            queue: queue.to_owned(),
            name,
            group,
            key,
        },
    );
    match load.turno.inbox(queue).push(item).await {
        Ok(pushed) if pushed.duplicate => record(pending, Answer::Duplicate { item: pushed.id.0 }),
        Ok(pushed) => record(pending, Answer::Pushed { item: pushed.id.0 }),
        Err(error) => pending.failed(&error),
    }
}

/// Works on all queues. Each has a worker of its own, with and without items claimed in advance.
pub async fn work(load: &Load) -> Result<()> {
    let mut applications = Vec::new();
    for _ in 0..CONNECTIONS {
        applications.push(Arc::new(Mutex::new(Application::open(&load.url)?)));
    }
    let work = |queue: &'static str, prefetch: usize| {
        let (load, applications) = (load.clone(), applications.clone());
        let turno = load.turno.clone();
        async move {
            let stop = load.stop.clone();
            let handler = move |job: Job<serde_json::Value>| {
                let application = applications[fastrand::usize(..CONNECTIONS)].clone();
                handle(load.clone(), queue, application, job)
            };
            let worker = turno.inbox(queue).worker(handler).lease(LEASE);
            worker
                .concurrency(CONNECTIONS)
                .prefetch(prefetch)
                .run(stop.cancelled_owned())
                .await
        }
    };
    tokio::try_join!(
        work("plain", 0),
        work("grouped", 10),
        work("mixed", 4),
        work(LIMITED, 2)
    )?;
    Ok(())
}

/// How a consumer claims and completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    Library,
    /// The SQL functions; on SQLite the library.
    Sql,
}

/// Claims one item at a time, and completes it in a transaction, as an application without a worker.
pub async fn consume(load: Load, interface: Interface) -> Result<()> {
    let mut application = Application::open(&load.url)?;
    let interface = match application {
        Application::Postgres { .. } => interface,
        Application::Sqlite(_) => Interface::Library,
    };
    while !load.stop.is_cancelled() {
        match claim(&load, &mut application, interface).await {
            Some(claimed) => consume_one(&load, &mut application, interface, &claimed).await,
            None => pause().await,
        }
    }
    Ok(())
}

async fn claim(
    load: &Load,
    application: &mut Application,
    interface: Interface,
) -> Option<Claimed> {
    let pending = call(
        load,
        Call::Claim {
            queue: SINGLE.to_owned(),
            lease_us: i64::try_from(SINGLE_LEASE.as_micros()).unwrap_or(i64::MAX),
        },
    );
    let claimed = match interface {
        Interface::Sql => application.claim(SINGLE, SINGLE_LEASE).await,
        Interface::Library => claim_by_library(load).await,
    };
    match claimed {
        Ok(Some(claimed)) => {
            record(
                pending,
                Answer::Claimed {
                    item: claimed.claim.item.0,
                    attempt: claimed.attempt,
                },
            );
            Some(claimed)
        }
        Ok(None) => {
            record(pending, Answer::Empty);
            None
        }
        Err(error) => {
            unknown(pending, &error);
            None
        }
    }
}

async fn claim_by_library(load: &Load) -> Result<Option<Claimed>> {
    let mut claim = load.turno.inbox(SINGLE).claim().lease(SINGLE_LEASE);
    if fastrand::u8(..4) == 0 {
        claim = claim.wait(CLAIM_WAIT);
    }
    let Some(item) = claim.take().await?.pop() else {
        return Ok(None);
    };
    Ok(Some(Claimed {
        claim: item.claim,
        attempt: item.attempt,
        payload: serde_json::from_str(&item.payload)?,
    }))
}

async fn consume_one(
    load: &Load,
    application: &mut Application,
    interface: Interface,
    claimed: &Claimed,
) {
    let choice = fastrand::u8(..20);
    if choice == 0 {
        // It is never completed, and its claim expires.
        return;
    }
    let claim = claimed.claim;
    let name = claimed.payload["name"].as_str().unwrap_or_default();
    let pending = call(
        load,
        Call::Handle {
            queue: SINGLE.to_owned(),
            name: name.to_owned(),
            item: claim.item.0,
            attempt: claimed.attempt,
            group: None,
        },
    );
    let inbox = load.turno.inbox(SINGLE);
    match choice {
        1 => return fail(load, claim, pending).await,
        // It outlives its claim.
        2 | 3 => tokio::time::sleep(SINGLE_LEASE * 5 / 4).await,
        4 | 5 => {
            tokio::time::sleep(SINGLE_LEASE / 2).await;
            // If that fails, the claim expires.
            let _ = inbox.extend(&[claim], SINGLE_LEASE).await;
            tokio::time::sleep(SINGLE_LEASE * 3 / 4).await;
        }
        6..=8 => tokio::time::sleep(SINGLE_LEASE / 10).await,
        _ => {}
    }
    let part = match interface {
        Interface::Sql => Part::CompleteBySql(claim),
        Interface::Library => Part::CompleteClaim(&inbox, claim),
    };
    let attempt = claimed.attempt.to_string();
    match application
        .write(Table::Handled, name, &attempt, part, Wanted::Commit)
        .await
    {
        Ok(Ended::Committed { commit_us }) => record(pending, Answer::Completed { commit_us }),
        Ok(Ended::Lost | Ended::RolledBack) => record(pending, Answer::Refused),
        Err(error) => unknown(pending, &error),
    }
}

async fn fail(load: &Load, claim: ClaimId, pending: Pending) {
    let failure = Failure {
        error: "one of the attempts that fail".to_owned(),
        retry_in: Some(RETRY),
        ..Failure::from(claim)
    };
    match load.turno.inbox(SINGLE).fail(&[failure]).await {
        Ok(settled) if settled.stale.is_empty() => record(pending, Answer::Failed),
        Ok(_) => record(pending, Answer::Refused),
        Err(error) => pending.failed(&error),
    }
}

async fn handle(
    load: Load,
    queue: &str,
    application: Arc<Mutex<Application>>,
    job: Job<serde_json::Value>,
) -> Result<(), String> {
    let handled = handle_one(&load, queue, &application, &job).await;
    handled.map_err(|error| format!("{error:#}"))
}

async fn handle_one(
    load: &Load,
    queue: &str,
    application: &Mutex<Application>,
    job: &Job<serde_json::Value>,
) -> Result<()> {
    job.retry_in(RETRY);
    let name = job.payload["name"].as_str().unwrap_or_default().to_owned();
    let pending = call(
        load,
        Call::Handle {
            queue: queue.to_owned(),
            name: name.clone(),
            item: job.id().0,
            attempt: job.attempt(),
            group: job.group().map(str::to_owned),
        },
    );
    match fastrand::u8(..20) {
        0 => {
            record(pending, Answer::Failed);
            bail!("one of the attempts that fail");
        }
        // It outlives its claim, sometimes.
        1 => tokio::time::sleep(LEASE / 2).await,
        _ if queue == LIMITED => tokio::time::sleep(LIMITED_WORK.mul_f64(fastrand::f64())).await,
        _ => {}
    }
    let attempt = job.attempt().to_string();
    let written = application
        .lock()
        .await
        .write(
            Table::Handled,
            &name,
            &attempt,
            Part::Complete(job),
            Wanted::Commit,
        )
        .await;
    match written {
        Ok(Ended::Committed { commit_us }) => record(pending, Answer::Completed { commit_us }),
        Ok(Ended::Lost | Ended::RolledBack) => {
            record(pending, Answer::Refused);
            bail!("the claim is lost");
        }
        Err(error) => {
            unknown(pending, &error);
            return Err(error);
        }
    }
    Ok(())
}

fn call(load: &Load, call: Call) -> Pending {
    load.recorder.call(history::Call::Inbox(call))
}

fn record(pending: Pending, answer: Answer) {
    pending.answer(history::Answer::Inbox(answer));
}
