//! PostgreSQL, durable (fsync and synchronous_commit on).

use anyhow::Result;
use turno::Turno;
use turno_testkit::PostgresServer;

use super::peers::measure;
use super::work;
use crate::table::Table;

const PEERS: &str = "turno-bench-peers";
/// Workers of the runtime in the drain, and what each fetches ahead.
const WORKERS: usize = 2;
const PREFETCH: usize = 1000;
const MANY: usize = 2_000_000;

pub async fn run(items: usize) -> Result<()> {
    let server = PostgresServer::start_with(&[
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "on"),
        ("shared_buffers", "1GB"),
        ("max_wal_size", "16GB"),
        ("checkpoint_timeout", "30min"),
    ])?;
    let peer = |peer: &str, mode: &str| {
        measure(PEERS, peer, mode, &server.create_database(), items).map(|m| m.per_second)
    };
    let fresh = async || Turno::connect(&server.create_database()).await;

    let mut table = Table::new("Inbox on PostgreSQL: pushing, many at a time", "items/s");
    for name in ["pgmq", "graphile_worker", "apalis-postgres", "skip_locked"] {
        table.maybe(name, peer(name, "push"));
    }
    let turno = fresh().await?;
    let inbox = turno.inbox("work");
    table.against("turno", work::push(&inbox, items).await?, "pgmq", Some(1.0));

    let mut table = Table::new(
        "Inbox on PostgreSQL: draining, until durably complete",
        "items/s",
    );
    for name in [
        "pgmq",
        "graphile_worker",
        "apalis-postgres",
        "skip_locked",
        "skip_locked_tx",
    ] {
        table.maybe(name, peer(name, "drain"));
    }
    let rate = work::drain(&inbox, items, WORKERS, PREFETCH).await?;
    table.against("turno", rate, "graphile_worker", Some(4.0));
    table.against("turno", rate, "pgmq", Some(2.0));
    held(&server, items, rate, &mut table).await?;
    workers(&turno, items, &mut table).await?;

    let mut table = Table::new(
        "Inbox on PostgreSQL: 8 consumers, one item at a time",
        "items/s",
    );
    let few = items / 5;
    let mut best = ("nobody", 0.0);
    for name in [
        "pgmq",
        "graphile_worker",
        "apalis-postgres",
        "skip_locked",
        "skip_locked_tx",
    ] {
        let rate =
            measure(PEERS, name, "single", &server.create_database(), few).map(|m| m.per_second);
        table.maybe(name, rate);
        if rate.is_some_and(|rate| rate > best.1) {
            best = (name, rate.unwrap_or_default());
        }
    }
    let inbox = turno.inbox("single");
    work::push(&inbox, few).await?;
    table.against(
        "turno",
        work::single(&inbox, few, 8).await?,
        best.0,
        Some(1.5),
    );

    grown(&turno).await?;

    let mut table = Table::new(
        "Inbox on PostgreSQL: an idle worker, from push to handler, median",
        "ms",
    );
    for name in ["graphile_worker", "apalis-postgres", "pgmq", "skip_locked"] {
        let database = server.create_database();
        table.maybe_ms(
            name,
            measure(PEERS, name, "latency", &database, items).and_then(|m| m.median_ms),
        );
    }
    table.ms("turno", work::latency(&turno, "idle").await?, 10.0);
    Ok(())
}

/// The same drain with a snapshot held open elsewhere for the whole run.
async fn held(server: &PostgresServer, items: usize, rate: f64, table: &mut Table) -> Result<()> {
    let url = server.create_database();
    let turno = Turno::connect(&url).await?;
    let (mut holder, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
    let connection = tokio::spawn(connection);
    let transaction = holder
        .build_transaction()
        .isolation_level(tokio_postgres::IsolationLevel::RepeatableRead)
        .start()
        .await?;
    transaction
        .query_one("select count(*) from turno.inbox_queue", &[])
        .await?;
    let inbox = turno.inbox("work");
    // Not the first items of a table, which has no dead rows yet.
    work::push(&inbox, items * 3).await?;
    work::drain(&inbox, items * 3, WORKERS, PREFETCH).await?;
    work::push(&inbox, items).await?;
    let under = work::drain(&inbox, items, WORKERS, PREFETCH).await?;
    table.ratio(
        "turno, a snapshot held open for four drains",
        under,
        under / rate,
        0.9,
    );
    drop(transaction);
    drop(holder);
    connection.await??;
    Ok(())
}

async fn workers(turno: &Turno, items: usize, table: &mut Table) -> Result<()> {
    let mut rates = Vec::new();
    for workers in [8, 64] {
        let inbox = turno.inbox(format!("workers{workers}"));
        work::push(&inbox, items).await?;
        let rate = work::drain(&inbox, items, workers, 100).await?;
        table.add(&format!("turno, {workers} workers, 100 ahead each"), rate);
        rates.push(rate);
    }
    table.ratio(
        "turno, 64 workers beside 8",
        rates[1],
        rates[1] / rates[0],
        1.0,
    );
    Ok(())
}

/// Costs as rows grow.
async fn grown(turno: &Turno) -> Result<()> {
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
    table.ratio("a backlog of 2,000,000", many, few / many, 1.0 / 1.2);
    table.ms(
        "statistics, 2,000,000 pending",
        work::stats_ms(&large).await?,
        5.0,
    );
    work::drain(&large, MANY - 200, WORKERS, PREFETCH).await?;
    table.ms(
        "statistics, 2,000,000 completed",
        work::stats_ms(&large).await?,
        5.0,
    );
    Ok(())
}
