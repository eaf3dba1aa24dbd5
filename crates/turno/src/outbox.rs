//! The outbox: events that are published if and only if the transaction that emitted them commits.
//!
//! [`Outbox::emit_in`] stores an event in the caller's transaction. A [`Relay`] publishes committed events to a
//! [sink](crate::sink), at least once. The id of an event never changes, so receivers can de-duplicate by it;
//! [`Turno::mark_processed`] does that in the receiver's transaction.
//!
//! An application that has an outbox table already keeps it: [`Turno::adopt_outbox`] prepares the table, and
//! [`OutboxTable::relay`] publishes its rows.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("app.db");
//! use turno::outbox::Event;
//!
//! let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
//! let mut yours = rusqlite::Connection::open(&file)?;
//! yours.execute_batch("create table ticket (id integer primary key, title text)")?;
//!
//! let mut tx = yours.transaction()?;
//! tx.execute("insert into ticket values (7, 'It does not start')", [])?;
//! let event = Event::new("TicketCreatedEvent", &serde_json::json!({"ticket": 7})).ordering_key(7);
//! turno.outbox().emit_in(&mut tx, &event).await?;
//! tx.commit()?;
//!
//! assert_eq!(turno.outbox().stats().await?.pending, 1);
//! # Ok(()) }
//! ```

mod event;
mod relay;
mod table;

use std::sync::Arc;

use uuid::Uuid;

pub use self::event::Event;
pub use self::relay::{Mode, Relay, RelayReport};
pub use self::table::{AdoptOutbox, OutboxTable};
pub use crate::store::{
    AdoptedOutboxTable, Archive, EventState, EventView, OUTBOX_QUEUE, OnDead, OutboxColumns,
    OutboxStats, OutboxTablePage, OutboxTableStats,
};

use crate::Turno;
use crate::check;
use crate::error::Result;
use crate::settings::CallOptions;
use crate::sink::Sink;
use crate::store::{ItemId, NewEvent, OutboxDiscard, OutboxEmit, OutboxList, OutboxRequeue};
use crate::tx::Transaction;

/// Maximum number of dead events that one call requeues.
const PAGE: u32 = 1000;

/// The handle of the outbox of a store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Outbox {
    turno: Turno,
    user: Option<String>,
    reason: Option<String>,
}

impl Outbox {
    pub(crate) fn new(turno: Turno) -> Self {
        Outbox {
            turno,
            user: None,
            reason: None,
        }
    }

    pub(crate) fn turno(&self) -> &Turno {
        &self.turno
    }

