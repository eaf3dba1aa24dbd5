//! The one writer of this process, with group commit.
//!
//! A durable commit waits for the disk, which takes as long for one change as for a hundred. So the changes that arrive until
//! the next commit share it, and each caller gets its result when that commit is durable. If one of the changes fails, none is
//! committed, and each is repeated in its own transaction. Failures are rare, and one does not affect the other changes.
//!
//! On a fast disk, waking the thread and waking the caller again take as long as the commit. So a short change is made in the
//! caller's thread, if that is unlikely to block it for long: no other change is queued or in progress, the last commit was
//! quick and had one change, and no other process writes. Once in about a thousand commits, a checkpoint makes one longer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::classify;
use super::open::wait_for_others;
use super::rows::exec;
use crate::error::{Error, Kind, Result};
use crate::store::Batching;

/// Maximum number of changes in one commit.
const MAX_BATCH: usize = 512;
/// Maximum number of changes in the writer's queue. A further caller waits for room.
const MAX_QUEUED: usize = 4096;

/// Longest time that a commit takes if the next change may be made in the caller's thread.
const QUICK_COMMIT: Duration = Duration::from_micros(250);

/// Handle of the writer's thread.
pub(super) struct Writer {
    sender: mpsc::Sender<Message>,
    shared: Arc<Shared>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

/// What the writer's thread and callers share.
struct Shared {
    /// `None` after the end of the thread. This mutex is fair: the thread that waits for it gets it before a later caller.
    db: tokio::sync::Mutex<Option<Connection>>,
    /// Whether the last commit was quick and had one change.
    is_quick: AtomicBool,
}

enum Message {
    Job(Box<dyn Job>),
    Stop,
}

impl Writer {
    pub(super) fn spawn(db: Connection, batching: Batching) -> Result<Self> {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED);
        let queue = Queue {
            receiver,
            max_batch: match batching {
                Batching::Batched => MAX_BATCH,
                Batching::Alone => 1,
            },
            is_closed: false,
        };
        let shared = Arc::new(Shared {
            db: tokio::sync::Mutex::new(Some(db)),
            is_quick: AtomicBool::new(false),
        });
        let thread = thread::Builder::new()
            .name("turno-writer".into())
            .spawn({
                let shared = shared.clone();
                move || run(&shared, queue)
            })
            .map_err(|error| {
                Error::caused(
                    Kind::Unavailable,
                    "the writer's thread cannot be started",
                    error,
                )
            })?;
        Ok(Writer {
            sender,
            shared,
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

    /// Makes a change, unless a read has the result already. A read does not wait for other processes.
    pub(super) async fn look_then_write<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Connection) -> Result<Option<T>> + Send + 'static,
        write: impl Fn(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.send(Some(look), write).await
    }

    /// Makes a change of a few rows in the caller's thread. Returns `None` if it would have to wait, and then has changed nothing:
    /// use [`Writer::write`]. Cancel-safe: nothing is awaited after the change has begun.
    pub(super) async fn in_place<T>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T> + Send,
    ) -> Option<Result<T>> {
        // With one worker thread, the runtime would stand still during the commit, and no second change could come to share it.
        let has_workers = |runtime: Handle| runtime.metrics().num_workers() > 1;
        if !self.shared.is_quick.load(Ordering::Relaxed)
            || self.sender.capacity() < MAX_QUEUED
            || !Handle::try_current().is_ok_and(has_workers)
        {
            return None;
        }
        // A task that only makes such changes would never yield.
        tokio::task::coop::consume_budget().await;
        let db = self.shared.db.try_lock().ok()?;
        let db = db.as_ref()?;
        // This sets a pointer: without the handler, a change does not wait for another process.
        db.busy_handler(None).ok()?;
        let began = Instant::now();
        let done = transaction(db, || change(db));
        self.shared
            .is_quick
            .store(began.elapsed() < QUICK_COMMIT, Ordering::Relaxed);
        let is_busy = matches!(&done, Err(error) if *error.kind() == Kind::Unavailable);
        (!is_busy).then_some(done)
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

/// The changes that callers have sent.
struct Queue {
    receiver: mpsc::Receiver<Message>,
    max_batch: usize,
    is_closed: bool,
}

impl Queue {
    /// Waits for a change.
    fn wait(&mut self, batch: &mut Vec<Box<dyn Job>>) {
        let message = self.receiver.blocking_recv();
        self.take(message.unwrap_or(Message::Stop), batch);
    }

    /// Adds the changes that have arrived meanwhile.
    fn collect(&mut self, batch: &mut Vec<Box<dyn Job>>) {
        while !self.is_closed
            && batch.len() < self.max_batch
            && let Ok(message) = self.receiver.try_recv()
        {
            self.take(message, batch);
        }
    }

    fn take(&mut self, message: Message, batch: &mut Vec<Box<dyn Job>>) {
        match message {
            Message::Job(job) => batch.push(job),
            Message::Stop => self.is_closed = true,
        }
    }
}

fn run(shared: &Shared, mut queue: Queue) {
    loop {
        let mut batch = Vec::new();
        queue.wait(&mut batch);
        // The changes that arrive during a caller's own commit are collected, too.
        let mut held = shared.db.blocking_lock();
        let Some(db) = held.as_ref() else { return };
        queue.collect(&mut batch);
        // A read saves a transaction only if no other change of the batch needs one.
        if batch.iter().all(|job| job.can_look()) {
            // If the read cannot begin, the change returns the error.
            let _ = snapshot(db, || {
                batch.retain_mut(|job| !job.look(db));
                Ok(())
            });
        }
        if !batch.is_empty() {
            let began = Instant::now();
            let changes = commit(db, batch, Some(&mut queue));
            let is_quick = changes == 1 && began.elapsed() < QUICK_COMMIT;
            shared.is_quick.store(is_quick, Ordering::Relaxed);
        }
        if queue.is_closed {
            *held = None;
            return;
        }
    }
}

/// Commits changes, and those that are queued while they are made. Returns how many.
fn commit(db: &Connection, mut batch: Vec<Box<dyn Job>>, mut queue: Option<&mut Queue>) -> usize {
    let write_all = || -> Result<()> {
        let mut written = 0;
        while written < batch.len() {
            for job in &mut batch[written..] {
                job.write(db)?;
            }
            written = batch.len();
            if let Some(queue) = &mut queue {
                queue.collect(&mut batch);
            }
        }
        Ok(())
    };
    let committed = db
        .busy_handler(Some(wait_for_others))
        .map_err(classify)
        .and_then(|()| transaction(db, write_all));
    let changes = batch.len();
    for job in batch {
        if committed.is_err() && changes > 1 {
            commit(db, vec![job], None);
        } else {
            job.finish(committed.clone());
        }
    }
    changes
}

/// Makes a change in a transaction. If it fails, nothing is changed.
fn transaction<T>(db: &Connection, change: impl FnOnce() -> Result<T>) -> Result<T> {
    exec(db, "begin immediate", [])?;
    let _rollback = Rollback(db);
    let answer = change()?;
    exec(db, "commit", [])?;
    Ok(answer)
}

/// Reads in a transaction: all statements see the same state, whatever other processes commit meanwhile.
pub(super) fn snapshot<T>(db: &Connection, read: impl FnOnce() -> Result<T>) -> Result<T> {
    exec(db, "begin", [])?;
    let _rollback = Rollback(db);
    read()
}

/// Ends a transaction that was not committed, because it only read, or because of an error or a panic.
struct Rollback<'db>(&'db Connection);

impl Drop for Rollback<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            // If the rollback fails, the next `begin` reports an error.
            let _ = exec(self.0, "rollback", []);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc::sync_channel;

