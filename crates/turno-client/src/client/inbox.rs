//! Calls of the inbox.

use reqwest::Method;
use serde::Serialize;
use turno::inbox::{ItemId, ItemState, QueueStats};
use turno_api::inbox::{
    Claim, Claimed, CompleteClaims, Configure, ExtendClaims, FailClaims, FailedItems, Items, Push,
    Pushed, QueueSettings, Queues, Requeued, Reset, ResetResponse, Settled,
};
use turno_api::outbox::Discarded;
use uuid::Uuid;

use super::error::Result;
use super::locks::said;
use super::path::Target;
use super::send::{Call, Repeat};
use super::{Client, Page};

impl Client {
    /// Pushes items to a queue, all or none.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno_client::Client;
    /// use turno_client::api::inbox::Push;
    ///
    /// let client = Client::new("http://127.0.0.1:7117")?;
    /// let ask: Push = serde_json::from_str(r#"{"items": [{"payload": {"to": "ana"}, "key": "welcome/42"}]}"#)?;
    /// let pushed = client.push("mail", &ask).await?;
    /// assert_eq!(pushed.ids.len(), 1);
    /// # Ok(()) }
    /// ```
    pub async fn push(&self, queue: &str, ask: &Push) -> Result<Pushed> {
        match ask.request {
            Some(_) => self.send(queue, None, ask).await?.read(),
            None => {
                let mut ask = ask.clone();
                ask.request = Some(Uuid::now_v7());
                self.send(queue, None, &ask).await?.read()
            }
        }
    }

    /// Claims items of a queue. Returns no items if none is due within the wait.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno_client::Client;
    /// use turno_client::api::inbox::{Claim, CompleteClaims};
    ///
    /// let client = Client::new("http://127.0.0.1:7117")?;
    /// let ask: Claim = serde_json::from_str(r#"{"worker": "worker-1", "limit": 10, "wait": "20s"}"#)?;
    /// let claims = client.claim("mail", &ask).await?.items.iter().map(|item| item.claim).collect();
    /// let settled = client.complete("mail", &CompleteClaims { claims, request: None }).await?;
    /// println!("{} completed, {} stale", settled.done, settled.stale.len());
    /// # Ok(()) }
    /// ```
    pub async fn claim(&self, queue: &str, ask: &Claim) -> Result<Claimed> {
        let mut ask = ask.clone();
        ask.request.get_or_insert_with(Uuid::now_v7);
        let call = Call::new(Method::POST, queue_target(queue, Some("claim"))?)
            .body(&ask)?
            .wait(ask.wait);
        self.call(call).await?.read()
    }

    /// Completes claimed items.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable. A claim that has ended is not an error: it is
    /// listed in [`Settled::stale`].
    pub async fn complete(&self, queue: &str, ask: &CompleteClaims) -> Result<Settled> {
        self.complete_or_give_back(queue, "complete", ask).await
    }

    /// Records failed attempts of claimed items.
    ///
    /// # Errors
    /// Same as [`Client::complete`].
    pub async fn fail(&self, queue: &str, ask: &FailClaims) -> Result<Settled> {
        let mut ask = ask.clone();
        ask.request.get_or_insert_with(Uuid::now_v7);
        self.send(queue, Some("fail"), &ask).await?.read()
    }

    /// Extends claims: they expire one lease from now.
    ///
    /// # Errors
    /// Same as [`Client::complete`].
    pub async fn extend(&self, queue: &str, ask: &ExtendClaims) -> Result<Settled> {
        // Idempotent without a request id.
        self.send(queue, Some("extend"), ask).await?.read()
    }

    /// Gives back claimed items whose processing has not begun.
    ///
    /// # Errors
    /// Same as [`Client::complete`].
    pub async fn give_back(&self, queue: &str, ask: &CompleteClaims) -> Result<Settled> {
        self.complete_or_give_back(queue, "give-back", ask).await
    }

    async fn complete_or_give_back(
        &self,
        queue: &str,
        verb: &str,
        ask: &CompleteClaims,
    ) -> Result<Settled> {
        let mut ask = ask.clone();
        ask.request.get_or_insert_with(Uuid::now_v7);
        self.send(queue, Some(verb), &ask).await?.read()
    }

