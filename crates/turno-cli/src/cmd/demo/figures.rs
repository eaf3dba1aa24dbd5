//! What came of a run.

use std::time::Duration;

use super::scenario::Scenario;
use super::set::How;

/// What was counted. What cannot happen in a scenario is absent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    pub(super) operations: u32,
    /// Done once more than they should have been.
    pub(super) duplicates: Option<u32>,
    /// Written, and overwritten by somebody who had not seen it.
    pub(super) lost_updates: Option<u32>,
    /// Work that nobody has done, and nobody will.
    pub(super) lost_items: Option<u32>,
    /// Committed, and never told of.
    pub(super) lost_events: Option<u32>,
}

impl Figures {
    /// Nothing was doubled, and nothing lost.
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

/// The figures, and a word about what they do not say.
#[derive(Debug)]
pub(super) struct Count {
    pub(super) figures: Figures,
    pub(super) remark: String,
}

/// One run, done in one way.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) how: How,
    pub(super) processes: usize,
    pub(super) killed: usize,
    pub(super) count: Count,
    pub(super) took: Duration,
}

/// A scenario, done in all ways.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) scenario: Scenario,
    pub(super) runs: Vec<Run>,
}

impl Shown {
    /// Whether all went well with Turno.
    pub(super) fn is_clean(&self) -> bool {
        let mut with = self.runs.iter().filter(|run| run.how == How::Turno);
        with.all(|run| run.count.figures.is_clean())
    }
}
