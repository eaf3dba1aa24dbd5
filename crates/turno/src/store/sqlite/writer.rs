//! The one writer of this process, with group commit.
//!
//! A durable commit waits for the disk, which takes as long for one change as for a hundred. So the changes that arrive during a
//! commit share the next one, and each caller gets its result when that commit is durable. If one of the changes fails, none is
//! committed, and each is repeated in its own transaction. Failures are rare, and one does not affect the other changes.

use std::sync::Mutex;
use std::thread;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::classify;
use crate::error::{Error, Kind, Result};
use crate::store::Batching;

/// Maximum number of changes in one commit.
const MAX_BATCH: usize = 512;
/// Maximum number of changes in the writer's queue. A further caller waits for room.
const MAX_QUEUED: usize = 4096;

/// Handle of the writer's thread.
pub(super) struct Writer {
    sender: mpsc::Sender<Message>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

enum Message {
    Job(Box<dyn Job>),
    Stop,
}

impl Writer {
    pub(super) fn spawn(db: Connection, batching: Batching) -> Result<Self> {
        let batch = match batching {
            Batching::Batched => MAX_BATCH,
            Batching::Alone => 1,
        };
        let (sender, receiver) = mpsc::channel(MAX_QUEUED);
        let thread = thread::Builder::new()
            .name("turno-writer".into())
            .spawn(move || run(&db, receiver, batch))
            .map_err(|error| {
                Error::caused(
                    Kind::Unavailable,
                    "the writer's thread cannot be started",
                    error,
                )
            })?;
        Ok(Writer {
            sender,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Makes a change. Returns when it is durable.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        write: impl Fn(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.send(None::<fn(&Connection) -> Result<Option<T>>>, write)
            .await
    }

    /// Makes a change, unless a read without a transaction has the result already.
    pub(super) async fn look_then_write<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Connection) -> Result<Option<T>> + Send + 'static,
        write: impl Fn(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.send(Some(look), write).await
    }

    async fn send<T: Send + 'static>(
        &self,
        look: Option<impl FnOnce(&Connection) -> Result<Option<T>> + Send + 'static>,
        write: impl Fn(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let job = Call {
            look,
            write,
            answer: None,
            reply: Some(reply),
        };
        let closed = || Error::new(Kind::Unavailable, "the store is closed: connect again");
        self.sender
            .send(Message::Job(Box::new(job)))
            .await
            .map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Makes the queued changes, and ends the thread.
    pub(super) async fn close(&self) {
        // An error means that the thread has ended already.
        let _ = self.sender.send(Message::Stop).await;
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        if let Some(thread) = thread {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// One caller's change, independent of the type of its result.
trait Job: Send {
    /// Returns whether a read may be sufficient.
    fn can_look(&self) -> bool;
    /// Reads. Returns whether that was sufficient; then the caller has its result.
    fn look(&mut self, db: &Connection) -> bool;
    /// Makes the change, inside a transaction. Called again if that was not committed.
    fn write(&mut self, db: &Connection) -> Result<()>;
    /// Sends the result to the caller: the change is durable, or was not made.
    fn finish(self: Box<Self>, committed: Result<()>);
}

struct Call<L, W, T> {
    look: Option<L>,
    write: W,
    answer: Option<Result<T>>,
    reply: Option<oneshot::Sender<Result<T>>>,
}

impl<L, W, T> Job for Call<L, W, T>
where
    L: FnOnce(&Connection) -> Result<Option<T>> + Send,
    W: Fn(&Connection) -> Result<T> + Send,
    T: Send,
{
    fn can_look(&self) -> bool {
        self.look.is_some()
    }

    fn look(&mut self, db: &Connection) -> bool {
        let answer = match self.look.take().map(|look| look(db)) {
            None | Some(Ok(None)) => return false,
            Some(Ok(Some(answer))) => Ok(answer),
            Some(Err(error)) => Err(error),
        };
        self.reply(answer);
        true
    }

    fn write(&mut self, db: &Connection) -> Result<()> {
        let answer = (self.write)(db);
        let done = answer.as_ref().map(drop).map_err(Clone::clone);
        self.answer = Some(answer);
        done
    }

    fn finish(mut self: Box<Self>, committed: Result<()>) {
        let answer = match (committed, self.answer.take()) {
            (Ok(()), Some(answer)) => answer,
            (Err(error), _) => Err(error),
            (Ok(()), None) => Err(Error::new(Kind::Broken, "a change was not made")),
        };
        self.reply(answer);
    }
}

impl<L, W, T> Call<L, W, T> {
    fn reply(&mut self, answer: Result<T>) {
        if let Some(reply) = self.reply.take() {
            // The caller may have been cancelled.
            let _ = reply.send(answer);
        }
    }
}

fn run(db: &Connection, mut receiver: mpsc::Receiver<Message>, most: usize) {
    let mut stopped = false;
    while !stopped {
        let mut batch: Vec<Box<dyn Job>> = Vec::new();
        let mut next = receiver.blocking_recv();
        loop {
            match next {
                Some(Message::Job(job)) => batch.push(job),
                Some(Message::Stop) | None => stopped = true,
            }
            if stopped || batch.len() == most {
                break;
            }
            next = match receiver.try_recv() {
                Ok(message) => Some(message),
                Err(_) => break,
            };
        }
        // A read saves a transaction only if no other change of the batch needs one.
        if batch.iter().all(|job| job.can_look()) {
            batch.retain_mut(|job| !job.look(db));
        }
        commit(db, batch);
    }
}

fn commit(db: &Connection, mut batch: Vec<Box<dyn Job>>) {
    if batch.is_empty() {
        return;
    }
    let committed = write_all(db, &mut batch);
    if committed.is_err() && batch.len() > 1 {
        for job in batch {
            commit(db, vec![job]);
        }
        return;
    }
    for job in batch {
        job.finish(committed.clone());
    }
}

fn write_all(db: &Connection, batch: &mut [Box<dyn Job>]) -> Result<()> {
    let run = |sql| {
        db.prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]))
            .map_err(classify)
    };
    run("begin immediate")?;
    let written = batch
        .iter_mut()
        .try_for_each(|job| job.write(db))
        .and_then(|()| run("commit").map(drop));
    if written.is_err() && !db.is_autocommit() {
        // If the rollback fails, the next `begin` reports an error.
        let _ = run("rollback");
    }
    written
}
