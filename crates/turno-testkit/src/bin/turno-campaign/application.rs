//! The application's own tables, in the database of the store, and transactions that also call Turno.

use std::time::Duration;

use anyhow::{Result, bail};
use rusqlite::TransactionBehavior;
use tokio::runtime::Handle;
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;
use turno::Error;
use turno::inbox::{ClaimId, Inbox, Job};
use turno::lock::LeaseId;
use turno::once::Claim;
use turno::outbox::{Event, Outbox};
use turno_testkit::load::steady_us;

/// How long a transaction on SQLite waits for those of other processes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(20);
/// Some transactions stay open for so long between their guard and their change. Longer than most leases.
const LONG_TRANSACTION: Duration = Duration::from_millis(700);

/// SQLSTATE of a claim that is not right any more.
const STALE: &str = "TN410";

/// Tables of the application. Each has a name and a value, and a number that grows with each row.
#[derive(Debug, Clone, Copy)]
pub enum Table {
    /// Resource and token of a guarded change.
    Guarded,
    /// Name of an item and the number of its attempt.
    Handled,
    /// Name of a transaction that emitted events.
    Emitted,
    /// Key of a request and its answer.
    Answered,
}

impl Table {
    /// All tables.
    pub const ALL: [Table; 4] = [
        Table::Guarded,
        Table::Handled,
        Table::Emitted,
        Table::Answered,
    ];

    /// Name of the table.
    pub fn name(self) -> &'static str {
        match self {
            Table::Guarded => "guarded",
            Table::Handled => "handled",
            Table::Emitted => "emitted",
            Table::Answered => "answered",
        }
    }
}

/// What Turno does in a transaction of the application.
#[derive(Clone, Copy)]
pub enum Part<'a> {
    /// Guards a lease.
    Guard(&'a LeaseId),
    /// Completes an item of a worker.
    Complete(&'a Job<serde_json::Value>),
    /// Completes an item that was claimed by a call.
    CompleteClaim(&'a Inbox, ClaimId),
    /// The same by the SQL function. On PostgreSQL only.
    CompleteBySql(ClaimId),
    /// Emits events.
    Emit(&'a Outbox, &'a [Event]),
    /// Ends a run with the answer, which is the row's value.
    Answer(&'a Claim),
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was committed; the commit was sent at this time.
    Committed { commit_us: i64 },
    /// Turno said that the lease, the claim or the run is lost.
    Lost,
    /// The application rolled it back.
    RolledBack,
}

/// How the application wants a transaction to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    Commit,
    RollBack,
}

/// An item that was claimed.
#[derive(Debug, Clone)]
pub struct Claimed {
    pub claim: ClaimId,
    pub attempt: u32,
    pub payload: serde_json::Value,
}

/// A connection of the application.
pub enum Application {
    Postgres {
        url: String,
        client: Option<tokio_postgres::Client>,
    },
    Sqlite(rusqlite::Connection),
}

impl Application {
    /// Opens a connection; on PostgreSQL when it is first used.
    pub fn open(url: &str) -> Result<Self> {
        let Some(file) = url.strip_prefix("sqlite:") else {
            return Ok(Application::Postgres {
                url: url.to_owned(),
                client: None,
            });
        };
        let connection = rusqlite::Connection::open(file)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "synchronous", "full")?;
        Ok(Application::Sqlite(connection))
    }

    /// Writes a row, and lets Turno do its part, in one transaction. An error says that the outcome is not known.
    pub async fn write(
        &mut self,
        table: Table,
        name: &str,
        value: &str,
        part: Part<'_>,
        wanted: Wanted,
    ) -> Result<Ended> {
        let is_long = match part {
            // The lease may expire, and still no other caller may get the lock or the item.
            Part::Guard(_) => fastrand::u8(..8) == 0,
            Part::CompleteClaim(..) | Part::CompleteBySql(_) => fastrand::u8(..30) == 0,
            _ => false,
        };
        let insert = format!("insert into {} (name, value) values ($1, $2)", table.name());
        match self {
            Application::Postgres { url, client } => {
                let client = open(url, client).await?;
                let mut tx = client.transaction().await?;
                // The guard first, so that the numbers of the rows are in the order of the commits: until then, no other caller can
                // get the lock.
                if let Err(error) = guard(&mut tx, part).await {
                    tx.rollback().await?;
                    return lost(error);
                }
                if is_long && matches!(part, Part::Guard(_)) {
                    tokio::time::sleep(LONG_TRANSACTION).await;
                }
                tx.execute(insert.as_str(), &[&name, &value]).await?;
                if let Err(error) = last(&mut tx, part, value).await {
                    tx.rollback().await?;
                    return lost(error);
                }
                if let Part::CompleteBySql(claim) = part
                    && let Err(error) = complete(&tx, claim).await
                {
                    tx.rollback().await?;
                    return stale(error);
                }
                if is_long && !matches!(part, Part::Guard(_)) {
                    tokio::time::sleep(LONG_TRANSACTION).await;
                }
                if wanted == Wanted::RollBack {
                    tx.rollback().await?;
                    return Ok(Ended::RolledBack);
                }
                let commit_us = steady_us();
                tx.commit().await?;
                Ok(Ended::Committed { commit_us })
            }
            Application::Sqlite(connection) => tokio::task::block_in_place(|| {
                let mut tx =
                    connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                if let Err(error) = Handle::current().block_on(guard(&mut tx, part)) {
                    tx.rollback()?;
                    return lost(error);
                }
                tx.prepare_cached(&insert)?.execute((name, value))?;
                if let Err(error) = Handle::current().block_on(last(&mut tx, part, value)) {
                    tx.rollback()?;
                    return lost(error);
                }
                if wanted == Wanted::RollBack {
                    tx.rollback()?;
                    return Ok(Ended::RolledBack);
                }
                let commit_us = steady_us();
                tx.commit()?;
                Ok(Ended::Committed { commit_us })
            }),
        }
    }
}

impl Application {
    /// Claims an item by the SQL function, on PostgreSQL.
    pub async fn claim(&mut self, queue: &str, lease: Duration) -> Result<Option<Claimed>> {
        let Application::Postgres { url, client } = self else {
            bail!("SQLite has no functions");
        };
        let client = open(url, client).await?;
        let select = "select claim, attempt, payload::text
            from turno.inbox_claim($1, 'application', 1, make_interval(secs => $2))";
        let lease_seconds = lease.as_secs_f64();
        let row = client.query_opt(select, &[&queue, &lease_seconds]).await?;
        let Some(row) = row else {
            return Ok(None);
        };
        let (claim, attempt, payload): (&str, i32, &str) = (row.get(0), row.get(1), row.get(2));
        Ok(Some(Claimed {
            claim: claim.parse()?,
            attempt: attempt.try_into()?,
            payload: serde_json::from_str(payload)?,
        }))
    }
}

/// The connection, or a new one.
async fn open<'a>(
    url: &str,
    client: &'a mut Option<tokio_postgres::Client>,
) -> Result<&'a mut tokio_postgres::Client> {
    let open = match client.take() {
        Some(open) if !open.is_closed() => open,
        _ => connect(url).await?,
    };
    Ok(client.insert(open))
}

