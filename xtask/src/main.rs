//! Commands for developers and CI: `cargo xtask test`, `cargo xtask bench`.

mod background;
mod bench;
mod contract;
mod deny;
mod dist;
mod fuzz;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod map;
mod memory;
mod mutants;
mod needs;
mod peers;
mod postgres;
mod programs;
mod steps;
mod words;

use std::env;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

const HELP: &str = "\
cargo xtask COMMAND

  test            install what is missing, then check format and lints, run all tests, ask running servers for
                  all that they describe (Schemathesis), build the documentation
  test --quick    check the format and run the tests that need nothing but Rust: units, and all rules on SQLite
  test --all-postgres
                  the same on every supported version of PostgreSQL (14 to 18), not only on Debian's and the newest
  test --postgres MAJOR…
                  run the tests of the store and of SQL on these versions (14, 16, 17, 18), and nothing else
  test FILTER…    run the tests whose name contains FILTER, and nothing else, and install nothing: a test says what it needs;
                  what follows goes to `cargo test`
  contract [--examples 8] [--seed N]
                  ask running servers for all that they describe, and nothing else: each kind of caller on both
                  stores; each run has another seed, and prints it
  deny            check licences, advisories, sources and versions of all dependencies, and nothing else
  words           check names and texts against docs/glossary.md, and nothing else
  advisories FOLDER DATE
                  write the snapshot of advisories from a copy of the RustSec database, of that date
  dist [PROGRAM]  build the release package: program, manual, completions, service, alerts; or pack a
                  PROGRAM that was built already
  campaign [--minutes 2] [--runs 1] [--seed N] [--pause 40] [--store postgres] [--report FILE]
                  random work on all parts from several processes with faults, until the time is over; then check the
                  recorded history. The store is postgres or sqlite. Another run with the seed makes the same faults;
                  of several runs, each has the next seed. --pause: longest pause between two calls, in milliseconds
  campaign plants [--minutes 2] [--seed N] [--plant NAME]
                  short campaigns with each known bug, which must be found in so many minutes
  mutants [NAME] [--shard K/N] [--minutes N] [--list]
                  make one small mistake after the other in the SQL functions, or in those whose name contains NAME, and
                  print the mistakes that no test notices. --shard 0/8 tries every eighth; --minutes: start no other after so
                  long. The first run records which test calls which function
  fuzz [TARGET] [--minutes 10]
                  run a fuzz target, or each of them, for so long, and keep the inputs that reach new code in fuzz/corpus
  bench [ARGS…]   run the side-by-side benchmarks; ARGS go to turno-bench
  bench calls     the cost of one call of each SQL function, and nothing else
  bench latency   latency at a fixed rate of arrivals, 50 and 80 % of the maximum, and nothing else
  bench units     WAL, dead rows, buffers and CPU time per item, event, pair of lock calls and request, and nothing else
  bench growth [--minutes 30]
                  sizes of tables and latency under a steady load, with and without a snapshot held open, and nothing else
  bench page      run all benchmarks but growth, and write the page of benchmarks: results, charts and tables
  bench charts FILE
                  write charts and tables from the results in FILE, and run nothing
  help            this text

The tests need PostgreSQL, PgBouncer, RabbitMQ, NATS, Redis, Python, Node with npm, Java, Chromium with its driver, promtool,
systemd-analyze, man, faketime and a C compiler. Missing ones are installed with apt-get as root or with passwordless
sudo; otherwise the command to run is printed. The benchmarks compare with queues for Node and Python, too, which npm and
pip install into the target folder; without them, these are left out.
";

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let command = arguments.next();
    let rest: Vec<String> = arguments.collect();
    match run(command.as_deref(), &rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Option<&str>, arguments: &[String]) -> Result<()> {
    // Cargo runs a task in the current directory, but the tasks are for the whole workspace. The folder is taken from the
    // cargo that runs the task, not from the one that built it, because checkouts may share a target folder.
    let package = env::var_os("CARGO_MANIFEST_DIR").context("run it as `cargo xtask`")?;
    let root = Path::new(&package)
        .parent()
        .context("xtask is in the workspace")?;
    env::set_current_dir(root).with_context(|| format!("could not enter {}", root.display()))?;
    let started = Instant::now();
    match command {
        Some("test") => {
            let provide = || steps::step("what the tests need", || needs::provide(needs::TEST));
            match arguments {
                [] => provide().and_then(|()| steps::all(postgres::ALWAYS))?,
                [all] if all == "--all-postgres" => {
                    provide().and_then(|()| steps::all(postgres::ALL))?;
                }
                [quick] if quick == "--quick" => steps::quick()?,
                [only, majors @ ..] if only == "--postgres" => {
                    ensure!(!majors.is_empty(), "--postgres takes major versions");
                    let majors: Result<Vec<u32>, _> = majors.iter().map(|m| m.parse()).collect();
                    let majors = majors.context("--postgres takes major versions")?;
                    provide().and_then(|()| steps::on_postgres(&majors))?;
                }
                filters => steps::filtered(filters)?,
            }
            println!("\nAll passed in {:.1} s.", started.elapsed().as_secs_f32());
            Ok(())
        }
        Some("contract") => {
            steps::step("what the tests need", || needs::provide(needs::TEST))?;
            steps::outside(arguments)
        }
        Some("campaign") => {
            steps::step("what the campaign needs", || needs::provide(needs::TEST))?;
            steps::campaign(arguments)
        }
        Some("mutants") => {
            steps::step("what the tests need", || needs::provide(needs::TEST))?;
            steps::mutants(arguments)
        }
        Some("fuzz") => {
            steps::step("what the build needs", || needs::provide(needs::BUILD))?;
            steps::step("fuzz", || fuzz::run(arguments))
        }
        Some("words") => steps::step("words", words::check),
        Some("deny") => steps::step("dependencies", deny::check),
        Some("advisories") => match arguments {
            [folder, date] => deny::update(Path::new(folder), date),
            _ => bail!("give the folder of the database, and the date of its last change"),
        },
        Some("dist") => {
            steps::step("what the build needs", || needs::provide(needs::BUILD))?;
            steps::dist(arguments.first().map(Path::new))
        }
        Some("bench") => match arguments {
            [charts, file] if charts == "charts" => bench::charts(root, Path::new(file)),
            // The programs take many minutes to build, which is too long for a text.
            [help] if help == "help" || help == "--help" || help == "-h" => {
                print!("{HELP}\nThe options of each benchmark are in docs/benchmarks.md.\n");
                Ok(())
            }
            _ => {
                let needed = match arguments.first().map(String::as_str) {
                    Some("calls" | "units" | "growth") => needs::BENCH_POSTGRES,
                    _ => needs::BENCH,
                };
                steps::step("what the benchmarks need", || needs::provide(needed))?;
                steps::bench(arguments)
            }
        },
        Some("help" | "--help" | "-h") | None => {
            print!("{HELP}");
            Ok(())
        }
        Some(other) => bail!("there is no task {other:?}: `cargo xtask help` lists them"),
    }
}
