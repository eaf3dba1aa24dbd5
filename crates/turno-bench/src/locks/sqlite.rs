//! SQLite with full durability: one writer, which commits concurrent operations together.

use std::time::{Duration, Instant};

use anyhow::Result;
use turno::Turno;

use super::{TTL, any_resource};
use crate::rate::{AsyncWork, Run};
use crate::table::Table;

const ALONE: &str = "one task: a commit for every operation";
const SMALL: &str = "one task, 1,000 rows";

pub async fn run(run: &Run) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("bench.db");
    let turno = Turno::connect(&format!("sqlite:{}", file.display())).await?;
    fill(&file, 1000, "PRESTAMO")?;

    let mut table = Table::new(
        "Locks on SQLite, synchronous = full: acquire + release",
        "pairs/s",
    );
    table.add(
        "bare rusqlite, the same two row changes and the history row",
        bare(&file)?,
    );
    let alone = run.rate(vec![turno.clone()], Pair).await?;
    table.against(
        ALONE,
        alone,
        "bare rusqlite, the same two row changes and the history row",
        Some(0.8),
    );
    for tasks in [8, 64, 256] {
        let rate = run.rate(vec![turno.clone(); tasks], Pair).await?;
        table.against(
            &format!("{tasks} tasks, group commit"),
            rate,
            ALONE,
            (tasks == 64).then_some(5.0),
        );
    }

    let mut table = Table::new(
        "Locks on SQLite: the cost of an acquire as rows grow",
        "pairs/s",
    );
    table.add(SMALL, run.rate(vec![turno.clone()], Pair).await?);
    fill(&file, 999_000, "OTHER")?;
    table.against(
        "one task, 1,000,000 rows",
        run.rate(vec![turno.clone()], Pair).await?,
        SMALL,
        Some(1.0 / 1.2),
    );
    turno.close().await;
    Ok(())
}

fn fill(file: &std::path::Path, rows: u32, name: &str) -> Result<()> {
    let db = rusqlite::Connection::open(file)?;
    db.busy_timeout(Duration::from_secs(30))?;
    db.execute(
        "with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < ?1)
         insert into turno_lock (resource, token, mode, owner, holds, acquired_at, expires_at)
         select ?2 || '/' || i, 1, 'exclusive', '', 0, 0, 0 from n",
        (rows, name),
    )?;
    db.execute_batch("pragma wal_checkpoint(truncate)")?;
    Ok(())
}

/// The limit of SQLite itself, with one commit per operation and without Turno's threads.
fn bare(file: &std::path::Path) -> Result<f64> {
    let db = rusqlite::Connection::open(file)?;
    db.execute_batch("pragma synchronous = full; create table bare as select * from turno_lock; create unique index bare_key on bare (resource); create table bare_history as select * from turno_lock_history")?;
    let begin = Instant::now();
    let mut pairs = 0;
    while begin.elapsed() < Duration::from_secs(3) {
        let resource = any_resource();
        db.prepare_cached("update bare set token = token + 1, holds = 1, owner = 'o', expires_at = 1 where resource = ?1 and holds = 0")?
            .execute([&resource])?;
        db.execute_batch("begin immediate")?;
        db.prepare_cached("update bare set holds = 0 where resource = ?1 and owner = 'o'")?
            .execute([&resource])?;
        db.prepare_cached("insert into bare_history (event, resource) values ('released', ?1)")?
            .execute([&resource])?;
        db.execute_batch("commit")?;
        pairs += 1;
    }
    Ok(f64::from(pairs) / begin.elapsed().as_secs_f64())
}

#[derive(Clone)]
struct Pair;

impl AsyncWork<Turno> for Pair {
    async fn once(&self, turno: &mut Turno) -> Result<()> {
        if let Some(lease) = turno
            .lock(any_resource())
            .ttl(TTL)
            .acquire()
            .await?
            .acquired()
        {
            lease.release().await?;
        }
        Ok(())
    }
}
