//! The report of a campaign, as Markdown.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use turno_testkit::history::Violation;

use crate::fault::Fault;
use crate::judge::Judged;
use crate::run::Store;

/// At most this many violations of a promise are printed.
const SHOWN: usize = 5;

/// A fault that was made.
pub struct Made {
    pub fault: Fault,
    pub began_us: i64,
    pub ended_us: i64,
    /// The longest time without an answer of the store.
    pub unavailable_us: i64,
}

/// What a campaign has shown, or several with consecutive seeds.
pub struct Report {
    pub store: Store,
    pub seeds: RangeInclusive<u64>,
    pub took: Duration,
    pub made: Vec<Made>,
    pub judged: Judged,
}

impl Report {
    /// This campaign and a later one.
    pub fn and(mut self, later: Report) -> Self {
        self.seeds = *self.seeds.start()..=*later.seeds.end();
        self.took += later.took;
        self.made.extend(later.made);
        self.judged.operations += later.judged.operations;
        for ((_, operations), (_, more)) in self.judged.parts.iter_mut().zip(later.judged.parts) {
            *operations += more;
        }
        self.judged.unknown += later.judged.unknown;
        self.judged.refused += later.judged.refused;
        self.judged.violations.extend(later.judged.violations);
        self
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Judged {
            operations,
            parts,
            unknown,
            refused,
            violations,
        } = &self.judged;
        let (first, last) = (self.seeds.start(), self.seeds.end());
        let seeds = if first == last {
            format!("seed {first}")
        } else {
            format!("seeds {first} to {last}")
        };
        writeln!(
            f,
            "{}, {seeds}: {:.0} s, {} faults, {operations} operations, of which {unknown} have an unknown outcome, {refused} more that were refused, {} violations.",
            self.store.name(),
            self.took.as_secs_f64(),
            self.made.len(),
            violations.len()
        )?;
        writeln!(f, "\n| part | operations |\n|---|---|")?;
        for (part, operations) in parts {
            writeln!(f, "| {part} | {operations} |")?;
        }
        writeln!(
            f,
            "\n| fault | times | longest time without an answer |\n|---|---|---|"
        )?;
        let mut kinds: BTreeMap<Fault, (usize, i64)> = BTreeMap::new();
        for made in &self.made {
            let (times, longest) = kinds.entry(made.fault).or_default();
            *times += 1;
            *longest = (*longest).max(made.unavailable_us);
        }
        for (fault, (times, longest)) in kinds {
            let seconds = longest as f64 / 1e6;
            writeln!(f, "| {} | {times} | {seconds:.2} s |", fault.name())?;
        }
        let mut promises: BTreeMap<&str, Vec<&Violation>> = BTreeMap::new();
        for violation in violations {
            promises
                .entry(violation.promise)
                .or_default()
                .push(violation);
        }
        for (promise, broken) in promises {
            writeln!(f, "\nBROKEN {} times: {promise}", broken.len())?;
            for violation in broken.iter().take(SHOWN) {
                writeln!(f, "- {}", violation.what)?;
            }
        }
        Ok(())
    }
}
