//! Faults: what they do, and how they end.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fastrand::Rng;
use tokio::time::sleep;
use tokio_postgres::NoTls;
use turno_testkit::history::ClockStep;
use turno_testkit::load::steady_us;
use turno_testkit::{PostgresServer, RabbitMq, TcpProxy};

use crate::load::Role;
use crate::processes::Slot;
use crate::run::Store;

/// Longer than any lease of the load.
const LONGEST_PAUSE_MS: u64 = 3000;
/// How long it takes until all processes of PostgreSQL have read that their clock was set.
const CLOCK_DELAY: Duration = Duration::from_secs(2);
/// Number of lines of the server's log that an error shows.
const LOG_LINES: usize = 60;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A process is killed, and another one started.
    Kill(Part),
    /// A process is stopped for a while (SIGSTOP).
    Stop(Part),
    /// A client is started with a clock that is an hour off.
    ClientClock,
    /// PostgreSQL is killed, and recovers.
    KillStore,
    /// PostgreSQL is stopped, and started again.
    RestartStore,
    /// The primary is killed or frozen, and its synchronous standby takes over.
    Failover,
    /// The clock of PostgreSQL is set, and set back.
    StoreClock,
    /// All sessions are ended by an administrator.
    EndSessions,
    /// All connections are closed, and new ones refused.
    Cut,
    /// Connections stay open, and nothing passes.
    BlackHole,
    /// Everything takes longer.
    Delay,
    /// The answer of one request is lost.
    LoseAnswer,
    /// Another session holds a snapshot.
    HeldSnapshot,
    /// Statements end after a few milliseconds.
    StatementTimeout,
    /// All connections are in use.
    NoConnections,
    /// Another process holds the lock of writers.
    HeldWriter,
    /// The disk of the store is full.
    FullDisk,
    /// RabbitMQ is killed, and started again.
    KillBroker,
    /// RabbitMQ takes no messages.
    BlockBroker,
}

/// The process of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Client,
    RemoteClient,
    Server,
    Worker,
    Relay,
    Consumer,
}

impl Part {
    fn role(self) -> Role {
        match self {
            Part::Client => Role::Client,
            Part::RemoteClient => Role::RemoteClient,
            Part::Server => Role::Server,
            Part::Worker => Role::Worker,
            Part::Relay => Role::Relay,
            Part::Consumer => Role::Consumer,
        }
    }
}

/// Faults of processes and of the broker, on every store.
const OF_PROCESSES: [Fault; 13] = [
    Fault::Kill(Part::Client),
    Fault::Kill(Part::RemoteClient),
    Fault::Kill(Part::Server),
    Fault::Kill(Part::Worker),
    Fault::Kill(Part::Relay),
    Fault::Kill(Part::Consumer),
    Fault::Stop(Part::Client),
    Fault::Stop(Part::Server),
    Fault::Stop(Part::Worker),
    Fault::Stop(Part::Relay),
    Fault::ClientClock,
    Fault::KillBroker,
    Fault::BlockBroker,
];

const OF_POSTGRES: [Fault; 12] = [
    Fault::KillStore,
    Fault::RestartStore,
    Fault::Failover,
    Fault::StoreClock,
    Fault::EndSessions,
    Fault::Cut,
    Fault::BlackHole,
    Fault::Delay,
    Fault::LoseAnswer,
    Fault::HeldSnapshot,
    Fault::StatementTimeout,
    Fault::NoConnections,
];

const OF_SQLITE: [Fault; 2] = [Fault::HeldWriter, Fault::FullDisk];

impl Fault {
    /// All faults of a store. Of PostgreSQL, either its clock is set or its statements time out: libfaketime, which sets the clock, is
    /// not safe in a signal handler, and the handler of timeouts reads the clock. A process of the server aborted after some
    /// thousand timeouts.
    pub fn of(store: Store, clock_is_set: bool) -> Vec<Fault> {
        let of_store = match store {
            Store::Postgres => &OF_POSTGRES[..],
            Store::Sqlite => &OF_SQLITE[..],
        };
        let excluded = if clock_is_set {
            Fault::StatementTimeout
        } else {
            Fault::StoreClock
        };
        let all = OF_PROCESSES.iter().chain(of_store);
        all.copied().filter(|fault| *fault != excluded).collect()
    }

    /// Whether the store loses what is not on the disk yet.
    pub fn is_crash(self) -> bool {
        matches!(self, Fault::KillStore | Fault::Failover)
    }

