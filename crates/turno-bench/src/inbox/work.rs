//! Measurements, the same on each store.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::sync::Notify;
use turno::Turno;
use turno::inbox::{Inbox, Item, Job};

use super::PAYLOAD_BYTES;

const PUSH: usize = 1000;

/// Pushes items and returns the rate per second.
pub async fn push(inbox: &Inbox, items: usize) -> Result<f64> {
    push_grouped(inbox, items, 0).await
}

/// The same, with items distributed over `groups` groups in turn; 0 means no groups.
pub async fn push_grouped(inbox: &Inbox, items: usize, groups: usize) -> Result<f64> {
    let payload = "x".repeat(PAYLOAD_BYTES - 2);
    let began = Instant::now();
    for first in (0..items).step_by(PUSH) {
        let batch = (first..items.min(first + PUSH))
            .map(|n| {
                let item = Item::new(&payload);
                match n.checked_rem(groups) {
                    Some(group) => item.group(group.to_string()),
                    None => item,
                }
            })
            .collect::<Vec<_>>();
        inbox.push_many(batch).await?;
    }
    Ok(items as f64 / began.elapsed().as_secs_f64())
}

/// Drains items with the worker runtime until they are durably complete, and returns the rate per second.
pub async fn drain(inbox: &Inbox, items: usize, workers: usize, prefetch: usize) -> Result<f64> {
    handle(inbox, items, workers, (16, Some(prefetch))).await
}

/// The same with one handler at a time in each worker, and with the default of what is claimed ahead.
pub async fn one_handler(inbox: &Inbox, items: usize, workers: usize) -> Result<f64> {
    handle(inbox, items, workers, (1, None)).await
}

async fn handle(
    inbox: &Inbox,
    items: usize,
    workers: usize,
    (concurrency, prefetch): (usize, Option<usize>),
) -> Result<f64> {
    let begun = Arc::new(AtomicUsize::new(0));
    let all = Arc::new(Notify::new());
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..workers {
        let (begun, all, seen) = (begun.clone(), all.clone(), all.clone());
        let inbox = inbox.clone();
        tasks.spawn(async move {
            let handler = move |_job: Job<serde::de::IgnoredAny>| {
                if begun.fetch_add(1, Ordering::Relaxed) + 1 == items {
                    // One permit per worker, so that a worker that waits later is woken, too.
                    (0..workers).for_each(|_| seen.notify_one());
                }
                std::future::ready(Ok::<_, Infallible>(()))
            };
            let mut worker = inbox.worker(handler).concurrency(concurrency);
            if let Some(prefetch) = prefetch {
                worker = worker.prefetch(prefetch);
            }
            worker.run(async move { all.notified().await }).await
        });
    }
    let mut completed = 0;
    while let Some(report) = tasks.join_next().await {
        completed += report??.completed;
    }
    let seconds = began.elapsed().as_secs_f64();
    ensure!(
        completed as usize == items,
        "{completed} of {items} were completed"
    );
    ensure!(inbox.stats().await?.pending == 0, "some are left");
    Ok(items as f64 / seconds)
}

/// Runs consumers that claim and complete one item at a time, and returns the rate per second.
pub async fn single(inbox: &Inbox, items: usize, consumers: usize) -> Result<f64> {
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..consumers {
        let inbox = inbox.clone();
        tasks.spawn(async move {
            let mut done = 0;
            while let Some(item) = inbox.claim().take().await?.pop() {
                done += inbox.complete(&[item.claim]).await?.done;
            }
            anyhow::Ok(done)
        });
    }
    let mut done = 0;
    while let Some(some) = tasks.join_next().await {
        done += some??;
    }
    ensure!(done as usize == items, "{done} of {items} were completed");
    Ok(items as f64 / began.elapsed().as_secs_f64())
}

/// Idle worker: time from the start of a push to the start of its handler, the median in ms.
pub async fn latency(turno: &Turno, queue: &str) -> Result<f64> {
    let inbox = turno.inbox(queue);
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let stop = Arc::new(Notify::new());
    let stopped = stop.clone();
    let worker = inbox.clone();
    let task = tokio::spawn(async move {
        let handler = move |_job: Job<serde::de::IgnoredAny>| {
            let _ = sender.send(Instant::now());
            std::future::ready(Ok::<_, Infallible>(()))
        };
        worker
            .worker(handler)
            .run(async move { stopped.notified().await })
            .await
    });
    let mut times = Vec::new();
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(15)).await;
        let began = Instant::now();
        inbox.push(&()).await?;
        if let Some(at) = receiver.recv().await {
            times.push(at.saturating_duration_since(began));
        }
    }
    stop.notify_one();
    task.await??;
    Ok(median_ms(times))
}

/// Time of a claim of one item, which is given back at once, the median in ms.
pub async fn claim_ms(inbox: &Inbox) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..200 {
        let began = Instant::now();
        let items = inbox.claim().take().await?;
        times.push(began.elapsed());
        let claims: Vec<_> = items.iter().map(|item| item.claim).collect();
        inbox.complete(&claims).await?;
    }
    Ok(median_ms(times))
}

/// Time of a statistics query, the median in ms.
pub async fn stats_ms(inbox: &Inbox) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        inbox.stats().await?;
        times.push(began.elapsed());
    }
    Ok(median_ms(times))
}

fn median_ms(times: Vec<Duration>) -> f64 {
    median(times.iter().map(Duration::as_secs_f64).collect()) * 1000.0
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