    async fn send(
        &self,
        queue: &str,
        verb: Option<&str>,
        ask: &impl Serialize,
    ) -> Result<super::send::Answer> {
        let call = Call::new(Method::POST, queue_target(queue, verb)?).body(ask)?;
        self.call(call).await
    }

    /// Returns the number of items per state, for the queues whose names begin with a prefix.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    pub async fn queues(&self, prefix: &str) -> Result<Queues> {
        let target = Target::new("v1/inbox").with("prefix", said(prefix));
        self.call(Call::get(target)).await?.read()
    }

    /// Returns the number of items per state of one queue.
    ///
    /// # Errors
    /// Returns an error if the name is invalid or the server is unavailable.
    pub async fn queue(&self, queue: &str) -> Result<QueueStats> {
        self.call(Call::get(queue_target(queue, None)?))
            .await?
            .read()
    }

    /// Returns one page of a queue's items in one state.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    pub async fn items(&self, queue: &str, state: ItemState, page: &Page<ItemId>) -> Result<Items> {
        let target = queue_target(queue, Some("items"))?
            .with("state", Some(state))
            .with("limit", page.limit)
            .with("after", page.after);
        self.call(Call::get(target)).await?.read()
    }

    /// Requeues failed items.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno_client::Client;
    /// use turno_client::api::inbox::FailedItems;
    ///
    /// let client = Client::new("http://127.0.0.1:7117")?;
    /// let ask = FailedItems { reason: Some("the mail server is back".into()), ..FailedItems::default() };
    /// println!("{} items requeued", client.requeue("mail", &ask).await?.requeued);
    /// # Ok(()) }
    /// ```
    pub async fn requeue(&self, queue: &str, ask: &FailedItems) -> Result<Requeued> {
        let call = Call::new(Method::POST, queue_target(queue, Some("requeue"))?).body(ask)?;
        // A repeat would report that nothing was requeued.
        self.call(call.repeat(Repeat::Unbegun)).await?.read()
    }

    /// Deletes failed items. Their keys stay known as those of completed items do.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    pub async fn discard_items(&self, queue: &str, ask: &FailedItems) -> Result<Discarded> {
        let call = Call::new(Method::POST, queue_target(queue, Some("discard"))?).body(ask)?;
        // A repeat would report that nothing was discarded.
        self.call(call.repeat(Repeat::Unbegun)).await?.read()
    }

    /// Resets the items that workers claimed at least [`Reset::older_than`] ago (default: 15 minutes): they are claimable again. For
    /// workers that hang.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    pub async fn reset(&self, queue: &str, ask: &Reset) -> Result<ResetResponse> {
        let call = Call::new(Method::POST, queue_target(queue, Some("reset"))?).body(ask)?;
        self.call(call.repeat(Repeat::Unbegun)).await?.read()
    }

    /// Returns the settings of a queue.
    ///
    /// # Errors
    /// Returns an error if the name is invalid or the server is unavailable.
    pub async fn queue_settings(&self, queue: &str) -> Result<QueueSettings> {
        let target = queue_target(queue, Some("settings"))?;
        self.call(Call::new(Method::GET, target).repeat(Repeat::Safe))
            .await?
            .read()
    }

    /// Changes settings of a queue, and returns all of them. A setting that is absent stays as it is, and `Some(None)` removes it.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno_client::Client;
    /// use turno_client::api::inbox::Configure;
    ///
    /// let client = Client::new("http://127.0.0.1:7117")?;
    /// let pause: Configure = serde_json::from_str(r#"{"paused": true, "reason": "the mail server is down"}"#)?;
    /// assert!(client.configure_queue("mail", &pause).await?.paused);
    /// # Ok(()) }
    /// ```
    pub async fn configure_queue(&self, queue: &str, ask: &Configure) -> Result<QueueSettings> {
        let call = Call::new(Method::PATCH, queue_target(queue, Some("settings"))?).body(ask)?;
        // Made again, it finds the settings as they are, and changes nothing.
        self.call(call.repeat(Repeat::Safe)).await?.read()
    }
}

fn queue_target(queue: &str, rest: Option<&str>) -> Result<Target> {
    let target = Target::new("v1/inbox").name("queue", queue)?;
    Ok(match rest {
        Some(rest) => target.then(rest),
        None => target,
    })
}