    /// Name in the report.
    pub fn name(self) -> String {
        match self {
            Fault::Kill(part) => format!("kill -9 of a {}", part.role().name()),
            Fault::Stop(part) => format!("SIGSTOP of a {}", part.role().name()),
            Fault::ClientClock => "a client with another clock".to_owned(),
            Fault::KillStore => "kill -9 of PostgreSQL".to_owned(),
            Fault::RestartStore => "restart of PostgreSQL".to_owned(),
            Fault::Failover => "failover to a synchronous standby".to_owned(),
            Fault::StoreClock => "PostgreSQL with another clock".to_owned(),
            Fault::EndSessions => "all sessions ended".to_owned(),
            Fault::Cut => "connections cut".to_owned(),
            Fault::BlackHole => "half-open connections".to_owned(),
            Fault::Delay => "a slow network".to_owned(),
            Fault::LoseAnswer => "an answer lost".to_owned(),
            Fault::HeldSnapshot => "a snapshot held".to_owned(),
            Fault::StatementTimeout => "statement_timeout".to_owned(),
            Fault::NoConnections => "no connection left".to_owned(),
            Fault::HeldWriter => "the writer's lock held".to_owned(),
            Fault::FullDisk => "a full disk".to_owned(),
            Fault::KillBroker => "kill -9 of RabbitMQ".to_owned(),
            Fault::BlockBroker => "RabbitMQ takes no messages".to_owned(),
        }
    }
}

/// What faults act on.
pub struct World {
    pub slots: Vec<Slot>,
    pub broker: RabbitMq,
    pub store: StoreServer,
}

/// The store, without the proxy.
pub enum StoreServer {
    Postgres(Box<Postgres>),
    Sqlite { file: String },
}

/// A primary and its synchronous standby.
pub struct Postgres {
    pub server: PostgresServer,
    pub standby: PostgresServer,
    /// What the load connects to.
    pub proxy: TcpProxy,
    /// What the campaign itself connects to: it fails only in a failover.
    pub direct: TcpProxy,
    pub database: String,
    /// How far the clock was set forward, and when.
    pub clock_steps: Vec<ClockStep>,
}

impl World {
    /// Makes a fault, and ends it.
    pub async fn make(&mut self, fault: Fault, rng: &mut Rng) -> Result<()> {
        let pause = Duration::from_millis(rng.u64(100..LONGEST_PAUSE_MS));
        match fault {
            Fault::Kill(part) => self.slot(part, rng)?.replace(None),
            Fault::Stop(part) => {
                let slot = self.slot(part, rng)?;
                slot.stop();
                sleep(pause).await;
                slot.cont();
                Ok(())
            }
            Fault::ClientClock => {
                let offset = if rng.bool() { "+1h" } else { "-1h" };
                self.slot(Part::Client, rng)?.replace(Some(offset))
            }
            Fault::KillBroker => tokio::task::block_in_place(|| {
                self.broker.kill_9()?;
                self.broker.restart()
            }),
            Fault::BlockBroker => {
                tokio::task::block_in_place(|| self.broker.block_publishers())?;
                sleep(pause).await;
                tokio::task::block_in_place(|| self.broker.unblock_publishers())
            }
            of_store => self.store.make(of_store, pause, rng).await,
        }
    }

    fn slot(&mut self, part: Part, rng: &mut Rng) -> Result<&mut Slot> {
        let mut slots: Vec<&mut Slot> = self
            .slots
            .iter_mut()
            .filter(|slot| slot.role == part.role())
            .collect();
        let chosen = rng.usize(..slots.len().max(1));
        (chosen < slots.len())
            .then(|| slots.swap_remove(chosen))
            .with_context(|| format!("there is no {}", part.role().name()))
    }
}

impl StoreServer {
    /// Returns the end of the log of the server.
    pub fn log(&self) -> String {
        let StoreServer::Postgres(postgres) = self else {
            return String::new();
        };
        let log = postgres.server.log();
        let lines: Vec<&str> = log.lines().collect();
        let end = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        format!("; the end of PostgreSQL's log:\n{end}\n")
    }

    async fn make(&mut self, fault: Fault, pause: Duration, rng: &mut Rng) -> Result<()> {
        match self {
            StoreServer::Sqlite { file } => match fault {
                Fault::HeldWriter => {
                    let db = rusqlite::Connection::open(file)?;
                    db.busy_timeout(Duration::from_secs(30))?;
                    tokio::task::block_in_place(|| db.execute_batch("begin immediate"))?;
                    sleep(pause).await;
                    Ok(db.execute_batch("rollback")?)
                }
                Fault::FullDisk => {
                    let occupied = Path::new(file).with_file_name("occupied");
                    tokio::task::block_in_place(|| occupy_all(&occupied))?;
                    sleep(pause).await;
                    Ok(fs::remove_file(&occupied)?)
                }
                other => bail!("{other:?} is not for SQLite"),
            },
            StoreServer::Postgres(postgres) => postgres.make(fault, pause, rng).await,
        }
    }
}

