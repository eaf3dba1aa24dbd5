//! PostgreSQL, durable (fsync and synchronous_commit on).

use anyhow::Result;
use turno::Turno;
use turno_testkit::PostgresServer;

use super::peers::{is_installed, measure, print_settings};
use super::work;
use crate::table::Table;

const PEERS: &str = "turno-bench-peers";
/// Number of workers in the drain, and how many items each prefetches.
const WORKERS: usize = 2;
const PREFETCH: usize = 1000;
const MANY: usize = 2_000_000;

const PUSHING: [&str; 8] = [
    "pgmq",
    "graphile_worker",
    "apalis-postgres",
    "awa",
    "pg-boss",
    "bullmq",
    "procrastinate",
    "skip_locked",
];
const ALL: [&str; 9] = [
    "pgmq",
    "graphile_worker",
    "apalis-postgres",
    "awa",
    "pg-boss",
    "bullmq",
    "procrastinate",
    "skip_locked",
    "skip_locked_tx",
];
/// Peers that complete each item with a statement of its own, even in the drain. A fifth of the items takes long enough.
const ITEM_BY_ITEM: [&str; 2] = ["bullmq", "procrastinate"];

/// Options of the benchmark.
pub struct Bench {
    pub items: usize,
    /// Number of measurements of each rate. The result is the median.
    pub rounds: usize,
    /// Without the peers.
    pub alone: bool,
    pub part: Option<Part>,
}

/// One part of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Pushing and draining in batches.
    Bulk,
    /// With groups, compared with none.
    Groups,
    /// One at a time.
    Single,
    /// A backlog of millions.
    Backlog,
    /// From push to handler.
    Latency,
}

impl Bench {
    pub async fn run(&self) -> Result<()> {
        let server = PostgresServer::start_with(&[
            ("fsync", "on"),
            ("full_page_writes", "on"),
            ("synchronous_commit", "on"),
            ("shared_buffers", "1GB"),
            ("max_wal_size", "16GB"),
            ("checkpoint_timeout", "30min"),
        ])?;
        let wanted = |part| self.part.is_none_or(|only| only == part);
        for peer in ALL {
            if !self.alone && !is_installed(peer) {
                println!("  {peer} is not installed and left out");
            }
        }
        if wanted(Part::Bulk) {
            self.bulk(&server).await?;
        }
        if wanted(Part::Groups) {
            self.groups(&server).await?;
        }
        if wanted(Part::Single) {
            self.single(&server).await?;
        }
        if wanted(Part::Backlog) {
            backlog(&fresh(&server).await?).await?;
        }
        if wanted(Part::Latency) {
            self.latency(&server).await?;
        }
        print_settings();
        Ok(())
    }

    /// Returns a peer's rate: the median of the rounds.
    fn peer(&self, server: &PostgresServer, peer: &str, mode: &str) -> Option<f64> {
        self.consumers(server, peer, mode, self.items, 4)
    }

    fn consumers(
        &self,
        server: &PostgresServer,
        peer: &str,
        mode: &str,
        items: usize,
        many: usize,
    ) -> Option<f64> {
        let rates = (0..self.rounds)
            .map(|_| self.once(server, peer, mode, items, many))
            .collect::<Option<Vec<_>>>()?;
        Some(work::median(rates))
    }

    /// Runs one measurement of a peer, on its own database.
    fn once(
        &self,
        server: &PostgresServer,
        peer: &str,
        mode: &str,
        items: usize,
        many: usize,
    ) -> Option<f64> {
        if self.alone || !is_installed(peer) {
            return None;
        }
        measure(PEERS, peer, mode, &server.create_database(), items, many)
            .map(|m| m.median_ms.unwrap_or(m.per_second))
    }

