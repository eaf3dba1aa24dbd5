//! Inbox, outbox and once in a transaction of the caller's own, of every kind, kept open until it is told to end.

use std::sync::Arc;
use std::thread;

use tokio::sync::oneshot;
use turno::inbox::{ClaimId, Inbox, Item, PushedItem};
use turno::once::Claim;
use turno::outbox::Event;
use turno::tx::CallerTx;
use turno::{Result, Turno};
use uuid::Uuid;

use super::{Bed, Caller};

/// What is done in the transaction.
pub(super) enum Write {
    /// Items are pushed.
    Push(Inbox, Vec<Item>),
    /// Items are completed.
    Complete(Inbox, Vec<ClaimId>),
    /// Events are emitted.
    Emit(Turno, Vec<Event>),
    /// Bad events are tried first, and refused; then these are emitted.
    EmitAfterBad(Turno, Vec<Event>, Vec<Event>),
    /// A consumer has an event before it.
    Seen(Turno, String, Uuid),
    /// The work of a request is answered, with events beside it.
    Answer(Arc<Claim>, String, Turno, Vec<Event>),
}

/// What was answered to it.
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

/// A transaction that has written, and is open.
pub(super) struct InboxTx {
    pub(super) pushed: Vec<PushedItem>,
    pub(super) emitted: Vec<Uuid>,
    pub(super) first: bool,
    end: oneshot::Sender<End>,
    thread: thread::JoinHandle<()>,
}

impl InboxTx {
    /// Commits, and waits until that is done.
    pub(super) async fn commit(self) -> Vec<PushedItem> {
        self.finish(End::Commit).await
    }

    /// Rolls back, and waits until that is done.
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

impl Bed {
    /// Opens a transaction and writes in it; answers with the write's own error, and has rolled back then.
    pub(super) async fn open_inbox(&self, caller: Caller, write: Write) -> Result<InboxTx> {
        let (answer, answered) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let place = if self.is_sqlite() {
            self.file().display().to_string()
        } else {
            self.url().to_owned()
        };
        let work = Work {
            write,
            answer,
            ended,
        };
        // A thread of its own: not every one of these transactions may be sent to another.
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(work.run(caller, &place));
        });
        let written = tokio::time::timeout(super::kit::PATIENCE, answered).await;
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
                let mut client = super::bed::connect(place).await;
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
                db.busy_timeout(super::kit::PATIENCE).unwrap();
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
            // As an application behind a pooler has to set it.
            let options = options.statement_cache_capacity(0);
            let mut connection = sqlx::PgConnection::connect_with(&options).await.unwrap();
            let mut tx = connection.begin().await.unwrap();
            match self.inside(&mut *tx).await {
                End::Commit => tx.commit().await.unwrap(),
                End::RollBack => tx.rollback().await.unwrap(),
            }
        } else {
            let options = sqlx::sqlite::SqliteConnectOptions::new().filename(place);
            let options = options.busy_timeout(super::kit::PATIENCE);
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

    /// Writes, answers, and stays until told how to end.
    async fn inside(self, tx: &mut impl CallerTx) -> End {
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
                let first = turno.seen(tx, &consumer, event).await;
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
        assert!(self.answer.send(written).is_ok(), "nobody waits");
        if refused {
            return End::RollBack;
        }
        // Whoever forgets the transaction rolls it back.
        self.ended.await.unwrap_or(End::RollBack)
    }
}

async fn emit(turno: &Turno, tx: &mut impl CallerTx, events: &[Event]) -> Result<Written> {
    let emitted = turno.outbox().emit_all(tx, events).await?;
    Ok(Written {
        emitted,
        ..Written::default()
    })
}