/// Writes a file until its disk is full.
fn occupy_all(file: &Path) -> Result<()> {
    let mut file = fs::File::create(file)?;
    let block = vec![0; 1 << 20];
    for size in [block.len(), 4096, 1] {
        loop {
            match file.write_all(&block[..size]) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

impl Postgres {
    async fn make(&mut self, fault: Fault, pause: Duration, rng: &mut Rng) -> Result<()> {
        match fault {
            Fault::Failover => self.fail_over(pause, rng.bool()).await,
            Fault::StoreClock => self.set_clock(pause, rng.bool()).await,
            Fault::KillStore => tokio::task::block_in_place(|| {
                self.server.kill_9()?;
                self.server.restart()
            }),
            Fault::RestartStore => tokio::task::block_in_place(|| self.server.restart()),
            Fault::EndSessions => self.end_sessions(),
            Fault::Cut => {
                self.proxy.cut().await;
                sleep(pause).await;
                Ok(self.proxy.restore().await?)
            }
            Fault::BlackHole => {
                self.proxy.black_hole();
                sleep(pause).await;
                Ok(self.proxy.restore().await?)
            }
            Fault::Delay => {
                self.proxy.delay(Duration::from_millis(50));
                sleep(pause).await;
                self.proxy.delay(Duration::ZERO);
                Ok(())
            }
            Fault::LoseAnswer => {
                self.proxy.drop_next_answer();
                Ok(())
            }
            Fault::HeldSnapshot => {
                let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await?;
                tokio::spawn(connection);
                client
                    .batch_execute("begin isolation level repeatable read; select 1")
                    .await?;
                sleep(pause).await;
                Ok(client.batch_execute("rollback").await?)
            }
            Fault::StatementTimeout => {
                let database = &self.database;
                self.administer(&format!(
                    "alter database {database} set statement_timeout = '10ms'"
                ))?;
                self.end_sessions()?;
                sleep(pause).await;
                self.administer(&format!(
                    "alter database {database} reset statement_timeout"
                ))?;
                self.end_sessions()
            }
            Fault::NoConnections => {
                let mut open = Vec::new();
                while let Ok((client, connection)) =
                    tokio_postgres::connect(&self.url(), NoTls).await
                {
                    tokio::spawn(connection);
                    open.push(client);
                }
                sleep(pause).await;
                drop(open);
                Ok(())
            }
            other => bail!("{other:?} is not for PostgreSQL"),
        }
    }

    /// The standby has everything that was acknowledged, is promoted, and gets a standby of its own.
    async fn fail_over(&mut self, pause: Duration, frozen: bool) -> Result<()> {
        tokio::task::block_in_place(|| {
            // A cluster manager promotes no other standby.
            self.server.await_standby()?;
            if frozen {
                self.server.freeze()
            } else {
                self.server.kill_9()
            }
        })?;
        sleep(pause / 3).await;
        tokio::task::block_in_place(|| self.standby.promote())?;
        let address = ([127, 0, 0, 1], self.standby.port()).into();
        self.proxy.move_to(address).await?;
        self.direct.move_to(address).await?;
        tokio::task::block_in_place(|| {
            self.server.kill_9()?;
            let standby = self.standby.start_standby()?;
            self.server = std::mem::replace(&mut self.standby, standby);
            Ok(())
        })
    }

    /// Sets the clock forward by less than the work may take that is left at the end, or back by more than any lease, and then to
    /// the right time.
    async fn set_clock(&mut self, pause: Duration, forward: bool) -> Result<()> {
        let (difference, step) = match forward {
            true => ("+5", Duration::from_secs(5)),
            false => ("-1h", Duration::from_secs(3600)),
        };
        let from_us = steady_us();
        self.server.set_clock(difference)?;
        sleep(CLOCK_DELAY + pause).await;
        self.server.set_clock("+0")?;
        sleep(CLOCK_DELAY).await;
        self.clock_steps.push(ClockStep {
            from_us,
            until_us: steady_us(),
            forward_us: i64::try_from(step.as_micros())?,
        });
        Ok(())
    }

    fn url(&self) -> String {
        self.server.url(&self.database)
    }

    fn administer(&self, sql: &str) -> Result<()> {
        tokio::task::block_in_place(|| self.server.administer(sql))
    }

    fn end_sessions(&self) -> Result<()> {
        self.administer(&format!(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = '{}'",
            self.database
        ))
    }
}
