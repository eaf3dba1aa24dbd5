//! Transactions that a caller may pass to a guard, each kept open until the test ends it.

use std::thread;

use tokio::sync::oneshot;
use turno::tx::Transaction;
use turno::{Result, Token};

use crate::conformance::TestStore;

/// A kind of transaction that Turno can work in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// `tokio_postgres::Transaction`.
    TokioPostgres,
    /// `deadpool_postgres::Transaction`.
    Deadpool,
    /// A connection of `sqlx::Transaction<Postgres>`.
    SqlxPostgres,
    /// `rusqlite::Transaction`.
    Rusqlite,
    /// A connection of `sqlx::Transaction<Sqlite>`.
    SqlxSqlite,
}

/// Whether the transaction calls the guard, or omits it (the control).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Calls the guard.
    Guard,
    /// Only reads the tables.
    Nothing,
}

/// An open transaction. It is rolled back on drop.
#[derive(Debug)]
pub struct OpenTx {
    end: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl OpenTx {
    /// Commits, and waits until the commit is done.
    pub async fn commit(mut self) {
        self.end.take().unwrap().send(()).unwrap();
        let thread = self.thread.take().unwrap();
        tokio::task::spawn_blocking(move || thread.join().unwrap())
            .await
            .unwrap();
    }
}

impl TestStore {
    /// Returns the kinds of transactions for this store.
    pub fn callers(&self) -> &'static [Caller] {
        self.dialect().callers()
    }

    /// Opens a transaction of the caller and calls the guard in it.
    ///
    /// # Errors
    /// Returns the guard's error; then the transaction has been rolled back.
    pub async fn open(
        &self,
        caller: Caller,
        ask: Ask,
        resource: &str,
        token: Token,
    ) -> Result<OpenTx> {
        let (answer, answered) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let place = self.caller_address();
        let work = Work {
            ask,
            resource: resource.to_owned(),
            token,
            answer,
            ended,
        };
        // In a separate thread, because some of these transactions are not `Send`.
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(work.run(caller, &place));
        });
        answered.await.unwrap()?;
        Ok(OpenTx {
            end: Some(end),
            thread: Some(thread),
        })
    }
}

struct Work {
    ask: Ask,
    resource: String,
    token: Token,
    answer: oneshot::Sender<Result<()>>,
    ended: oneshot::Receiver<()>,
}

impl Work {
    async fn run(self, caller: Caller, place: &str) {
        match caller {
            Caller::TokioPostgres => {
                let mut client = crate::sql::client(place).await;
                let mut tx = client.transaction().await.unwrap();
                tx.batch_execute("select 1").await.unwrap();
                if self.inside(&mut tx).await {
                    tx.commit().await.unwrap();
                }
            }
            Caller::Deadpool => {
                let manager =
                    deadpool_postgres::Manager::new(place.parse().unwrap(), tokio_postgres::NoTls);
                let pool = deadpool_postgres::Pool::builder(manager)
                    .max_size(1)
                    .build()
                    .unwrap();
                let mut client = pool.get().await.unwrap();
                let mut tx = client.transaction().await.unwrap();
                if self.inside(&mut tx).await {
                    tx.commit().await.unwrap();
                }
            }
            Caller::SqlxPostgres => {
                use sqlx::Connection;
                let options: sqlx::postgres::PgConnectOptions = place.parse().unwrap();
                // Required for an application behind a pooler.
                let options = options.statement_cache_capacity(0);
                let mut connection = sqlx::PgConnection::connect_with(&options).await.unwrap();
                let mut tx = connection.begin().await.unwrap();
                if self.inside(&mut *tx).await {
                    tx.commit().await.unwrap();
                }
            }
            Caller::Rusqlite => {
                let mut db = rusqlite::Connection::open(place).unwrap();
                db.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
                let mut tx = db.transaction().unwrap();
                if self.inside(&mut tx).await {
                    tx.commit().unwrap();
                }
            }
            Caller::SqlxSqlite => {
                use sqlx::Connection;
                let options = sqlx::sqlite::SqliteConnectOptions::new().filename(place);
                let mut connection = sqlx::SqliteConnection::connect_with(&options)
                    .await
                    .unwrap();
                let mut tx = connection.begin().await.unwrap();
                if self.inside(&mut *tx).await {
                    tx.commit().await.unwrap();
                }
            }
        }
    }

    /// Calls the guard, sends the result, and waits for the end. Returns true for a commit.
    async fn inside(self, tx: &mut impl Transaction) -> bool {
        let asked = match self.ask {
            Ask::Guard => tx.lock_guard(&self.resource, self.token).await,
            Ask::Nothing => Ok(()),
        };
        let good = asked.is_ok();
        self.answer.send(asked).unwrap();
        good && self.ended.await.is_ok()
    }
}