async fn complete(
    tx: &tokio_postgres::Transaction<'_>,
    claim: ClaimId,
) -> Result<(), tokio_postgres::Error> {
    let select = "select turno.inbox_complete($1::text)";
    tx.execute(select, &[&claim.to_string()]).await?;
    Ok(())
}

/// The error of a claim that is not right any more says so.
fn stale(error: tokio_postgres::Error) -> Result<Ended> {
    if error.code() == Some(&SqlState::from_code(STALE)) {
        return Ok(Ended::Lost);
    }
    Err(error.into())
}

async fn connect(url: &str) -> Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // Ends with its client.
    tokio::spawn(connection);
    Ok(client)
}

fn lost(error: Error) -> Result<Ended> {
    if error.is_lost() {
        return Ok(Ended::Lost);
    }
    Err(error.into())
}

async fn guard(tx: &mut impl turno::tx::Transaction, part: Part<'_>) -> Result<(), Error> {
    match part {
        Part::Guard(lease) => turno::lock::guard(tx, lease).await,
        _ => Ok(()),
    }
}

async fn last(
    tx: &mut impl turno::tx::Transaction,
    part: Part<'_>,
    value: &str,
) -> Result<(), Error> {
    match part {
        Part::Guard(_) => Ok(()),
        Part::Complete(job) => job.complete_in(tx).await,
        Part::CompleteClaim(inbox, claim) => inbox.complete_in(tx, &[claim]).await,
        Part::CompleteBySql(_) => Ok(()),
        Part::Emit(outbox, events) => {
            outbox.emit_many_in(tx, events).await?;
            Ok(())
        }
        Part::Answer(claim) => claim.complete_in(tx, value).await,
    }
}
