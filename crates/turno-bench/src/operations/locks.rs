//! A pair of calls: acquire and release.

use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use deadpool_postgres::Pool;
use rslock::LockManager;
use turno::Turno;

use super::servers::pool;
use super::{Operation, POOL, Servers, Subject};
use crate::locks::TTL;
use crate::locks::postgres::{BARE_ACQUIRE, BARE_RELEASE_HISTORY, create_tables, try_advisory};
use crate::queries::query;

/// Number of resources with a row, which are locked in turn: more than are locked at the same time.
const RESOURCES: u64 = 20_000;

fn resource(number: u64) -> String {
    format!("PRESTAMO/{}", number % RESOURCES)
}

pub async fn turno(url: &str) -> Result<Subject> {
    let turno = Turno::builder().connections(POOL).connect(url).await?;
    // Each resource has its row before the measurement.
    let client = pool(url)?.get().await?;
    let resources = i32::try_from(RESOURCES)?;
    client
        .execute(query("operations_fill_locks"), &[&resources])
        .await?;
    client.batch_execute("vacuum analyze turno.lock").await?;
    Ok(Subject::new("turno", TurnoLock(turno)))
}

struct TurnoLock(Turno);

#[async_trait]
impl Operation for TurnoLock {
    async fn run(&self, number: u64) -> Result<Instant> {
        let lock = self.0.lock(resource(number)).ttl(TTL);
        let lease = lock.acquire().await?.acquired();
        lease.context("the resource is busy")?.release().await?;
        Ok(Instant::now())
    }

    async fn close(&self) -> Result<()> {
        self.0.close().await;
        Ok(())
    }
}

/// Two updates of a row, and the row of the history.
pub async fn hand_written(url: &str) -> Result<Subject> {
    // The table is a copy of Turno's.
    Turno::connect(url).await?.close().await;
    let pool = pool(url)?;
    create_tables(&*pool.get().await?, RESOURCES).await?;
    Ok(Subject::new(
        "bare statements, with the history row",
        Bare(pool),
    ))
}

struct Bare(Pool);

#[async_trait]
impl Operation for Bare {
    async fn run(&self, number: u64) -> Result<Instant> {
        let (resource, owner) = (resource(number), format!("{number:032x}"));
        let client = self.0.get().await?;
        let acquire = client.prepare_cached(BARE_ACQUIRE).await?;
        let acquired = client.query_opt(&acquire, &[&resource, &owner]).await?;
        acquired.context("the resource is busy")?;
        let release = client.prepare_cached(BARE_RELEASE_HISTORY).await?;
        client.execute(&release, &[&resource, &owner]).await?;
        Ok(Instant::now())
    }
}

/// Redis if it is there, and advisory locks if not.
pub async fn peer(servers: &Servers) -> Result<Subject> {
    match servers.redis() {
        Some(redis) => {
            let manager = LockManager::new(vec![redis.url()]);
            Ok(Subject::new("Redis, rslock", Redis(manager)))
        }
        None => {
            let pool = pool(&servers.postgres.create_database())?;
            Ok(Subject::new("pg_advisory_lock", Advisory(pool)))
        }
    }
}

/// Number of times that a lock of Redis is tried again.
const RETRIES: u32 = 3;

/// `SET NX PX`, then a script that compares and deletes.
struct Redis(LockManager);

#[async_trait]
impl Operation for Redis {
    async fn run(&self, number: u64) -> Result<Instant> {
        let mut attempts = 0;
        loop {
            // If only the answer came too late, the last attempt has locked its resource.
            let resource = format!("PRESTAMO/{number}/{attempts}");
            match self.0.lock(resource.as_str(), TTL).await {
                Ok(lock) => {
                    self.0.unlock(&lock).await;
                    return Ok(Instant::now());
                }
                // The client gives up after half a second; an application asks again.
                Err(_) if attempts < RETRIES => attempts += 1,
                Err(error) => bail!("Redis did not lock: {error}"),
            }
        }
    }
}

struct Advisory(Pool);

#[async_trait]
impl Operation for Advisory {
    async fn run(&self, number: u64) -> Result<Instant> {
        let key = i64::try_from(number)?;
        let client = self.0.get().await?;
        ensure!(try_advisory(&client, key).await?, "the key is busy");
        Ok(Instant::now())
    }
}
