//! PostgreSQL, durable (fsync and synchronous_commit on), 16 clients.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio_postgres::{Client, NoTls, Statement};
use turno::Turno;
use turno_testkit::{PostgresServer, RedisServer};

use super::{TTL, any_resource};
use crate::queries::query;
use crate::rate::{AsyncWork, Run};
use crate::serve::etcd::{Etcd, Session};
use crate::table::Table;

const CLIENTS: usize = 16;

const PAIR: &str = "bare statements, the same two row changes";
const PAIR_HISTORY: &str = "bare statements, with the history row";
const READ: &str = "a plain indexed read";
const SMALL: &str = "acquire + release, 1,000 rows";

pub async fn run(run: &Run) -> Result<()> {
    let server = PostgresServer::start_with(&[
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "on"),
        ("shared_buffers", "512MB"),
        ("max_wal_size", "8GB"),
        ("checkpoint_timeout", "30min"),
    ])?;
    let url = server.create_database();
    let turno = Turno::builder().connections(CLIENTS).connect(&url).await?;
    // Each resource exists before the measurements, in Turno's table and in the bare one.
    let admin = connect(&url).await?;
    create_tables(&admin, super::RESOURCES as u64).await?;

    let mut table = Table::new(
        "Locks on PostgreSQL, 16 clients: acquire + release",
        "pairs/s",
    );
    table.add(
        PAIR,
        run.rate(prepared(&url, BARE_ACQUIRE, BARE_RELEASE).await?, BarePair)
            .await?,
    );
    table.against(
        PAIR_HISTORY,
        run.rate(
            prepared(&url, BARE_ACQUIRE, BARE_RELEASE_HISTORY).await?,
            BarePair,
        )
        .await?,
        PAIR,
        None,
    );
    let ours = run.rate(vec![turno.clone(); CLIENTS], TurnoPair).await?;
    table.against("turno", ours, PAIR, Some(0.8));
    table.against("turno", ours, PAIR_HISTORY, None);
    table.against(
        "ShedLock's statements (no token, no history)",
        run.rate(
            prepared(&url, SHEDLOCK_ACQUIRE, SHEDLOCK_RELEASE).await?,
            ShedLock,
        )
        .await?,
        PAIR,
        None,
    );
    table.against(
        "pg_advisory_lock (no lease, no token, not durable)",
        run.rate(clients(&url).await?, Advisory).await?,
        PAIR,
        None,
    );
    match RedisServer::start() {
        Ok(redis) => {
            let manager = rslock::LockManager::new(vec![redis.url()]);
            let rate = run
                .rate((0..CLIENTS).map(|_| manager.clone()).collect(), Redis)
                .await?;
            table.against("Redis, rslock (not durable, no token)", rate, PAIR, None);
        }
        Err(error) => println!("  Redis is not there: {error:#}"),
    }
    match Etcd::start().await {
        Ok(etcd) => {
            let mut sessions = Vec::new();
            for _ in 0..CLIENTS {
                sessions.push(etcd.session().await?);
            }
            let rate = run.rate(sessions, EtcdPair).await?;
            table.against("etcd, over its HTTP gateway", rate, PAIR, None);
        }
        Err(error) => println!("  etcd is not there: {error:#}"),
    }

    let mut table = Table::new("Locks on PostgreSQL, 16 clients: busy answers", "answers/s");
    let held = turno
        .lock("HELD")
        .ttl(Duration::from_secs(3600))
        .user("1")
        .acquire()
        .await?
        .acquired()
        .context("HELD is free")?;
    let mut readers = Vec::new();
    for client in clients(&url).await? {
        let read = client.prepare("select owner, acquired_at, expires_at, \"user\", service, description from turno.lock where resource = $1").await?;
        readers.push((client, read));
    }
    table.add(READ, run.rate(readers, Read).await?);
    table.against(
        "turno",
        run.rate(vec![turno.clone(); CLIENTS], TurnoBusy).await?,
        READ,
        Some(0.95),
    );
    held.release().await?;

    let mut table = Table::new(
        "Locks on PostgreSQL, one client: the cost of an acquire as rows grow",
        "pairs/s",
    );
    table.add(SMALL, run.rate(vec![turno.clone()], TurnoPair).await?);
    admin
        .batch_execute(
            "insert into turno.lock (resource, token, mode, owner, holds, acquired_at, expires_at)
             select 'OTHER/' || g, 1, 'exclusive', '', 0, now(), now() from generate_series(1, 999000) g",
        )
        .await?;
    admin.batch_execute("vacuum analyze turno.lock").await?;
    admin.batch_execute("checkpoint").await?;
    table.against(
        "acquire + release, 1,000,000 rows",
        run.rate(vec![turno.clone()], TurnoPair).await?,
        SMALL,
        Some(1.0 / 1.2),
    );
    turno.close().await;
    Ok(())
}

/// Creates rows for this many resources in Turno's table, and tables for the statements that it is compared with.
pub async fn create_tables(admin: &Client, resources: u64) -> Result<()> {
    let create = query("locks_create").replace(":resources", &resources.to_string());
    admin.batch_execute(&create).await?;
    admin.batch_execute("vacuum analyze").await?;
    Ok(())
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn clients(url: &str) -> Result<Vec<Client>> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(connect(url).await?);
    }
    Ok(clients)
}

