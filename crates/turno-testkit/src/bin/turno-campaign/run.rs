//! A whole campaign: starts the servers and the load, makes faults, waits until all work is done, and judges.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use tempfile::TempDir;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;
use turno::Turno;
use turno::lock::Acquire;
use turno_testkit::history::{Clock, Violation};
use turno_testkit::load::steady_us;
use turno_testkit::{PostgresServer, RabbitMq, TcpProxy, free_port};

use crate::application::Table;
use crate::fault::{Fault, Postgres, StoreServer, World};
use crate::judge;
use crate::load::{self, DEFAULT_PAUSE, Role};
use crate::plant::{PLANTS, Plant};
use crate::processes::{Parameters, Slot};
use crate::report::{Made, Report};

/// Number of processes of each role.
const PROCESSES: [(Role, usize); 6] = [
    (Role::Consumer, 1),
    (Role::Server, 1),
    (Role::Client, 2),
    (Role::RemoteClient, 1),
    (Role::Worker, 2),
    (Role::Relay, 2),
];
/// Length of each of the campaigns that look for a known bug.
const PLANT_MINUTES: f64 = 0.5;
/// Longest pause between two faults.
const MAX_PAUSE_MS: u64 = 1500;
/// How long the work that is left when the faults have ended may make no progress.
const DRAIN: Duration = Duration::from_secs(60);
/// Time between two questions of the probe.
const PROBE: Duration = Duration::from_millis(20);
const PROBE_TTL: Duration = Duration::from_secs(1);
/// A server as users have it: a commit is on the disk.
const DURABLE: [(&str, &str); 3] = [
    ("fsync", "on"),
    ("full_page_writes", "on"),
    // The default of 5 s would be the longest time without an answer after a restart.
    ("wal_retrieve_retry_interval", "100ms"),
];

/// Folder of SQLite's file: a small disk, which only this process and its children see.
pub const DISK: &str = "/mnt";
/// Larger than what a campaign of hours stores.
pub const DISK_BYTES: u64 = 2 << 30;

/// Kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    Postgres,
    Sqlite,
}

impl Store {
    /// The store with a name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "postgres" => Some(Store::Postgres),
            "sqlite" => Some(Store::Sqlite),
            _ => None,
        }
    }

    /// Name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Store::Postgres => "PostgreSQL",
            Store::Sqlite => "SQLite",
        }
    }
}

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    pub minutes: f64,
    /// Number of campaigns, one after the other. Each has the next seed.
    pub runs: u64,
    pub seed: u64,
    /// Longest pause between two operations of a task. Shorter ones make more contention, longer ones leave more time for faults.
    pub max_pause: Duration,
    pub store: Store,
    /// File that gets the report, too.
    pub report: Option<PathBuf>,
    /// A known bug, which the campaign has to find.
    pub plant: Option<Plant>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            minutes: 2.0,
            runs: 1,
            seed: fastrand::u64(..1_000_000),
            max_pause: DEFAULT_PAUSE,
            store: Store::Postgres,
            report: None,
            plant: None,
        }
    }
}

impl Options {
    /// Runs the campaigns, and prints the report of each, and of all so far.
    ///
    /// # Errors
    /// Returns an error if a promise was broken, or if a campaign itself failed.
    pub async fn run(self) -> Result<()> {
        let mut all: Option<Report> = None;
        for seed in self.seed..self.seed + self.runs {
            println!("seed {seed}");
            let folder = tempfile::tempdir()?;
            let options = Options {
                seed,
                ..self.clone()
            };
            let report = options.campaign(&folder).await?;
            if options.store == Store::Sqlite {
                options.remove_files()?;
            }
            let violations = report.judged.violations.len();
            let report = match all.take() {
                Some(earlier) => earlier.and(report),
                None => report,
            };
            println!("{report}");
            if let Some(file) = &self.report {
                std::fs::write(file, report.to_string())
                    .with_context(|| format!("{}", file.display()))?;
            }
            if violations > 0 {
                // The history is the proof.
                println!("the history is kept in {}", folder.keep().display());
            }
            ensure!(violations == 0, "{violations} violations with seed {seed}");
            all = Some(report);
        }
        Ok(())
    }

    /// Looks for each known bug, or for one, with short campaigns one after the other, and prints which promise it breaks and how many
    /// minutes of campaign it took. Each campaign has the next seed.
    ///
    /// # Errors
    /// Returns an error if a bug was not found in `minutes`, or if a campaign itself failed.
    pub async fn plants(self) -> Result<()> {
        println!("| bug | broken promise | violations | minutes |\n|---|---|---|---|");
        let mut missed = Vec::new();
        for plant in PLANTS {
            if self.plant.is_some_and(|only| only.name != plant.name) {
                continue;
            }
            let (violations, minutes) = self.find(*plant).await?;
            let promises: BTreeSet<&str> = violations.iter().map(|one| one.promise).collect();
            let broken = match Vec::from_iter(promises) {
                none if none.is_empty() => "not found".to_owned(),
                promises => promises.join("; "),
            };
            let (name, count) = (plant.name, violations.len());
            println!("| {name} | {broken} | {count} | {minutes} |");
            if violations.is_empty() {
                missed.push(plant.name);
            }
        }
        ensure!(missed.is_empty(), "not found: {}", missed.join(", "));
        Ok(())
    }

