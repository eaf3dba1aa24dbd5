//! Results of a run.

use std::time::Duration;

use super::scenario::Scenario;
use super::set::Variant;

/// Counts of a run. `None` for what cannot happen in a scenario.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    pub(super) operations: u32,
    /// Operations that ran once more than they should have.
    pub(super) duplicates: Option<u32>,
    /// Updates that were overwritten by a process that had not read them.
    pub(super) lost_updates: Option<u32>,
    /// Tasks that were not done and never will be.
    pub(super) lost_items: Option<u32>,
    /// Commits whose event was never published.
    pub(super) lost_events: Option<u32>,
}

impl Figures {
    /// Whether nothing was duplicated or lost.
    pub(super) fn is_clean(&self) -> bool {
        let all = [
            self.duplicates,
            self.lost_updates,
            self.lost_items,
            self.lost_events,
        ];
        all.into_iter().flatten().sum::<u32>() == 0
    }
}

/// The counts, and a remark about what they do not show.
#[derive(Debug)]
pub(super) struct Count {
    pub(super) figures: Figures,
    pub(super) remark: String,
}

/// One run, in one variant.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) how: Variant,
    pub(super) processes: usize,
    pub(super) killed: usize,
    pub(super) count: Count,
    pub(super) took: Duration,
}

/// A scenario in all its variants.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) scenario: Scenario,
    pub(super) runs: Vec<Run>,
}

impl Shown {
    /// Whether all runs with Turno are clean.
    pub(super) fn is_clean(&self) -> bool {
        let mut with = self.runs.iter().filter(|run| run.how == Variant::Turno);
        with.all(|run| run.count.figures.is_clean())
    }
}