pub const BARE_ACQUIRE: &str = "update bare set token = token + 1, owner = $2, holds = 1, acquired_at = clock_timestamp(), \
    expires_at = clock_timestamp() + interval '30 seconds' \
    where resource = $1 and (holds = 0 or expires_at <= clock_timestamp()) returning token, expires_at";
const BARE_RELEASE: &str = "update bare set holds = 0 where resource = $1 and owner = $2";
pub const BARE_RELEASE_HISTORY: &str = "with u as (update bare set holds = 0 where resource = $1 and owner = $2 returning *) \
    insert into bare_history (event, resource, token, mode, owner, acquired_at, expires_at) \
    select 'released', resource, token, mode, owner, acquired_at, expires_at from u";

// What ShedLock's JDBC provider sends with the time of the database. It inserts a row only for a lock that its process has not
// used yet, so all rows exist.
const SHEDLOCK_ACQUIRE: &str = "update shedlock set lock_until = timezone('utc', current_timestamp) + make_interval(secs => 30), \
    locked_at = timezone('utc', current_timestamp), locked_by = $2 \
    where shedlock.name = $1 and shedlock.lock_until <= timezone('utc', current_timestamp)";
const SHEDLOCK_RELEASE: &str = "update shedlock set lock_until = case \
    when locked_at + make_interval(secs => 0) > timezone('utc', current_timestamp) then locked_at + make_interval(secs => 0) \
    else timezone('utc', current_timestamp) end where name = $1 and locked_by = $2";

/// A client with its two statements: to acquire and to release.
type Prepared = (Client, Statement, Statement);

async fn prepared(url: &str, acquire: &str, release: &str) -> Result<Vec<Prepared>> {
    let mut prepared = Vec::new();
    for client in clients(url).await? {
        let (acquire, release) = (
            client.prepare(acquire).await?,
            client.prepare(release).await?,
        );
        prepared.push((client, acquire, release));
    }
    Ok(prepared)
}

#[derive(Clone)]
struct BarePair;

impl AsyncWork<Prepared> for BarePair {
    async fn once(&self, (client, acquire, release): &mut Prepared) -> Result<()> {
        let (resource, owner) = (any_resource(), format!("{:032x}", fastrand::u128(..)));
        if client
            .query_opt(acquire, &[&resource, &owner])
            .await?
            .is_some()
        {
            client.execute(release, &[&resource, &owner]).await?;
        }
        Ok(())
    }
}

#[derive(Clone)]
struct ShedLock;

impl AsyncWork<Prepared> for ShedLock {
    async fn once(&self, (client, acquire, release): &mut Prepared) -> Result<()> {
        // The owner is the host's name, the same for all locks of a process.
        let (resource, owner) = (any_resource(), "host");
        if client.execute(acquire, &[&resource, &owner]).await? == 1 {
            client.execute(release, &[&resource, &owner]).await?;
        }
        Ok(())
    }
}

#[derive(Clone)]
struct EtcdPair;

impl AsyncWork<Session> for EtcdPair {
    async fn once(&self, session: &mut Session) -> Result<()> {
        session.pair(fastrand::usize(..super::RESOURCES)).await
    }
}

#[derive(Clone)]
struct TurnoPair;

impl AsyncWork<Turno> for TurnoPair {
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

#[derive(Clone)]
struct TurnoBusy;

impl AsyncWork<Turno> for TurnoBusy {
    async fn once(&self, turno: &mut Turno) -> Result<()> {
        anyhow::ensure!(
            turno.lock("HELD").ttl(TTL).acquire().await?.is_busy(),
            "HELD must be busy"
        );
        Ok(())
    }
}

#[derive(Clone)]
struct Read;

impl AsyncWork<(Client, Statement)> for Read {
    async fn once(&self, (client, read): &mut (Client, Statement)) -> Result<()> {
        client.query_one(&*read, &[&"HELD"]).await?;
        Ok(())
    }
}

#[derive(Clone)]
struct Advisory;

impl AsyncWork<Client> for Advisory {
    async fn once(&self, client: &mut Client) -> Result<()> {
        let key = i64::try_from(fastrand::usize(..super::RESOURCES))?;
        try_advisory(client, key).await?;
        Ok(())
    }
}

/// Acquires and releases an advisory lock of a session, and returns whether it was free.
pub async fn try_advisory(client: &Client, key: i64) -> Result<bool> {
    let key = &[(
        &key as &(dyn tokio_postgres::types::ToSql + Sync),
        tokio_postgres::types::Type::INT8,
    )];
    let acquire = "select pg_try_advisory_lock($1)";
    let is_acquired = client.query_typed(acquire, key).await?[0].get(0);
    if is_acquired {
        let release = "select pg_advisory_unlock($1)";
        client.query_typed(release, key).await?;
    }
    Ok(is_acquired)
}

#[derive(Clone)]
struct Redis;

impl AsyncWork<rslock::LockManager> for Redis {
    async fn once(&self, manager: &mut rslock::LockManager) -> Result<()> {
        if let Ok(lock) = manager.lock(any_resource().as_str(), TTL).await {
            manager.unlock(&lock).await;
        }
        Ok(())
    }
}
