//! The same without HTTP: direct calls of the library.

use std::time::Duration;

use anyhow::Result;
use turno::Turno;
use turno::inbox::{ClaimId, Inbox, Item};

use crate::rate::{AsyncWork, Run};

/// Number of items per call.
pub const BATCH: usize = 100;

#[derive(Clone)]
struct Push {
    payload: String,
}

impl AsyncWork<Inbox> for Push {
    async fn once(&self, inbox: &mut Inbox) -> Result<()> {
        let items = (0..BATCH)
            .map(|_| Item::new(&self.payload))
            .collect::<Vec<_>>();
        inbox.push_many(items).await?;
        Ok(())
    }
}

#[derive(Clone)]
struct Drain;

impl AsyncWork<Inbox> for Drain {
    async fn once(&self, inbox: &mut Inbox) -> Result<()> {
        let items = inbox
            .claim()
            .limit(BATCH as u32)
            .lease(Duration::from_secs(60))
            .take()
            .await?;
        anyhow::ensure!(items.len() == BATCH, "the queue ran dry");
        let claims: Vec<ClaimId> = items.iter().map(|item| item.claim).collect();
        inbox.complete(&claims).await?;
        Ok(())
    }
}

/// Returns the number of items pushed per second.
pub async fn push(turno: &Turno, run: &Run, callers: usize, bytes: usize) -> Result<f64> {
    let work = Push {
        payload: "x".repeat(bytes - 2),
    };
    let rate = run
        .rate(vec![turno.inbox("library"); callers], work)
        .await?;
    Ok(rate * BATCH as f64)
}

/// Returns the number of items claimed and completed per second.
pub async fn drain(turno: &Turno, run: &Run, callers: usize) -> Result<f64> {
    let rate = run
        .rate(vec![turno.inbox("library"); callers], Drain)
        .await?;
    Ok(rate * BATCH as f64)
}

/// Fills a queue.
pub async fn fill(turno: &Turno, queue: &str, items: usize, bytes: usize) -> Result<()> {
    let payload = "x".repeat(bytes - 2);
    for _ in 0..items.div_ceil(5000) {
        let batch = (0..5000).map(|_| Item::new(&payload)).collect::<Vec<_>>();
        turno.inbox(queue).push_many(batch).await?;
    }
    Ok(())
}
