//! The scenarios, named after the systems that asked for Turno.

use anyhow::Result;
use clap::ValueEnum;
use turno::Turno;

use super::figures::Count;
use super::part::Part;
use super::set::{Cast, Set, Variant};
use super::{afore, flowpay, notes, presentations, ticketflow};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scenario {
    Flowpay,
    Presentations,
    Notes,
    Afore,
    Ticketflow,
}

impl Scenario {
    pub(super) fn name(self) -> &'static str {
        match self {
            Scenario::Flowpay => "flowpay",
            Scenario::Presentations => "presentations",
            Scenario::Notes => "notes",
            Scenario::Afore => "afore",
            Scenario::Ticketflow => "ticketflow",
        }
    }

    /// Returns the component of Turno that the scenario uses.
    pub(super) fn primitive(self) -> &'static str {
        match self {
            Scenario::Flowpay => "lock",
            Scenario::Presentations | Scenario::Notes => "inbox",
            Scenario::Afore => "once",
            Scenario::Ticketflow => "outbox",
        }
    }

    /// Returns a description of the scenario.
    pub(super) fn story(self) -> &'static str {
        match self {
            Scenario::Flowpay => flowpay::STORY,
            Scenario::Presentations => presentations::STORY,
            Scenario::Notes => notes::STORY,
            Scenario::Afore => afore::STORY,
            Scenario::Ticketflow => ticketflow::STORY,
        }
    }

    /// Returns the variants of the scenario, with Turno last.
    pub(super) fn ways(self) -> &'static [Variant] {
        match self {
            Scenario::Presentations => &[Variant::Plain, Variant::MarkedFirst, Variant::Turno],
            _ => &[Variant::Plain, Variant::Turno],
        }
    }

    /// Returns the label of a variant in the table.
    pub(super) fn label(self, how: Variant) -> &'static str {
        match (self, how) {
            (_, Variant::Turno) => "with turno",
            (_, Variant::MarkedFirst) => "marked first",
            (Scenario::Presentations, Variant::Plain) => "plain select",
            (_, Variant::Plain) => "without",
        }
    }

    /// Prepares the data, before the processes start.
    pub(super) async fn prepare(self, set: &Set, turno: &Turno) -> Result<()> {
        match self {
            Scenario::Flowpay => flowpay::prepare(set),
            Scenario::Presentations => presentations::prepare(set, turno).await,
            Scenario::Notes => notes::prepare(set, turno).await,
            Scenario::Afore => Ok(()),
            Scenario::Ticketflow => ticketflow::prepare(set).await,
        }
    }

    /// Returns the groups of processes, which run one after the other.
    pub(super) fn casts(self, how: Variant) -> Vec<Cast> {
        match self {
            Scenario::Flowpay => flowpay::casts(),
            Scenario::Presentations => presentations::casts(),
            Scenario::Notes => notes::casts(),
            Scenario::Afore => afore::casts(),
            Scenario::Ticketflow => ticketflow::casts(how),
        }
    }

    /// Returns the expected number of operations, for the progress bar.
    pub(super) fn operations(self) -> u32 {
        match self {
            Scenario::Flowpay => flowpay::OPERATIONS,
            Scenario::Presentations => presentations::OPERATIONS,
            Scenario::Notes => notes::OPERATIONS,
            Scenario::Afore => afore::OPERATIONS,
            Scenario::Ticketflow => ticketflow::OPERATIONS,
        }
    }

    /// Runs the work of one process.
    pub(super) async fn work(self, part: &mut Part) -> Result<()> {
        match self {
            Scenario::Flowpay => flowpay::work(part).await,
            Scenario::Presentations => presentations::work(part).await,
            Scenario::Notes => notes::work(part).await,
            Scenario::Afore => afore::work(part).await,
            Scenario::Ticketflow => ticketflow::work(part).await,
        }
    }

    /// Returns the duplicates so far. Losses are counted at the end only: until then they may be in progress.
    pub(super) fn damage(self, set: &Set, done: u32) -> Option<String> {
        match self {
            Scenario::Flowpay => flowpay::damage(set, done),
            Scenario::Presentations => presentations::damage(set),
            Scenario::Notes => notes::damage(set),
            Scenario::Afore => afore::damage(set),
            Scenario::Ticketflow => None,
        }
    }

    /// Counts the results, after all processes have ended.
    pub(super) async fn count(self, set: &Set) -> Result<Count> {
        match self {
            Scenario::Flowpay => flowpay::count(set),
            Scenario::Presentations => presentations::count(set),
            Scenario::Notes => notes::count(set),
            Scenario::Afore => afore::count(set),
            Scenario::Ticketflow => ticketflow::count(set).await,
        }
    }
}
