//! `turno serve`: the cost of HTTP, and the gain of batching.

pub mod etcd;
mod http;
mod library;
mod process;
mod wrk;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::ValueEnum;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use turno::{Batching, Turno};
use turno_server::{Options, Server};
use turno_testkit::PostgresServer;

use self::process::{Connection, Served};
use self::wrk::Load;
use crate::rate::Run;
use crate::table::Table;

/// Number of concurrent clients of the locks.
const LOCKERS: usize = 64;
/// Length of a turn, in seconds. The three measurements alternate in short turns, because the speed of a shared machine
/// varies.
const TURN: f64 = 2.0;
/// Number of concurrent clients of the inbox.
const WORKERS: usize = 8;
/// Size of a payload, in bytes.
const PAYLOAD: usize = 200;
/// Number of locks held and of connections open when the memory is measured.
const HELD: usize = 100_000;
const OPEN: usize = 1000;

const ALONE: &str = "turno serve, each request by itself";
const ETCD: &str = "etcd's lock, over its HTTP gateway";
const LIBRARY_PUSH: &str = "the library, push";
const LIBRARY_DRAIN: &str = "the library, claim + complete";

/// One part of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    Locks,
    Inbox,
    Process,
}

pub struct Bench {
    pub seconds: f64,
    pub rounds: usize,
    pub part: Option<Part>,
    /// Path of the `turno` binary, for measurements of the process.
    pub turno: Option<PathBuf>,
}

impl Bench {
    pub async fn run(&self) -> Result<()> {
        if self.wants(Part::Locks) {
            self.locks().await?;
        }
        if self.wants(Part::Inbox) {
            self.inbox().await?;
        }
        if self.wants(Part::Process) {
            self.process().await?;
        }
        Ok(())
    }

    fn wants(&self, part: Part) -> bool {
        self.part.is_none_or(|only| only == part)
    }

    async fn locks(&self) -> Result<()> {
        let database = postgres()?;
        let url = database.create_database();
        let together = Http::start(&url, Batching::Batched).await?;
        let alone = Http::start(&url, Batching::Alone).await?;
        let etcd = etcd::Etcd::start().await?;
        let lease = [etcd.lease().await?];
        let load = |name, script, port, arguments| Load {
            name,
            script,
            port,
            connections: LOCKERS,
            seconds: TURN,
            arguments,
        };
        let pair = include_str!("serve/pair.lua");
        let mut rates = [Vec::new(), Vec::new(), Vec::new()];
        let turns = self.rounds * (self.seconds / TURN).ceil() as usize;
        for _ in 0..turns {
            rates[0].push(load("alone", pair, alone.port, &[]).rate().await?);
            let gateway = include_str!("serve/etcd.lua");
            rates[1].push(load("etcd", gateway, etcd.port, &lease).rate().await?);
            rates[2].push(load("together", pair, together.port, &[]).rate().await?);
        }
        let [alone, etcd, together] = rates.map(median);
        let title = "Locks over HTTP on PostgreSQL, wrk with 64 connections: acquire + release";
        let mut table = Table::new(title, "pairs/s");
        table.add(ALONE, alone);
        table.add(ETCD, etcd);
        table.against("turno serve", together, ALONE, Some(4.0));
        table.against("turno serve", together, ETCD, Some(3.0));
        Ok(())
    }

    async fn inbox(&self) -> Result<()> {
        let database = postgres()?;
        let url = database.create_database();
        let http = Http::start(&url, Batching::Batched).await?;
        let turno = &http.turno;
        let run = Run::new(self.seconds);
        let bytes = [PAYLOAD.to_string()];
        let load = |name, script, arguments| Load {
            name,
            script,
            port: http.port,
            connections: WORKERS,
            seconds: self.seconds,
            arguments,
        };
        let mut rates = [const { Vec::new() }; 4];
        for _ in 0..self.rounds {
            rates[0].push(library::push(turno, &run, WORKERS, PAYLOAD).await?);
            let push = include_str!("serve/push.lua");
            rates[1].push(load("push", push, &bytes[..]).rate().await?);
            // Enough items that neither runs out of them.
            let items = (60_000.0 * self.seconds) as usize;
            library::fill(turno, "library", items, PAYLOAD).await?;
            rates[2].push(library::drain(turno, &run, WORKERS).await?);
            library::fill(turno, "http", items / 2, PAYLOAD).await?;
            let drain = include_str!("serve/drain.lua");
            rates[3].push(load("drain", drain, &[]).rate().await?);
        }
        let [library_push, push, library_drain, drain] = rates.map(median);
        let title = "The inbox over HTTP on PostgreSQL, batches of 100, wrk with 8 connections";
        let mut table = Table::new(title, "items/s");
        table.add(LIBRARY_PUSH, library_push);
        table.against("turno serve, push", push, LIBRARY_PUSH, Some(0.5));
        table.add(LIBRARY_DRAIN, library_drain);
        table.against(
            "turno serve, claim + complete",
            drain,
            LIBRARY_DRAIN,
            Some(0.5),
        );
        Ok(())
    }

    async fn process(&self) -> Result<()> {
        let Some(turno) = &self.turno else {
            println!(
                "\nThe program itself: name it with --turno, `cargo build --profile dist` makes it"
            );
            return Ok(());
        };
        let folder = tempfile::tempdir()?;
        let mut starts = Vec::new();
        for _ in 0..self.rounds {
            let folder = tempfile::tempdir()?;
            let served = Served::start(turno, folder.path()).await?;
            starts.push(served.started.as_secs_f64() * 1000.0);
        }
        let served = Served::start(turno, folder.path()).await?;
        let mut connections = Vec::new();
        for _ in 0..OPEN {
            connections.push(Connection::open(served.port).await?);
        }
        let mut tasks = tokio::task::JoinSet::new();
        for (place, mut connection) in connections.into_iter().enumerate() {
            tasks.spawn(async move {
                for number in (place..HELD).step_by(OPEN) {
                    connection.hold(number).await?;
                }
                anyhow::Ok(connection)
            });
        }
        let mut open = Vec::new();
        while let Some(connection) = tasks.join_next().await {
            open.push(connection??);
        }
        let resident = served.resident()?;
        let mut table = Table::new(
            "turno serve, embedded store: from its start to its first answer",
            "ms",
        );
        table.limited("a new file", median(starts), 300.0);
        let mut table = Table::new("turno serve, embedded store: memory", "MB");
        table.limited("100,000 held locks, 1,000 open connections", resident, 60.0);
        drop(open);
        Ok(())
    }
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Starts a server with durable commits, as in all benchmarks.
fn postgres() -> Result<PostgresServer> {
    PostgresServer::start_with(&[
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "on"),
        ("shared_buffers", "512MB"),
        ("max_wal_size", "8GB"),
        ("checkpoint_timeout", "30min"),
    ])
    .context("PostgreSQL does not start")
}

/// The HTTP server, in this process.
struct Http {
    port: u16,
    turno: Turno,
    task: JoinHandle<()>,
}

impl Http {
    async fn start(url: &str, batching: Batching) -> Result<Self> {
        let turno = Turno::builder()
            .batching(batching)
            .connections(16)
            .connect(url)
            .await?;
        let server = Server::new(turno.clone(), Options::default());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let task = tokio::spawn(async move {
            if let Err(error) = server.run(listener, std::future::pending()).await {
                eprintln!("a server ended: {error}");
            }
        });
        Ok(Http { port, turno, task })
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        self.task.abort();
    }
}
