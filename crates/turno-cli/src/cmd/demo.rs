//! `turno demo`: what happens without a lock, and with one, to a counter in a plain file.

mod counter;
pub(crate) mod worker;

use std::io::{self, IsTerminal, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use comfy_table::{Cell, Color};
use serde_json::json;

use crate::context::Context;
use crate::output::number;

const PROCESSES: u32 = 8;
const ROUNDS: u32 = 25;
const OPERATIONS: u32 = PROCESSES * ROUNDS;
/// How often the progress line is drawn.
const FRAME: Duration = Duration::from_millis(20);

/// One way of counting, and what came of it.
struct Scenario {
    name: &'static str,
    counted: u32,
    took: Duration,
}

impl Scenario {
    fn lost(&self) -> u32 {
        OPERATIONS.saturating_sub(self.counted)
    }
}

pub(crate) async fn run(context: &Context) -> Result<ExitCode> {
    let folder = tempfile::tempdir().context("a temporary folder is needed")?;
    let store = match &context.named_store {
        Some(store) => store.clone(),
        None => format!("sqlite:{}", folder.path().join("demo.db").display()),
    };
    // Migrated once, before the processes start; and a store that cannot be used is told here.
    turno::Turno::connect(&store).await?.close().await;
    // As unique as the folder, on a store that others may use too.
    let resource = format!("turno-demo{}", folder.path().display());
    let without = race("without a lock", &folder.path().join("without"), None)?;
    let with = race(
        "with turno",
        &folder.path().join("with"),
        Some((&store, &resource)),
    )?;
    print(context, &[without, with])
}

/// Starts the processes, lets them go at the same moment, and reads the counter when all have ended.
fn race(name: &'static str, file: &Path, lock: Option<(&str, &str)>) -> Result<Scenario> {
    counter::write(file, 0)?;
    let mut workers = (0..PROCESSES)
        .map(|_| start(file, lock))
        .collect::<Result<Vec<_>>>()?;
    let done = AtomicU32::new(0);
    let started = Instant::now();
    thread::scope(|scope| -> Result<()> {
        for worker in &mut workers {
            let (go, output) = (worker.stdin.take(), worker.stdout.take());
            // Its input ends: it may go. It says a byte a round.
            drop(go);
            scope.spawn(|| {
                for byte in output.into_iter().flat_map(io::Read::bytes) {
                    done.fetch_add(u32::from(byte.is_ok()), Ordering::Relaxed);
                }
            });
        }
        show_progress(name, &done, &mut workers)
    })?;
    let took = started.elapsed();
    for mut worker in workers {
        ensure!(
            worker.wait()?.success(),
            "a process of the demonstration failed: its message is above"
        );
    }
    Ok(Scenario {
        name,
        counted: counter::read(file)?,
        took,
    })
}

fn start(file: &Path, lock: Option<(&str, &str)>) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(worker::VERB).arg(file).arg(ROUNDS.to_string());
    if let Some((store, resource)) = lock {
        // Not an argument: it may hold a password, and arguments can be seen by everybody.
        command.arg(resource).env(worker::STORE, store);
    }
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("a process could not be started")
}

/// Until every process has ended; drawn on a terminal only.
fn show_progress(name: &str, done: &AtomicU32, workers: &mut [Child]) -> Result<()> {
    let mut screen = io::stderr();
    let drawn = screen.is_terminal();
    loop {
        let mut running = false;
        for worker in workers.iter_mut() {
            running |= worker.try_wait()?.is_none();
        }
        if drawn {
            let count = done.load(Ordering::Relaxed);
            write!(
                screen,
                "\r\x1b[K{name}: {PROCESSES} processes, {count} of {OPERATIONS} operations"
            )?;
            screen.flush()?;
        }
        if !running {
            break;
        }
        thread::sleep(FRAME);
    }
    if drawn {
        write!(screen, "\r\x1b[K")?;
        screen.flush()?;
    }
    Ok(())
}

fn print(context: &Context, scenarios: &[Scenario; 2]) -> Result<ExitCode> {
    if context.output.is_json() {
        let rows: Vec<_> = scenarios
            .iter()
            .map(|one| {
                json!({
                    "scenario": one.name,
                    "processes": PROCESSES,
                    "operations": OPERATIONS,
                    "counter": one.counted,
                    "lost_updates": one.lost(),
                    "took_ms": u64::try_from(one.took.as_millis()).unwrap_or(u64::MAX),
                })
            })
            .collect();
        context.output.json(&json!({"scenarios": rows}))?;
    } else {
        let header = [
            "LOCK",
            "PROCESSES",
            "OPERATIONS",
            "COUNTER",
            "LOST UPDATES",
            "TIME",
        ];
        context
            .output
            .table(&header, scenarios.iter().map(row).collect())?;
        context.output.line(&format!(
            "\nEach of {PROCESSES} processes adds 1 to the number in a plain file, {ROUNDS} times: two that read the same \
             number write the same sum,\nand one addition is lost. Under a lock they take turns, and none is."
        ))?;
    }
    let [_, with] = scenarios;
    Ok(if with.lost() == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn row(one: &Scenario) -> Vec<Cell> {
    let color = if one.lost() == 0 {
        Color::Green
    } else {
        Color::Red
    };
    vec![
        Cell::new(one.name),
        number(PROCESSES),
        number(OPERATIONS),
        number(one.counted),
        number(one.lost()).fg(color),
        number(format!("{:.1} s", one.took.as_secs_f32())),
    ]
}