    use rusqlite::OptionalExtension;

    use super::super::rows::one;
    use super::*;

    const WRITER: &str = "turno-writer";

    /// A writer of a file with an empty table, and a connection as another process has it.
    struct Desk {
        writer: Arc<Writer>,
        other: Connection,
        _folder: tempfile::TempDir,
    }

    impl Desk {
        fn new() -> Desk {
            let folder = tempfile::tempdir().unwrap();
            let location = super::super::open::Location::File(folder.path().join("test.db"));
            let other = location.connect().unwrap();
            other
                .execute_batch("create table change (name text)")
                .unwrap();
            let db = location.connect().unwrap();
            Desk {
                writer: Arc::new(Writer::spawn(db, Batching::Batched).unwrap()),
                other,
                _folder: folder,
            }
        }

        /// As after a quick commit of one change, which no test can be sure of on a busy machine.
        async fn set_quick(&self) {
            self.is_idle().await;
            self.writer.shared.is_quick.store(true, Ordering::Relaxed);
        }

        /// Waits until the thread has ended its commit, which is after its answers.
        async fn is_idle(&self) {
            drop(self.writer.shared.db.lock().await);
        }

        fn is_quick(&self) -> bool {
            self.writer.shared.is_quick.load(Ordering::Relaxed)
        }

