//! The inbox: items of work, each processed by one worker at a time.
//!
//! [`Turno::inbox`] returns the handle of a queue. [`Inbox::push`] stores an item, [`Inbox::push_in`] in the caller's transaction;
//! [`Inbox::worker`] runs a handler for each item.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use serde::{Deserialize, Serialize};
//! use turno::Turno;
//! use turno::inbox::Job;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Presentation {
//!     id: u32,
//! }
//!
//! let turno = Turno::connect("sqlite::memory:").await?;
//! let inbox = turno.inbox("presentations");
//! inbox.push(&Presentation { id: 7 }).await?;
//!
//! let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
//! let process = move |job: Job<Presentation>| {
//!     let sender = sender.clone();
//!     async move { sender.send(job.payload.id).await }
//! };
//! let done = async { assert_eq!(receiver.recv().await, Some(7)) };
//! let report = inbox.worker(process).concurrency(16).run(done).await?;
//! assert_eq!(report.completed, 1);
//! # Ok(()) }
//! ```
//!
//! # Guarantees
//!
//! Each item is processed *at least once*. At any time at most one claim of an item is valid; the store rejects a lost one. But a
//! worker that was suspended for longer than its lease may still run when another one begins. So effects happen *exactly once*
//! only if they commit together with the item's completion ([`Job::complete_in`]), or if their receiver recognizes the item's id.
//!
//! | to | call |
//! |---|---|
//! | push in your own transaction | [`Inbox::push_in`] |
//! | store an item once, however often it is pushed | [`Item::unique_key`] |
//! | set the priority, the due time or the order | [`Item::priority`], [`Item::delay`], [`Item::group`] |
//! | run a handler for each item | [`Inbox::worker`] |
//! | claim items without a worker | [`Inbox::claim`], then [`Inbox::complete`] |
//! | commit effect and completion together | [`Job::complete_in`], [`Inbox::complete_in`] |
//! | handle failed items | [`Inbox::list`] with [`ItemState::Failed`], [`Inbox::requeue`], [`Inbox::discard`] |

mod claim;
pub(crate) mod idle;
mod item;
mod operator;
mod pace;
mod worker;

use std::time::Duration;

pub use self::claim::ClaimBuilder;
pub use self::item::Item;
pub use self::worker::{Job, Worker, WorkerReport};
use crate::HandlerError;
use crate::Turno;
use crate::check;
use crate::error::{Error, Kind, Result};
use crate::settings::CallOptions;
pub use crate::store::{
    Again, AttemptError, ClaimId, ClaimedItem, DEFAULT_ATTEMPTS, DEFAULT_PRIORITY, Failure, ItemId,
    ItemState, ItemView, PRIORITIES, PushedItem, QueueSettings, QueueStats, Rate, SettingsChange,
    Settled,
};
use crate::store::{
    InboxComplete, InboxExtend, InboxFail, InboxGiveBack, InboxList, InboxPush, InboxStats,
};
use crate::tx::Transaction;

/// The handle of a queue. Cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
/// let inbox = turno::Turno::connect("sqlite::memory:").await?.inbox("mail");
/// inbox.push("hello").await?;
/// for item in inbox.claim().limit(10).take().await? {
///     println!("{}", item.payload);
///     inbox.complete(&[item.claim]).await?;
/// }
/// assert_eq!(inbox.stats().await?.completed, 1);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Inbox {
    turno: Turno,
    queue: String,
    user: Option<String>,
    reason: Option<String>,
}

/// Returns the name by which waiters for a queue are woken.
pub(crate) fn wake_name(queue: &str) -> String {
    format!("inbox:{queue}")
}

impl Inbox {
    pub(crate) fn new(turno: Turno, queue: String) -> Self {
        Inbox {
            turno,
            queue,
            user: None,
            reason: None,
        }
    }

