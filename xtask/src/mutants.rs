//! Mutants of the SQL functions: copies with one small mistake each, which a test must notice.
//!
//! A mutant is applied to the databases of the tests only, through the variable that the testkit reads. Tests that have nothing to
//! do with its file do not run.

mod change;

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use self::change::Mutant;
use crate::programs::{self, Program, Selection};

/// Folder of the SQL functions.
const SQL: &str = "crates/turno/src/store/postgres/sql";
/// Variable with the file of statements that the testkit runs in each database of a test.
const VARIABLE: &str = "TURNO_TEST_SQL";
/// What the testkit prints if these statements fail: the mutant is none, because it cannot be installed.
const INVALID: &str = "TURNO_TEST_SQL is not valid";
/// A mutant may wait for ever.
const LONGEST: Duration = Duration::from_secs(240);
/// Number of mutants that are tried at the same time.
const AT_ONCE: usize = 2;

/// Files with the rules, and the tests of each: a program, and the arguments that select its tests.
const FILES: &[(&str, Selection)] = &[
    ("lock_acquire", LOCK),
    ("lock_release", LOCK),
    ("lock_share", LOCK),
    ("lock_batch", LOCK),
    ("inbox_claim", INBOX),
    ("inbox_claim_one", INBOX),
    ("inbox_settle", INBOX),
    ("inbox_attempt", INBOX),
    ("inbox_push", INBOX),
    ("once", ONCE),
    ("outbox", OUTBOX),
];
const LOCK: Selection = &[
    ("conformance", &["postgres::lock"]),
    ("sql_face", &[]),
    ("interleavings", &["lock"]),
];
const INBOX: Selection = &[
    ("conformance", &["postgres::inbox"]),
    ("sql_face", &[]),
    ("interleavings", &["inbox"]),
    ("conformance", &["postgres::outbox"]),
];
const ONCE: Selection = &[
    ("conformance", &["postgres::once"]),
    ("sql_face", &["once"]),
    ("interleavings", &["once"]),
];
const OUTBOX: Selection = &[("conformance", &["postgres::outbox"]), ("sql_face", &[])];

/// Outcome of a mutant.
enum Outcome {
    /// A test noticed it.
    Killed(String),
    Survived,
    /// PostgreSQL does not accept it.
    Invalid,
}

/// Which mutants to try.
struct Options {
    /// Name of a file or a function, or a part of one.
    name: String,
    /// One of so many parts, from 0.
    shard: (usize, usize),
    list: bool,
}

/// Tries mutants, and prints those that survive.
pub fn run(arguments: &[String]) -> Result<()> {
    let options = options(arguments)?;
    let mutants = mutants(&options)?;
    if options.list {
        for mutant in &mutants {
            println!("{mutant}");
        }
        println!("{} mutants", mutants.len());
        return Ok(());
    }
    let programs = programs::tests()?;
    let next = AtomicUsize::new(0);
    let counts = [const { AtomicUsize::new(0) }; 3];
    thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|worker| {
                let (programs, mutants, next, counts) = (&programs, &mutants, &next, &counts);
                scope.spawn(move || -> Result<()> {
                    let file = env::temp_dir()
                        .join(format!("turno-mutant-{}-{worker}.sql", std::process::id()));
                    while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
                        fs::write(&file, &mutant.sql)?;
                        let outcome = outcome(mutant, programs, &file)?;
                        let (count, text) = match outcome {
                            Outcome::Killed(by) => (0, format!("killed by {by}")),
                            Outcome::Survived => (1, "SURVIVED".to_owned()),
                            Outcome::Invalid => (2, "not valid".to_owned()),
                        };
                        counts[count].fetch_add(1, Ordering::Relaxed);
                        println!("{mutant}: {text}");
                    }
                    let _ = fs::remove_file(&file);
                    Ok(())
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| match worker.join() {
                Ok(done) => done,
                Err(_) => bail!("a thread panicked"),
            })
    })?;
    let [killed, survived, invalid] = counts.map(AtomicUsize::into_inner);
    println!(
        "{killed} of {} mutants killed, {survived} survived; {invalid} are not valid SQL",
        killed + survived
    );
    Ok(())
}

fn options(arguments: &[String]) -> Result<Options> {
    let mut options = Options {
        name: String::new(),
        shard: (0, 1),
        list: false,
    };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--list" => options.list = true,
            "--shard" => {
                let shard = arguments.next().and_then(|shard| shard.split_once('/'));
                let (part, of) = shard.context("--shard is K/N, such as 0/8")?;
                options.shard = (part.parse()?, of.parse()?);
                ensure!(
                    options.shard.0 < options.shard.1,
                    "--shard 0/8 is the first of 8"
                );
            }
            name if !name.starts_with('-') => options.name = name.to_owned(),
            other => bail!("there is no option {other}"),
        }
    }
    Ok(options)
}

fn mutants(options: &Options) -> Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    for (file, _) in FILES {
        let path = PathBuf::from(SQL).join(format!("{file}.sql"));
        let text = fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
        mutants.extend(change::mutants(file, &text));
    }
    mutants.retain(|mutant| mutant.file == options.name || mutant.function.contains(&options.name));
    ensure!(
        !mutants.is_empty(),
        "there is no function with {:?}",
        options.name
    );
    let (part, of) = options.shard;
    Ok(mutants.into_iter().skip(part).step_by(of).collect())
}

fn outcome(mutant: &Mutant, programs: &[Program], file: &Path) -> Result<Outcome> {
    let tests = FILES.iter().find(|(name, _)| *name == mutant.file);
    for (name, arguments) in tests.map(|(_, tests)| *tests).unwrap_or_default() {
        let program = programs.iter().find(|program| program.name() == *name);
        let program = program.with_context(|| format!("there is no test program {name}"))?;
        let mut command = program.command();
        command
            .args(*arguments)
            .env(VARIABLE, file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command
            .spawn()
            .with_context(|| format!("could not start {name}"))?;
        match first_failure(child)? {
            Outcome::Survived => {}
            outcome => return Ok(outcome),
        }
    }
    Ok(Outcome::Survived)
}

/// Ends the program at the first test that fails, or when it takes too long.
fn first_failure(mut child: Child) -> Result<Outcome> {
    let stdout = child.stdout.take().context("its output is read")?;
    let stderr = child.stderr.take().context("its errors are read")?;
    let until = Instant::now() + LONGEST;
    let (lines, line) = std::sync::mpsc::channel();
    let errors = lines.clone();
    thread::spawn(move || {
        for text in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = lines.send(text);
        }
    });
    thread::spawn(move || {
        for text in BufReader::new(stderr).lines().map_while(Result::ok) {
            let _ = errors.send(text);
        }
    });
    let outcome = loop {
        match line.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(text) if text.contains(INVALID) => break Outcome::Invalid,
            Ok(text) if text.starts_with("test ") && text.trim_end().ends_with("FAILED") => {
                break Outcome::Killed(
                    text.split_whitespace()
                        .nth(1)
                        .unwrap_or_default()
                        .to_owned(),
                );
            }
            Ok(_) => {}
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                break Outcome::Killed("time".to_owned());
            }
            // Both outputs are closed.
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                let status = child.wait()?;
                return Ok(match status.success() {
                    true => Outcome::Survived,
                    false => Outcome::Killed("the end of its program".to_owned()),
                });
            }
        }
    };
    let _ = child.kill();
    child.wait()?;
    Ok(outcome)
}
