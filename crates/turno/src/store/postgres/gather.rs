//! Calls that arrive while others are under way go to the database together.
//!
//! A caller who finds a lane free is served at once. Whoever comes while all lanes are busy waits
//! for the next batch, in which one round trip and one commit serve all of them. So nobody waits longer
//! than for the call before, and the more callers there are, the less each of them costs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::error::Result;

/// The most callers of one batch.
const BATCH: usize = 64;

/// How often those who are about to ask are let run before a batch leaves. With one, locks over HTTP were a tenth slower; with
/// twelve, no faster.
const LET_IN: usize = 4;

/// A kind of call that can be made for many at once.
pub(super) trait Together: Send + Sync + 'static {
    type Ask: Send + 'static;
    type Answer: Send + 'static;
    /// How many calls of this kind are under way at once.
    const LANES: usize = 1;

    /// Makes the call for all of them; one answer for each, in their order. It must not wait for any of
    /// them in particular.
    fn call(&self, asks: Vec<Self::Ask>) -> impl Future<Output = Vec<Answer<Self::Answer>>> + Send;

    /// Undoes what was done for a caller that has gone away meanwhile, if it should be.
    fn unheard(&self, answer: Answer<Self::Answer>) -> impl Future<Output = ()> + Send {
        drop(answer);
        std::future::ready(())
    }
}

/// What one of many is told.
pub(super) enum Answer<T> {
    /// This.
    Given(Result<T>),
    /// To ask alone: it would have kept the others waiting.
    Alone,
}

type Waiting<T> = (
    <T as Together>::Ask,
    oneshot::Sender<Answer<<T as Together>::Answer>>,
);

/// The line before one kind of call.
pub(super) struct Gather<T: Together> {
    shared: Arc<Shared<T>>,
    mode: crate::Gather,
}

struct Shared<T: Together> {
    kind: T,
    line: Mutex<Line<T>>,
}

struct Line<T: Together> {
    waiting: Vec<Waiting<T>>,
    lanes: usize,
}

impl<T: Together> Gather<T> {
    pub(super) fn new(kind: T, mode: crate::Gather) -> Self {
        let line = Mutex::new(Line {
            waiting: Vec::new(),
            lanes: 0,
        });
        Gather {
            shared: Arc::new(Shared { kind, line }),
            mode,
        }
    }

    /// Cancel-safe as far as any call is: given up half-way, it may still be carried out.
    pub(super) async fn ask(&self, ask: T::Ask) -> Answer<T::Answer> {
        if self.mode == crate::Gather::Alone {
            return Answer::Alone;
        }
        let (reply, answer) = oneshot::channel();
        let open = {
            let mut line = self.shared.line();
            line.waiting.push((ask, reply));
            let open = line.lanes < T::LANES;
            line.lanes += usize::from(open);
            open
        };
        if open {
            // A task of its own: the caller who happens to come first may give up, and the others not.
            tokio::spawn(self.shared.clone().serve());
        }
        answer.await.unwrap_or(Answer::Alone)
    }
}

impl<T: Together> Shared<T> {
    /// Serves batch after batch until nobody waits.
    async fn serve(self: Arc<Self>) {
        let mut company = 1;
        loop {
            // Whoever was just answered may well ask again: let them, before the next batch leaves. Somebody alone is not kept.
            for _ in 0..LET_IN.min(company) {
                tokio::task::yield_now().await;
            }
            let batch: Vec<Waiting<T>> = {
                let mut line = self.line();
                if line.waiting.is_empty() {
                    line.lanes -= 1;
                    return;
                }
                let some = line.waiting.len().min(BATCH);
                let batch = line.waiting.drain(..some);
                // Nothing is done for those who have gone away already.
                batch.filter(|(_, reply)| !reply.is_closed()).collect()
            };
            company = batch.len().max(1);
            if batch.is_empty() {
                continue;
            }
            let (asks, replies): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            for (reply, answer) in replies.into_iter().zip(self.kind.call(asks).await) {
                if let Err(answer) = reply.send(answer) {
                    self.kind.unheard(answer).await;
                }
            }
        }
    }

    fn line(&self) -> MutexGuard<'_, Line<T>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
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
        unheard: Arc<AtomicU32>,
    }

    impl Together for Sums {
        type Ask = u32;
        type Answer = u32;

        async fn call(&self, asks: Vec<u32>) -> Vec<Answer<u32>> {
            self.calls.fetch_add(1, Ordering::SeqCst);
            let go = self.begun.acquire().await;
            drop(go);
            asks.into_iter().map(|ask| Answer::Given(Ok(ask))).collect()
        }

        async fn unheard(&self, answer: Answer<u32>) {
            if let Answer::Given(Ok(ask)) = answer {
                self.unheard.fetch_add(ask, Ordering::SeqCst);
            }
        }
    }

    #[tokio::test]
    async fn who_goes_away_is_not_served_and_what_was_done_is_undone() {
        let begun = Arc::new(Semaphore::new(0));
        let calls = Arc::new(AtomicU32::new(0));
        let unheard = Arc::new(AtomicU32::new(0));
        let sums = Sums {
            calls: calls.clone(),
            begun: begun.clone(),
            unheard: unheard.clone(),
        };
        let gather = Arc::new(Gather::new(sums, crate::Gather::Together));
        let ask = |number| {
            let gather = gather.clone();
            tokio::spawn(async move { gather.ask(number).await })
        };
        let (gone, first) = (ask(1), ask(2));
        while calls.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        // These come too late for the call that is under way.
        let (early, second) = (ask(10), ask(20));
        while gather.shared.line().waiting.len() < 2 {
            tokio::task::yield_now().await;
        }
        gone.abort();
        early.abort();
        assert!(gone.await.is_err() && early.await.is_err());
        begun.add_permits(1);
        assert!(matches!(first.await, Ok(Answer::Given(Ok(2)))));
        assert!(matches!(second.await, Ok(Answer::Given(Ok(20)))));
        assert_eq!(unheard.load(Ordering::SeqCst), 1);
    }
}
