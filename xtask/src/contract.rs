//! Checks the HTTP contract as a client: Schemathesis sends running servers requests that their own description allows, and
//! others that it does not. See `xtask/schemathesis`.

mod tools;

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, anyhow, bail, ensure};

use self::tools::Tools;
use crate::background::Background;

/// Folder with the configuration of Schemathesis and the rules that hold by design. Findings are reproduced from here.
const FOLDER: &str = "xtask/schemathesis";
/// The golden API description. The tests check that it equals the server's.
const GOLDEN: &str = "crates/turno-server/tests/golden/openapi.json";

/// Kind of caller.
#[derive(Clone, Copy)]
enum Caller<'a> {
    /// Any caller, of a server without access tokens.
    Everyone,
    /// A caller with an admin's token.
    Admin(&'a str),
    /// A caller without a token, of a server with tokens.
    Anonymous,
}

impl Caller<'_> {
    fn name(self) -> &'static str {
        match self {
            Caller::Everyone => "everyone",
            Caller::Admin(_) => "admin",
            Caller::Anonymous => "anonymous",
        }
    }
}

/// How much to ask.
#[derive(Clone, Copy)]
pub struct Questions {
    /// Number of generated requests for each operation and phase.
    examples: u32,
    /// Decides which requests are generated.
    seed: u32,
    /// Whether each kind of caller asks on both stores. Otherwise each asks on one of them.
    both_stores: bool,
}

impl Questions {
    /// Returns those of CI. They are the same in each run, until many seeds have shown that `rules.py` has all reasons.
    pub fn of_ci() -> Self {
        Questions {
            examples: 8,
            seed: 476_983_982,
            both_stores: false,
        }
    }

    /// Reads the options `--examples` and `--seed`. Without a seed, each run has another one.
    pub fn parse(arguments: &[String]) -> Result<Self> {
        let mut questions = Questions {
            seed: fastrand::u32(..),
            both_stores: true,
            ..Self::of_ci()
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let value = arguments
                .next()
                .with_context(|| format!("{argument} takes a number"))?;
            match argument.as_str() {
                "--examples" => questions.examples = value.parse()?,
                "--seed" => questions.seed = value.parse()?,
                other => bail!("there is no option {other}"),
            }
        }
        Ok(questions)
    }
}

/// Programs that the tests built, and a folder for results.
struct Setup {
    programs: PathBuf,
    folder: PathBuf,
    tools: Tools,
    questions: Questions,
}

/// Checks the description, and the behaviour of servers on both stores.
pub fn check(questions: Questions) -> Result<()> {
    let Questions { examples, seed, .. } = questions;
    println!("the same again: cargo xtask contract --examples {examples} --seed {seed}");
    // Built into the same folder: cargo puts all programs of a workspace together.
    let own = env::current_exe().context("a process knows its program")?;
    let programs = own.parent().context("a program is in a folder")?;
    let folder = programs.with_file_name("contract");
    fs::create_dir_all(&folder)
        .with_context(|| format!("could not create {}", folder.display()))?;
    let place = &Setup {
        programs: programs.to_owned(),
        tools: Tools::provide(&folder)?,
        folder,
        questions,
    };
    run(place.tools.command("openapi-spec-validator").arg(GOLDEN))?;
    // Schemathesis and the server use one core each, so two run at a time.
    thread::scope(|scope| {
        let sqlite = scope.spawn(|| sqlite(place));
        let postgres = scope.spawn(|| postgres(place));
        let ended = [sqlite.join(), postgres.join()];
        for result in ended {
            result.map_err(|_| anyhow!("the check itself panicked"))??;
        }
        Ok(())
    })
}

fn sqlite(place: &Setup) -> Result<()> {
    let files = place.folder.join("sqlite");
    fs::remove_dir_all(&files).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    fs::create_dir_all(&files)?;
    let store = format!("sqlite:{}", files.join("turno.db").display());
    callers(place, "sqlite", &store, |caller| {
        !matches!(caller, Caller::Admin(_))
    })
}

