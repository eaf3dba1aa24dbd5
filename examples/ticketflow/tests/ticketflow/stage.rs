//! An empty store and a separate exchange per test. The servers are shared.

use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use turno::Turno;
use turno::outbox::{EventState, EventView, OutboxStats};
use turno_testkit::{Process, RabbitMq, eventually, eventually_async, migrated_database};

use crate::cast::{Actor, Cast, LONG, await_death_of_one};
use crate::db::Db;
use crate::settings::Settings;
use crate::tally::Tally;
use crate::tap::Tap;

pub struct Stage {
    pub cast: Cast,
    pub db: Db,
    pub turno: Turno,
    /// Folder of an SQLite file, deleted when the test ends.
    _folder: Option<TempDir>,
}

/// Three workers, of which one is active, and two consumers.
pub struct Crew {
    pub workers: Vec<Actor>,
    pub consumers: Vec<Actor>,
}

impl Crew {
    /// Waits until the active worker has died at its fault.
    pub fn await_death(&self) {
        await_death_of_one(&self.workers).unwrap();
    }

    /// Waits until the log of one of the workers contains `words`.
    pub fn await_log(&self, words: &str) {
        eventually(LONG, words, || {
            let next = |worker: &Actor| worker.process.lines().next(Duration::ZERO);
            let mut lines = self.workers.iter().filter_map(next);
            lines.any(|line| line.contains(words)).then_some(())
        });
    }
}

/// Returns the broker that tests share. No test stops it.
pub fn shared_broker() -> &'static RabbitMq {
    static BROKER: LazyLock<RabbitMq> =
        LazyLock::new(|| RabbitMq::start().expect("RabbitMQ starts"));
    &BROKER
}

impl Stage {
    pub async fn postgres() -> Self {
        Self::postgres_at(shared_broker().port()).await
    }

    pub async fn sqlite() -> Self {
        Self::sqlite_at(shared_broker().port()).await
    }

    /// Creates a stage on an existing database.
    pub async fn on(store: String) -> Self {
        Self::new(store, None, shared_broker().port()).await
    }

    pub async fn postgres_at(broker: u16) -> Self {
        Self::new(migrated_database(), None, broker).await
    }

    pub async fn sqlite_at(broker: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = format!("sqlite:{}", folder.path().join("tickets.db").display());
        Self::new(store, Some(folder), broker).await
    }

    async fn new(store: String, folder: Option<TempDir>, broker: u16) -> Self {
        static EXCHANGES: AtomicU32 = AtomicU32::new(0);
        let mut settings = Settings::default();
        settings.rabbitmq.host = "127.0.0.1".to_owned();
        settings.rabbitmq.port = broker;
        let number = EXCHANGES.fetch_add(1, Ordering::Relaxed);
        settings.rabbitmq.exchange = format!("ticketflow.events.{number}");
        let program = Path::new(env!("CARGO_BIN_EXE_ticketflow"));
        let cast = Cast::new(program, store, settings).unwrap();
        Stage {
            db: Db::connect(&cast.store).await.unwrap(),
            turno: Turno::connect(&cast.store).await.unwrap(),
            cast,
            _folder: folder,
        }
    }

    #[track_caller]
    pub fn start(&self, words: &[&str]) -> Actor {
        self.cast.start(words, None).unwrap()
    }

    /// Starts a process that dies or freezes at a point.
    #[track_caller]
    pub fn start_doomed(&self, words: &[&str], fault: &str) -> Actor {
        self.cast.start(words, Some(fault)).unwrap()
    }

    /// Starts three workers and two consumers. One worker is active, usually the first; on a busy machine another may replace
    /// it before there is work. So give a fault `once`: it then happens in the active one only.
    pub fn crew(&self, consumer: &[&str], fault: Option<&str>) -> Crew {
        let consumers = (0..2).map(|_| self.start(consumer)).collect();
        let first = self.cast.start(&["worker"], fault).unwrap();
        first.await_log("this relay is the leader").unwrap();
        let mut workers = vec![first];
        workers.extend((0..2).map(|_| self.cast.start(&["worker"], fault).unwrap()));
        Crew { workers, consumers }
    }

    pub async fn tap(&self) -> Tap {
        Tap::open(&self.cast.settings.rabbitmq).await.unwrap()
    }

    pub async fn stats(&self) -> OutboxStats {
        self.turno.outbox().stats().await.unwrap()
    }

    pub async fn await_stats(&self, what: &str, done: impl Fn(&OutboxStats) -> bool) {
        eventually_async(LONG, what, async || done(&self.stats().await).then_some(())).await;
    }

    pub async fn list(&self, state: EventState) -> Vec<EventView> {
        self.turno.outbox().list(state, None, 1000).await.unwrap()
    }

    pub async fn tally(&self) -> Tally {
        Tally::of(&self.db).await.unwrap()
    }

    pub async fn await_tally(&self, what: &str, done: impl Fn(&Tally) -> bool) -> Tally {
        eventually_async(LONG, what, async || {
            let tally = self.tally().await;
            done(&tally).then_some(tally)
        })
        .await
    }
}

/// Returns the expected tally: each event handled once.
pub fn all_once(tickets: i64, events: i64) -> Tally {
    Tally {
        tickets,
        expected: events,
        handled: events,
        ..Tally::default()
    }
}

/// Waits until a process has frozen at its fault.
pub fn await_frozen(process: &Process) {
    let stat = format!("/proc/{}/stat", process.id());
    eventually(LONG, "a process to freeze", || {
        let text = std::fs::read_to_string(&stat).ok()?;
        text.rsplit_once(") ")?.1.starts_with('T').then_some(())
    });
}
