//! The load: processes that use all four parts of Turno, and record their calls and the answers.

mod inbox;
mod lock;
mod once;
pub mod outbox;
mod server;

pub use inbox::{LIMITED, MAX_RUNNING, QUEUES, configure};

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use self::inbox::Interface;
use anyhow::Result;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use turno::{Error, Turno};
use turno_testkit::history::{Answer, Pending, Recorder, is_full};
use turno_testkit::load::steady_us;

/// Names of resources and keys change after this time, so that the history of each is short.
const EPOCH_US: i64 = 4_000_000;
/// Longest pause between two operations of a task.
static MAX_PAUSE: OnceLock<Duration> = OnceLock::new();
/// Default of the longest pause.
pub const DEFAULT_PAUSE: Duration = Duration::from_millis(40);

/// What all tasks of a process share.
#[derive(Clone)]
pub struct Load {
    pub url: String,
    pub turno: Turno,
    pub recorder: Recorder,
    pub name: String,
    pub stop: CancellationToken,
}

/// Role of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Acquires locks, pushes items, emits events, begins requests.
    Client,
    /// The same over HTTP, but for events.
    RemoteClient,
    /// Serves HTTP.
    Server,
    /// Works on items.
    Worker,
    /// Publishes events.
    Relay,
    /// Receives messages.
    Consumer,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 6] = [
        Role::Client,
        Role::RemoteClient,
        Role::Server,
        Role::Worker,
        Role::Relay,
        Role::Consumer,
    ];

    /// Name of the role.
    pub fn name(self) -> &'static str {
        match self {
            Role::Client => "client",
            Role::RemoteClient => "remote-client",
            Role::Server => "server",
            Role::Worker => "worker",
            Role::Relay => "relay",
            Role::Consumer => "consumer",
        }
    }
}

/// Parameters of a process.
pub struct Start {
    pub role: Role,
    pub url: String,
    pub broker: String,
    /// Address of the server.
    pub server: String,
    pub folder: PathBuf,
    pub name: String,
    pub seed: u64,
    /// Longest pause between two operations of a task.
    pub max_pause: Duration,
}

impl Start {
    /// Runs until `stop`.
    pub async fn run(self, stop: CancellationToken) -> Result<()> {
        fastrand::seed(self.seed);
        MAX_PAUSE.get_or_init(|| self.max_pause);
        let recorder = Recorder::create(&self.folder, &self.name)?;
        if self.role == Role::Consumer {
            return outbox::consume(&self.broker, &recorder, &stop).await;
        }
        let load = Load {
            turno: match self.role {
                Role::RemoteClient => server::remote(&self.server)?,
                _ => connect(&self.url).await?,
            },
            url: self.url,
            recorder,
            name: self.name,
            stop,
        };
        match self.role {
            Role::Client => client(load, Events::Emitted).await,
            Role::RemoteClient => client(load, Events::None).await,
            Role::Server => server::serve(load, &self.server).await,
            Role::Worker => worker(load).await,
            Role::Relay => outbox::relay(&load, &self.broker).await,
            Role::Consumer => Ok(()),
        }
    }
}

/// Waits for a store that a fault has made unavailable.
async fn connect(url: &str) -> Result<Turno> {
    loop {
        match Turno::builder()
            .call_timeout(Duration::from_secs(5))
            .connect(url)
            .await
        {
            Err(error) if error.is_unavailable() || is_full(&error) => pause().await,
            connected => return Ok(connected?),
        }
    }
}

/// Whether a client emits events. Over HTTP it cannot: they belong in a transaction of the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Events {
    Emitted,
    None,
}

async fn client(load: Load, events: Events) -> Result<()> {
    let mut tasks = JoinSet::new();
    for task in 0..4 {
        tasks.spawn(lock::run(load.clone(), task));
    }
    for task in 0..3 {
        tasks.spawn(once::run(load.clone(), task));
    }
    for task in 0..2 {
        tasks.spawn(inbox::push(load.clone(), task));
        if events == Events::Emitted {
            tasks.spawn(outbox::emit(load.clone(), task));
        }
    }
    if events == Events::None {
        tasks.spawn(inbox::consume(load.clone(), Interface::Library));
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// Workers, and consumers that claim one item at a time.
async fn worker(load: Load) -> Result<()> {
    let mut tasks = JoinSet::new();
    for interface in [Interface::Library, Interface::Sql, Interface::Sql] {
        tasks.spawn(inbox::consume(load.clone(), interface));
    }
    tasks.spawn(async move { inbox::work(&load).await });
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// Number of the epoch, the same in all processes.
fn epoch() -> i64 {
    steady_us() / EPOCH_US
}

/// A name that no other operation has.
fn unique(load: &Load, task: usize, number: u64) -> String {
    format!("{}/{task}/{number}", load.name)
}

async fn pause() {
    let longest = MAX_PAUSE.get().unwrap_or(&DEFAULT_PAUSE);
    let longest = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
    tokio::time::sleep(Duration::from_micros(fastrand::u64(0..longest))).await;
}

/// Records an error of a transaction of the application, whose own statements fail, too.
fn unknown(pending: Pending, error: &anyhow::Error) {
    match error.downcast_ref::<Error>() {
        Some(error) => pending.failed(error),
        None if is_invalid(error) => pending.answer(Answer::Broken(format!("{error:#}"))),
        None => pending.answer(Answer::Unknown(format!("{error:#}"))),
    }
}

/// Whether PostgreSQL did not accept a statement or its arguments, which no fault explains.
fn is_invalid(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<tokio_postgres::Error>();
    let code = error.and_then(tokio_postgres::Error::code);
    code.is_some_and(|code| ["22", "23", "42"].contains(&&code.code()[..2]))
}
