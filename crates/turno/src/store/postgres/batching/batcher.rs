//! Calls that arrive while others are under way go to the database together.
//!
//! A caller who finds a lane free is served at once. Whoever comes while all lanes are busy waits
//! for the next batch, in which one round trip and one commit serve all of them. So nobody waits longer
//! than for the call before, and the more callers there are, the less each of them costs.
//!
//! Calls that wait for different locks have different lines: a queue whose claims are blocked delays no other queue.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::error::Result;
use crate::store::postgres::calls::{Calls, IfLocked};

/// The most callers of one batch.
const BATCH: usize = 64;

/// How often those who are about to ask are let run before a batch leaves. With one, locks over HTTP were a tenth slower; with
/// twelve, no faster.
const LET_IN: usize = 4;

/// A kind of call that can be made for many at once.
pub(crate) trait Batchable: Send + Sync + 'static {
    type Ask: Send + 'static;
    type Answer: Send + 'static;
    /// How many calls of one line are under way at once.
    const LANES: usize = 1;

    /// The line of a call. Calls of different lines never share a batch, and do not wait for each other.
    fn line(ask: &Self::Ask) -> &str {
        let _ = ask;
        ""
    }

    /// Makes the call for all of them; one answer for each, in their order. It must not wait for any of
    /// them in particular.
    fn call(&self, asks: Vec<Self::Ask>) -> impl Future<Output = Vec<Answer<Self::Answer>>> + Send;

    /// Undoes what was done for a caller that has gone away meanwhile, if it should be.
    fn undelivered(&self, answer: Answer<Self::Answer>) -> impl Future<Output = ()> + Send {
        drop(answer);
        std::future::ready(())
    }
}

/// What one of many is told.
pub(crate) enum Answer<T> {
    /// This.
    Given(Result<T>),
    /// To ask alone: it would have kept the others waiting.
    Alone,
    /// To ask alone, and to expect a wait: another transaction has what it needs.
    Locked,
}

impl<T> Answer<T> {
    /// The answer; or, for a call that has to be made alone, how it waits for the lock of this name.
    pub(crate) fn given(self, lock: &str) -> std::result::Result<Result<T>, IfLocked<'_>> {
        match self {
            Answer::Given(answer) => Ok(answer),
            Answer::Alone => Err(IfLocked::Queue(lock)),
            Answer::Locked => Err(IfLocked::QueueAtOnce(lock)),
        }
    }
}

type Waiting<T> = (
    <T as Batchable>::Ask,
    oneshot::Sender<Answer<<T as Batchable>::Answer>>,
);

/// The line before one kind of call.
pub(crate) struct Batcher<T: Batchable> {
    shared: Arc<Shared<T>>,
    mode: crate::Batching,
}

struct Shared<T: Batchable> {
    kind: T,
    /// Those that have a lane open; a line without one has no callers.
    lines: Mutex<HashMap<String, Group<T>>>,
}

struct Group<T: Batchable> {
    waiting: Vec<Waiting<T>>,
    lanes: usize,
}

impl<T: Batchable> Batcher<T> {
    pub(crate) fn new(kind: T, mode: crate::Batching) -> Self {
        let lines = Mutex::default();
        Batcher {
            shared: Arc::new(Shared { kind, lines }),
            mode,
        }
    }

    /// [`Batcher::ask`], unless other calls wait for the lock of this name: then the call has to be made alone.
    pub(crate) async fn ask_unless_blocked(
        &self,
        calls: &Calls,
        lock: &str,
        ask: &T::Ask,
    ) -> Answer<T::Answer>
    where
        T::Ask: Clone,
    {
        match calls.is_blocked(lock) {
            true => Answer::Locked,
            false => self.ask(ask.clone()).await,
        }
    }

    /// Cancel-safe as far as any call is: given up half-way, it may still be carried out.
    pub(crate) async fn ask(&self, ask: T::Ask) -> Answer<T::Answer> {
        if self.mode == crate::Batching::Alone {
            return Answer::Alone;
        }
        let (reply, answer) = oneshot::channel();
        let open = self.shared.stand_in_line(ask, reply);
        if let Some(name) = open {
            // A task of its own: the caller who happens to come first may give up, and the others not.
            tokio::spawn(self.shared.clone().serve(name));
        }
        answer.await.unwrap_or(Answer::Alone)
    }
}

