//! The four measurements, which are the same for each peer.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::peer::{Item, Mode, Peer, Plan, Tally, Workers};

/// Timeout, longer than the slowest peer needs.
const TIMEOUT: Duration = Duration::from_secs(900);
/// Poll interval for the completion of the last items, after all were handled.
const LOOK: Duration = Duration::from_millis(2);
/// Number of items in a latency measurement, and the pause between two of them.
const LATENCIES: usize = 200;
const REST: Duration = Duration::from_millis(20);

/// Result of a measurement.
pub struct Measured {
    items: usize,
    time: Duration,
    latency: Option<Latency>,
    note: String,
}

/// Milliseconds until the handler began: since the push began, and since it returned.
struct Latency {
    median_ms: f64,
    median_after_push_ms: f64,
}

#[derive(Serialize)]
struct ResultLine<'a> {
    peer: &'a str,
    mode: &'a str,
    items: usize,
    seconds: f64,
    per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    median_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    median_after_push_ms: Option<f64>,
    note: &'a str,
}

/// Returns the line to print.
pub fn line(peer: impl ValueEnum, plan: &Plan, measured: &Measured) -> Result<String> {
    let seconds = measured.time.as_secs_f64();
    let latency = measured.latency.as_ref();
    let (peer, mode) = (peer.to_possible_value(), plan.mode.to_possible_value());
    Ok(serde_json::to_string(&ResultLine {
        peer: peer.as_ref().context("a hidden peer")?.get_name(),
        mode: mode.as_ref().context("a hidden mode")?.get_name(),
        items: measured.items,
        seconds: rounded(seconds),
        per_second: rounded(measured.items as f64 / seconds),
        median_ms: latency.map(|latency| rounded(latency.median_ms)),
        median_after_push_ms: latency.map(|latency| rounded(latency.median_after_push_ms)),
        note: &measured.note,
    })?)
}

pub async fn measure<P: Peer>(plan: &Plan) -> Result<Measured> {
    ensure!(
        plan.items > 0 && plan.batch > 0 && plan.consumers > 0,
        "nothing to measure: give at least one item, a batch of one and one consumer"
    );
    let peer = P::open(plan).await.context("could not open the peer")?;
    let (items, time, latency) = match plan.mode {
        Mode::Push => (plan.items, push(&peer, plan).await?, None),
        Mode::Drain | Mode::Single => {
            push(&peer, plan).await?;
            if !plan.without_maintenance {
                peer.settle().await?;
            }
            (plan.items, drain(&peer, plan).await?, None)
        }
        Mode::Latency => {
            let begin = Instant::now();
            let latency = latency(&peer, plan).await?;
            (LATENCIES, begin.elapsed(), Some(latency))
        }
    };
    let note = peer.note();
    peer.close().await?;
    Ok(Measured {
        items,
        time,
        latency,
        note,
    })
}

async fn push<P: Peer>(peer: &P, plan: &Plan) -> Result<Duration> {
    let item = Item::of(plan.payload);
    let begin = Instant::now();
    let mut missing = plan.items;
    while missing > 0 {
        let batch = missing.min(plan.batch);
        peer.push(vec![item.clone(); batch]).await?;
        missing -= batch;
    }
    let time = begin.elapsed();
    let stored = peer.left().await?;
    ensure!(
        stored == plan.items as u64,
        "{} items were pushed, {stored} are stored",
        plan.items
    );
    Ok(time)
}

/// Returns the time from the start of the workers until each item is durably done.
async fn drain<P: Peer>(peer: &P, plan: &Plan) -> Result<Duration> {
    let items = plan.items as u64;
    let (tally, moments) = Tally::new(items);
    // The times are not needed here. With the receiver closed, they are not collected.
    drop(moments);
    let stop = CancellationToken::new();
    let begin = Instant::now();
    let mut workers = peer.start(&tally, &stop).await?;
    tokio::select! {
        () = tally.reached() => {}
        failed = workers.join_next() => bail!("a worker ended early: {failed:?}"),
        () = tokio::time::sleep(TIMEOUT) => bail!("stuck at {} of {items}", tally.handled()),
    }
    loop {
        let left = peer.left().await?;
        if left == 0 {
            break;
        }
        ensure!(
            begin.elapsed() < TIMEOUT,
            "{} items were handled, but {left} are not done",
            tally.handled()
        );
        tokio::time::sleep(LOOK).await;
    }
    let time = begin.elapsed();
    end(workers, &stop).await?;
    ensure!(
        tally.handled() == items,
        "{items} items were handled {} times",
        tally.handled()
    );
    Ok(time)
}

async fn latency<P: Peer>(peer: &P, plan: &Plan) -> Result<Latency> {
    let (tally, mut moments) = Tally::new(LATENCIES as u64);
    let stop = CancellationToken::new();
    let mut workers = peer.start(&tally, &stop).await?;
    let item = Item::of(plan.payload);
    let (mut since_begin, mut since_return) = (Vec::new(), Vec::new());
    for _ in 0..LATENCIES {
        tokio::time::sleep(REST).await;
        let begin = Instant::now();
        peer.push(vec![item.clone()]).await?;
        let returned = Instant::now();
        let handled = tokio::select! {
            handled = moments.recv() => handled.context("the handler has gone")?,
            failed = workers.join_next() => bail!("a worker ended early: {failed:?}"),
            () = tokio::time::sleep(TIMEOUT) => bail!("an item was never handled"),
        };
        since_begin.push(handled.duration_since(begin));
        since_return.push(handled.saturating_duration_since(returned));
    }
    end(workers, &stop).await?;
    Ok(Latency {
        median_ms: median_ms(since_begin),
        median_after_push_ms: median_ms(since_return),
    })
}

async fn end(mut workers: Workers, stop: &CancellationToken) -> Result<()> {
    stop.cancel();
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    Ok(())
}

fn median_ms(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1000.0
}

/// Rounds to three decimals, more than the precision of such a figure.
fn rounded(figure: f64) -> f64 {
    (figure * 1000.0).round() / 1000.0
}