    /// Returns the queue's name.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    pub(crate) fn turno(&self) -> &Turno {
        &self.turno
    }

    /// Pushes one item: a reference to a payload, or an [`Item`] with options.
    ///
    /// # Errors
    /// Returns an error if the queue's name or the item is invalid ([`Error::field`] names the argument), or the store is
    /// unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::inbox::Item;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let inbox = turno.inbox("mail");
    /// inbox.push("hello").await?;
    /// inbox.push(Item::new("hello").priority(0)).await?;
    /// assert_eq!(inbox.stats().await?.pending, 2);
    /// # Ok(()) }
    /// ```
    pub async fn push(&self, item: impl Into<Item>) -> Result<PushedItem> {
        first(self.push_many([item]).await?)
    }

    /// Pushes several items, at most 10,000, all or none. Returns one result per item, in their order.
    ///
    /// # Errors
    /// As [`Inbox::push`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let pushed = turno.inbox("mail").push_many(["to ana", "to ben"]).await?;
    /// assert_eq!(pushed.len(), 2);
    /// # Ok(()) }
    /// ```
    pub async fn push_many(
        &self,
        items: impl IntoIterator<Item = impl Into<Item>>,
    ) -> Result<Vec<PushedItem>> {
        self.push_with(items, CallOptions::default()).await
    }

    /// Pushes several items, all or none, with the options of this call.
    ///
    /// # Errors
    /// As [`Inbox::push`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::CallOptions;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let inbox = turno.inbox("mail");
    /// // The response of the first call was lost, so the caller repeats it.
    /// let options = CallOptions::default().request(uuid::Uuid::now_v7());
    /// let first = inbox.push_with(["hello"], options).await?;
    /// assert_eq!(inbox.push_with(["hello"], options).await?, first);
    /// assert_eq!(inbox.stats().await?.pending, 1);
    /// # Ok(()) }
    /// ```
    pub async fn push_with(
        &self,
        items: impl IntoIterator<Item = impl Into<Item>>,
        options: CallOptions,
    ) -> Result<Vec<PushedItem>> {
        let ask = self.push_params(items, options)?;
        if ask.items.is_empty() {
            return Ok(Vec::new());
        }
        let pushed = self.turno.store().inbox_push(&ask).await?;
        self.wake();
        Ok(pushed)
    }

    /// Pushes one item in the caller's [transaction](crate::tx): it is stored if and only if the transaction commits.
    ///
    /// # Errors
    /// As [`Inbox::push`]. The caller must roll back.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
    /// let mut connection = rusqlite::Connection::open(&file)?;
    /// let mut tx = connection.transaction()?;
    /// turno.inbox("mail").push_in(&mut tx, "hello").await?;
    /// tx.commit()?;
    /// assert_eq!(turno.inbox("mail").stats().await?.pending, 1);
    /// # Ok(()) }
    /// ```
    pub async fn push_in(
        &self,
        tx: &mut impl Transaction,
        item: impl Into<Item>,
    ) -> Result<PushedItem> {
        first(self.push_many_in(tx, [item]).await?)
    }

    /// Pushes several items in the caller's [transaction](crate::tx), in their order.
    ///
    /// # Errors
    /// As [`Inbox::push`]. The caller must roll back.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
    /// let mut connection = rusqlite::Connection::open(&file)?;
    /// let mut tx = connection.transaction()?;
    /// turno.inbox("mail").push_many_in(&mut tx, ["to ana", "to ben"]).await?;
    /// tx.commit()?;
    /// assert_eq!(turno.inbox("mail").stats().await?.pending, 2);
    /// # Ok(()) }
    /// ```
    pub async fn push_many_in(
        &self,
        tx: &mut impl Transaction,
        items: impl IntoIterator<Item = impl Into<Item>>,
    ) -> Result<Vec<PushedItem>> {
        let ask = self.push_params(items, CallOptions::default())?;
        if ask.items.is_empty() {
            return Ok(Vec::new());
        }
        tx.inbox_push(&ask).await
    }

    /// Checks an item without pushing it, so that a caller with many can report which one is invalid.
    ///
    /// # Errors
    /// Returns the error that [`Inbox::push`] would return for an invalid item.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::inbox::Item;
    ///
    /// let inbox = turno::Turno::connect("sqlite::memory:").await?.inbox("mail");
    /// let error = inbox.check(&Item::new("hello").priority(9)).unwrap_err();
    /// assert_eq!(error.field(), Some("priority"));
    /// # Ok(()) }
    /// ```
    pub fn check(&self, item: &Item) -> Result<()> {
        item.check(self.turno.settings().max_payload)
    }

    fn push_params(
        &self,
        items: impl IntoIterator<Item = impl Into<Item>>,
        options: CallOptions,
    ) -> Result<InboxPush> {
        check::queue(&self.queue)?;
        let items: Vec<Item> = items.into_iter().map(Into::into).collect();
        check::item_count("items", items.len())?;
        let max_payload = self.turno.settings().max_payload;
        Ok(InboxPush {
            queue: self.queue.clone(),
            items: items
                .into_iter()
                .map(|item| item.into_checked(max_payload))
                .collect::<Result<_>>()?,
            request: options.request_id(),
        })
    }

    /// Claims items, with [`ClaimBuilder::take`]. A [`Worker`] claims, extends and completes without these calls.
    pub fn claim(&self) -> ClaimBuilder {
        ClaimBuilder::new(self.clone())
    }

    /// Creates a worker, which runs `handler` for each item. Nothing happens before [`Worker::run`], which has an example.
    pub fn worker<T, H, F, E>(&self, handler: H) -> Worker<T, H>
    where
        H: Fn(Job<T>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<HandlerError> + Send + 'static,
        T: serde::de::DeserializeOwned + Send + 'static,
    {
        Worker::new(self.clone(), handler)
    }

    /// Completes items, at most 10,000.
    ///
    /// # Errors
    /// Returns an error if there are too many claims or the store is unavailable. A claim that is not valid any more is in
    /// [`Settled::stale`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// let inbox = turno::Turno::connect("sqlite::memory:").await?.inbox("mail");
    /// inbox.push("hello").await?;
    /// let claim = inbox.claim().take().await?[0].claim;
    /// assert_eq!(inbox.complete(&[claim]).await?.done, 1);
    /// assert_eq!(inbox.complete(&[claim]).await?.stale, [claim]); // the claim has ended
    /// # Ok(()) }
    /// ```
    pub async fn complete(&self, claims: &[ClaimId]) -> Result<Settled> {
        self.complete_with(claims, CallOptions::default()).await
    }

    /// [`Inbox::complete`] with the options of this call.
    ///
    /// # Errors
    /// As [`Inbox::complete`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::CallOptions;
    ///
    /// let inbox = turno::Turno::connect("sqlite::memory:").await?.inbox("mail");
    /// inbox.push("hello").await?;
    /// let claim = inbox.claim().take().await?[0].claim;
    /// // The response of the first call was lost, so the caller repeats it.
    /// let options = CallOptions::default().request(uuid::Uuid::now_v7());
    /// let first = inbox.complete_with(&[claim], options).await?;
    /// assert_eq!(inbox.complete_with(&[claim], options).await?, first);
    /// # Ok(()) }
    /// ```
    pub async fn complete_with(&self, claims: &[ClaimId], options: CallOptions) -> Result<Settled> {
        check::queue(&self.queue)?;
        check::item_count("claims", claims.len())?;
        let ask = InboxComplete {
            claims: claims.to_vec(),
            request: options.request_id(),
        };
        let settled = self.turno.store().inbox_complete(&ask).await?;
        // Another of the same group may be next.
        self.wake();
        Ok(settled)
    }

    /// Completes items in the caller's own [transaction](crate::tx): effect and completion commit together.
    ///
    /// # Errors
    /// Returns an error ([`Error::is_lost`]) if a claim is stale: the caller must roll back, and another worker repeats the work.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
    /// let inbox = turno.inbox("mail");
    /// inbox.push("hello").await?;
    /// let claim = inbox.claim().take().await?[0].claim;
    ///
    /// let mut connection = rusqlite::Connection::open(&file)?;
    /// let mut tx = connection.transaction()?;
    /// tx.execute("create table sent (subject text)", [])?; // the effect
    /// inbox.complete_in(&mut tx, &[claim]).await?; // last, before the commit
    /// tx.commit()?;
    /// assert_eq!(inbox.stats().await?.completed, 1);
    /// # Ok(()) }
    /// ```
    pub async fn complete_in(&self, tx: &mut impl Transaction, claims: &[ClaimId]) -> Result<()> {
        check::item_count("claims", claims.len())?;
        match tx.inbox_complete(claims).await?.stale.first() {
            None => Ok(()),
            Some(claim) => Err(stale(claim)),
        }
    }

    /// Records failed attempts, at most 10,000. Each item is retried after [`Failure::retry_in`] (default: an exponential backoff)
    /// or, without attempts left, counts as failed.
    ///
    /// # Errors
    /// Returns an error if a pause is longer than ten years, or the store is unavailable. A claim that is not valid any more is
    /// in [`Settled::stale`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::inbox::{Failure, ItemState};
    ///
    /// let inbox = turno::Turno::connect("sqlite::memory:").await?.inbox("mail");
    /// inbox.push("hello").await?;
    /// let claim = inbox.claim().take().await?[0].claim;
    /// inbox.fail(&[Failure { error: "the server is busy".into(), ..Failure::from(claim) }]).await?;
    /// let retried = inbox.list(ItemState::Scheduled, None, 10).await?; // after a backoff
    /// assert_eq!(retried[0].errors[0].error, "the server is busy");
    /// # Ok(()) }
    /// ```
    pub async fn fail(&self, failures: &[Failure]) -> Result<Settled> {
        self.fail_with(failures, CallOptions::default()).await
    }

    /// [`Inbox::fail`] with the options of this call.
    ///
    /// # Errors
    /// As [`Inbox::fail`].
    pub async fn fail_with(&self, failures: &[Failure], options: CallOptions) -> Result<Settled> {
        check::queue(&self.queue)?;
        check::item_count("claims", failures.len())?;
        for retry_in in failures.iter().filter_map(|failure| failure.retry_in) {
            check::delay("retry_in", retry_in)?;
        }
        let ask = InboxFail {
            failures: failures.to_vec(),
            request: options.request_id(),
        };
        let settled = self.turno.store().inbox_fail(&ask).await?;
        self.wake();
        Ok(settled)
    }

    /// Gives back items whose work did not begin, at most 10,000. They are claimable at once, and no attempt is counted.
    ///
    /// # Errors
    /// As [`Inbox::complete`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// let inbox = turno::Turno::connect("sqlite::memory:").await?.inbox("mail");
    /// inbox.push("hello").await?;
    /// let first = inbox.claim().take().await?;
    /// inbox.give_back(&[first[0].claim]).await?;
    /// let second = inbox.claim().take().await?;
    /// assert_eq!(second[0].attempt, 1);
    /// # Ok(()) }
    /// ```
    pub async fn give_back(&self, claims: &[ClaimId]) -> Result<Settled> {
        self.give_back_with(claims, CallOptions::default()).await
    }

    /// [`Inbox::give_back`] with the options of this call.
    ///
    /// # Errors
    /// As [`Inbox::give_back`].
    pub async fn give_back_with(
        &self,
        claims: &[ClaimId],
        options: CallOptions,
    ) -> Result<Settled> {
        check::queue(&self.queue)?;
        check::item_count("claims", claims.len())?;
        let ask = InboxGiveBack {
            claims: claims.to_vec(),
            request: options.request_id(),
        };
        let settled = self.turno.store().inbox_give_back(&ask).await?;
        self.wake();
        Ok(settled)
    }

    /// Extends claims: they expire `lease` from now, 1 millisecond to 24 hours. Items that were claimed together expire together.
    ///
    /// # Errors
    /// Returns an error if the lease is invalid, or the store is unavailable. A claim that is not valid any more is in
    /// [`Settled::stale`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use std::time::Duration;
    ///
    /// let inbox = turno::Turno::connect("sqlite::memory:").await?.inbox("mail");
    /// inbox.push("hello").await?;
    /// let item = inbox.claim().lease(Duration::from_secs(10)).take().await?.remove(0);
    /// let extended = inbox.extend(&[item.claim], Duration::from_secs(60)).await?;
    /// assert_eq!((extended.done, extended.stale.len()), (1, 0));
    /// # Ok(()) }
    /// ```
    pub async fn extend(&self, claims: &[ClaimId], lease: Duration) -> Result<Settled> {
        check::queue(&self.queue)?;
        check::item_count("claims", claims.len())?;
        check::lease(lease)?;
        let ask = InboxExtend {
            claims: claims.to_vec(),
            lease,
        };
        self.turno.store().inbox_extend(&ask).await
    }

    /// Returns the number of items in each state.
    ///
    /// # Errors
    /// Returns an error if nothing was ever pushed to the queue ([`Error::is_no_queue`]), its name is invalid, or the store
    /// is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// turno.inbox("mail").push("hello").await?;
    /// assert_eq!(turno.inbox("mail").stats().await?.pending, 1);
    /// assert!(turno.inbox("mial").stats().await.unwrap_err().is_no_queue());
    /// # Ok(()) }
    /// ```
    pub async fn stats(&self) -> Result<QueueStats> {
        check::queue(&self.queue)?;
        let ask = InboxStats {
            queue: Some(self.queue.clone()),
            prefix: String::new(),
        };
        let stats = self.turno.store().inbox_stats(&ask).await?;
        stats.into_iter().next().ok_or_else(|| {
            Error::no_queue(format!(
                "there is no queue {}: nothing was ever pushed to it. Check its name",
                self.queue
            ))
        })
    }

    /// Returns one page of the items in one state, in order of their ids; completed ones newest first. A page has at most `limit`
    /// items, 1 to 1000; the next page begins after the id of the last item.
    ///
    /// # Errors
    /// As [`Inbox::stats`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::inbox::ItemState;
    ///
    /// let inbox = turno::Turno::connect("sqlite::memory:").await?.inbox("mail");
    /// inbox.push_many(["to ana", "to ben"]).await?;
    /// let first = inbox.list(ItemState::Pending, None, 1).await?;
    /// let second = inbox.list(ItemState::Pending, Some(first[0].id), 1).await?;
    /// assert_eq!(second[0].payload.as_deref(), Some("\"to ben\""));
    /// # Ok(()) }
    /// ```
    pub async fn list(
        &self,
        state: ItemState,
        after: Option<ItemId>,
        limit: u32,
    ) -> Result<Vec<ItemView>> {
        check::queue(&self.queue)?;
        let ask = InboxList {
            queue: self.queue.clone(),
            state,
            after,
            limit: limit.clamp(1, check::MAX_PAGE),
        };
        let items = self.turno.store().inbox_list(&ask).await?;
        if items.is_empty() {
            // An empty page may mean that the queue does not exist.
            self.stats().await?;
        }
        Ok(items)
    }

    fn wake(&self) {
        self.turno.store().wakers().wake(&wake_name(&self.queue));
    }
}

fn first(pushed: Vec<PushedItem>) -> Result<PushedItem> {
    pushed
        .into_iter()
        .next()
        .ok_or_else(|| Error::new(Kind::Broken, "the store did not answer for a pushed item"))
}

pub(crate) fn stale(claim: &ClaimId) -> Error {
    Error::new(
        Kind::Lost,
        format!(
            "the claim {claim} is lost: another worker may have the item. Roll back; the other worker processes it"
        ),
    )
}