        async fn in_place(&self, name: &'static str) -> Option<Result<String>> {
            self.writer.in_place(|db| insert(db, name)).await
        }

        /// The changes that another process can see.
        fn committed(&self) -> Vec<String> {
            let mut names = self.other.prepare("select name from change").unwrap();
            let names = names.query_map([], |row| row.get(0)).unwrap();
            names.collect::<rusqlite::Result<_>>().unwrap()
        }
    }

    /// Makes a change. Returns the name of the thread.
    fn insert(db: &Connection, name: &str) -> Result<String> {
        exec(db, "insert into change (name) values (?1)", [name])?;
        Ok(thread::current().name().unwrap_or_default().to_owned())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_short_change_is_made_in_place_after_a_quick_one() {
        let desk = Desk::new();
        assert!(desk.in_place("unknown disk").await.is_none());
        let thread = desk.writer.write(|db| insert(db, "first")).await.unwrap();
        assert_eq!(thread, WRITER);

        desk.set_quick().await;
        let thread = desk.in_place("second").await.unwrap().unwrap();
        assert_ne!(thread, WRITER);
        assert_eq!(desk.committed(), ["first", "second"]);

        let slow = |db: &Connection| {
            thread::sleep(QUICK_COMMIT);
            insert(db, "slow")
        };
        desk.set_quick().await;
        assert!(desk.writer.in_place(slow).await.is_some());
        assert!(!desk.is_quick());
        desk.set_quick().await;
        desk.writer.write(slow).await.unwrap();
        desk.is_idle().await;
        assert!(desk.in_place("after a slow one").await.is_none());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn the_only_thread_of_a_runtime_is_not_blocked() {
        let desk = Desk::new();
        desk.set_quick().await;
        assert!(desk.in_place("change").await.is_none());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_change_waits_for_another_process_in_the_writers_thread() {
        let desk = Desk::new();
        desk.set_quick().await;
        desk.other.execute_batch("begin immediate").unwrap();
        // If it waited, it would wait for ever: this thread ends the other transaction.
        let began = Instant::now();
        assert!(desk.in_place("in place").await.is_none());
        assert!(began.elapsed() < Duration::from_secs(5));
        let writer = desk.writer.clone();
        let queued = tokio::spawn(async move { writer.write(|db| insert(db, "queued")).await });
        desk.other.execute_batch("commit").unwrap();
        assert_eq!(queued.await.unwrap().unwrap(), WRITER);
        assert_eq!(desk.committed(), ["queued"]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_change_overtakes_a_queued_one_and_a_burst_shares_a_commit() {
        let desk = Desk::new();
        let (entered, is_entered) = sync_channel(1);
        let (proceed, may_proceed) = sync_channel(1);
        let may_proceed = Mutex::new(may_proceed);
        let writer = desk.writer.clone();
        let first = tokio::spawn(async move {
            let blocked = move |db: &Connection| {
                entered.send(()).unwrap();
                may_proceed.lock().unwrap().recv().unwrap();
                insert(db, "first")
            };
            writer.write(blocked).await
        });
        is_entered.recv().unwrap();
        // The thread makes a change; then others are queued, too.
        desk.writer.shared.is_quick.store(true, Ordering::Relaxed);
        assert!(desk.in_place("during a change").await.is_none());
        let burst: Vec<_> = ["second", "third"]
            .into_iter()
            .map(|name| {
                let writer = desk.writer.clone();
                tokio::spawn(async move { writer.write(move |db| insert(db, name)).await })
            })
            .collect();
        while desk.writer.sender.capacity() > MAX_QUEUED - burst.len() {
            tokio::task::yield_now().await;
        }
        assert!(desk.in_place("before queued ones").await.is_none());
        proceed.send(()).unwrap();
        first.await.unwrap().unwrap();
        for change in burst {
            assert_eq!(change.await.unwrap().unwrap(), WRITER);
        }
        let committed = desk.committed();
        assert_eq!(committed.len(), 3);
        assert_eq!(committed[0], "first");
        // They shared a commit, so the next change may find others to share with.
        desk.is_idle().await;
        assert!(!desk.is_quick());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_change_that_fails_costs_its_neighbours_nothing() {
        let desk = Desk::new();
        // The thread is busy until all three are queued, so they share a commit.
        let busy = desk.writer.shared.db.lock().await;
        let mut queued = Vec::new();
        for (number, name) in ["before", "refused", "after"].into_iter().enumerate() {
            let writer = desk.writer.clone();
            queued.push(tokio::spawn(async move {
                let change = move |db: &Connection| {
                    insert(db, name)?;
                    match name {
                        "refused" => Err(Error::new(Kind::Refused, "no")),
                        _ => Ok(()),
                    }
                };
                writer.write(change).await
            }));
            while desk.writer.sender.capacity() > MAX_QUEUED - number {
                tokio::task::yield_now().await;
            }
        }
        drop(busy);
        let mut answers = Vec::new();
        for change in queued {
            answers.push(change.await.unwrap().is_ok());
        }
        assert_eq!(answers, [true, false, true]);
        assert_eq!(desk.committed(), ["before", "after"]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_change_that_fails_in_place_leaves_nothing_behind() {
        let desk = Desk::new();
        desk.set_quick().await;
        let refused = |db: &Connection| {
            insert(db, "refused")?;
            Err::<(), _>(Error::new(Kind::Refused, "no"))
        };
        assert!(desk.writer.in_place(refused).await.unwrap().is_err());

        desk.set_quick().await;
        let writer = desk.writer.clone();
        let panicking = async move {
            let panic = |db: &Connection| -> Result<()> {
                insert(db, "panicked")?;
                panic!("a change that panics");
            };
            writer.in_place(panic).await
        };
        assert!(tokio::spawn(panicking).await.unwrap_err().is_panic());
        // The file is not locked.
        desk.other.execute_batch("begin immediate; commit").unwrap();
        desk.writer.write(|db| insert(db, "next")).await.unwrap();
        assert_eq!(desk.committed(), ["next"]);
    }

    /// Counts twice, while another process makes a change between the two.
    fn count_twice(db: &Connection, file: &Path) -> (i64, i64) {
        let count = || one(db, "select count(*) from change", []).unwrap();
        let before = count();
        insert(&Connection::open(file).unwrap(), "meanwhile").unwrap();
        (before, count())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_read_sees_one_state() {
        let desk = Desk::new();
        let file = desk.other.path().unwrap().to_owned();
        let look = move |db: &Connection| Ok(Some(count_twice(db, file.as_ref())));
        let unused = |_: &Connection| Err(Error::new(Kind::Broken, "the read has the result"));
        let seen = desk.writer.look_then_write(look, unused).await.unwrap();
        assert_eq!(seen, (0, 0));
        // The read left no transaction open.
        desk.writer.write(|db| insert(db, "next")).await.unwrap();
        assert_eq!(desk.committed(), ["meanwhile", "next"]);

        // Control: without a transaction, the second statement sees the other process's change.
        let file = desk.other.path().unwrap();
        assert_eq!(count_twice(&desk.other, file.as_ref()), (2, 3));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_closed_writer_makes_no_change() {
        let desk = Desk::new();
        desk.writer.close().await;
        desk.set_quick().await;
        assert!(desk.in_place("late").await.is_none());
        assert!(desk.writer.write(|db| insert(db, "late")).await.is_err());
        let found: Option<String> = desk
            .other
            .query_row("select name from change", [], |row| row.get(0))
            .optional()
            .unwrap();
        assert_eq!(found, None);
    }
}