    /// Sets who requeues, for the [history](Turno::history). Default: the user of the [settings](crate::Builder::user).
    #[must_use = "it is another handle"]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets the reason of a requeue or a discard, for the [history](Turno::history), at most 1000 bytes. Default: none.
    #[must_use = "it is another handle"]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    fn own_user(&self) -> Option<String> {
        let user = self.user.as_ref();
        user.or(self.turno.settings().user.as_ref()).cloned()
    }

    /// Emits an event outside a transaction. Returns its id.
    ///
    /// # Errors
    /// Returns an error if the event is invalid, or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::outbox::Event;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// turno.outbox().emit(Event::new("TicketCreatedEvent", &7)).await?;
    /// assert_eq!(turno.outbox().stats().await?.pending, 1);
    /// # Ok(()) }
    /// ```
    pub async fn emit(&self, event: impl Into<Event>) -> Result<Uuid> {
        first(&self.emit_many([event]).await?)
    }

    /// Emits several events outside a transaction, at most 10,000, all or none, in their order. Returns their ids.
    ///
    /// # Errors
    /// As [`Outbox::emit`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::outbox::Event;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let events = [Event::new("TicketCreatedEvent", &7), Event::new("TicketClosedEvent", &7)];
    /// let ids = turno.outbox().emit_many(events).await?;
    /// assert_eq!(ids.len(), 2);
    /// # Ok(()) }
    /// ```
    pub async fn emit_many(
        &self,
        events: impl IntoIterator<Item = impl Into<Event>>,
    ) -> Result<Vec<Uuid>> {
        self.emit_with(events, CallOptions::default()).await
    }

    /// Emits several events outside a transaction, all or none, with the options of this call.
    ///
    /// # Errors
    /// As [`Outbox::emit`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::CallOptions;
    /// use turno::outbox::Event;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let outbox = turno.outbox();
    /// // The response of the first call was lost, so the caller repeats it.
    /// let options = CallOptions::default().request(uuid::Uuid::now_v7());
    /// let events = [Event::new("TicketCreatedEvent", &7)];
    /// let first = outbox.emit_with(&events, options).await?;
    /// assert_eq!(outbox.emit_with(&events, options).await?, first);
    /// # Ok(()) }
    /// ```
    pub async fn emit_with(
        &self,
        events: impl IntoIterator<Item = impl Into<Event>>,
        options: CallOptions,
    ) -> Result<Vec<Uuid>> {
        let events = self.checked(events)?;
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let ask = OutboxEmit {
            events,
            request: options.request_id(),
        };
        let ids = self.turno.store().outbox_emit(&ask).await?;
        let wakers = self.turno.store().wakers();
        wakers.wake(&crate::inbox::wake_name(OUTBOX_QUEUE));
        Ok(ids)
    }

    /// Emits an event in the caller's [transaction](crate::tx). Returns its id. It is published if and only if the
    /// transaction commits.
    ///
    /// # Errors
    /// Returns an error if the event is invalid: nothing was written, and the transaction is usable. Returns an error if the
    /// database fails: the caller must roll back.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// use turno::outbox::Event;
    ///
    /// let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
    /// let mut connection = rusqlite::Connection::open(&file)?;
    /// let mut tx = connection.transaction()?;
    /// turno.outbox().emit_in(&mut tx, Event::new("TicketCreatedEvent", &7)).await?;
    /// tx.commit()?;
    /// assert_eq!(turno.outbox().stats().await?.pending, 1);
    /// # Ok(()) }
    /// ```
    pub async fn emit_in(
        &self,
        tx: &mut impl Transaction,
        event: impl Into<Event>,
    ) -> Result<Uuid> {
        first(&self.emit_many_in(tx, [event]).await?)
    }

    /// Emits several events in the caller's [transaction](crate::tx), in their order. Returns their ids.
    ///
    /// # Errors
    /// As [`Outbox::emit_in`]; all events are checked before the first one is written.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// use turno::outbox::Event;
    ///
    /// let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
    /// let mut connection = rusqlite::Connection::open(&file)?;
    /// let mut tx = connection.transaction()?;
    /// let events = [Event::new("TicketCreatedEvent", &7), Event::new("TicketClosedEvent", &7)];
    /// turno.outbox().emit_many_in(&mut tx, &events).await?;
    /// tx.rollback()?;
    /// assert_eq!(turno.outbox().stats().await?.total, 0); // neither was emitted
    /// # Ok(()) }
    /// ```
    pub async fn emit_many_in(
        &self,
        tx: &mut impl Transaction,
        events: impl IntoIterator<Item = impl Into<Event>>,
    ) -> Result<Vec<Uuid>> {
        let events = self.checked(events)?;
        if events.is_empty() {
            return Ok(Vec::new());
        }
        tx.outbox_emit(&events).await
    }

    /// Checks an event without emitting it, so that a caller with many can report which one is invalid.
    ///
    /// # Errors
    /// Returns the error that [`Outbox::emit`] would return for an invalid event.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::outbox::Event;
    ///
    /// let outbox = turno::Turno::connect("sqlite::memory:").await?.outbox();
    /// assert_eq!(outbox.check(&Event::new("", &7)).unwrap_err().field(), Some("type"));
    /// # Ok(()) }
    /// ```
    pub fn check(&self, event: &Event) -> Result<()> {
        event.check(self.turno.settings().max_payload)
    }

    fn checked(&self, events: impl IntoIterator<Item = impl Into<Event>>) -> Result<Vec<NewEvent>> {
        let events: Vec<Event> = events.into_iter().map(Into::into).collect();
        check::item_count("events", events.len())?;
        let max_payload = self.turno.settings().max_payload;
        events
            .into_iter()
            .map(|event| event.into_checked(max_payload))
            .collect()
    }

    /// Creates a relay, which publishes events to a sink. Nothing happens before [`Relay::run`], which has an example.
    pub fn relay(&self, sink: Arc<dyn Sink>) -> Relay {
        Relay::new(self.clone(), sink)
    }

    /// Returns the number of events per state.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use std::time::Duration;
    /// use turno::outbox::Event;
    ///
    /// let outbox = turno::Turno::connect("sqlite::memory:").await?.outbox();
    /// outbox.emit(Event::new("TicketCreatedEvent", &7)).await?;
    /// outbox.emit(Event::new("TicketReminderEvent", &7).delay(Duration::from_secs(3600))).await?;
    /// let stats = outbox.stats().await?;
    /// assert_eq!((stats.pending, stats.scheduled), (1, 1));
    /// # Ok(()) }
    /// ```
    pub async fn stats(&self) -> Result<OutboxStats> {
        self.turno.store().outbox_stats().await
    }

    /// Returns one page of the events in one state, in the order of their emission; dispatched ones newest first, and in whole
    /// batches. The page size `limit` is 1 to 1000. The next page begins after the `seq` of the last event.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::outbox::{Event, EventState};
    ///
    /// let outbox = turno::Turno::connect("sqlite::memory:").await?.outbox();
    /// outbox.emit_many([Event::new("TicketCreatedEvent", &7), Event::new("TicketClosedEvent", &7)]).await?;
    /// let first = outbox.list(EventState::Pending, None, 1).await?;
    /// let second = outbox.list(EventState::Pending, Some(first[0].seq), 1).await?;
    /// assert_eq!(second[0].kind.as_deref(), Some("TicketClosedEvent"));
    /// # Ok(()) }
    /// ```
    pub async fn list(
        &self,
        state: EventState,
        after: Option<ItemId>,
        limit: u32,
    ) -> Result<Vec<EventView>> {
        let ask = OutboxList {
            state,
            after,
            limit: limit.clamp(1, check::MAX_PAGE),
        };
        self.turno.store().outbox_list(&ask).await
    }

    /// Returns an event by its id, in any state; `None` if it was never emitted, or a sweep has deleted its record.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::outbox::{Event, EventState};
    ///
    /// let outbox = turno::Turno::connect("sqlite::memory:").await?.outbox();
    /// let id = outbox.emit(Event::new("TicketCreatedEvent", &7)).await?;
    /// let event = outbox.find(id).await?.expect("it was emitted");
    /// assert_eq!(event.state, EventState::Pending);
    /// assert!(outbox.find(uuid::Uuid::now_v7()).await?.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn find(&self, id: Uuid) -> Result<Option<EventView>> {
        self.turno.store().outbox_find(id).await
    }

    /// Requeues dead and blocked events, the given ones or all, with all their attempts. Events that are parked behind one are
    /// requeued with it, in order. Returns the number of events. The history gets an entry for about each thousand, with the
    /// [user](Outbox::user) and the [reason](Outbox::reason).
    ///
    /// # Errors
    /// Returns an error if the user or the reason is invalid, or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// # #[derive(Debug)] struct Refuses;
    /// # #[async_trait::async_trait] impl turno::sink::Sink for Refuses {
    /// #     fn name(&self) -> String { "refuses".to_owned() }
    /// #     async fn ready(&self) -> Result<(), turno::sink::Outage> { Ok(()) }
    /// #     async fn publish(&self, events: &[turno::sink::Outgoing]) -> Vec<turno::sink::PublishResult> {
    /// #         vec![turno::sink::PublishResult::Refused("no such exchange".to_owned()); events.len()]
    /// #     }
    /// # }
    /// use std::sync::Arc;
    /// use turno::outbox::Event;
    ///
    /// let outbox = turno::Turno::connect("sqlite::memory:").await?.outbox();
    /// let id = outbox.emit(Event::new("TicketCreatedEvent", &7)).await?;
    /// # let shutdown = async { while outbox.stats().await.unwrap().dead == 0 { tokio::time::sleep(std::time::Duration::from_millis(5)).await } };
    /// // This sink refuses every event.
    /// outbox.relay(Arc::new(Refuses)).max_attempts(1).run(shutdown).await?;
    /// assert_eq!(outbox.stats().await?.dead, 1);
    /// let operator = outbox.clone().user("ana").reason("the exchange exists now");
    /// assert_eq!(operator.requeue(Some(&[id])).await?, 1);
    /// assert_eq!(outbox.stats().await?.pending, 1);
    /// # Ok(()) }
    /// ```
    pub async fn requeue(&self, ids: Option<&[Uuid]>) -> Result<u64> {
        let user = self.own_user();
        check::operator(user.as_deref(), self.reason.as_deref())?;
        if let Some(ids) = ids {
            check::item_count("ids", ids.len())?;
        }
        let ask = OutboxRequeue {
            ids: ids.map(<[Uuid]>::to_vec),
            limit: match ids {
                Some(ids) => u32::try_from(ids.len()).unwrap_or(u32::MAX),
                None => PAGE,
            },
            user,
            reason: self.reason.clone(),
        };
        let mut all = 0;
        loop {
            let many = self.turno.store().outbox_requeue(&ask).await?;
            all += many;
            self.turno
                .store()
                .wakers()
                .wake(&crate::inbox::wake_name(OUTBOX_QUEUE));
            if ids.is_some() || many < u64::from(PAGE) {
                return Ok(all);
            }
        }
    }

    /// Discards dead and blocked events. Events that were blocked behind one continue; parked ones wait to be requeued. Returns
    /// the number of events. The user is stored with the events, and in the history together with the [reason](Outbox::reason).
    ///
    /// # Errors
    /// Returns an error if the user or the reason is invalid, or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// # #[derive(Debug)] struct Refuses;
    /// # #[async_trait::async_trait] impl turno::sink::Sink for Refuses {
    /// #     fn name(&self) -> String { "refuses".to_owned() }
    /// #     async fn ready(&self) -> Result<(), turno::sink::Outage> { Ok(()) }
    /// #     async fn publish(&self, events: &[turno::sink::Outgoing]) -> Vec<turno::sink::PublishResult> {
    /// #         vec![turno::sink::PublishResult::Refused("no such exchange".to_owned()); events.len()]
    /// #     }
    /// # }
    /// use std::sync::Arc;
    /// use turno::outbox::{Event, EventState};
    ///
    /// let outbox = turno::Turno::connect("sqlite::memory:").await?.outbox();
    /// let id = outbox.emit(Event::new("TicketCreatedEvent", &7)).await?;
    /// # let shutdown = async { while outbox.stats().await.unwrap().dead == 0 { tokio::time::sleep(std::time::Duration::from_millis(5)).await } };
    /// // This sink refuses every event.
    /// outbox.relay(Arc::new(Refuses)).max_attempts(1).run(shutdown).await?;
    /// let operator = outbox.clone().reason("the ticket was a test");
    /// assert_eq!(operator.discard(&[id], "ana").await?, 1);
    /// assert_eq!(outbox.find(id).await?.map(|event| event.state), Some(EventState::Discarded));
    /// # Ok(()) }
    /// ```
    pub async fn discard(&self, ids: &[Uuid], user: &str) -> Result<u64> {
        check::item_count("ids", ids.len())?;
        check::operator(Some(user), self.reason.as_deref())?;
        let ask = OutboxDiscard {
            ids: ids.to_vec(),
            user: user.to_owned(),
            reason: self.reason.clone(),
        };
        self.turno.store().outbox_discard(&ask).await
    }
}

fn first(ids: &[Uuid]) -> Result<Uuid> {
    ids.first().copied().ok_or_else(|| {
        crate::error::Error::new(
            crate::error::Kind::Broken,
            "the store did not answer for an event",
        )
    })
}
