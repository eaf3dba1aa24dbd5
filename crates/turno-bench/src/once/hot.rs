//! Many callers with one key: they wait for its answer, with little load on the database.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::sync::Barrier;
use turno::Turno;
use turno_testkit::PostgresServer;

use crate::table::Table;

const CALLERS: usize = 100;
/// Duration of the work that they wait for.
const WORK: Duration = Duration::from_secs(10);

pub async fn run(server: &PostgresServer) -> Result<()> {
    let url = server.create_database();
    let turno = Turno::connect(&url).await?;
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    let claim = turno.once("hot").begin().await?.fresh();
    let claim = claim.expect("the key is new");
    let renewal = claim.auto_extend();
    let before = transactions(&client).await?;
    let ready = std::sync::Arc::new(Barrier::new(CALLERS + 1));
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        let (turno, ready) = (turno.clone(), ready.clone());
        callers.push(tokio::spawn(async move {
            ready.wait().await;
            let work = async || Ok::<_, std::convert::Infallible>(0_u32);
            let answer = turno.once("hot").wait(2 * WORK).run(work).await;
            (answer.map_err(|error| error.to_string()), Instant::now())
        }));
    }
    ready.wait().await;
    tokio::time::sleep(WORK).await;
    let waiting = transactions(&client).await? - before;
    claim.complete(&7_u32).await?;
    let completed = Instant::now();
    drop(renewal);
    let mut last = Duration::ZERO;
    for caller in callers {
        let (answer, at) = caller.await?;
        anyhow::ensure!(answer == Ok(7), "a caller got {answer:?}");
        last = last.max(at.saturating_duration_since(completed));
    }
    let after = transactions(&client).await? - before - waiting;
    turno.close().await;
    let title = format!("Once, {CALLERS} callers wait for one answer on PostgreSQL");
    let mut table = Table::new(&title, "transactions");
    table.add("each second while they wait", waiting / WORK.as_secs_f64());
    table.add("when the answer is there", after);
    let title = format!("{title}: until the last of them has it");
    let mut table = Table::new(&title, "ms");
    table.add("turno", last.as_secs_f64() * 1000.0);
    Ok(())
}

/// Returns the number of transactions of this database. The statistics are delayed, so they are read until they do not change.
async fn transactions(client: &tokio_postgres::Client) -> Result<f64> {
    // A server process reports its statistics at most once per second.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let read = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()";
    Ok(client.query_one(read, &[]).await?.get::<_, i64>(0) as f64)
}
