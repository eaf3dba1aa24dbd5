//! `turno __demo SCENARIO HOW ROLE FOLDER RUN INDEX`: a process of the demonstration.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow};
use clap::ValueEnum as _;
use turno::{Migrate, Turno};

use super::part::Part;
use super::scenario::Scenario;
use super::set::{Role, Set, Variant};

/// Name under which `turno demo` starts it.
pub(crate) const VERB: &str = "__demo";
/// Environment variable with the store. Not an argument: it may have a password, and all users of a machine can see arguments.
pub(super) const STORE: &str = "TURNO_DEMO_STORE";
/// Environment variable with the broker.
pub(super) const BROKER: &str = "TURNO_DEMO_BROKER";

/// Number of connections: a relay publishes, extends its claims and reads the statistics. The other processes need fewer.
const CONNECTIONS: usize = 4;

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
    let mut next = |what: &str| {
        arguments
            .next()
            .with_context(|| format!("{VERB} is internal, use `turno demo`: the {what} is missing"))
    };
    let scenario = text(next("scenario")?)?;
    let how = Variant::from_word(&text(next("variant")?)?)?;
    let role = Role::from_word(&text(next("role")?)?)?;
    let set = Set {
        scenario: Scenario::from_str(&scenario, false).map_err(|error| anyhow!(error))?,
        how,
        folder: PathBuf::from(next("folder")?),
        run: text(next("run")?)?,
        store: std::env::var(STORE).ok(),
        broker: std::env::var(BROKER).ok(),
    };
    let index = text(next("index")?)?
        .parse()
        .context("the index is not a number")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(play(set, role, index))
}

async fn play(set: Set, role: Role, index: usize) -> Result<()> {
    let turno = match (set.how, &set.store) {
        (Variant::Turno, Some(store)) => Some(connect(store).await?),
        (Variant::Turno, None) => return Err(anyhow!("{STORE} is missing")),
        (Variant::Plain | Variant::MarkedFirst, _) => None,
    };
    let mut part = Part::new(set, role, index, turno.clone());
    part.set.scenario.work(&mut part).await?;
    if let Some(turno) = turno {
        turno.close().await;
    }
    Ok(())
}

async fn connect(store: &str) -> Result<Turno> {
    let turno = Turno::builder()
        .connections(CONNECTIONS)
        .migrate(Migrate::Never)
        .service("turno demo")
        .connect(store)
        .await?;
    Ok(turno)
}

fn text(word: OsString) -> Result<String> {
    word.into_string()
        .map_err(|word| anyhow!("{} is not valid UTF-8", word.display()))
}
