//! Presentations: a scheduler in every instance takes pending presentations and calls a web service for each. One of the
//! instances is killed after it has taken a presentation and before it calls.

use std::path::PathBuf;

use anyhow::Result;
use turno::Turno;

use super::desk::{self, Desk};
use super::figures::{Count, Figures};
use super::ledger;
use super::part::Part;
use super::set::{Cast, Role, Set, Variant};

pub(super) const STORY: &str =
    "instances call a web service for each presentation; one is killed with -9";

const PROCESSES: usize = 4;
pub(super) const OPERATIONS: u32 = 40;
/// Which process is killed, after it has taken its first presentation.
const KILLED: (usize, u32) = (1, 1);

pub(super) fn casts() -> Vec<Cast> {
    vec![Cast {
        role: Role::Work,
        processes: PROCESSES,
        kills: vec![KILLED],
    }]
}

pub(super) async fn prepare(set: &Set, turno: &Turno) -> Result<()> {
    let names = (1..=OPERATIONS).map(|id| format!("presentation-{id:02}"));
    desk::fill(set, turno, names.collect()).await
}

pub(super) async fn work(part: &mut Part) -> Result<()> {
    let desk = Desk::of(part);
    let calls = calls(&part.set);
    part.here(0).await;
    for meeting in 1.. {
        let tasks = desk.take(part, 1).await?;
        let Some(task) = tasks.first() else {
            break;
        };
        // By now the others have taken theirs too.
        desk.holding(&tasks, part.here(meeting)).await;
        ledger::append(&calls, &format!("{} instance-{}", task.name, part.index))?;
        desk.done(task).await?;
        part.done();
    }
    Ok(())
}

pub(super) fn count(set: &Set) -> Result<Count> {
    let (called, different) = ledger::tally(&calls(set))?;
    let lost = OPERATIONS - different;
    let figures = Figures {
        operations: OPERATIONS,
        duplicates: Some(called - different),
        lost_items: Some(lost),
        ..Figures::default()
    };
    let remark = match (set.how, lost) {
        (Variant::Turno, 0) => {
            "one instance claims each item; another one did the items of the killed one".to_owned()
        }
        (_, 0) => format!(
            "all instances select the same row: {called} calls for {OPERATIONS} presentations"
        ),
        _ => {
            format!("rows that the killed instance had marked as processed are never done: {lost}")
        }
    };
    Ok(Count { figures, remark })
}

pub(super) fn damage(set: &Set) -> Option<String> {
    let (called, different) = ledger::tally(&calls(set)).ok()?;
    Some(format!(", {} duplicates", called - different))
}

/// Returns the file with the calls of the web service.
fn calls(set: &Set) -> PathBuf {
    set.folder.join("calls")
}