    /// Campaigns with a known bug, until one finds it. Returns its violations, and the minutes of all.
    async fn find(&self, plant: Plant) -> Result<(Vec<Violation>, f64)> {
        let mut minutes = 0.0;
        for seed in self.seed.. {
            let options = Options {
                seed,
                plant: Some(plant),
                minutes: PLANT_MINUTES.min(self.minutes - minutes),
                ..self.clone()
            };
            minutes += options.minutes;
            let report = options.campaign(&tempfile::tempdir()?).await;
            let report = report.with_context(|| format!("with the bug {}", plant.name))?;
            // Which operations show the bug.
            eprintln!("{}, seed {seed}: {report}", plant.name);
            let violations = report.judged.violations;
            if !violations.is_empty() || minutes >= self.minutes {
                return Ok((violations, minutes));
            }
        }
        Ok((Vec::new(), minutes))
    }

    /// Whether the clock of PostgreSQL is set: in every other campaign.
    fn sets_clock(&self) -> bool {
        self.seed.is_multiple_of(2)
    }

    /// File of SQLite. Each campaign has its own.
    fn sqlite_file(&self) -> String {
        format!("{DISK}/{}.db", self.seed)
    }

    /// Frees the small disk for the next campaign.
    fn remove_files(&self) -> Result<()> {
        for ending in ["", "-wal", "-shm"] {
            match std::fs::remove_file(self.sqlite_file() + ending) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    async fn campaign(&self, folder: &TempDir) -> Result<Report> {
        let history = folder.path().join("history");
        std::fs::create_dir(&history)?;
        let began = Instant::now();
        let campaign = Campaign::start(self, &history).await?;
        let (kept, made, stuck) = campaign.run(self).await?;
        let mut judged = judge::judge(&kept, &history).await?;
        judged.violations.extend(stuck);
        Ok(Report {
            store: self.store,
            seeds: self.seed..=self.seed,
            took: began.elapsed(),
            made,
            judged,
        })
    }
}

struct Campaign {
    world: World,
    /// URL without the proxy.
    direct: String,
    turno: Turno,
    probe: Probe,
}

impl Campaign {
    async fn start(options: &Options, history: &Path) -> Result<Self> {
        let broker = tokio::task::block_in_place(RabbitMq::start)?;
        let (store, direct, url) = match options.store {
            Store::Postgres => {
                let (server, url, standby) = tokio::task::block_in_place(|| {
                    let server = if options.sets_clock() {
                        PostgresServer::start_with_clock(&DURABLE)?
                    } else {
                        PostgresServer::start_with(&DURABLE)?
                    };
                    let url = server.create_database();
                    let standby = server.start_standby()?;
                    anyhow::Ok((server, url, standby))
                })?;
                let address = ([127, 0, 0, 1], server.port()).into();
                let (proxy, direct) = (
                    TcpProxy::start(address).await?,
                    TcpProxy::start(address).await?,
                );
                let urls = (direct.url_for(&url), proxy.url_for(&url));
                let database = url.rsplit('/').next().unwrap_or_default();
                let store = StoreServer::Postgres(Box::new(Postgres {
                    database: database.to_owned(),
                    server,
                    standby,
                    proxy,
                    direct,
                    clock_steps: Vec::new(),
                }));
                (store, urls.0, urls.1)
            }
            Store::Sqlite => {
                let file = options.sqlite_file();
                let url = format!("sqlite:{file}");
                (StoreServer::Sqlite { file }, url.clone(), url)
            }
        };
        let turno = Turno::connect(&direct).await?;
        judge::prepare(&direct).await?;
        load::configure(&turno).await?;
        if let Some(plant) = options.plant {
            plant.apply(&direct).await?;
        }
        let parameters = Parameters {
            url: url.clone(),
            broker: broker.url(),
            server: format!("127.0.0.1:{}", free_port()?),
            history: history.to_owned(),
            seed: options.seed,
            max_pause: options.max_pause,
            marks_early: options.plant.is_some_and(Plant::marks_early),
        };
        let mut slots = Vec::new();
        for (role, count) in PROCESSES {
            for number in 0..count {
                slots.push(tokio::task::block_in_place(|| {
                    Slot::start(role, number, &parameters)
                })?);
            }
        }
        Ok(Campaign {
            probe: Probe::start(&url).await?,
            world: World {
                slots,
                broker,
                store,
            },
            direct,
            turno,
        })
    }

    /// Makes faults until the time is over, then waits until all work is done. Returns the URL of the store and what was done.
    async fn run(mut self, options: &Options) -> Result<(Kept, Vec<Made>, Option<Violation>)> {
        let mut rng = Rng::with_seed(options.seed);
        let faults = Fault::of(options.store, options.sets_clock());
        let until = Instant::now() + Duration::from_secs_f64(options.minutes * 60.0);
        let mut made = Vec::new();
        while Instant::now() < until {
            sleep(Duration::from_millis(rng.u64(200..MAX_PAUSE_MS))).await;
            let fault = *rng.choice(&faults).context("there are faults")?;
            let began_us = steady_us();
            let done = self.world.make(fault, &mut rng).await;
            done.with_context(|| {
                format!("the fault {:?}{}", fault.name(), self.world.store.log())
            })?;
            made.push(Made {
                fault,
                began_us,
                ended_us: steady_us(),
                unavailable_us: 0,
            });
        }
        for role in [Role::Client, Role::RemoteClient, Role::Server] {
            self.end_of(role).await?;
        }
        let stuck = self.drain().await?;
        for role in [Role::Worker, Role::Relay, Role::Consumer] {
            self.end_of(role).await?;
        }
        self.probe.measure(&mut made);
        self.turno.close().await;
        let clock = match &self.world.store {
            StoreServer::Postgres(postgres) => Clock::new(postgres.clock_steps.clone()),
            StoreServer::Sqlite { .. } => Clock::default(),
        };
        let crashes = made.iter().filter(|made| made.fault.is_crash());
        let kept = Kept {
            url: self.direct,
            clock,
            crashes_us: crashes.map(|made| made.began_us).collect(),
            _world: self.world,
        };
        Ok((kept, made, stuck))
    }

    async fn end_of(&self, role: Role) -> Result<()> {
        let slots = || {
            self.world
                .slots
                .iter()
                .filter(move |slot| slot.role == role)
        };
        slots().for_each(Slot::term);
        tokio::task::block_in_place(|| slots().try_for_each(Slot::ended))
    }

    /// Waits until no item and no event is left that could still be worked on, and the consumer has all messages.
    async fn drain(&self) -> Result<Option<Violation>> {
        let mut until = Instant::now() + DRAIN;
        let mut least = u64::MAX;
        loop {
            let left = judge::left(&self.turno).await?;
            if left < least {
                least = left;
                until = Instant::now() + DRAIN;
            }
            // Not in each round: rabbitmqctl takes seconds of CPU time.
            let messages = match left {
                0 => self.messages()?,
                _ => "not counted".to_owned(),
            };
            if messages.is_empty() {
                return Ok(None);
            }
            if Instant::now() > until {
                let tables = judge::tables(&self.direct).await?;
                return Ok(Some(Violation {
                    promise: "all work ends",
                    what: format!(
                        "{left} items and events are left; messages: {messages}\n{tables}"
                    ),
                }));
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Numbers of messages in the queues of the broker that are not empty.
    fn messages(&self) -> Result<String> {
        let ask = ["list_queues", "-q", "messages"];
        let printed = tokio::task::block_in_place(|| self.world.broker.ctl(&ask))?;
        let some = |line: &&str| !matches!(line.trim(), "" | "0" | "messages");
        Ok(Vec::from_iter(printed.lines().filter(some)).join(" "))
    }
}

/// The store after a campaign, with the servers that it needs.
pub struct Kept {
    pub url: String,
    pub clock: Clock,
    /// When the store crashed.
    pub crashes_us: Vec<i64>,
    _world: World,
}

/// Asks all the time whether the store answers.
struct Probe {
    answered: Arc<Mutex<Vec<i64>>>,
    _task: AbortOnDropHandle<()>,
}

impl Probe {
    async fn start(url: &str) -> Result<Self> {
        let turno = Turno::builder()
            .call_timeout(Duration::from_secs(2))
            .connect(url)
            .await?;
        let answered: Arc<Mutex<Vec<i64>>> = Arc::default();
        let times = answered.clone();
        let task = tokio::spawn(async move {
            loop {
                let lock = turno.lock("probe").ttl(PROBE_TTL);
                let is_answered = match lock.acquire().await {
                    Ok(Acquire::Acquired(lease)) => lease.release().await.is_ok(),
                    // An earlier answer was lost, and the lease with it.
                    Ok(Acquire::Busy(_)) => true,
                    Err(_) => false,
                };
                if is_answered {
                    times
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(steady_us());
                }
                sleep(PROBE).await;
            }
        });
        Ok(Probe {
            answered,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// The longest time without an answer that began before the end of a fault.
    fn measure(&self, made: &mut [Made]) {
        let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        for fault in made {
            let gaps = answered
                .windows(2)
                .filter(|pair| pair[1] > fault.began_us && pair[0] < fault.ended_us);
            fault.unavailable_us = gaps.map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
        }
    }
}

impl Table {
    /// Statement that creates the table on a store.
    pub fn create(self, is_sqlite: bool) -> String {
        let number = if is_sqlite {
            "integer primary key autoincrement"
        } else {
            "bigserial primary key"
        };
        format!(
            "create table {} (n {number}, name text not null, value text not null)",
            self.name()
        )
    }
}
