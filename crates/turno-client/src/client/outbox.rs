//! Calls of the outbox.

use reqwest::Method;
use turno::inbox::ItemId;
use turno::outbox::{EventState, OutboxStats};
use turno_api::inbox::Requeued;
use turno_api::outbox::{Discard, Discarded, Emit, Emitted, EventView, Events, RequeueEvents};
use uuid::Uuid;

use super::error::Result;
use super::locks::outcome;
use super::path::Target;
use super::send::{Call, Repeat};
use super::{Client, Page};

impl Client {
    /// Emits events, all or none.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno_client::Client;
    /// use turno_client::api::outbox::Emit;
    ///
    /// let client = Client::new("http://127.0.0.1:7117")?;
    /// let ask: Emit = serde_json::from_str(r#"{"events": [{"type": "TicketCreatedEvent", "payload": {"ticket": 7}}]}"#)?;
    /// let id = client.emit(&ask).await?.ids[0];
    /// assert!(client.event(id).await?.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn emit(&self, ask: &Emit) -> Result<Emitted> {
        let call = match ask.request {
            Some(_) => Call::post("v1/outbox", ask)?,
            None => {
                let mut ask = ask.clone();
                ask.request = Some(Uuid::now_v7());
                Call::post("v1/outbox", &ask)?
            }
        };
        self.call(call).await?.read()
    }

    /// Returns the number of events per state.
    ///
    /// # Errors
    /// Returns an error if the server is unavailable.
    pub async fn outbox(&self) -> Result<OutboxStats> {
        self.call(Call::get(Target::new("v1/outbox"))).await?.read()
    }

    /// Returns one page of the events in one state.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    pub async fn events(&self, state: EventState, page: &Page<ItemId>) -> Result<Events> {
        let target = Target::new("v1/outbox/events")
            .with("state", Some(state))
            .with("limit", page.limit)
            .with("after", page.after);
        self.call(Call::get(target)).await?.read()
    }

    /// Returns one event in any state; `None` if there is no event with this id.
    ///
    /// # Errors
    /// Returns an error if the server is unavailable.
    pub async fn event(&self, id: Uuid) -> Result<Option<EventView>> {
        let target = Target::new("v1/outbox/events").name("id", &id.to_string())?;
        match outcome(self.call(Call::get(target)).await, &["not_found"])? {
            Ok(answer) => answer.read().map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Requeues dead and blocked events.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    pub async fn requeue_events(&self, ask: &RequeueEvents) -> Result<Requeued> {
        let call = Call::new(Method::POST, Target::new("v1/outbox/requeue")).body(ask)?;
        self.call(call.repeat(Repeat::Unbegun)).await?.read()
    }

    /// Discards dead and blocked events. The relay does not try to publish them again.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    pub async fn discard(&self, ask: &Discard) -> Result<Discarded> {
        let call = Call::new(Method::POST, Target::new("v1/outbox/discard")).body(ask)?;
        self.call(call.repeat(Repeat::Unbegun)).await?.read()
    }
}
