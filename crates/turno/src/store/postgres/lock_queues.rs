//! Queues of calls that wait for a lock of another transaction.
//!
//! Of the calls that wait for the same lock, one or two wait on the server, and the others wait in the process. So a transaction
//! that holds a lock for a long time occupies one or two connections of the pool. All waiting calls together use at most half of
//! the pool, so that calls which wait for no lock find a connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// The queues, by the name of the lock.
#[derive(Debug)]
pub(super) struct LockQueues {
    queues: Mutex<HashMap<String, Weak<Semaphore>>>,
    sessions: Semaphore,
}

impl LockQueues {
    pub(super) fn new(connections: usize) -> Self {
        LockQueues {
            queues: Mutex::default(),
            sessions: Semaphore::new((connections / 2).max(1)),
        }
    }

    /// Returns whether calls wait for this lock now.
    pub(super) fn is_waited_for(&self, name: &str) -> bool {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues
            .get(name)
            .is_some_and(|queue| queue.strong_count() > 0)
    }

    /// Resolves when the caller has one of the slots of this lock, which it keeps until the permit is dropped.
    ///
    /// Cancel-safe: a cancelled caller loses its place.
    pub(super) async fn first(&self, name: &str, slots: usize) -> Option<OwnedSemaphorePermit> {
        // Never closed.
        self.queue(name, slots).acquire_owned().await.ok()
    }

    fn queue(&self, name: &str, slots: usize) -> Arc<Semaphore> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(name).and_then(Weak::upgrade) {
            return queue;
        }
        queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = Arc::new(Semaphore::new(slots));
        queues.insert(name.to_owned(), Arc::downgrade(&queue));
        queue
    }

    /// Resolves when the caller may wait on the server, which at most half of the connections may do at once.
    pub(super) async fn session(&self) -> Option<SemaphorePermit<'_>> {
        // Never closed.
        self.sessions.acquire().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::Poll;

    use super::*;

    async fn is_pending<T>(mut waiting: Pin<&mut impl Future<Output = T>>) -> bool {
        std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending()))
            .await
    }

    #[tokio::test]
    async fn callers_of_one_lock_take_turns_and_others_do_not_wait() {
        let locks = LockQueues::new(4);
        assert!(!locks.is_waited_for("a"));
        let first = locks.first("a", 1).await;
        assert!(locks.is_waited_for("a") && !locks.is_waited_for("b"));
        let mut second = std::pin::pin!(locks.first("a", 1));
        assert!(is_pending(second.as_mut()).await);
        drop(locks.first("b", 1).await);
        drop(first);
        assert!(locks.is_waited_for("a"));
        drop(second.await);
        assert!(!locks.is_waited_for("a"));
    }

    #[tokio::test]
    async fn half_of_the_connections_may_wait() {
        let locks = LockQueues::new(4);
        let (one, two) = (locks.session().await, locks.session().await);
        let mut three = std::pin::pin!(locks.session());
        assert!(is_pending(three.as_mut()).await);
        drop(one);
        assert!(three.await.is_some());
        drop(two);
    }
}