impl<T: Batchable> Shared<T> {
    /// Adds a caller to its line; the line's name, if one more of its lanes opens.
    fn stand_in_line(
        &self,
        ask: T::Ask,
        reply: oneshot::Sender<Answer<T::Answer>>,
    ) -> Option<String> {
        let mut lines = self.lines();
        let name = T::line(&ask);
        if let Some(line) = lines.get_mut(name) {
            let open = (line.lanes < T::LANES).then(|| name.to_owned());
            line.lanes += usize::from(open.is_some());
            line.waiting.push((ask, reply));
            return open;
        }
        let name = name.to_owned();
        let line = Group {
            waiting: vec![(ask, reply)],
            lanes: 1,
        };
        lines.insert(name.clone(), line);
        Some(name)
    }

    /// The next callers of a line; `None` closes the lane, because no caller waits.
    fn next_batch(&self, name: &str) -> Option<Vec<Waiting<T>>> {
        let mut lines = self.lines();
        let line = lines.get_mut(name)?;
        if line.waiting.is_empty() {
            line.lanes -= 1;
            if line.lanes == 0 {
                lines.remove(name);
            }
            return None;
        }
        let some = line.waiting.len().min(BATCH);
        let batch = line.waiting.drain(..some);
        // Nothing is done for those who have gone away already.
        Some(batch.filter(|(_, reply)| !reply.is_closed()).collect())
    }

    /// Serves batch after batch of one line until no caller waits.
    async fn serve(self: Arc<Self>, name: String) {
        let mut company = 1;
        loop {
            // Whoever was just answered may well ask again: let them, before the next batch leaves. Somebody alone is not kept.
            for _ in 0..LET_IN.min(company) {
                tokio::task::yield_now().await;
            }
            let Some(batch) = self.next_batch(&name) else {
                return;
            };
            company = batch.len().max(1);
            if batch.is_empty() {
                continue;
            }
            let (asks, replies): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            for (reply, answer) in replies.into_iter().zip(self.kind.call(asks).await) {
                if let Err(answer) = reply.send(answer) {
                    self.kind.undelivered(answer).await;
                }
            }
        }
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<String, Group<T>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    /// Adds up what nobody heard; a call begins when it is let.
    struct Sums {
        calls: Arc<AtomicU32>,
        begun: Arc<Semaphore>,
        undelivered: Arc<AtomicU32>,
    }

    impl Batchable for Sums {
        type Ask = u32;
        type Answer = u32;

        async fn call(&self, asks: Vec<u32>) -> Vec<Answer<u32>> {
            self.calls.fetch_add(1, Ordering::SeqCst);
            let go = self.begun.acquire().await;
            drop(go);
            asks.into_iter().map(|ask| Answer::Given(Ok(ask))).collect()
        }

        async fn undelivered(&self, answer: Answer<u32>) {
            if let Answer::Given(Ok(ask)) = answer {
                self.undelivered.fetch_add(ask, Ordering::SeqCst);
            }
        }
    }

    #[tokio::test]
    async fn who_goes_away_is_not_served_and_what_was_done_is_undone() {
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
        // These come too late for the call that is under way.
        let (early, second) = (ask(10), ask(20));
        while batcher.shared.lines()[""].waiting.len() < 2 {
            tokio::task::yield_now().await;
        }
        gone.abort();
        early.abort();
        assert!(gone.await.is_err() && early.await.is_err());
        begun.add_permits(1);
        assert!(matches!(first.await, Ok(Answer::Given(Ok(2)))));
        assert!(matches!(second.await, Ok(Answer::Given(Ok(20)))));
        assert_eq!(undelivered.load(Ordering::SeqCst), 1);
    }

    /// Calls of the line "blocked" never end.
    struct Lines;

    impl Batchable for Lines {
        type Ask = &'static str;
        type Answer = usize;

        fn line<'a>(ask: &'a &'static str) -> &'a str {
            ask
        }

        async fn call(&self, asks: Vec<&'static str>) -> Vec<Answer<usize>> {
            if asks[0] == "blocked" {
                std::future::pending::<()>().await;
            }
            let count = asks.len();
            asks.into_iter().map(|_| Answer::Given(Ok(count))).collect()
        }
    }

    #[tokio::test]
    async fn a_blocked_line_delays_no_other() {
        let batcher = Arc::new(Batcher::new(Lines, crate::Batching::Batched));
        let blocked = batcher.clone();
        let blocked = tokio::spawn(async move { blocked.ask("blocked").await });
        while batcher.shared.lines().is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(matches!(batcher.ask("free").await, Answer::Given(Ok(1))));
        while batcher.shared.lines().len() > 1 {
            tokio::task::yield_now().await;
        }
        blocked.abort();
    }
}
