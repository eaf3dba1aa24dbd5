//! Publication of events by the API: through the outbox or, as the control, in one of the two usual ways.

use anyhow::{Result, ensure};
use clap::ValueEnum;
use turno::Turno;
use turno::sink::{Outgoing, PublishResult, Sink};
use turno::tx::Transaction;
use uuid::Uuid;

use crate::publisher::RabbitMqPublisher;
use crate::ticket::TicketEvent;

/// When the API publishes directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SinOutbox {
    /// A kill between commit and publication loses the event.
    DespuesDelCommit,
    /// A kill between publication and commit leaves an event without a ticket.
    AntesDelCommit,
}

/// Way of publishing events.
pub(crate) enum Announcer {
    Outbox(Turno),
    Usual(SinOutbox, Box<RabbitMqPublisher>),
}

impl Announcer {
    /// Called in the transaction of the ticket.
    pub(crate) async fn within(
        &self,
        tx: &mut impl Transaction,
        event: &TicketEvent,
    ) -> Result<()> {
        match self {
            Announcer::Outbox(turno) => {
                turno.outbox().emit_in(tx, event.to_outbox()).await?;
            }
            Announcer::Usual(SinOutbox::AntesDelCommit, publisher) => {
                publish(publisher, event).await?;
            }
            Announcer::Usual(SinOutbox::DespuesDelCommit, _) => {}
        }
        Ok(())
    }

    /// Called after the commit.
    pub(crate) async fn after(&self, event: &TicketEvent) -> Result<()> {
        match self {
            Announcer::Usual(SinOutbox::DespuesDelCommit, publisher) => {
                publish(publisher, event).await
            }
            Announcer::Usual(SinOutbox::AntesDelCommit, _) | Announcer::Outbox(_) => Ok(()),
        }
    }
}

async fn publish(publisher: &RabbitMqPublisher, event: &TicketEvent) -> Result<()> {
    let outgoing = Outgoing {
        id: Uuid::now_v7(),
        kind: event.kind.to_owned(),
        key: Some(event.ticket.to_string()),
        correlation_id: Some(event.correlation_id.clone()),
        traceparent: None,
        tracestate: None,
        headers: Default::default(),
        emitted_at: turno::clock::machine(),
        payload: event.payload.to_string(),
        attempt: 1,
        possible_duplicate: false,
    };
    let fates = publisher.publish(&[outgoing]).await;
    ensure!(
        fates == [PublishResult::Sent],
        "the event was not published: {fates:?}"
    );
    Ok(())
}
