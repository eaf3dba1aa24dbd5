//! Crashes under load: acknowledged changes survive, and no token is ever repeated or decreases.

use std::fs;
use std::path::Path;
use std::thread;

use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno_testkit::faults::{FromStore as _, client, runtime};
use turno_testkit::load::{self, Entry, KEPT, Load, steady_us};
use turno_testkit::{PostgresServer, eventually, eventually_async};

use crate::LONG;
use crate::actor::Actor;
use crate::fixture::Fixture;
use crate::ledger::Ledger;

/// Number of kills of a server or process.
const CRASHES: usize = 4;
/// Several instances, each with several tasks, so that calls of all kinds are in progress at the crash.
const INSTANCES: usize = 2;
const TASKS: usize = 8;
const SHARED: usize = 8;
/// Number of grants between two crashes.
const GRANTS: usize = 300;

#[test]
fn postgres_killed_under_load() {
    let server = PostgresServer::start().unwrap();
    let (ledger, url) = crashed(&server);
    judge(&ledger, &url);
}

/// The control: a server that acknowledges commits before they are written loses some of them, and the test detects that.
#[test]
fn postgres_killed_with_unwritten_commits() {
    let forgetful = [("synchronous_commit", "off"), ("wal_writer_delay", "10s")];
    let server = PostgresServer::start_with(&forgetful).unwrap();
    let (ledger, url) = crashed(&server);
    // Which complaint it is depends on the moment: a lock that is missing at the end, or one that its holder lost.
    let complaints = ledger.check(&Fixture::open(&url).held(), steady_us());
    assert_ne!(complaints, [] as [String; 0]);
}

/// Runs a load on a server that is killed repeatedly.
fn crashed(server: &PostgresServer) -> (Ledger, String) {
    let url = server.create_database();
    let running = Running::start(&url);
    for crash in 0..CRASHES {
        running.await_progress(&format!("load before crash {crash}"));
        server.kill_9().expect("the server can be killed");
        server.restart().expect("the server recovers");
    }
    running.await_progress("load after the last crash");
    (running.stop(), url)
}

/// The server repeatedly ends all connections of the library.
#[test]
fn postgres_connections_ended_under_load() {
    let url = PostgresServer::shared().create_database();
    let running = Running::start(&url);
    running.await_progress("load before the first connection is ended");
    runtime().block_on(end_connections(&url, 100));
    running.await_progress("load after the last connection was ended");
    let ledger = running.stop();
    judge(&ledger, &url);
}

/// Processes that write the same file, each with several tasks whose changes are committed together, are killed.
#[test]
fn sqlite_writers_killed_under_load() {
    let fixture = Fixture::sqlite();
    let ledger = writers_killed(&fixture);
    judge(&ledger, &fixture.url);
    let file = fixture.url.strip_prefix("sqlite:").unwrap();
    assert_eq!(integrity(Path::new(file)), "ok");
}

/// The control: a file that loses what was committed last, which is in its log, is noticed.
#[test]
fn sqlite_writers_killed_with_a_lost_log() {
    let fixture = Fixture::sqlite();
    let ledger = writers_killed(&fixture);
    let url = fixture.url.clone();
    let file = url.strip_prefix("sqlite:").unwrap();
    // Copied without its log: the fixture has the file open.
    let copy = format!("{file}.copy");
    fs::copy(file, &copy).unwrap();
    let complaints = ledger.check(
        &Fixture::open(&format!("sqlite:{copy}")).held(),
        steady_us(),
    );
    assert_ne!(complaints, [] as [String; 0]);
}

/// Runs a load from processes that are killed repeatedly.
fn writers_killed(fixture: &Fixture) -> Ledger {
    let ledger = Ledger::default();
    // Several crashes of each process: when one is killed, another one is always writing.
    thread::scope(|scope| {
        for writer in 0..3 {
            let ledger = &ledger;
            scope.spawn(move || {
                for life in 0..CRASHES {
                    one_life(&fixture.url, &format!("{writer}-{life}"), ledger);
                }
            });
        }
    });
    ledger
}

/// Runs a process from start to kill. Every response that it received before the kill is in the ledger.
fn one_life(url: &str, name: &str, ledger: &Ledger) {
    let read = |line: String| -> Entry {
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?} is no entry"))
    };
    let actor = Actor::start(url);
    actor.tell(&format!("load {name} {TASKS} {SHARED}"));
    let mut grants = 0;
    while grants < GRANTS / 3 {
        let entry = read(actor.answer());
        grants += usize::from(matches!(entry, Entry::Granted { .. }));
        ledger.note(entry);
    }
    actor.kill_9();
    for line in actor.process().lines().rest() {
        ledger.note(read(line));
    }
}

fn integrity(file: &Path) -> String {
    let connection = rusqlite::Connection::open(file).expect("the file can be opened");
    connection
        .query_row("pragma integrity_check", [], |row| row.get(0))
        .expect("the file can be checked")
}

/// Checks a run by its ledger and the state of the store.
fn judge(ledger: &Ledger, url: &str) {
    let now_us = steady_us();
    let held = Fixture::open(url).held();
    let complaints = ledger.check(&held, now_us);
    let unavailable = ledger
        .entries()
        .iter()
        .filter(|entry| **entry == Entry::Unavailable)
        .count();
    println!(
        "{} grants acknowledged, {} of them kept, {unavailable} calls answered unavailable",
        ledger.grants(0, ""),
        held.keys()
            .filter(|resource| resource.starts_with(KEPT))
            .count(),
    );
    assert!(
        complaints.is_empty(),
        "{} complaints:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}

/// Instances of the library in this process, under load.
struct Running {
    ledger: Ledger,
    stop: CancellationToken,
    instances: Vec<thread::JoinHandle<()>>,
}

impl Running {
    fn start(url: &str) -> Self {
        let (ledger, stop) = (Ledger::default(), CancellationToken::new());
        let instances = (0..INSTANCES)
            .map(|instance| {
                let (url, ledger, stop) = (url.to_owned(), ledger.clone(), stop.clone());
                let load = Load {
                    name: instance.to_string(),
                    tasks: TASKS,
                    shared: SHARED,
                };
                thread::spawn(move || {
                    runtime().block_on(async {
                        let turno = Turno::connect(&url)
                            .await
                            .expect("the store is there at first");
                        load::run(&turno, &load, &stop, move |entry| ledger.note(entry)).await;
                        turno.close().await;
                    });
                })
            })
            .collect();
        Self {
            ledger,
            stop,
            instances,
        }
    }

    /// Waits until every instance makes progress.
    #[track_caller]
    fn await_progress(&self, what: &str) {
        let from = self.ledger.len();
        eventually(LONG, what, || {
            let each = (0..INSTANCES).all(|instance| {
                let own = format!("{KEPT}{instance}/");
                self.ledger.grants(from, &own) >= TASKS
            });
            (each && self.ledger.grants(from, "") >= GRANTS).then_some(())
        });
    }

    fn stop(self) -> Ledger {
        self.stop.cancel();
        for instance in self.instances {
            instance.join().expect("an instance ends when asked to");
        }
        self.ledger
    }
}

/// Repeatedly ends all of the library's connections to a database, until `enough` were ended.
async fn end_connections(url: &str, enough: u64) {
    let client = client(url).await;
    let mut ended = 0;
    eventually_async(LONG, "enough connections to be ended", async || {
        ended += client
            .execute(
                "select pg_terminate_backend(pid)
                from pg_stat_activity
                where datname = current_database()
                  and application_name = 'turno'",
                &[],
            )
            .await
            .unwrap();
        (ended >= enough).then_some(())
    })
    .await;
}
