//! Mutants of the SQL functions: copies with one small mistake each, which a test must notice.
//!
//! Each mutant is in a database of its own, which the tests copy. Only tests that call the changed function run, and those first
//! that have killed a mutant of it before.

mod change;
mod records;
mod server;
mod suite;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use self::change::Mutant;
use self::records::Records;
use self::server::Server;
use self::suite::{Suite, Test};
use crate::steps;

/// Folder of the SQL functions.
const SQL: &str = "crates/turno/src/store/postgres/sql";
/// Files with the rules.
const FILES: &[&str] = &[
    "lock_acquire",
    "lock_release",
    "lock_share",
    "lock_batch",
    "inbox_claim",
    "inbox_claim_one",
    "inbox_settle",
    "inbox_attempt",
    "inbox_push",
    "once",
    "outbox",
];
/// Number of mutants that are tried at the same time, each on its own server. Most tests wait for clocks.
const AT_ONCE: usize = 3;
/// Number of tests that run first: one of them probably kills the mutant.
const TRIED_FIRST: usize = 4;
/// Number of further tests in one process.
const TRIED_TOGETHER: usize = 24;
/// Number of tests that are recorded before the record is written.
const RECORDED_TOGETHER: usize = 12;

/// Outcome of a mutant.
enum Outcome {
    /// A test noticed it.
    Killed(String),
    /// The tests waited for ever.
    Late,
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
    /// Default: without end.
    until: Option<Instant>,
    list: bool,
}

impl Options {
    fn has_time(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

/// What the threads share.
struct Run {
    options: Options,
    suite: Suite,
    records: Mutex<Records>,
    programs: PathBuf,
}

/// Number of mutants of each outcome.
#[derive(Default)]
struct Counts {
    killed: AtomicUsize,
    survived: AtomicUsize,
    invalid: AtomicUsize,
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
    let suite = Suite::build()?;
    let records = Records::read(&steps::target_folder()?, suite.build_id()?);
    let run = Run {
        options,
        suite,
        records: Mutex::new(records),
        programs: steps::target_folder()?.join("debug"),
    };
    record(&run)?;
    try_all(&run, &mutants)
}

/// Records the tests that were not recorded before.
fn record(run: &Run) -> Result<()> {
    let mut names = run.suite.names()?;
    names.retain(|(_, name)| !run.records().tests.iter().any(|test| test.name == *name));
    let parts: Vec<_> = names.chunks(RECORDED_TOGETHER).collect();
    if parts.is_empty() {
        return Ok(());
    }
    println!("recording what {} tests call", names.len());
    let next = AtomicUsize::new(0);
    at_once(|| {
        let mut server = Server::start(&run.programs)?;
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            ensure!(run.options.has_time(), "there was no time to record all");
            let tests = run.suite.record(&mut server, part)?;
            let mut records = run.records();
            records.tests.extend(tests);
            records.write()?;
        }
        Ok(())
    })
}

fn try_all(run: &Run, mutants: &[Mutant]) -> Result<()> {
    let next = AtomicUsize::new(0);
    let counts = Counts::default();
    at_once(|| {
        let mut server = Server::start(&run.programs)?;
        while run.options.has_time() {
            let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            let began = Instant::now();
            let (count, text) = match outcome(run, &mut server, mutant)? {
                Outcome::Killed(test) => (&counts.killed, format!("killed by {test}")),
                Outcome::Late => (
                    &counts.killed,
                    "killed, because tests did not end".to_owned(),
                ),
                Outcome::Survived => (&counts.survived, "SURVIVED".to_owned()),
                Outcome::Invalid => (&counts.invalid, "not valid".to_owned()),
            };
            count.fetch_add(1, Ordering::Relaxed);
            println!("{mutant}: {text} ({:.1} s)", began.elapsed().as_secs_f32());
        }
        run.records().write()
    })?;
    let Counts {
        killed,
        survived,
        invalid,
    } = counts;
    let [killed, survived, invalid] = [killed, survived, invalid].map(AtomicUsize::into_inner);
    println!(
        "{killed} of {} mutants killed, {survived} survived; {invalid} are not valid SQL; {} not tried",
        killed + survived,
        mutants.len() - killed - survived - invalid
    );
    Ok(())
}

/// Does the same in several threads.
fn at_once(work: impl Fn() -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(&work)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| match thread.join() {
                Ok(done) => done,
                Err(_) => bail!("a thread panicked"),
            })
    })
}

fn options(arguments: &[String]) -> Result<Options> {
    let mut options = Options {
        name: String::new(),
        shard: (0, 1),
        until: None,
        list: false,
    };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--list" => options.list = true,
            "--minutes" => {
                let minutes = arguments.next().context("--minutes takes a number")?;
                let time = Duration::try_from_secs_f64(60.0 * minutes.parse::<f64>()?)?;
                options.until = Some(Instant::now() + time);
            }
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
    for file in FILES {
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

fn outcome(run: &Run, server: &mut Server, mutant: &Mutant) -> Result<Outcome> {
    let Some(template) = server.template(&mutant.sql)? else {
        return Ok(Outcome::Invalid);
    };
    let tests = run.records().tests_of(mutant);
    let (first, others) = tests.split_at(TRIED_FIRST.min(tests.len()));
    let mut outcome = Outcome::Survived;
    for part in [first].into_iter().chain(others.chunks(TRIED_TOGETHER)) {
        match try_part(run, part, &template)? {
            suite::Outcome::Passed => continue,
            suite::Outcome::Late => outcome = Outcome::Late,
            suite::Outcome::Failed(test) => {
                run.records().killed(mutant, &test);
                outcome = Outcome::Killed(test);
            }
        }
        break;
    }
    server.drop_copies()?;
    Ok(outcome)
}

/// Runs tests of any programs until one fails.
fn try_part(run: &Run, tests: &[Test], on: &server::Template) -> Result<suite::Outcome> {
    let mut tests: Vec<&Test> = tests.iter().collect();
    tests.sort_by_key(|test| &test.program);
    for of_program in tests.chunk_by(|one, other| one.program == other.program) {
        match run.suite.run(of_program, on)? {
            suite::Outcome::Passed => {}
            failure => return Ok(failure),
        }
    }
    Ok(suite::Outcome::Passed)
}

impl Run {
    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
