//! Tickets and their events.

use serde::{Deserialize, Serialize};
use serde_json::json;
use turno::outbox::Event;
use uuid::Uuid;

/// Maximum length of a title.
pub(crate) const MAX_TITLE: usize = 200;

/// A ticket.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ticket {
    pub(crate) ticket_id: Uuid,
    pub(crate) title: String,
    pub(crate) status: Status,
}

/// Status of a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Status {
    Open,
    InProgress,
    Resolved,
    Closed,
}

impl Status {
    const ALL: [Status; 4] = [
        Status::Open,
        Status::InProgress,
        Status::Resolved,
        Status::Closed,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Status::Open => "Open",
            Status::InProgress => "InProgress",
            Status::Resolved => "Resolved",
            Status::Closed => "Closed",
        }
    }

    pub(crate) fn read(word: &str) -> Option<Self> {
        Status::ALL.into_iter().find(|one| one.as_str() == word)
    }
}

/// An event of a ticket: `Type`, `PayloadJson` and `CorrelationId` of the document.
#[derive(Debug, Clone)]
pub(crate) struct TicketEvent {
    pub(crate) kind: &'static str,
    pub(crate) ticket: Uuid,
    pub(crate) payload: serde_json::Value,
    pub(crate) correlation_id: String,
}

impl TicketEvent {
    pub(crate) fn created(ticket: &Ticket, correlation_id: &str) -> Self {
        TicketEvent {
            kind: "TicketFlow.Domain.Events.TicketCreatedEvent",
            ticket: ticket.ticket_id,
            payload: json!({"ticketId": ticket.ticket_id, "title": ticket.title}),
            correlation_id: correlation_id.to_owned(),
        }
    }

    pub(crate) fn status_changed(ticket: &Ticket, from: Status, correlation_id: &str) -> Self {
        TicketEvent {
            kind: "TicketFlow.Domain.Events.TicketStatusChangedEvent",
            ticket: ticket.ticket_id,
            payload: json!({
                "ticketId": ticket.ticket_id,
                "oldStatus": from,
                "newStatus": ticket.status,
            }),
            correlation_id: correlation_id.to_owned(),
        }
    }

    /// Returns the event for the outbox. Its ordering key is the ticket, so events of one ticket are published in order.
    pub(crate) fn to_outbox(&self) -> Event {
        Event::new(self.kind, &self.payload)
            .ordering_key(self.ticket)
            .correlation_id(&self.correlation_id)
    }
}
