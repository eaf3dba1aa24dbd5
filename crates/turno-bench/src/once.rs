//! Once: the layer compared with hand-written handlers, the gate compared with a bare proxy, and a hot key.

pub mod hand_written;
mod hot;
mod load;
mod proxy;
mod web;

use std::time::Duration;

use anyhow::Result;
use turno::Turno;
use turno::once::http::Switch;
use turno_testkit::PostgresServer;

use self::load::{Keys, load};
use crate::inbox::work::median;
use crate::table::Table;

/// Connections of the load, each with one request in flight.
const CONNECTIONS: usize = 64;
/// Baseline of the gate.
const BARE_PROXY: &str = "a bare proxy";
/// Number of stored answers, in measurements of repeated requests.
const STORED: usize = 10_000;

pub struct Bench {
    pub seconds: f64,
    pub rounds: usize,
    pub part: Option<Part>,
}

/// One part of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Each request is new.
    Fresh,
    /// Each request is a repetition with a stored answer.
    Replay,
    /// The reverse proxy.
    Gate,
    /// Many callers wait for one answer.
    Hot,
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
        if wanted(Part::Fresh) {
            self.fresh(&server).await?;
        }
        if wanted(Part::Replay) {
            self.replay(&server).await?;
        }
        if wanted(Part::Gate) {
            self.gate(&server).await?;
        }
        if wanted(Part::Hot) {
            hot::run(&server).await?;
        }
        Ok(())
    }

    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    async fn fresh(&self, server: &PostgresServer) -> Result<()> {
        let (mut bare, mut hand_written, mut layer) = (Vec::new(), Vec::new(), Vec::new());
        // Alternate the measurements, because the speed of a machine varies over time.
        for _ in 0..self.rounds {
            let nothing = web::serve(web::nothing()).await?;
            bare.push(load(nothing.port, CONNECTIONS, Keys::Fresh, self.time()).await?);
            let url = server.create_database();
            let hand = web::serve(hand_written::two_writes(&url).await?).await?;
            hand_written.push(load(hand.port, CONNECTIONS, Keys::Fresh, self.time()).await?);
            let turno = Turno::connect(&server.create_database()).await?;
            let once = web::serve(web::once(&turno)).await?;
            layer.push(load(once.port, CONNECTIONS, Keys::Fresh, self.time()).await?);
            turno.close().await;
        }
        let title = format!("Once on PostgreSQL: new requests, {CONNECTIONS} connections");
        let mut table = Table::new(&title, "requests/s");
        table.add("a handler that does nothing", median(bare));
        table.add("two row writes by hand", median(hand_written));
        table.against(
            "the layer around that handler",
            median(layer),
            "two row writes by hand",
            Some(0.8),
        );
        Ok(())
    }

    async fn replay(&self, server: &PostgresServer) -> Result<()> {
        let (mut hand_written, mut layer) = (Vec::new(), Vec::new());
        let keys = Keys::Known(STORED);
        let url = server.create_database();
        let hand = web::serve(hand_written::one_read(&url, STORED).await?).await?;
        let turno = Turno::connect(&server.create_database()).await?;
        let once = web::serve(web::once(&turno)).await?;
        load::each(once.port, STORED).await?;
        for _ in 0..self.rounds {
            hand_written.push(load(hand.port, CONNECTIONS, keys, self.time()).await?);
            layer.push(load(once.port, CONNECTIONS, keys, self.time()).await?);
        }
        turno.close().await;
        let title = format!(
            "Once on PostgreSQL: repeated requests, {STORED} stored answers, {CONNECTIONS} connections"
        );
        let mut table = Table::new(&title, "requests/s");
        table.add("one indexed read by hand", median(hand_written));
        table.against(
            "the layer",
            median(layer),
            "one indexed read by hand",
            Some(0.8),
        );
        Ok(())
    }

    async fn gate(&self, server: &PostgresServer) -> Result<()> {
        let (mut bare, mut off, mut on) = (Vec::new(), Vec::new(), Vec::new());
        let turno = Turno::connect(&server.create_database()).await?;
        let service = web::serve(web::nothing()).await?;
        let proxy = proxy::serve(service.port).await?;
        let idle = web::gate(&turno, service.port, Switch::Off).await?;
        let busy = web::gate(&turno, service.port, Switch::On).await?;
        for _ in 0..self.rounds {
            bare.push(load(proxy.port, CONNECTIONS, Keys::Fresh, self.time()).await?);
            off.push(load(idle.port, CONNECTIONS, Keys::Fresh, self.time()).await?);
            on.push(load(busy.port, CONNECTIONS, Keys::Fresh, self.time()).await?);
        }
        turno.close().await;
        let title = format!("The gate in front of a service, {CONNECTIONS} connections");
        let mut table = Table::new(&title, "requests/s");
        table.add(BARE_PROXY, median(bare));
        table.against(
            "the gate, its route switched off",
            median(off),
            BARE_PROXY,
            Some(0.85),
        );
        table.against("the gate, each request once", median(on), BARE_PROXY, None);
        Ok(())
    }
}
