//! The outbox: events that are published if and only if the transaction that emitted them commits.
//!
//! [`Outbox::emit`] writes an event in your own transaction. A [`Relay`] publishes what was committed to a
//! [sink](crate::sink), at least once; the id, stable for ever, is what receivers de-duplicate by:
//! [`Turno::seen`] does that in the receiver's own transaction.
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
//! let event = Event::new("TicketCreatedEvent", &serde_json::json!({"ticket": 7})).key(7);
//! turno.outbox().emit(&mut tx, &event).await?;
//! tx.commit()?;
//!
//! assert_eq!(turno.outbox().stats().await?.pending, 1);
//! # Ok(()) }
//! ```

mod backoff;
mod batch;
mod breaker;
mod event;
mod flow;
mod lead;
mod relay;
mod rest;
mod routes;

use std::sync::Arc;

use uuid::Uuid;

pub use self::event::Event;
pub use self::relay::{Mode, Relay, RelayReport};
pub use crate::store::{Archive, EventState, EventView, OUTBOX_QUEUE, OnDead, OutboxStats};

use crate::Turno;
use crate::check;
use crate::error::Result;
use crate::sink::Sink;
use crate::store::{ItemId, NewEvent, OutboxDiscard, OutboxEmit, OutboxList, OutboxRequeue};
use crate::tx::CallerTx;

/// How many dead events are requeued at a time.
const PAGE: u32 = 1000;

/// The outbox of a store.
#[derive(Debug, Clone)]
pub struct Outbox {
    turno: Turno,
    request: Option<Uuid>,
    user: Option<String>,
    reason: Option<String>,
}

impl Outbox {
    pub(crate) fn new(turno: Turno) -> Self {
        Outbox {
            turno,
            request: None,
            user: None,
            reason: None,
        }
    }

    pub(crate) fn turno(&self) -> &Turno {
        &self.turno
    }

    /// The identity of the one [`Outbox::emit_alone`] that follows: sent again with the same, because its answer was lost,
    /// it changes nothing and answers the same ids. Each call has a fresh one otherwise.
    #[must_use = "it is another handle"]
    pub fn request(mut self, request: Uuid) -> Self {
        self.request = Some(request);
        self
    }

    /// Who requeues, for the [history](Turno::history); that of the [settings](crate::Builder::user) otherwise.
    #[must_use = "it is another handle"]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Why somebody requeues or discards: it goes into the [history](Turno::history).
    #[must_use = "it is another handle"]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    fn own_user(&self) -> Option<String> {
        let user = self.user.as_ref();
        user.or(self.turno.settings().user.as_ref()).cloned()
    }

    /// Emits an event in your own transaction, and answers its id. It is published if and only if the transaction
    /// commits.
    ///
    /// # Errors
    /// If the event is out of rule: nothing was written, and the transaction is as it was. If the database refuses:
    /// roll back.
    pub async fn emit(&self, tx: &mut impl CallerTx, event: &Event) -> Result<Uuid> {
        let ids = self.emit_all(tx, std::slice::from_ref(event)).await?;
        first(&ids)
    }

    /// Emits several events in your own transaction, in their order.
    ///
    /// # Errors
    /// As [`Outbox::emit`]; all of them are looked at before any is written.
    pub async fn emit_all(&self, tx: &mut impl CallerTx, events: &[Event]) -> Result<Vec<Uuid>> {
        let events = self.checked(events)?;
        if events.is_empty() {
            return Ok(Vec::new());
        }
        tx.outbox_emit(&events).await
    }

    /// Emits events by themselves, all or none: for those that have no transaction to be part of.
    ///
    /// # Errors
    /// If an event is out of rule, or the store does not answer. Name a
    /// [request](Outbox::request), or give events ids of your own, to be able to repeat the call.
    pub async fn emit_alone(&self, events: &[Event]) -> Result<Vec<Uuid>> {
        let events = self.checked(events)?;
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let ask = OutboxEmit {
            events,
            request: self.request.unwrap_or_else(Uuid::now_v7),
        };
        let ids = self.turno.store().outbox_emit(&ask).await?;
        let wakers = self.turno.store().wakers();
        wakers.wake(&crate::inbox::wake_name(OUTBOX_QUEUE));
        Ok(ids)
    }

    /// Looks at an event, and emits nothing: for those who read many, and have to say which one is wrong.
    ///
    /// # Errors
    /// If it is out of rule, as [`Outbox::emit`] would say.
    pub fn check(&self, event: &Event) -> Result<()> {
        event.checked(self.turno.settings().max_payload).map(drop)
    }

    fn checked(&self, events: &[Event]) -> Result<Vec<NewEvent>> {
        check::together("events", events.len())?;
        let largest = self.turno.settings().max_payload;
        events.iter().map(|event| event.checked(largest)).collect()
    }

    /// A relay: publishes events to a sink. Nothing happens before [`Relay::run`].
    pub fn relay(&self, sink: Arc<dyn Sink>) -> Relay {
        Relay::new(self.clone(), sink)
    }

    /// How many events are in which state.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn stats(&self) -> Result<OutboxStats> {
        self.turno.store().outbox_stats().await
    }

    /// One page of the events in one state, in the order of their emission; dispatched ones newest first, and in whole
    /// batches. The last one's `seq` is where the next page begins.
    ///
    /// # Errors
    /// If the store does not answer.
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

    /// One event by its id, wherever it is; `None` if the outbox does not know it, or not any more.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn find(&self, id: Uuid) -> Result<Option<EventView>> {
        self.turno.store().outbox_find(id).await
    }

    /// Revives dead and blocked events, those named or all, with all their attempts before them. What was parked behind
    /// one comes with it, in order. Answers how many. The history has an entry for each thousand or so, with
    /// [who](Outbox::user) and [why](Outbox::reason).
    ///
    /// # Errors
    /// If the user or the reason is out of rule, or the store does not answer.
    pub async fn requeue(&self, ids: Option<&[Uuid]>) -> Result<u64> {
        let user = self.own_user();
        check::operator(user.as_deref(), self.reason.as_deref())?;
        if let Some(ids) = ids {
            check::together("ids", ids.len())?;
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

    /// Gives dead and blocked events up for good. What was blocked behind one goes on; what was parked waits to be
    /// requeued. Answers how many. Who did it is kept with the events, and in the history, with [why](Outbox::reason).
    ///
    /// # Errors
    /// If the user or the reason is out of rule, or the store does not answer.
    pub async fn discard(&self, ids: &[Uuid], user: &str) -> Result<u64> {
        check::together("ids", ids.len())?;
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
