//! The inbox: pushes with and without groups and keys, and workers that write an effect and complete the item in one transaction.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::json;
use tokio::sync::Mutex;
use turno::inbox::{Item, Job};
use turno_testkit::history::inbox::{Answer, Call};
use turno_testkit::history::{self, Pending};

use super::{Load, epoch, failed, pause, unknown};
use crate::application::{Application, Ended, Part, Table, Wanted};

/// Queues: without groups, so that items are claimed side by side; with groups; and with both.
pub const QUEUES: [&str; 3] = ["plain", "grouped", "mixed"];
/// Groups of a queue, and keys of an epoch.
const GROUPS: usize = 12;
const KEYS: usize = 10;
const LEASE: Duration = Duration::from_millis(800);
/// Pause before a retry.
const RETRY: Duration = Duration::from_millis(20);
/// Connections of the handlers of a process.
const CONNECTIONS: usize = 4;

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
        Err(error) => failed(pending, &error),
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
    tokio::try_join!(work("plain", 0), work("grouped", 10), work("mixed", 4))?;
    Ok(())
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
