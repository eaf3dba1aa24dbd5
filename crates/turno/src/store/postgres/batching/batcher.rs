//! Batching of calls that arrive while others are in progress.
//!
//! A call is sent at once if fewer than [`Batchable::CONCURRENCY`] calls of its partition are in progress. Otherwise it waits
//! for the next batch, which serves all waiting callers in one round trip and one commit. So a caller waits at most for the
//! calls before its own, and the cost per call falls with the number of callers.
//!
//! Calls that wait for different locks have different partitions: a queue whose claims are blocked delays no other queue.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio_postgres::Row;

use crate::error::{Error, Result};
use crate::store::postgres::calls::{Calls, IfLocked};
use crate::store::postgres::rows;

/// Maximum number of calls in one batch.
const MAX_BATCH: usize = 64;

/// Number of times that other tasks may run before a batch is sent, so that their calls join it. Measured for locks over HTTP: 1
/// is a tenth slower, 12 is no faster.
const YIELDS_BEFORE_BATCH: usize = 4;

/// A kind of call that can be made for several callers at once.
pub(crate) trait Batchable: Send + Sync + 'static {
    type Ask: Clone + Send + Sync + 'static;
    type Answer: Send + 'static;
    /// Maximum number of batches of one partition that are in progress at the same time.
    const CONCURRENCY: usize = 1;

    /// The partition of a call. Calls of different partitions never share a batch, and do not wait for each other.
    fn partition(ask: &Self::Ask) -> &str {
        let _ = ask;
        ""
    }

    /// Makes the call for all of them. Returns one reply for each, in their order. The call must not wait for a lock that only
    /// some of them need.
    fn call(&self, asks: Vec<Self::Ask>) -> impl Future<Output = Vec<Reply<Self::Answer>>> + Send;

    /// Undoes the call for a caller that was cancelled meanwhile. Default: nothing.
    fn undelivered(&self, reply: Reply<Self::Answer>) -> impl Future<Output = ()> + Send {
        drop(reply);
        std::future::ready(())
    }
}

/// A kind of call that is also made for one caller, which can wait for a lock.
pub(crate) trait CallAlone: Batchable {
    /// Name of the lock that the call may wait for, for error messages.
    fn lock(ask: &Self::Ask) -> String;

    /// Returns whether a call is small enough to share a batch with others.
    fn is_small(ask: &Self::Ask) -> bool {
        let _ = ask;
        true
    }

    /// Makes the call for one caller.
    fn one(
        &self,
        ask: &Self::Ask,
        if_locked: IfLocked<'_>,
    ) -> impl Future<Output = Result<Self::Answer>> + Send;
}

/// Reply to one caller of a batch.
pub(crate) enum Reply<T> {
    Done(Result<T>),
    /// The caller must make the call alone, because it would have delayed the others.
    CallAlone,
    /// The caller must make the call alone and wait for a lock that another transaction holds.
    Locked,
}

impl<T> Reply<T> {
    /// Reply to each caller of a batch that failed. An unavailable database concerns all of them. Any other error may be due to
    /// one of them, so each makes its call alone and gets its own error.
    pub(crate) fn failed(error: &Error) -> Self {
        match error.is_unavailable() {
            true => Reply::Done(Err(error.clone())),
            false => Reply::CallAlone,
        }
    }
}

/// Returns the replies of a batch whose rows have the place of their caller.
pub(crate) fn replies<T>(
    count: usize,
    rows: Result<Vec<Row>>,
    read: impl Fn(&Row) -> Result<T>,
) -> Vec<Reply<T>> {
    let mut replies: Vec<Reply<T>> = Vec::with_capacity(count);
    let rows = match rows {
        Ok(rows) => rows,
        Err(error) => {
            replies.resize_with(count, || Reply::failed(&error));
            return replies;
        }
    };
    replies.resize_with(count, || Reply::CallAlone);
    for row in &rows {
        if let Some(reply) = rows::place(row).and_then(|place| replies.get_mut(place)) {
            *reply = match rows::is_later(row) {
                true => Reply::Locked,
                false => Reply::Done(read(row)),
            };
        }
    }
    replies
}

