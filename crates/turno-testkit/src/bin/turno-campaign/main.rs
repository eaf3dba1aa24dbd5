//! A campaign of faults: `turno-campaign run [--minutes N] [--runs N] [--seed S] [--pause MS] [--store postgres|sqlite] [--plant BUG] [--report FILE]`
//! runs a random mix of work on all four parts of Turno from several processes, makes faults, and checks the recorded history.
//! `turno-campaign plants [--minutes N] [--seed S] [--pause MS] [--plant BUG]` does so with each known bug, and each must be found in that
//! time.
//!
//! `turno-campaign load ROLE STORE_URL BROKER_URL SERVER_ADDRESS FOLDER NAME SEED PAUSE` is one of these processes. It prints `ready` first, ends
//! gracefully on SIGTERM, and at once when its input ends.
#![forbid(unsafe_code)]

mod application;
mod fault;
mod judge;
mod load;
mod plant;
mod processes;
mod report;
mod run;

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use turno_testkit::SmallDisk;

use self::load::{Role, Start};
use self::plant::Plant;
use self::run::{Options, Store};

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    match words[..] {
        ["run", ref options @ ..] => {
            let options = options_of(options)?;
            if options.store == Store::Sqlite && std::env::var_os(ON_SMALL_DISK).is_none() {
                return Err(on_small_disk().into());
            }
            runtime.block_on(options.run())
        }
        ["plants", ref options @ ..] => runtime.block_on(options_of(options)?.plants()),
        ["load", role, url, broker, server, folder, name, seed, pause] => {
            let role = Role::ALL.into_iter().find(|known| known.name() == role);
            let start = Start {
                role: role.context("there is no such role")?,
                url: url.to_owned(),
                broker: broker.to_owned(),
                server: server.to_owned(),
                folder: folder.into(),
                name: name.to_owned(),
                seed: seed.parse()?,
                max_pause: Duration::from_millis(pause.parse()?),
            };
            runtime.block_on(load(start))
        }
        _ => bail!(
            "usage: turno-campaign run [--minutes N] [--runs N] [--seed S] [--pause MS] [--store postgres|sqlite] [--plant BUG] [--report FILE]"
        ),
    }
}

/// Set for a campaign that runs on a small disk.
const ON_SMALL_DISK: &str = "TURNO_CAMPAIGN_ON_SMALL_DISK";

/// Becomes the same campaign on a small disk. Returns only if that fails.
fn on_small_disk() -> io::Error {
    let words = SmallDisk::command(Path::new(run::DISK), run::DISK_BYTES);
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    Command::new(&words[0])
        .args(&words[1..])
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(ON_SMALL_DISK, "1")
        .exec()
}

fn milliseconds(text: &str) -> Result<Duration> {
    let number = text
        .parse()
        .context("--pause is a number of milliseconds")?;
    ensure!(number > 0, "--pause is at least 1");
    Ok(Duration::from_millis(number))
}

async fn load(start: Start) -> Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    std::thread::spawn(|| {
        for _ in io::stdin().lines().map_while(Result::ok) {}
        // The parent process has ended.
        std::process::exit(0);
    });
    let stop = CancellationToken::new();
    println!("ready");
    let ending = stop.clone();
    tokio::spawn(async move {
        term.recv().await;
        ending.cancel();
    });
    start.run(stop).await
}

fn options_of(words: &[&str]) -> Result<Options> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(name) = words.next() {
        let value = words
            .next()
            .with_context(|| format!("{name} needs a value"))?;
        match *name {
            "--minutes" => options.minutes = value.parse().context("--minutes is a number")?,
            "--runs" => options.runs = value.parse().context("--runs is a number")?,
            "--pause" => options.max_pause = milliseconds(value)?,
            "--seed" => options.seed = value.parse().context("--seed is a number")?,
            "--store" => {
                options.store = Store::named(value).context("--store is postgres or sqlite")?
            }
            "--plant" => options.plant = Some(Plant::named(value)?),
            "--report" => options.report = Some((*value).into()),
            _ => bail!("there is no option {name}"),
        }
    }
    Ok(options)
}
