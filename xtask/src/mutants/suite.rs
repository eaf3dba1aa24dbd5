//! The tests that may notice a mutant.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::server::{Server, Template};
use crate::programs::{self, Program};

/// Variable with the database that the testkit copies.
const TEMPLATE: &str = "TURNO_TEST_TEMPLATE";
/// Variable with the names of conformance rules; the test harness takes only one as an argument.
const NAMES: &str = "TURNO_TEST_NAMES";
/// Test programs, and how the names of their tests begin.
const PROGRAMS: &[(&str, &str)] = &[
    ("conformance", "postgres::"),
    ("sql_face", ""),
    ("interleavings", ""),
];
/// A mutant may wait for ever: tests may take this much longer than without it, on a busy machine.
const SLOWER: u32 = 10;
const LONGEST: Duration = Duration::from_secs(30);

/// PostgreSQL does not count the calls of functions that it inlines. It inlines none that has a setting.
const WITHOUT_INLINING: &str = "do $$ declare f regprocedure; begin
    for f in select p.oid from pg_proc p join pg_language l on l.oid = p.prolang
      where p.pronamespace = 'turno'::regnamespace and l.lanname = 'sql' and p.prokind = 'f'
    loop
      execute format('alter function %s set jit = off', f);
    end loop;
  end $$;";

/// A test, and what it did without a mutant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Test {
    pub program: String,
    pub name: String,
    pub milliseconds: u64,
    /// SQL functions that it calls.
    pub functions: BTreeSet<String>,
}

/// Outcome of some tests.
pub enum Outcome {
    Passed,
    Failed(String),
    /// They did not end in time.
    Late,
}

pub struct Suite {
    programs: Vec<Program>,
}

impl Suite {
    /// Builds the test programs.
    pub fn build() -> Result<Self> {
        let names: Vec<_> = PROGRAMS.iter().map(|(name, _)| *name).collect();
        let programs = programs::tests(&names)?;
        ensure!(
            programs.len() == names.len(),
            "a test program is missing: there must be {names:?}"
        );
        Ok(Suite { programs })
    }

    /// Returns what identifies the build of the programs.
    pub fn build_id(&self) -> Result<String> {
        let identify = |program: &Program| {
            let file = program.executable().metadata()?;
            Ok(format!("{:?} {}", file.modified()?, file.len()))
        };
        let parts: Result<Vec<_>> = self.programs.iter().map(identify).collect();
        let mut parts = parts?;
        // cargo lists them in the order in which it has built them.
        parts.sort();
        Ok(parts.join(", "))
    }

    /// Returns the program and the name of each test.
    pub fn names(&self) -> Result<Vec<(String, String)>> {
        let mut names = Vec::new();
        for (program, prefix) in PROGRAMS {
            let mut command = self.program(program)?.command();
            let output = command.args(["--list", "--format", "terse"]).output()?;
            let listed = String::from_utf8(output.stdout)?;
            let tests = listed
                .lines()
                .filter_map(|line| line.strip_suffix(": test"));
            names.extend(
                tests
                    .filter(|name| name.starts_with(prefix))
                    .map(|name| ((*program).to_owned(), name.to_owned())),
            );
        }
        Ok(names)
    }

    /// Runs tests without a mutant, one after the other, and records which functions they call. A test that fails is left out.
    pub fn record(&self, server: &mut Server, names: &[(String, String)]) -> Result<Vec<Test>> {
        let counting = server.template(WITHOUT_INLINING)?;
        let counting = counting.context("the functions cannot be changed")?;
        let plain = server.template("")?.context("there is no statement")?;
        let mut tests = Vec::new();
        for (program, name) in names {
            let (mut outcome, process, mut milliseconds) =
                self.run_one(program, name, &counting)?;
            if !matches!(outcome, Outcome::Passed) {
                // A test of plans may fail without inlining.
                (outcome, _, milliseconds) = self.run_one(program, name, &plain)?;
            }
            if !matches!(outcome, Outcome::Passed) {
                println!("{program} {name} fails without a mutant, and is left out");
                continue;
            }
            let test = Test {
                program: program.clone(),
                name: name.clone(),
                milliseconds,
                functions: BTreeSet::new(),
            };
            tests.push((process, test));
        }
        let mut calls: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
        for (process, function) in server.calls(&counting)? {
            calls.entry(process).or_default().insert(function);
        }
        server.drop_copies()?;
        for (process, test) in &mut tests {
            test.functions = calls.remove(process).unwrap_or_default();
        }
        Ok(tests.into_iter().map(|(_, test)| test).collect())
    }

    /// Runs a test. Returns the id of its process and its duration in milliseconds, too.
    fn run_one(&self, program: &str, name: &str, on: &Template) -> Result<(Outcome, u32, u64)> {
        let began = Instant::now();
        let child = self.start(program, &[name], on)?;
        let process = child.id();
        let outcome = first_failure(child, LONGEST * SLOWER)?;
        Ok((outcome, process, began.elapsed().as_millis().try_into()?))
    }

    /// Runs tests of one program until one fails.
    pub fn run(&self, tests: &[&Test], template: &Template) -> Result<Outcome> {
        let Some(first) = tests.first() else {
            return Ok(Outcome::Passed);
        };
        let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
        let usual = tests.iter().map(|test| test.milliseconds).sum();
        let longest = LONGEST + Duration::from_millis(usual) * SLOWER;
        first_failure(self.start(&first.program, &names, template)?, longest)
    }

    fn start(&self, program: &str, names: &[&str], template: &Template) -> Result<Child> {
        let mut command = self.program(program)?.command();
        command.arg("--test-threads=2");
        match program {
            "conformance" => command.env(NAMES, names.join(",")),
            _ => command.arg("--exact").args(names),
        };
        command
            .env(TEMPLATE, &template.url)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("could not start {program}"))
    }

    fn program(&self, name: &str) -> Result<&Program> {
        let program = self.programs.iter().find(|program| program.name() == name);
        program.with_context(|| format!("there is no test program {name}"))
    }
}

/// Ends the program at the first test that fails, or when it takes too long.
fn first_failure(mut child: Child, longest: Duration) -> Result<Outcome> {
    let stdout = child.stdout.take().context("its output is piped")?;
    let until = Instant::now() + longest;
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for text in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send(text);
        }
    });
    let outcome = loop {
        match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(text) => {
                if let Some(test) = failed_test(&text) {
                    break Outcome::Failed(test.to_owned());
                }
            }
            Err(RecvTimeoutError::Timeout) => break Outcome::Late,
            // Its output is closed.
            Err(RecvTimeoutError::Disconnected) => {
                return Ok(match child.wait()?.success() {
                    true => Outcome::Passed,
                    false => Outcome::Failed("the end of its program".to_owned()),
                });
            }
        }
    };
    let _ = child.kill();
    child.wait()?;
    Ok(outcome)
}

/// Returns the name of a test if this line of a program says that it failed.
fn failed_test(line: &str) -> Option<&str> {
    let test = line.strip_prefix("test ")?.trim_end();
    test.strip_suffix("FAILED")?.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::failed_test;

    #[test]
    fn a_failed_test_is_found_in_the_output_of_both_harnesses() {
        assert_eq!(failed_test("test a::b ... FAILED"), Some("a::b"));
        assert_eq!(failed_test("test a::b     ... FAILED"), Some("a::b"));
        assert_eq!(failed_test("test a::b ... ok"), None);
        assert_eq!(failed_test("test result: FAILED. 1 passed"), None);
    }
}