/// One argument of all calls of a batch, as an array.
pub(crate) fn column<'a, A, V>(asks: &'a [A], value: impl Fn(&'a A) -> V) -> Vec<V> {
    asks.iter().map(value).collect()
}

type Waiting<T> = (
    <T as Batchable>::Ask,
    oneshot::Sender<Reply<<T as Batchable>::Answer>>,
);

/// Collects calls of one kind into batches.
pub(crate) struct Batcher<T: Batchable> {
    shared: Arc<Shared<T>>,
    mode: crate::Batching,
}

struct Shared<T: Batchable> {
    kind: T,
    /// The partitions with a call in progress, by name.
    partitions: Mutex<HashMap<String, Partition<T>>>,
}

struct Partition<T: Batchable> {
    waiting: Vec<Waiting<T>>,
    /// Number of tasks that send batches.
    senders: usize,
}

impl<T: CallAlone> Batcher<T> {
    /// Makes a call in a batch, or alone if it is large or has to wait for a lock.
    pub(crate) async fn call(&self, calls: &Calls, ask: &T::Ask) -> Result<T::Answer> {
        let lock = T::lock(ask);
        let reply = if !T::is_small(ask) {
            Reply::CallAlone
        } else if calls.is_blocked(&lock) {
            Reply::Locked
        } else {
            self.ask(ask.clone()).await
        };
        let if_locked = match reply {
            Reply::Done(answer) => return answer,
            Reply::CallAlone => IfLocked::Queue(&lock),
            Reply::Locked => IfLocked::QueueAtOnce(&lock),
        };
        // Boxed: a server holds one future of this function per client, and it should be small.
        Box::pin(self.kind().one(ask, if_locked)).await
    }
}

impl<T: Batchable> Batcher<T> {
    pub(crate) fn new(kind: T, mode: crate::Batching) -> Self {
        let partitions = Mutex::default();
        Batcher {
            shared: Arc::new(Shared { kind, partitions }),
            mode,
        }
    }

    pub(crate) fn kind(&self) -> &T {
        &self.shared.kind
    }

    /// Makes a call in a batch. If the caller is cancelled, the call may still be made.
    pub(crate) async fn ask(&self, ask: T::Ask) -> Reply<T::Answer> {
        if self.mode == crate::Batching::Alone {
            return Reply::CallAlone;
        }
        let (sender, reply) = oneshot::channel();
        if let Some(name) = self.shared.enqueue(ask, sender) {
            // In its own task, because the first caller may be cancelled and the others not.
            tokio::spawn(self.shared.clone().send_batches(name));
        }
        reply.await.unwrap_or(Reply::CallAlone)
    }
}

impl<T: Batchable> Shared<T> {
    /// Adds a call to its partition. Returns the partition's name if it may have one more sender.
    fn enqueue(&self, ask: T::Ask, reply: oneshot::Sender<Reply<T::Answer>>) -> Option<String> {
        let mut partitions = self.partitions();
        let name = T::partition(&ask);
        if let Some(partition) = partitions.get_mut(name) {
            let more = (partition.senders < T::CONCURRENCY).then(|| name.to_owned());
            partition.senders += usize::from(more.is_some());
            partition.waiting.push((ask, reply));
            return more;
        }
        let name = name.to_owned();
        let partition = Partition {
            waiting: vec![(ask, reply)],
            senders: 1,
        };
        partitions.insert(name.clone(), partition);
        Some(name)
    }

    /// Returns the next calls of a partition; `None` ends the sender, because no call waits.
    fn next_batch(&self, name: &str) -> Option<Vec<Waiting<T>>> {
        let mut partitions = self.partitions();
        let partition = partitions.get_mut(name)?;
        if partition.waiting.is_empty() {
            partition.senders -= 1;
            if partition.senders == 0 {
                partitions.remove(name);
            }
            return None;
        }
        let count = partition.waiting.len().min(MAX_BATCH);
        let batch = partition.waiting.drain(..count);
        // Without the calls of cancelled callers.
        Some(batch.filter(|(_, reply)| !reply.is_closed()).collect())
    }