    async fn bulk(&self, server: &PostgresServer) -> Result<()> {
        let (mut pushed, mut drained, mut held) = (Vec::new(), Vec::new(), Vec::new());
        let mut peers: Vec<(&str, &str, Vec<f64>)> = Vec::new();
        peers.extend(PUSHING.iter().map(|name| (*name, "push", Vec::new())));
        peers.extend(ALL.iter().map(|name| (*name, "drain", Vec::new())));
        // Alternate the measurements, because the speed of a machine varies over time.
        for _ in 0..self.rounds {
            for (name, mode, rates) in &mut peers {
                let item_by_item = *mode == "drain" && ITEM_BY_ITEM.contains(name);
                let items = self.items / if item_by_item { 5 } else { 1 };
                rates.extend(self.once(server, name, mode, items, 4));
            }
            let inbox = fresh(server).await?.inbox("work");
            pushed.push(work::push(&inbox, self.items).await?);
            drained.push(work::drain(&inbox, self.items, WORKERS, PREFETCH).await?);
            held.push(under_snapshot(server, self.items).await?);
        }
        let of = |wanted: &str, table: &mut Table| {
            for (name, mode, rates) in &peers {
                if *mode == wanted && !rates.is_empty() {
                    table.add(name, work::median(rates.clone()));
                }
            }
        };
        let mut table = Table::new("Inbox on PostgreSQL: pushing, many at a time", "items/s");
        of("push", &mut table);
        table.against("turno", work::median(pushed), "pgmq", Some(1.0));

        let mut table = Table::new(
            "Inbox on PostgreSQL: draining, until durably complete",
            "items/s",
        );
        of("drain", &mut table);
        let rate = work::median(drained);
        table.against("turno", rate, "graphile_worker", Some(4.0));
        table.against("turno", rate, "pgmq", Some(2.5));
        table.against(
            "turno, a snapshot held open for four drains",
            work::median(held),
            "turno",
            Some(0.9),
        );
        for name in ["skip_locked", "graphile_worker", "pgmq", "awa"] {
            if let Some(rate) = self.peer_under_snapshot(server, name).await? {
                let name = format!("{name}, a snapshot held open, four times the items");
                table.against(&name, rate, name.split(',').next().unwrap_or(&name), None);
            }
        }
        for workers in [8, 64] {
            let inbox = fresh(server).await?.inbox("work");
            let mut rounds = Vec::new();
            for _ in 0..self.rounds {
                // More items, because starting and stopping this many workers takes time.
                let items = self.items * 4;
                work::push(&inbox, items).await?;
                rounds.push(work::drain(&inbox, items, workers, 100).await?);
            }
            table.against(
                &format!("turno, {workers} workers, 100 ahead each"),
                work::median(rounds),
                "turno, 8 workers, 100 ahead each",
                Some(1.0),
            );
        }
        Ok(())
    }

