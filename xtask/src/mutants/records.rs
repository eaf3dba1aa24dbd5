//! What earlier runs have shown: the functions that each test calls, and the tests that killed mutants. It is kept in cargo's
//! target folder, until the tests are built again.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::change::Mutant;
use super::suite::Test;

/// Tests that read the definitions of all functions, and need not call them.
const READ_DEFINITIONS: &[&str] = &["clocks::no_function_reads_the_time_of_the_transaction"];
/// Number of tests of the same function, and of the same file, that run first.
const KILLERS_TRIED: usize = 3;

#[derive(Default, Serialize, Deserialize)]
pub struct Records {
    /// Identifies the build of the tests.
    build: String,
    pub tests: Vec<Test>,
    /// Names of the tests that killed mutants, in the order of their runs, with the file and the function of the mutant.
    killers: Vec<(String, String, String)>,
    #[serde(skip)]
    file: PathBuf,
}

impl Records {
    pub fn read(folder: &std::path::Path, build: String) -> Self {
        let file = folder.join("mutants.json");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let kept = serde_json::from_str(&text).unwrap_or_default();
        match kept {
            Records {
                build: of,
                tests,
                killers,
                ..
            } if of == build => Records {
                build,
                tests,
                killers,
                file,
            },
            // A test that killed a mutant of a function will probably do so again.
            Records { killers, .. } => Records {
                build,
                killers,
                file,
                ..Records::default()
            },
        }
    }

    pub fn write(&self) -> Result<()> {
        let text = serde_json::to_string(self)?;
        fs::write(&self.file, text)
            .with_context(|| format!("could not write {}", self.file.display()))
    }

    pub fn killed(&mut self, mutant: &Mutant, test: &str) {
        let killer = (
            mutant.file.to_owned(),
            mutant.function.clone(),
            test.to_owned(),
        );
        self.killers.retain(|other| *other != killer);
        self.killers.push(killer);
    }

    /// Returns the tests that may notice a mutant, those first that most probably do: those that killed mutants of the same
    /// function and of the same file, then by duration.
    pub fn tests_of(&self, mutant: &Mutant) -> Vec<Test> {
        let may_notice = |test: &&Test| {
            test.functions.contains(&mutant.function)
                || READ_DEFINITIONS.contains(&test.name.as_str())
        };
        let mut rank: HashMap<&str, usize> = HashMap::new();
        let latest = self.killers.iter().rev();
        let of_function = latest
            .clone()
            .filter(|(_, function, _)| *function == mutant.function);
        let of_file = latest.filter(|(file, _, _)| file == mutant.file);
        for (_, _, test) in of_function.take(KILLERS_TRIED).chain(of_file) {
            let next = rank.len();
            rank.entry(test).or_insert(next);
        }
        let mut tests: Vec<Test> = self.tests.iter().filter(may_notice).cloned().collect();
        tests.sort_by_key(|test| {
            let rank = rank.get(test.name.as_str()).copied();
            let rank = rank.filter(|rank| *rank < 2 * KILLERS_TRIED);
            (rank.unwrap_or(usize::MAX), test.milliseconds)
        });
        tests
    }
}
