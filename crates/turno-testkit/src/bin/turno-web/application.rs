//! The application's own connection to the database of the store. All handlers share it, one at a time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::body::Bytes;
use axum::http::Response;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use tokio::runtime::Handle;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls};
use turno::once::http::{Attempt, StoredResponse};

use crate::handler::Ending;

/// How long a transaction waits for other processes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A payment and its response.
pub struct Payment {
    pub key: String,
    pub attempt: u32,
    pub response: Response<Bytes>,
    /// `None` without the layer.
    pub run: Option<Attempt>,
    pub ending: Ending,
}

impl Payment {
    fn answer(&self) -> String {
        String::from_utf8_lossy(self.response.body()).into_owned()
    }

    /// Returns the response as the layer would store it.
    fn stored(&self) -> Result<String> {
        let (status, headers) = (self.response.status(), self.response.headers());
        let stored = StoredResponse::new(status, headers, &[], self.response.body());
        Ok(serde_json::to_string(&stored)?)
    }
}

pub enum Application {
    Postgres {
        url: String,
        client: Box<tokio::sync::Mutex<Option<Client>>>,
    },
    Sqlite(Arc<Mutex<Connection>>),
}

impl Application {
    pub fn new(url: &str) -> Result<Self> {
        let Some(file) = url.strip_prefix("sqlite:") else {
            return Ok(Self::Postgres {
                url: url.to_owned(),
                client: Box::default(),
            });
        };
        let connection = Connection::open(file)?;
        connection.busy_timeout(TIMEOUT)?;
        // Committed data must survive this process, not the machine.
        connection.pragma_update(None, "synchronous", "normal")?;
        Ok(Self::Sqlite(Arc::new(Mutex::new(connection))))
    }

    /// Records that a handler has begun.
    pub async fn ran(&self, key: &str, attempt: u32) -> Result<()> {
        let (key, attempt) = (key.to_owned(), i64::from(attempt));
        match self {
            Self::Postgres { url, client } => {
                let mut client = client.lock().await;
                let client = opened(url, &mut client).await?;
                let arguments = [
                    (&key as _, Type::TEXT),
                    (&pid() as _, Type::INT8),
                    (&attempt as _, Type::INT8),
                ];
                client.query_typed(RAN, &arguments).await?;
                Ok(())
            }
            Self::Sqlite(connection) => {
                blocking(connection, move |db| {
                    db.prepare_cached(RAN)?.execute((key, pid(), attempt))?;
                    Ok(())
                })
                .await
            }
        }
    }

    /// Pays and returns the response, or `None` if another run has taken over and nothing was written.
    pub async fn pay(&self, payment: Payment) -> Result<Option<Response<Bytes>>> {
        let paid = match self {
            Self::Postgres { url, client } => {
                let mut client = client.lock().await;
                pay_postgres(opened(url, &mut client).await?, &payment).await?
            }
            Self::Sqlite(connection) => {
                return blocking(connection, move |db| {
                    let paid = Handle::current().block_on(pay_sqlite(db, &payment))?;
                    Ok(paid.then_some(payment.response))
                })
                .await;
            }
        };
        Ok(paid.then_some(payment.response))
    }

    /// Returns the response of an earlier payment with this key.
    pub async fn paid(&self, key: &str) -> Result<Option<String>> {
        const PAID: &str = "select answer from effect where key = $1 order by n limit 1";
        let key = key.to_owned();
        match self {
            Self::Postgres { url, client } => {
                let mut client = client.lock().await;
                let client = opened(url, &mut client).await?;
                let rows = client.query_typed(PAID, &[(&key, Type::TEXT)]).await?;
                Ok(rows.first().map(|row| row.get(0)))
            }
            Self::Sqlite(connection) => {
                blocking(connection, move |db| {
                    Ok(db.query_row(PAID, [key], |row| row.get(0)).optional()?)
                })
                .await
            }
        }
    }
}

const RAN: &str = "insert into ran (key, pid, attempt) values ($1, $2, $3)";
const EFFECT: &str = "insert into effect (key, pid, attempt, answer) values ($1, $2, $3, $4)";

fn pid() -> i64 {
    std::process::id().into()
}

/// Returns the open connection, or a new one if the server has closed the last.
async fn opened<'a>(url: &str, client: &'a mut Option<Client>) -> Result<&'a mut Client> {
    let open = match client.take() {
        Some(open) if !open.is_closed() => open,
        _ => {
            let (open, connection) = tokio_postgres::connect(url, NoTls).await?;
            // Ends with its client.
            tokio::spawn(connection);
            open
        }
    };
    Ok(client.insert(open))
}

/// Runs on a blocking thread, because a transaction of rusqlite must stay on its thread.
async fn blocking<T: Send + 'static>(
    connection: &Arc<Mutex<Connection>>,
    work: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
) -> Result<T> {
    let connection = connection.clone();
    tokio::task::spawn_blocking(move || {
        work(&mut connection.lock().unwrap_or_else(PoisonError::into_inner))
    })
    .await?
}

async fn pay_postgres(client: &mut Client, payment: &Payment) -> Result<bool> {
    let mut tx = client.transaction().await?;
    let (attempt, answer) = (i64::from(payment.attempt), payment.answer());
    tx.query_typed(
        EFFECT,
        &[
            (&payment.key, Type::TEXT),
            (&pid(), Type::INT8),
            (&attempt, Type::INT8),
            (&answer, Type::TEXT),
        ],
    )
    .await?;
    match (payment.ending, &payment.run) {
        (Ending::Effect, Some(run)) => match run.complete_in(&mut tx, &payment.response).await {
            Err(error) if error.is_lost() => {
                tx.rollback().await?;
                return Ok(false);
            }
            completed => completed?,
        },
        (Ending::Naive, Some(run)) => {
            let overwrite = "update turno.once
                set state = 'done', until = until + interval '1 day', answer = $2::text::json
                where key = $1";
            let (key, stored) = (run.key(), payment.stored()?);
            let arguments = [(&key as _, Type::TEXT), (&stored as _, Type::TEXT)];
            tx.query_typed(overwrite, &arguments).await?;
        }
        (Ending::Plain, _) | (_, None) => {}
    }
    tx.commit().await?;
    Ok(true)
}

async fn pay_sqlite(connection: &mut Connection, payment: &Payment) -> Result<bool> {
    let mut tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.prepare_cached(EFFECT)?
        .execute((&payment.key, pid(), payment.attempt, payment.answer()))?;
    match (payment.ending, &payment.run) {
        (Ending::Effect, Some(run)) => match run.complete_in(&mut tx, &payment.response).await {
            Err(error) if error.is_lost() => {
                tx.rollback()?;
                return Ok(false);
            }
            completed => completed?,
        },
        (Ending::Naive, Some(run)) => {
            let overwrite = "update turno_once
                set state = 'done', until = until + 86400000000, answer = ?2
                where key = ?1";
            tx.execute(overwrite, (run.key(), payment.stored()?))?;
        }
        (Ending::Plain, _) | (_, None) => {}
    }
    tx.commit()?;
    Ok(true)
}
