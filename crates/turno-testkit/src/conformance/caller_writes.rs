//! Inbox, outbox and once in the caller's own transaction, of each kind, kept open until the test ends it.

use std::sync::Arc;
use std::thread;

use tokio::sync::oneshot;
use turno::inbox::{ClaimId, Inbox, Item, PushedItem};
use turno::once::Claim;
use turno::outbox::Event;
use turno::tx::Transaction;
use turno::{Result, Turno};
use uuid::Uuid;

use crate::conformance::{Caller, TestStore};

/// Operation in the transaction.
pub(super) enum Write {
    /// Pushes items.
    Push(Inbox, Vec<Item>),
    /// Completes items.
    Complete(Inbox, Vec<ClaimId>),
    /// Emits events.
    Emit(Turno, Vec<Event>),
    /// Tries invalid events first, which are rejected, and then emits the others.
    EmitAfterBad(Turno, Vec<Event>, Vec<Event>),
    /// Marks an event as processed by a consumer.
    Seen(Turno, String, Uuid),
    /// Stores the answer of a run, and emits events.
    Answer(Arc<Claim>, String, Turno, Vec<Event>),
}

/// Results of the operation.
#[derive(Default)]
pub(super) struct Written {
    pushed: Vec<PushedItem>,
    emitted: Vec<Uuid>,
    first: bool,
}

/// How the transaction ends.
enum End {
    Commit,
    RollBack,
}

/// An open transaction that has written.
pub(super) struct InboxTx {
    pub(super) pushed: Vec<PushedItem>,
    pub(super) emitted: Vec<Uuid>,
    pub(super) first: bool,
    end: oneshot::Sender<End>,
    thread: thread::JoinHandle<()>,
}

impl InboxTx {
    /// Commits, and waits until the commit is done.
    pub(super) async fn commit(self) -> Vec<PushedItem> {
        self.finish(End::Commit).await
    }

    /// Rolls back, and waits until the rollback is done.
    pub(super) async fn roll_back(self) {
        self.finish(End::RollBack).await;
    }

    async fn finish(self, end: End) -> Vec<PushedItem> {
        assert!(self.end.send(end).is_ok(), "the transaction is gone");
        let joining = tokio::task::spawn_blocking(move || self.thread.join().unwrap());
        joining.await.unwrap();
        self.pushed
    }
}

impl TestStore {
    /// Opens a transaction and writes in it. On an error of the write, the transaction is rolled back.
    pub(super) async fn open_inbox(&self, caller: Caller, write: Write) -> Result<InboxTx> {
        let (answer, answered) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let place = self.caller_address();
        let work = Work {
            write,
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
        let written =
            tokio::time::timeout(crate::conformance::lock::fixtures::TIMEOUT, answered).await;
        let written = written.expect("an answer").unwrap()?;
        Ok(InboxTx {
            pushed: written.pushed,
            emitted: written.emitted,
            first: written.first,
            end,
            thread,
        })
    }

    /// Pushes items in a transaction that stays open.
    pub(super) async fn open_push(&self, caller: Caller, inbox: &Inbox, items: &[Item]) -> InboxTx {
        let write = Write::Push(inbox.clone(), items.to_vec());
        self.open_inbox(caller, write).await.unwrap()
    }

    /// Emits events in a transaction that stays open.
    pub(super) async fn open_emit(
        &self,
        caller: Caller,
        turno: &Turno,
        events: &[Event],
    ) -> InboxTx {
        let write = Write::Emit(turno.clone(), events.to_vec());
        self.open_inbox(caller, write).await.unwrap()
    }
}

struct Work {
    write: Write,
    answer: oneshot::Sender<Result<Written>>,
    ended: oneshot::Receiver<End>,
}

impl Work {
    async fn run(self, caller: Caller, place: &str) {
        match caller {
            Caller::TokioPostgres => {
                let mut client = crate::sql::client(place).await;
                let mut tx = client.transaction().await.unwrap();
                match self.inside(&mut tx).await {
                    End::Commit => tx.commit().await.unwrap(),
                    End::RollBack => tx.rollback().await.unwrap(),
                }
            }
            Caller::Deadpool => {
                let manager =
                    deadpool_postgres::Manager::new(place.parse().unwrap(), tokio_postgres::NoTls);
                let pool = deadpool_postgres::Pool::builder(manager).max_size(1);
                let mut client = pool.build().unwrap().get().await.unwrap();
                let mut tx = client.transaction().await.unwrap();
                match self.inside(&mut tx).await {
                    End::Commit => tx.commit().await.unwrap(),
                    End::RollBack => tx.rollback().await.unwrap(),
                }
            }
            Caller::Rusqlite => {
                let mut db = rusqlite::Connection::open(place).unwrap();
                db.busy_timeout(crate::conformance::lock::fixtures::TIMEOUT)
                    .unwrap();
                let mut tx = db.transaction().unwrap();
                match self.inside(&mut tx).await {
                    End::Commit => tx.commit().unwrap(),
                    End::RollBack => tx.rollback().unwrap(),
                }
            }
            Caller::SqlxPostgres | Caller::SqlxSqlite => self.run_sqlx(caller, place).await,
        }
    }