    /// Sends batches of one partition until no call waits.
    async fn send_batches(self: Arc<Self>, name: String) {
        let mut last_count = 1;
        loop {
            // The callers of the last batch may call again at once. A single caller is not delayed for that.
            for _ in 0..YIELDS_BEFORE_BATCH.min(last_count) {
                tokio::task::yield_now().await;
            }
            let Some(batch) = self.next_batch(&name) else {
                return;
            };
            last_count = batch.len().max(1);
            if batch.is_empty() {
                continue;
            }
            let (asks, callers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            for (caller, reply) in callers.into_iter().zip(self.kind.call(asks).await) {
                if let Err(reply) = caller.send(reply) {
                    self.kind.undelivered(reply).await;
                }
            }
        }
    }

    fn partitions(&self) -> MutexGuard<'_, HashMap<String, Partition<T>>> {
        self.partitions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    /// Adds up the numbers of cancelled callers. A call ends when the semaphore has a permit.
    struct Sums {
        calls: Arc<AtomicU32>,
        begun: Arc<Semaphore>,
        undelivered: Arc<AtomicU32>,
    }

    impl Batchable for Sums {
        type Ask = u32;
        type Answer = u32;

        async fn call(&self, asks: Vec<u32>) -> Vec<Reply<u32>> {
            self.calls.fetch_add(1, Ordering::SeqCst);
            let go = self.begun.acquire().await;
            drop(go);
            asks.into_iter().map(|ask| Reply::Done(Ok(ask))).collect()
        }

        async fn undelivered(&self, reply: Reply<u32>) {
            if let Reply::Done(Ok(ask)) = reply {
                self.undelivered.fetch_add(ask, Ordering::SeqCst);
            }
        }
    }

    #[tokio::test]
    async fn a_cancelled_call_is_not_made_or_is_undone() {
        let begun = Arc::new(Semaphore::new(0));
        let calls = Arc::new(AtomicU32::new(0));
        let undelivered = Arc::new(AtomicU32::new(0));
        let sums = Sums {
            calls: calls.clone(),
            begun: begun.clone(),
            undelivered: undelivered.clone(),
        };
        let batcher = Arc::new(Batcher::new(sums, crate::Batching::Batched));
        let ask = |number| {
            let batcher = batcher.clone();
            tokio::spawn(async move { batcher.ask(number).await })
        };
        let (gone, first) = (ask(1), ask(2));
        while calls.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        // These arrive after the first batch was sent.
        let (early, second) = (ask(10), ask(20));
        while batcher.shared.partitions()[""].waiting.len() < 2 {
            tokio::task::yield_now().await;
        }
        gone.abort();
        early.abort();
        assert!(gone.await.is_err() && early.await.is_err());
        begun.add_permits(1);
        assert!(matches!(first.await, Ok(Reply::Done(Ok(2)))));
        assert!(matches!(second.await, Ok(Reply::Done(Ok(20)))));
        assert_eq!(undelivered.load(Ordering::SeqCst), 1);
    }

    /// Calls of the partition "blocked" never end.
    struct Blocking;

    impl Batchable for Blocking {
        type Ask = &'static str;
        type Answer = usize;

        fn partition<'a>(ask: &'a &'static str) -> &'a str {
            ask
        }

        async fn call(&self, asks: Vec<&'static str>) -> Vec<Reply<usize>> {
            if asks[0] == "blocked" {
                std::future::pending::<()>().await;
            }
            let count = asks.len();
            asks.into_iter().map(|_| Reply::Done(Ok(count))).collect()
        }
    }

    #[tokio::test]
    async fn a_blocked_partition_delays_no_other() {
        let batcher = Arc::new(Batcher::new(Blocking, crate::Batching::Batched));
        let blocked = batcher.clone();
        let blocked = tokio::spawn(async move { blocked.ask("blocked").await });
        while batcher.shared.partitions().is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(matches!(batcher.ask("free").await, Reply::Done(Ok(1))));
        while batcher.shared.partitions().len() > 1 {
            tokio::task::yield_now().await;
        }
        blocked.abort();
    }
}