    /// Measures a peer's drain with a snapshot held open in its database.
    async fn peer_under_snapshot(
        &self,
        server: &PostgresServer,
        peer: &str,
    ) -> Result<Option<f64>> {
        if self.alone {
            return Ok(None);
        }
        let url = server.create_database();
        let (mut holder, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
        let connection = tokio::spawn(connection);
        let transaction = hold(&mut holder).await?;
        let measured = measure(PEERS, peer, "drain", &url, self.items * 4, 4);
        drop(transaction);
        drop(holder);
        connection.await??;
        Ok(measured.map(|measured| measured.per_second))
    }

    async fn groups(&self, server: &PostgresServer) -> Result<()> {
        let mut table = Table::new(
            "Inbox on PostgreSQL: draining, with groups (one at a time, in order)",
            "items/s",
        );
        for (name, groups) in [
            ("no groups", 0),
            ("10,000 groups", 10_000),
            ("1,000 groups", 1000),
        ] {
            let mut rates = Vec::new();
            for _ in 0..self.rounds {
                let inbox = fresh(server).await?.inbox("work");
                work::push_grouped(&inbox, self.items, groups).await?;
                rates.push(work::drain(&inbox, self.items, WORKERS, PREFETCH).await?);
            }
            let floor = (groups > 0).then_some(0.6);
            table.against(name, work::median(rates), "no groups", floor);
        }
        Ok(())
    }

    async fn single(&self, server: &PostgresServer) -> Result<()> {
        for consumers in [1, 8, 64] {
            let mut table = Table::new(
                &format!("Inbox on PostgreSQL: one item at a time, consumers: {consumers}"),
                "items/s",
            );
            let few = self.items / if consumers == 1 { 25 } else { 5 };
            let mut best = ("none", 0.0);
            for name in ALL {
                let rate = self.consumers(server, name, "single", few, consumers);
                table.maybe(name, rate);
                if !name.starts_with("skip_locked") && rate.is_some_and(|rate| rate > best.1) {
                    best = (name, rate.unwrap_or_default());
                }
            }
            let (mut calls, mut workers) = (Vec::new(), Vec::new());
            for _ in 0..self.rounds {
                let inbox = fresh(server).await?.inbox("single");
                work::push(&inbox, few).await?;
                calls.push(work::single(&inbox, few, consumers).await?);
                work::push(&inbox, few).await?;
                workers.push(work::one_handler(&inbox, few, consumers).await?);
            }
            // The loop with a lease, as Turno has: one that keeps its transaction open while it works promises less.
            let floor = if consumers == 1 { 1.0 } else { 1.5 };
            for (name, rates) in [
                ("turno", calls),
                ("turno, workers with one handler each", workers),
            ] {
                let rate = work::median(rates);
                table.against(name, rate, "skip_locked", Some(floor));
                table.against(name, rate, best.0, Some(2.0));
            }
        }
        Ok(())
    }

    async fn latency(&self, server: &PostgresServer) -> Result<()> {
        let mut table = Table::new(
            "Inbox on PostgreSQL: an idle worker, from push to handler, median",
            "ms",
        );
        for name in PUSHING {
            table.maybe(name, self.peer(server, name, "latency"));
        }
        let turno = fresh(server).await?;
        table.limited("turno", work::latency(&turno, "idle").await?, 10.0);
        Ok(())
    }
}

async fn fresh(server: &PostgresServer) -> Result<Turno> {
    Ok(Turno::connect(&server.create_database()).await?)
}

/// Measures the drain while another session holds a snapshot open for the whole run.
async fn under_snapshot(server: &PostgresServer, items: usize) -> Result<f64> {
    let url = server.create_database();
    let turno = Turno::connect(&url).await?;
    let (mut holder, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
    let connection = tokio::spawn(connection);
    let transaction = hold(&mut holder).await?;
    let inbox = turno.inbox("work");
    // Not the first items of a table, which has no dead rows yet.
    work::push(&inbox, items * 3).await?;
    work::drain(&inbox, items * 3, WORKERS, PREFETCH).await?;
    work::push(&inbox, items).await?;
    let rate = work::drain(&inbox, items, WORKERS, PREFETCH).await?;
    drop(transaction);
    drop(holder);
    connection.await??;
    Ok(rate)
}

/// Opens a transaction with a snapshot. Rows that die after it cannot be vacuumed.
async fn hold(holder: &mut tokio_postgres::Client) -> Result<tokio_postgres::Transaction<'_>> {
    let transaction = holder
        .build_transaction()
        .isolation_level(tokio_postgres::IsolationLevel::RepeatableRead)
        .start()
        .await?;
    transaction.query_one("select 1", &[]).await?;
    Ok(transaction)
}

/// Measures costs as the number of rows grows.
async fn backlog(turno: &Turno) -> Result<()> {
    let mut table = Table::new(
        "Inbox on PostgreSQL: one claim of one item, median, as the backlog grows",
        "ms",
    );
    let small = turno.inbox("small");
    work::push(&small, 10_000).await?;
    let few = work::claim_ms(&small).await?;
    table.add("a backlog of 10,000", few);
    let large = turno.inbox("large");
    work::push(&large, MANY).await?;
    let many = work::claim_ms(&large).await?;
    table.limited("a backlog of 2,000,000", many, few * 1.2);
    table.limited(
        "statistics, 2,000,000 pending",
        work::stats_ms(&large).await?,
        5.0,
    );
    work::drain(&large, MANY - 200, WORKERS, PREFETCH).await?;
    table.limited(
        "statistics, 2,000,000 completed",
        work::stats_ms(&large).await?,
        5.0,
    );
    Ok(())
}