    async fn run_sqlx(self, caller: Caller, place: &str) {
        use sqlx::Connection;
        if caller == Caller::SqlxPostgres {
            let options: sqlx::postgres::PgConnectOptions = place.parse().unwrap();
            // Required for an application behind a pooler.
            let options = options.statement_cache_capacity(0);
            let mut connection = sqlx::PgConnection::connect_with(&options).await.unwrap();
            let mut tx = connection.begin().await.unwrap();
            match self.inside(&mut *tx).await {
                End::Commit => tx.commit().await.unwrap(),
                End::RollBack => tx.rollback().await.unwrap(),
            }
        } else {
            let options = sqlx::sqlite::SqliteConnectOptions::new().filename(place);
            let options = options.busy_timeout(crate::conformance::lock::fixtures::TIMEOUT);
            let mut connection = sqlx::SqliteConnection::connect_with(&options)
                .await
                .unwrap();
            let mut tx = connection.begin().await.unwrap();
            match self.inside(&mut *tx).await {
                End::Commit => tx.commit().await.unwrap(),
                End::RollBack => tx.rollback().await.unwrap(),
            }
        }
    }

    /// Writes, sends the result, and waits for the end.
    async fn inside(self, tx: &mut impl Transaction) -> End {
        let written = match self.write {
            Write::Push(inbox, items) => {
                let pushed = inbox.push_many_in(tx, items).await;
                pushed.map(|pushed| Written {
                    pushed,
                    ..Written::default()
                })
            }
            Write::Complete(inbox, claims) => {
                let completed = inbox.complete_in(tx, &claims).await;
                completed.map(|()| Written::default())
            }
            Write::Emit(turno, events) => emit(&turno, tx, &events).await,
            Write::EmitAfterBad(turno, bad, good) => {
                for event in bad {
                    let refused = emit(&turno, tx, &[event]).await.err().expect("a refusal");
                    assert!(refused.is_invalid(), "{refused}");
                }
                emit(&turno, tx, &good).await
            }
            Write::Seen(turno, consumer, event) => {
                let first = turno.mark_processed(tx, &consumer, event).await;
                first.map(|first| Written {
                    first,
                    ..Written::default()
                })
            }
            Write::Answer(claim, answer, turno, events) => match emit(&turno, tx, &events).await {
                Ok(written) => claim.complete_in(tx, &answer).await.map(|()| written),
                Err(error) => Err(error),
            },
        };
        let refused = written.is_err();
        assert!(self.answer.send(written).is_ok(), "the caller has gone");
        if refused {
            return End::RollBack;
        }
        // If the sender is dropped, the transaction is rolled back.
        self.ended.await.unwrap_or(End::RollBack)
    }
}

async fn emit(turno: &Turno, tx: &mut impl Transaction, events: &[Event]) -> Result<Written> {
    let emitted = turno.outbox().emit_many_in(tx, events).await?;
    Ok(Written {
        emitted,
        ..Written::default()
    })
}
