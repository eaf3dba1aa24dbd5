//! Source of the work: a folder with one file per task, which stands for a table with a column `processed`, or an inbox.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use turno::Turno;
use turno::inbox::{ClaimId, Inbox};

use super::part::Part;
use super::set::{Set, Variant};

/// Lease of a claim: the tasks of a killed process are claimed again after this time.
const LEASE: Duration = Duration::from_secs(4);
/// Variant often an idle process checks whether all work is done.
const LOOK: Duration = Duration::from_millis(250);

const PENDING: &str = "pending";
const PROCESSED: &str = "processed";

/// Source of the work of a run.
#[derive(Debug)]
pub(super) enum Desk {
    Folder { set: Set },
    Inbox(Inbox),
}

/// A task that a process has taken.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) name: String,
    claim: Option<ClaimId>,
}

/// Stores the tasks, before the processes start.
pub(super) async fn fill(set: &Set, turno: &Turno, names: Vec<String>) -> Result<()> {
    if set.how == Variant::Turno {
        queue(set, turno).push_many(&names).await?;
        return Ok(());
    }
    for state in [PENDING, PROCESSED] {
        fs::create_dir(set.folder.join(state))?;
    }
    for name in names {
        fs::write(place(set, PENDING, &name), "")?;
    }
    Ok(())
}

fn queue(set: &Set, turno: &Turno) -> Inbox {
    turno.inbox(set.name(set.scenario.name()))
}

fn place(set: &Set, state: &str, name: &str) -> PathBuf {
    set.folder.join(state).join(name)
}

impl Desk {
    pub(super) fn of(part: &Part) -> Self {
        match &part.turno {
            Some(turno) => Desk::Inbox(queue(&part.set, turno)),
            None => Desk::Folder {
                set: part.set.clone(),
            },
        }
    }

    /// Returns the next tasks; none if all work is done.
    pub(super) async fn take(&self, part: &Part, limit: u32) -> Result<Vec<Task>> {
        match self {
            Desk::Folder { set } => select(set, limit as usize),
            Desk::Inbox(inbox) => claim(inbox, part, limit).await,
        }
    }

    /// Runs some work, and extends the claims of the tasks meanwhile.
    pub(super) async fn holding(&self, tasks: &[Task], work: impl Future<Output = ()>) {
        let Desk::Inbox(inbox) = self else {
            return work.await;
        };
        let claims: Vec<ClaimId> = tasks.iter().filter_map(|task| task.claim).collect();
        let keep = async {
            loop {
                tokio::time::sleep(LEASE / 4).await;
                // A lost claim is detected when the work is completed.
                let _ = inbox.extend(&claims, LEASE).await;
            }
        };
        tokio::select! {
            () = work => {}
            () = keep => {}
        }
    }

    /// Completes a task.
    pub(super) async fn done(&self, task: &Task) -> Result<()> {
        match (self, task.claim) {
            (Desk::Inbox(inbox), Some(claim)) => {
                inbox.complete(&[claim]).await?;
            }
            (Desk::Folder { set }, _) => {
                // Another process may have marked it meanwhile: no rows are affected, but the work was done.
                mark(set, &task.name);
            }
            (Desk::Inbox(_), None) => {}
        }
        Ok(())
    }
}

/// The first pending tasks: `select … where processed = false`. With `MarkedFirst`, those that this process could mark.
fn select(set: &Set, limit: usize) -> Result<Vec<Task>> {
    let mut names = fs::read_dir(set.folder.join(PENDING))?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<Vec<_>>>()
        .context("the pending tasks cannot be read")?;
    names.sort();
    let free = names
        .into_iter()
        .filter(|name| set.how != Variant::MarkedFirst || mark(set, name));
    let task = |name| Task { name, claim: None };
    Ok(free.take(limit).map(task).collect())
}

/// `update … set processed = true where id = … and processed = false`. Returns whether this call changed the row.
fn mark(set: &Set, name: &str) -> bool {
    fs::rename(place(set, PENDING, name), place(set, PROCESSED, name)).is_ok()
}

async fn claim(inbox: &Inbox, part: &Part, limit: u32) -> Result<Vec<Task>> {
    let claim = inbox.claim().limit(limit).lease(LEASE);
    let mut items = claim.clone().take().await?;
    if items.is_empty() {
        part.away();
    }
    while items.is_empty() {
        let stats = inbox.stats().await?;
        if stats.pending + stats.scheduled + stats.processing == 0 {
            break;
        }
        items = claim.clone().wait(LOOK).take().await?;
    }
    let task = |item: turno::inbox::ClaimedItem| {
        Ok(Task {
            name: serde_json::from_str(&item.payload)?,
            claim: Some(item.claim),
        })
    };
    items.into_iter().map(task).collect()
}
