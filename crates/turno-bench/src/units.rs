//! What one unit costs the server: an item, an event, a pair of lock calls, a request.
//!
//! Each subject runs twice, on new databases, with few and with many units. The difference belongs to the units: it leaves out what
//! a subject needs once, such as its tables, connections and plans.

mod meter;
mod report;

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use turno::Turno;

use self::meter::{Meter, Reading};
use crate::inbox::peers;
use crate::inbox::work;
use crate::latency::CALLERS;
use crate::operations::{Kind, Servers, Subject};

/// Nothing writes but the units: there is no vacuum, and no checkpoint but those of the readings.
const SETTINGS: [(&str, &str); 2] = [("autovacuum", "off"), ("checkpoint_timeout", "1h")];
/// Peers of the inbox, in the program that measures them.
const PEERS_PROGRAM: &str = "turno-bench-peers";
const PEERS: [&str; 3] = ["pgmq", "graphile_worker", "skip_locked"];
/// Part of the units in the smaller run.
const FEW: usize = 10;
/// Part of the items that single calls run with, and of those the part that is published row by row: they take longer.
const SINGLE: usize = 5;
const ROW_BY_ROW: usize = 10;
/// Consumers of the inbox: in batches, and one item at a time.
const BATCH_CONSUMERS: usize = 4;
const SINGLE_CONSUMERS: usize = 8;
/// Workers of Turno and their prefetch in batches, as in the benchmark of the inbox.
const WORKERS: usize = 2;
const PREFETCH: usize = 1000;

pub struct Bench {
    pub items: usize,
    /// Number of measurements. The result is the median.
    pub rounds: usize,
    /// Without the peers of the inbox, which are other programs.
    pub alone: bool,
    pub operation: Option<Kind>,
}

/// How items are claimed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claims {
    InBatches,
    OneByOne,
}

/// What runs.
#[derive(Clone, Copy)]
enum Load {
    /// A peer of the inbox.
    Peer(&'static str, Claims),
    Turno(Claims),
    /// An operation of Turno, by callers that wait.
    Operation(Kind),
    /// The statements that a person would write.
    HandWritten(Kind),
}

impl Bench {
    pub async fn run(&self) -> Result<()> {
        let servers = Servers::postgres_with(&SETTINGS)?;
        let meter = Meter::open(&servers.postgres).await?;
        let wanted = |kind| self.operation.is_none_or(|only| only == kind);
        let single = self.items / SINGLE;
        if wanted(Kind::Inbox) {
            for (claims, title, items) in [
                (Claims::InBatches, "an item, in batches", self.items),
                (Claims::OneByOne, "an item, one at a time", single),
            ] {
                let mut loads: Vec<Load> = Vec::new();
                if !self.alone {
                    loads.extend(PEERS.map(|peer| Load::Peer(peer, claims)));
                }
                loads.push(Load::Turno(claims));
                self.compare(title, &loads, items, &servers, &meter).await?;
            }
        }
        for (kind, title) in [
            (Kind::Outbox, "an event, to a sink in the same process"),
            (Kind::Lock, "a lock: acquire + release"),
            (Kind::Once, "a request: begin + complete"),
        ] {
            if wanted(kind) {
                let loads = [Load::HandWritten(kind), Load::Operation(kind)];
                self.compare(title, &loads, single, &servers, &meter)
                    .await?;
            }
        }
        peers::print_settings();
        Ok(())
    }

    /// Measures loads by turns, and prints them.
    async fn compare(
        &self,
        title: &str,
        loads: &[Load],
        units: usize,
        servers: &Servers,
        meter: &Meter,
    ) -> Result<()> {
        let mut measured: Vec<(&'static str, Vec<Reading>)> = Vec::new();
        for _ in 0..self.rounds {
            for (at, load) in loads.iter().enumerate() {
                let units = match load {
                    Load::HandWritten(Kind::Outbox) => units / ROW_BY_ROW,
                    _ => units,
                };
                let Some((name, cost)) = per_unit(*load, units, servers, meter).await? else {
                    continue;
                };
                match measured.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, costs)) => costs.push(cost),
                    None => measured.insert(at.min(measured.len()), (name, vec![cost])),
                }
            }
        }
        report::print(title, &measured);
        Ok(())
    }
}

/// Returns the name of a load and the cost of a unit, or `None` if it could not be measured.
async fn per_unit(
    load: Load,
    units: usize,
    servers: &Servers,
    meter: &Meter,
) -> Result<Option<(&'static str, Reading)>> {
    let few = (units / FEW).max(1);
    let mut costs = Vec::new();
    let mut measured = None;
    for units in [few, units] {
        let before = meter.read().await?;
        let Some(name) = load.run(units, servers).await? else {
            return Ok(None);
        };
        measured = Some(name);
        costs.push(meter.read().await? - before);
    }
    let [small, large] = costs[..] else {
        return Ok(None);
    };
    let cost = (large - small) / (units - few) as f64;
    Ok(measured.map(|name| (name, cost)))
}

impl Load {
    /// Runs this many units on a new database, and returns the name of the load, if it could be measured.
    async fn run(self, units: usize, servers: &Servers) -> Result<Option<&'static str>> {
        match self {
            Load::Peer(peer, claims) => {
                let (mode, consumers) = match claims {
                    Claims::InBatches => ("drain", BATCH_CONSUMERS),
                    Claims::OneByOne => ("single", SINGLE_CONSUMERS),
                };
                let store = servers.postgres.create_database();
                let measured = peers::measure_without_maintenance(
                    PEERS_PROGRAM,
                    peer,
                    mode,
                    &store,
                    units,
                    consumers,
                );
                Ok(measured.map(|_| peer))
            }
            Load::Turno(claims) => {
                let turno = Turno::connect(&servers.postgres.create_database()).await?;
                let inbox = turno.inbox("work");
                work::push(&inbox, units).await?;
                match claims {
                    Claims::InBatches => work::drain(&inbox, units, WORKERS, PREFETCH).await?,
                    Claims::OneByOne => work::single(&inbox, units, SINGLE_CONSUMERS).await?,
                };
                drop(inbox);
                turno.close().await;
                Ok(Some("turno"))
            }
            Load::Operation(kind) => {
                let url = servers.postgres.create_database();
                let subject = Subject::turno_in(kind, &url).await?;
                repeat(&subject, units).await?;
                Ok(Some(subject.name))
            }
            Load::HandWritten(kind) => {
                let url = servers.postgres.create_database();
                let subject = Subject::hand_written(kind, &url).await?;
                repeat(&subject, units).await?;
                Ok(Some(subject.name))
            }
        }
    }
}

/// Runs this many operations, by callers that wait for theirs, and closes the subject.
async fn repeat(subject: &Subject, operations: usize) -> Result<()> {
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let subject = subject.clone();
        callers.spawn(async move {
            loop {
                let number = subject.next_number();
                if number >= operations as u64 {
                    return anyhow::Ok(());
                }
                subject.operation.run(number).await?;
            }
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended?.with_context(|| subject.name)?;
    }
    subject.operation.close().await
}
