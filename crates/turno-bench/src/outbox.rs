//! The outbox: from PostgreSQL to RabbitMQ, compared with a bare publisher and with the usual implementation.

pub mod broker;
pub mod by_row;
pub mod relay;

use anyhow::Result;
use turno_testkit::{PostgresServer, RabbitMq};

use self::broker::Dress;

use crate::inbox::work::median;
use crate::table::Table;

/// Size of a payload, in bytes.
pub const PAYLOAD_BYTES: usize = 512;
/// Number of messages in flight, for all pipelined measurements.
pub const WINDOW: u32 = 500;
/// Number of ordering keys, in measurements with keys.
const KEYS: usize = 500;
/// Baseline: the same messages from memory, with a sliding window.
const BARE: &str = "bare publisher, a window of 500";
/// Number of messages published row by row. It is small because that is slow.
const BY_ROW: usize = 1000;
/// Number of events dispatched before, in the measurement with a history.
const HISTORY: usize = 1_000_000;
const PENDING: usize = 1000;

pub struct Bench {
    pub events: usize,
    pub rounds: usize,
    pub part: Option<Part>,
}

/// One part of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Draining to the broker.
    Drain,
    /// From commit to consumer.
    Latency,
    /// Claims after a million dispatched events.
    History,
    /// Draining while another session holds a snapshot open.
    Snapshot,
}

impl Bench {
    pub async fn run(&self) -> Result<()> {
        let server = PostgresServer::start_with(&[
            ("fsync", "on"),
            ("full_page_writes", "on"),
            ("synchronous_commit", "on"),
            ("shared_buffers", "1GB"),
            ("max_wal_size", "16GB"),
            ("checkpoint_timeout", "30min"),
        ])?;
        let wanted = |part| self.part.is_none_or(|only| only == part);
        if wanted(Part::Drain) || wanted(Part::Latency) {
            let broker = RabbitMq::start()?;
            if wanted(Part::Drain) {
                self.drain(&server, &broker).await?;
            }
            if wanted(Part::Latency) {
                latency(&server, &broker).await?;
            }
        }
        if wanted(Part::History) {
            history(&server).await?;
        }
        if wanted(Part::Snapshot) {
            self.snapshot(&server).await?;
        }
        Ok(())
    }

    async fn drain(&self, server: &PostgresServer, broker: &RabbitMq) -> Result<()> {
        use relay::RelayOptions;
        let url = broker.url();
        let ways = [
            ("turno, parallel", RelayOptions::parallel(WINDOW)),
            ("turno, single", RelayOptions::single(WINDOW)),
            (
                "turno, ordered, 500 keys",
                RelayOptions::ordered(WINDOW, KEYS),
            ),
            ("turno, parallel, batches of 50", RelayOptions::parallel(50)),
        ];
        let (mut naked, mut bare) = (Vec::new(), Vec::new());
        let (mut in_batches, mut by_row) = (Vec::new(), Vec::new());
        let mut rates = vec![Vec::new(); ways.len()];
        // Alternate the measurements, because the speed of a machine varies over time.
        for _ in 0..self.rounds {
            let window = WINDOW as usize;
            naked.push(broker::bare(&url, self.events, window, Dress::Naked).await?);
            bare.push(broker::bare(&url, self.events, window, Dress::Relayed).await?);
            in_batches.push(broker::in_batches(&url, self.events, window).await?);
            for ((_, how), rates) in ways.iter().zip(&mut rates) {
                rates.push(relay::drain(server, &url, self.events, *how).await?);
            }
            by_row.push(by_row::drain(server, &url, BY_ROW).await?);
        }
        let title = format!(
            "Outbox to RabbitMQ: {} events of {PAYLOAD_BYTES} bytes, quorum queue, persistent, confirmed, mandatory",
            self.events
        );
        let mut table = Table::new(&title, "events/s");
        table.add("bare publisher without headers", median(naked));
        table.add(BARE, median(bare));
        table.add("bare publisher, batches of 500", median(in_batches));
        table.add("row by row, as it is usually done", median(by_row));
        for (place, ((name, _), rates)) in ways.iter().zip(rates).enumerate() {
            let floor = [0.8, 0.8, 0.9].get(place).copied();
            table.against(name, median(rates), BARE, floor);
        }
        Ok(())
    }

    async fn snapshot(&self, server: &PostgresServer) -> Result<()> {
        let (mut free, mut held) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            free.push(relay::drain_nowhere(server, self.events, None).await?);
            let url = server.create_database();
            let holder = relay::Snapshot::hold(&url).await?;
            held.push(relay::drain_nowhere(server, self.events, Some((&url, &holder))).await?);
        }
        let mut table = Table::new(
            "Outbox on PostgreSQL alone, to a sink that takes everything",
            "events/s",
        );
        table.add("nothing held", median(free));
        table.against(
            "a snapshot held open",
            median(held),
            "nothing held",
            Some(0.9),
        );
        Ok(())
    }
}

async fn latency(server: &PostgresServer, broker: &RabbitMq) -> Result<()> {
    let times = relay::commit_to_consumer(server, &broker.url(), 200).await?;
    let mut table = Table::new("Outbox, idle: from commit to consumer", "ms");
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    table.limited("median", at(0.5), 10.0);
    table.add("99 of 100 within", at(0.99));
    Ok(())
}

async fn history(server: &PostgresServer) -> Result<()> {
    let empty = relay::claim_ms(server, 0, PENDING).await?;
    let full = relay::claim_ms(server, HISTORY, PENDING).await?;
    let mut table = Table::new(
        "Outbox on PostgreSQL: a relay's claim of 50, 1,000 pending",
        "ms",
    );
    table.add("nothing dispatched before", empty);
    table.limited(
        "1,000,000 dispatched before",
        full,
        (empty * 120.0).round() / 100.0,
    );
    Ok(())
}
