//! TicketFlow: tickets are committed, and their events published. Some processes are killed after a commit and before the
//! event is published. Then a relay is killed too.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::outbox::Event;

use super::broker::{self, Ours, RUN};
use super::figures::{Count, Figures};
use super::ledger::{self, number};
use super::part::Part;
use super::set::{Cast, Role, Set, Variant};
use crate::fail::Usage;

pub(super) const STORY: &str =
    "processes store tickets and publish events; some are killed with -9";

pub(super) const TICKET_CREATED: &str = "TicketCreatedEvent";

const PROCESSES: usize = 4;
const TICKETS: u32 = 25;
pub(super) const OPERATIONS: u32 = 60;
/// Which processes are killed, and at which of their tickets.
const KILLED: [(usize, u32); 3] = [(1, 5), (2, 10), (3, 20)];

/// Lease of a relay's claim: the events of a killed relay are claimed again after this time.
const LEASE: Duration = Duration::from_secs(3);
/// Variant often the relay checks whether events are left.
const LOOK: Duration = Duration::from_millis(50);

pub(super) fn casts(how: Variant) -> Vec<Cast> {
    let mut casts = vec![Cast {
        role: Role::Work,
        processes: PROCESSES,
        kills: KILLED.to_vec(),
    }];
    if how == Variant::Turno {
        // One relay after the other, so that the one that is killed certainly has claimed events.
        casts.extend([vec![(0, 1)], Vec::new()].map(|kills| Cast {
            role: Role::Relay,
            processes: 1,
            kills,
        }));
    }
    casts
}

/// Rejects a store whose outbox is in use: a relay of the demonstration must not publish the events of others.
pub(super) async fn check(turno: &Turno) -> Result<()> {
    let stats = turno.outbox().stats().await?;
    let others = stats.pending + stats.scheduled + stats.processing;
    if others == 0 {
        return Ok(());
    }
    Err(Usage::new(
        "store",
        format!(
            "the outbox of this store has {others} unpublished events, and ticketflow requires an empty outbox: \
             use another store, or no --store"
        ),
    )
    .into())
}

pub(super) async fn prepare(set: &Set) -> Result<()> {
    broker::prepare(set).await
}

pub(super) async fn work(part: &mut Part) -> Result<()> {
    if part.role == Role::Relay {
        return relay(part).await;
    }
    let sink = broker::sink(&part.set)?;
    part.here(0).await;
    for number in 1..=TICKETS {
        let ticket = format!("ticket-{}-{number}", part.index);
        commit(part, &ticket).await?;
        // Here some processes are killed.
        part.here(number).await;
        if part.turno.is_none() {
            broker::publish(sink.as_ref(), &part.set, &ticket).await?;
        }
        part.done();
    }
    sink.close().await;
    Ok(())
}

/// Without Turno, a ticket is a line in a file, and it is published later. With Turno, the commit stores the event.
///
/// In an application, a ticket is a row, and its event is part of the row's transaction: `outbox().emit_in(&mut tx, …)`.
/// Here the event contains the whole ticket, and one step commits both.
async fn commit(part: &Part, ticket: &str) -> Result<()> {
    if let Some(turno) = &part.turno {
        let event = Event::new(TICKET_CREATED, &json!({"ticketId": ticket}))
            .ordering_key(ticket)
            .header(RUN, &part.set.run);
        turno.outbox().emit(event).await?;
    }
    ledger::append(&tickets(&part.set), ticket)
}

/// Publishes until nothing is left. Reports before it publishes, and may be killed at that point.
async fn relay(part: &mut Part) -> Result<()> {
    let turno = part.turno.clone().context("the relay has no store")?;
    let (ask, mut asks) = mpsc::unbounded_channel::<oneshot::Sender<()>>();
    let sink = Arc::new(Ours::new(broker::sink(&part.set)?, &part.set, ask));
    part.here(0).await;
    let stop = CancellationToken::new();
    let relay = turno.outbox().relay(sink).lease(LEASE).poll(LOOK);
    let mut publishing = pin!(relay.run(stop.clone().cancelled_owned()));
    let mut emptied = pin!(emptied(&turno));
    loop {
        tokio::select! {
            report = &mut publishing => {
                report?;
                return Ok(());
            }
            empty = &mut emptied, if !stop.is_cancelled() => {
                empty?;
                stop.cancel();
            }
            Some(may_go) = asks.recv() => {
                part.here(1).await;
                // The sink may have been stopped meanwhile.
                let _ = may_go.send(());
            }
        }
    }
}

async fn emptied(turno: &Turno) -> Result<()> {
    loop {
        let stats = turno.outbox().stats().await?;
        if stats.pending + stats.scheduled + stats.processing == 0 {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

pub(super) async fn count(set: &Set) -> Result<Count> {
    let committed: BTreeSet<String> = ledger::lines(&tickets(set))?.into_iter().collect();
    // An event may arrive twice; receivers recognize it by its id.
    let received = broker::received(set).await?;
    let lost = number(committed.difference(&received).count());
    let figures = Figures {
        operations: number(committed.len()),
        lost_events: Some(lost),
        ..Figures::default()
    };
    let remark = match set.how {
        Variant::Turno => "the commit stores the event; a relay was killed too, and the next one published all events"
            .to_owned(),
        _ => format!("{lost} tickets have no published event"),
    };
    Ok(Count { figures, remark })
}

/// Returns the file with the committed tickets.
fn tickets(set: &Set) -> PathBuf {
    set.folder.join("tickets")
}
