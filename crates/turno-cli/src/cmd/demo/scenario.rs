//! The scenarios, named after the systems that asked for Turno.

use anyhow::Result;
use clap::ValueEnum;
use turno::Turno;

use super::figures::Count;
use super::part::Part;
use super::set::{Cast, How, Set};
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

    /// The part of Turno that it needs.
    pub(super) fn primitive(self) -> &'static str {
        match self {
            Scenario::Flowpay => "lock",
            Scenario::Presentations | Scenario::Notes => "inbox",
            Scenario::Afore => "once",
            Scenario::Ticketflow => "outbox",
        }
    }

    /// What happens there.
    pub(super) fn story(self) -> &'static str {
        match self {
            Scenario::Flowpay => flowpay::STORY,
            Scenario::Presentations => presentations::STORY,
            Scenario::Notes => notes::STORY,
            Scenario::Afore => afore::STORY,
            Scenario::Ticketflow => ticketflow::STORY,
        }
    }

    /// In which ways it is done; with Turno last.
    pub(super) fn ways(self) -> &'static [How] {
        match self {
            Scenario::Presentations => &[How::Plain, How::MarkedFirst, How::Turno],
            _ => &[How::Plain, How::Turno],
        }
    }

    /// A way, as the table names it.
    pub(super) fn label(self, how: How) -> &'static str {
        match (self, how) {
            (_, How::Turno) => "with turno",
            (_, How::MarkedFirst) => "marked first",
            (Scenario::Presentations, How::Plain) => "plain select",
            (_, How::Plain) => "without",
        }
    }

    /// What has to be there before the processes start.
    pub(super) async fn prepare(self, set: &Set, turno: &Turno) -> Result<()> {
        match self {
            Scenario::Flowpay => flowpay::prepare(set),
            Scenario::Presentations => presentations::prepare(set, turno).await,
            Scenario::Notes => notes::prepare(set, turno).await,
            Scenario::Afore => Ok(()),
            Scenario::Ticketflow => ticketflow::prepare(set).await,
        }
    }

    /// The processes, one cast after the other.
    pub(super) fn casts(self, how: How) -> Vec<Cast> {
        match self {
            Scenario::Flowpay => flowpay::casts(),
            Scenario::Presentations => presentations::casts(),
            Scenario::Notes => notes::casts(),
            Scenario::Afore => afore::casts(),
            Scenario::Ticketflow => ticketflow::casts(how),
        }
    }

    /// How many operations there are to be, for the progress bar.
    pub(super) fn operations(self) -> u32 {
        match self {
            Scenario::Flowpay => flowpay::OPERATIONS,
            Scenario::Presentations => presentations::OPERATIONS,
            Scenario::Notes => notes::OPERATIONS,
            Scenario::Afore => afore::OPERATIONS,
            Scenario::Ticketflow => ticketflow::OPERATIONS,
        }
    }

    /// What one of the processes does.
    pub(super) async fn work(self, part: &mut Part) -> Result<()> {
        match self {
            Scenario::Flowpay => flowpay::work(part).await,
            Scenario::Presentations => presentations::work(part).await,
            Scenario::Notes => notes::work(part).await,
            Scenario::Afore => afore::work(part).await,
            Scenario::Ticketflow => ticketflow::work(part).await,
        }
    }

    /// What is doubled by now; what is only under way cannot be told from what is lost.
    pub(super) fn damage(self, set: &Set, done: u32) -> Option<String> {
        match self {
            Scenario::Flowpay => flowpay::damage(set, done),
            Scenario::Presentations => presentations::damage(set),
            Scenario::Notes => notes::damage(set),
            Scenario::Afore => afore::damage(set),
            Scenario::Ticketflow => None,
        }
    }

    /// What came of it, when all processes have ended.
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