fn postgres(place: &Setup) -> Result<()> {
    let mut command = Command::new(place.programs.join("turno-servers"));
    let mut server = Background::start(command.arg("postgres"))?;
    let store = server.line(|line| line.starts_with("postgres://").then(|| line.to_owned()))?;
    callers(place, "postgres", &store, |caller| {
        matches!(caller, Caller::Admin(_))
    })
}

/// Runs callers on one store. The server is open until there is a token.
fn callers(
    place: &Setup,
    name: &str,
    store: &str,
    is_chosen: fn(Caller<'_>) -> bool,
) -> Result<()> {
    let is_chosen = |caller| place.questions.both_stores || is_chosen(caller);
    if is_chosen(Caller::Everyone) {
        ask(place, name, store, Caller::Everyone)?;
    }
    let token = create_token(place, store)?;
    for caller in [Caller::Admin(&token), Caller::Anonymous] {
        if is_chosen(caller) {
            ask(place, name, store, caller)?;
        }
    }
    Ok(())
}

fn create_token(place: &Setup, store: &str) -> Result<String> {
    let mut create = place.turno(store);
    create.args(["token", "create", "contract", "--role", "admin"]);
    let made = create
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("could not start {create:?}"))?;
    let outcome = String::from_utf8_lossy(&made.stderr);
    ensure!(made.status.success(), "{create:?} failed: {outcome}");
    let token = String::from_utf8(made.stdout).context("a token is text")?;
    Ok(token.trim().to_owned())
}

/// Starts a server and runs Schemathesis against it.
fn ask(place: &Setup, store_name: &str, store: &str, caller: Caller<'_>) -> Result<()> {
    let name = format!("{store_name}-{}", caller.name());
    let log = place.folder.join(format!("{name}.log"));
    let mut command = place.turno(store);
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    // Long polls are requested, too; a short maximum keeps them from delaying the run.
    command.args(["--max-wait", "20ms"]);
    command.stderr(file(&log)?);
    let mut server = Background::start(&mut command)?;
    let url = server.line(|line| Some(format!("http{}", line.split_once("http")?.1)))?;

    let config = Path::new(FOLDER).join("schemathesis.toml");
    let mut command = place.tools.command("schemathesis");
    command.arg("--config-file").arg(config.canonicalize()?);
    command.args(["run", &format!("{url}/openapi.json")]);
    let Questions { examples, seed, .. } = place.questions;
    command.args(["--max-examples", &examples.to_string()]);
    command.args(["--seed", &seed.to_string()]);
    command
        .env("PYTHONPATH", Path::new(FOLDER).canonicalize()?)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("TURNO_CALLER", caller.name());
    if let Caller::Admin(token) = caller {
        command.args(["--header", &format!("Authorization: Bearer {token}")]);
    }
    // State that it keeps between runs is outside the checkout, and separate per run.
    let memory = place.folder.join(&name);
    fs::create_dir_all(&memory)?;
    let report = place.folder.join(format!("{name}.txt"));
    command
        .current_dir(&memory)
        .stdout(file(&report)?)
        .stderr(file(&memory.join("stderr.txt"))?);
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("could not start {command:?}"))?;
    let outcome = fs::read_to_string(&report).unwrap_or_default();
    let errors = fs::read_to_string(memory.join("stderr.txt")).unwrap_or_default();
    ensure!(
        status.success(),
        "{name}: the server does not do as it says.\n{outcome}\n{errors}\nThe server's log is in {}",
        log.display()
    );
    let last = outcome.trim_end().lines().last().unwrap_or_default();
    println!("{name}: {}", last.trim_matches([' ', '=']));
    Ok(())
}

impl Setup {
    fn turno(&self, store: &str) -> Command {
        let mut command = Command::new(self.programs.join("turno"));
        // Only the given options and this folder apply, not the developer's own configuration.
        command
            .args(["--store", store])
            .current_dir(&self.folder)
            .env_remove("TURNO_TOKEN")
            .env_remove("TURNO_SERVER");
        command
    }
}

fn file(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("could not write {}", path.display()))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("could not start {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}
