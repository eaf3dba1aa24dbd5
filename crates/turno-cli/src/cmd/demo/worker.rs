//! `turno __demo FILE ROUNDS [RESOURCE]`: one of the demonstration's processes.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use turno::Turno;
use turno::lock::RunError;

use super::counter;

/// How `turno demo` calls it.
pub(crate) const VERB: &str = "__demo";
/// Where `turno demo` says which store.
pub(crate) const STORE: &str = "TURNO_DEMO_STORE";

/// The time between reading and writing: real work takes some, too.
const WORK: Duration = Duration::from_millis(1);
const TTL: Duration = Duration::from_secs(30);
const WAIT: Duration = Duration::from_secs(60);

pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match work(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn work(mut arguments: impl Iterator<Item = OsString>) -> Result<()> {
    let file = PathBuf::from(arguments.next().context("a file is missing")?);
    let rounds: u32 = arguments
        .next()
        .and_then(|text| text.to_str()?.parse().ok())
        .context("the rounds are missing")?;
    let resource = arguments.next().and_then(|name| name.into_string().ok());
    // The parent closes it when all are there.
    io::stdin().read_to_end(&mut Vec::new())?;
    match resource {
        None => (0..rounds).try_for_each(|_| add_one(&file)),
        Some(resource) => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(under_lock(&file, rounds, &resource))
        }
    }
}

async fn under_lock(file: &Path, rounds: u32, resource: &str) -> Result<()> {
    let store = std::env::var(STORE).context("the store is missing")?;
    let turno = Turno::builder()
        .ttl(TTL)
        .user("turno demo")
        .connect(&store)
        .await?;
    for _ in 0..rounds {
        let added = turno
            .lock(resource)
            .wait(WAIT)
            .run(async |_| add_one(file))
            .await;
        added.map_err(|error| match error {
            RunError::Work(error) => error,
            other => anyhow::anyhow!("{other}"),
        })?;
    }
    turno.close().await;
    Ok(())
}

/// What goes wrong when two do it at once.
fn add_one(file: &Path) -> Result<()> {
    let seen = counter::read(file)?;
    std::thread::sleep(WORK);
    counter::write(file, seen + 1)?;
    let mut progress = io::stdout();
    progress.write_all(b".")?;
    progress.flush()?;
    Ok(())
}
