//! Notes: cron jobs, users and batches all process pending notes, and every transcription and analysis costs money.

use std::path::PathBuf;

use anyhow::Result;
use turno::Turno;

use super::desk::{self, Desk};
use super::figures::{Count, Figures};
use super::ledger;
use super::part::Part;
use super::set::{Cast, Role, Set};

pub(super) const STORY: &str =
    "cron, manual and batch runs process the same notes; each run costs money";

/// What starts a process, and how many notes it takes at a time.
const TRIGGERS: [(&str, u32); 5] = [
    ("cron", 1),
    ("cron", 1),
    ("manual", 1),
    ("batch", 3),
    ("batch", 3),
];
pub(super) const OPERATIONS: u32 = 30;

/// In cents.
const TRANSCRIPTION: u32 = 6;
const ANALYSIS: u32 = 3;

pub(super) fn casts() -> Vec<Cast> {
    vec![Cast {
        role: Role::Work,
        processes: TRIGGERS.len(),
        kills: Vec::new(),
    }]
}

pub(super) async fn prepare(set: &Set, turno: &Turno) -> Result<()> {
    let names = (1..=OPERATIONS).map(|id| format!("note-{id:02}"));
    desk::fill(set, turno, names.collect()).await
}

pub(super) async fn work(part: &mut Part) -> Result<()> {
    let desk = Desk::of(part);
    let bill = bill(&part.set);
    let (trigger, limit) = TRIGGERS[part.index % TRIGGERS.len()];
    part.here(0).await;
    for meeting in 1.. {
        let notes = desk.take(part, limit).await?;
        if notes.is_empty() {
            break;
        }
        // By now the other triggers have taken their notes too.
        desk.holding(&notes, part.here(meeting)).await;
        for note in &notes {
            // Transcribed and analysed, and both are on the bill.
            let cost = TRANSCRIPTION + ANALYSIS;
            ledger::append(&bill, &format!("{} {trigger} {cost}", note.name))?;
            desk.done(note).await?;
            part.done();
        }
    }
    Ok(())
}

pub(super) fn count(set: &Set) -> Result<Count> {
    let (processed, different) = ledger::tally(&bill(set))?;
    let duplicates = processed - different;
    let figures = Figures {
        operations: OPERATIONS,
        duplicates: Some(duplicates),
        lost_items: Some(OPERATIONS - different),
        ..Figures::default()
    };
    let money = |times: u32| {
        let cents = times * (TRANSCRIPTION + ANALYSIS);
        format!("{}.{:02}", cents / 100, cents % 100)
    };
    let remark = format!(
        "{} spent, {} of it on duplicates",
        money(processed),
        money(duplicates)
    );
    Ok(Count { figures, remark })
}

pub(super) fn damage(set: &Set) -> Option<String> {
    let (processed, different) = ledger::tally(&bill(set)).ok()?;
    Some(format!(", {} paid twice", processed - different))
}

/// Returns the file with the costs.
fn bill(set: &Set) -> PathBuf {
    set.folder.join("bill")
}
