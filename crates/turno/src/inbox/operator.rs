//! Operator actions on a queue: requeue and discard failed items, reset claimed ones, change settings.

use std::time::Duration;

use super::Inbox;
use crate::check;
use crate::error::Result;
use crate::store::{
    InboxConfigure, InboxFailedItems, InboxReset, ItemId, QueueSettings, SettingsChange,
};

/// Maximum number of items that one call requeues, discards or resets. The library repeats the call until all are.
const PAGE: u32 = 1000;

/// What an operator does with failed items.
#[derive(Debug, Clone, Copy)]
enum Decision {
    Requeue,
    Discard,
}

impl Inbox {
    /// Sets who requeues, discards, resets or changes settings, for the [history](crate::Turno::history). Default: the user of the
    /// [settings](crate::Builder::user).
    #[must_use = "it is another handle"]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets the reason for a requeue, a discard, a reset or a change of settings, at most 1000 bytes. It goes into the [history](crate::Turno::history).
    /// Default: none.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let mail = turno.inbox("mail").user("ana").reason("the mail server is back");
    /// mail.requeue(None).await?;
    /// # Ok(()) }
    /// ```
    #[must_use = "it is another handle"]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    fn own_user(&self) -> Option<String> {
        let user = self.user.as_ref();
        user.or(self.turno.settings().user.as_ref()).cloned()
    }

    /// Requeues failed items, those with the ids or all of them. Returns the number of items.
    ///
    /// The history has an entry for each thousand, with the [user](Inbox::user) and the [reason](Inbox::reason).
    ///
    /// # Errors
    /// Returns an error if the user or the reason is invalid, or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::inbox::{Again, Failure};
    ///
    /// let inbox = turno::Turno::connect("sqlite::memory:").await?.inbox("mail");
    /// inbox.push("hello").await?;
    /// let claim = inbox.claim().take().await?[0].claim;
    /// inbox.fail(&[Failure { again: Again::Never, ..Failure::from(claim) }]).await?;
    ///
    /// let operator = inbox.clone().user("ana").reason("the mail server is back");
    /// assert_eq!(operator.requeue(None).await?, 1);
    /// assert_eq!(inbox.stats().await?.pending, 1);
    /// # Ok(()) }
    /// ```
    pub async fn requeue(&self, ids: Option<&[ItemId]>) -> Result<u64> {
        self.decide(Decision::Requeue, ids).await
    }

    /// Discards failed items, those with the ids or all of them. Returns the number of items.
    ///
    /// The items and their errors are deleted. Their keys stay known for as long as those of completed items, so that a
    /// repeated push is still a duplicate. The history has an entry for each thousand, with the [user](Inbox::user) and the
    /// [reason](Inbox::reason).
    ///
    /// # Errors
    /// Returns an error if the user or the reason is invalid, or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::inbox::{Again, Failure};
    ///
    /// let inbox = turno::Turno::connect("sqlite::memory:").await?.inbox("mail");
    /// let item = inbox.push("hello").await?.id;
    /// let claim = inbox.claim().take().await?[0].claim;
    /// inbox.fail(&[Failure { again: Again::Never, ..Failure::from(claim) }]).await?;
    ///
    /// let operator = inbox.clone().user("ana").reason("there is no such address");
    /// assert_eq!(operator.discard(Some(&[item])).await?, 1);
    /// assert_eq!(inbox.stats().await?.failed, 0);
    /// # Ok(()) }
    /// ```
    pub async fn discard(&self, ids: Option<&[ItemId]>) -> Result<u64> {
        self.decide(Decision::Discard, ids).await
    }

    async fn decide(&self, decision: Decision, ids: Option<&[ItemId]>) -> Result<u64> {
        check::queue(&self.queue)?;
        let user = self.own_user();
        check::operator(user.as_deref(), self.reason.as_deref())?;
        let mut all = 0;
        // In several calls, each of which is one short transaction.
        let pages: Vec<Option<Vec<ItemId>>> = match ids {
            Some(ids) => ids
                .chunks(PAGE as usize)
                .map(|c| Some(c.to_vec()))
                .collect(),
            None => vec![None],
        };
        for ids in pages {
            loop {
                let ask = InboxFailedItems {
                    queue: self.queue.clone(),
                    ids: ids.clone(),
                    limit: PAGE,
                    user: user.clone(),
                    reason: self.reason.clone(),
                };
                let store = self.turno.store();
                let many = match decision {
                    Decision::Requeue => store.inbox_requeue(&ask).await?,
                    Decision::Discard => store.inbox_discard(&ask).await?,
                };
                all += many;
                // After a discard there is nothing to claim.
                if matches!(decision, Decision::Requeue) {
                    self.wake();
                }
                if many < u64::from(PAGE) {
                    break;
                }
            }
        }
        Ok(all)
    }

    /// Resets items that were claimed at least `older_than` ago: they are claimable again. Returns the number of items.
    ///
    /// The old claims become stale. Use it for workers that hang; the claims of crashed workers expire without it. The history has
    /// an entry for each thousand, with the [user](Inbox::user) and the [reason](Inbox::reason).
    ///
    /// # Errors
    /// Returns an error if `older_than` is longer than ten years, the user or the reason is invalid, or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use std::time::Duration;
    ///
    /// let inbox = turno::Turno::connect("sqlite::memory:").await?.inbox("mail");
    /// inbox.push("hello").await?;
    /// let hanging = inbox.claim().take().await?;
    /// let operator = inbox.clone().user("ana").reason("the worker hangs");
    /// assert_eq!(operator.reset(Duration::ZERO).await?, 1);
    /// assert_eq!(inbox.complete(&[hanging[0].claim]).await?.done, 0); // the claim is stale
    /// # Ok(()) }
    /// ```
    pub async fn reset(&self, older_than: Duration) -> Result<u64> {
        check::queue(&self.queue)?;
        let user = self.own_user();
        check::operator(user.as_deref(), self.reason.as_deref())?;
        check::delay("older_than", older_than)?;
        let ask = InboxReset {
            queue: self.queue.clone(),
            older_than,
            limit: PAGE,
            user,
            reason: self.reason.clone(),
        };
        let mut all = 0;
        loop {
            let many = self.turno.store().inbox_reset(&ask).await?;
            all += many;
            self.wake();
            if many < u64::from(PAGE) {
                return Ok(all);
            }
        }
    }

    /// Returns the settings of the queue. Default: none, and nothing is limited.
    ///
    /// # Errors
    /// Returns an error if the name of the queue is invalid or the store is unavailable.
    pub async fn settings(&self) -> Result<QueueSettings> {
        check::queue(&self.queue)?;
        self.turno.store().inbox_settings(&self.queue).await
    }

    /// Changes settings of the queue, for all its workers, and returns all settings.
    ///
    /// Every claim that begins later follows them, also those of other processes. Items in flight are not concerned. The history
    /// has an entry with the old and the new settings, the [user](Inbox::user) and the [reason](Inbox::reason).
    ///
    /// # Errors
    /// Returns an error if a setting, the user or the reason is invalid, or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use std::time::Duration;
    /// use turno::inbox::{Rate, SettingsChange};
    ///
    /// let inbox = turno::Turno::connect("sqlite::memory:").await?.inbox("mail");
    /// let rate = Rate::new(100, Duration::from_secs(60));
    /// let operator = inbox.clone().user("ana").reason("the provider allows 100 a minute");
    /// let settings = operator.configure(SettingsChange::default().max_running(3).rate(rate)).await?;
    /// assert_eq!(settings.max_running, Some(3));
    ///
    /// inbox.configure(SettingsChange::default().rate(None)).await?;
    /// assert_eq!(inbox.settings().await?.rate, None);
    /// # Ok(()) }
    /// ```
    pub async fn configure(&self, change: SettingsChange) -> Result<QueueSettings> {
        check::queue(&self.queue)?;
        check::settings(&change)?;
        let user = self.own_user();
        check::operator(user.as_deref(), self.reason.as_deref())?;
        let ask = InboxConfigure {
            queue: self.queue.clone(),
            change,
            user,
            reason: self.reason.clone(),
        };
        let settings = self.turno.store().inbox_configure(&ask).await?;
        self.wake();
        Ok(settings)
    }

    /// Pauses the queue: claims get no items until [`Inbox::resume`]. Pushes and items in flight are not concerned.
    ///
    /// # Errors
    /// As [`Inbox::configure`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// let inbox = turno::Turno::connect("sqlite::memory:").await?.inbox("mail");
    /// inbox.push("hello").await?;
    /// inbox.clone().reason("the mail server is down").pause().await?;
    /// assert!(inbox.claim().take().await?.is_empty());
    /// inbox.resume().await?;
    /// assert_eq!(inbox.claim().take().await?.len(), 1);
    /// # Ok(()) }
    /// ```
    pub async fn pause(&self) -> Result<QueueSettings> {
        self.configure(SettingsChange::default().paused(true)).await
    }

    /// Resumes the queue.
    ///
    /// # Errors
    /// As [`Inbox::configure`].
    pub async fn resume(&self) -> Result<QueueSettings> {
        self.configure(SettingsChange::default().paused(false))
            .await
    }
}
