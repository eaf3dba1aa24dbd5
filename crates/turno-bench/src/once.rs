//! Once: the layer beside handlers that do the same by hand, the gate beside a bare proxy, and a hot key.

mod by_hand;
mod hot;
mod load;
mod web;

use std::time::Duration;

use anyhow::Result;
use turno::Turno;
use turno_testkit::PostgresServer;

use self::load::{Keys, load};
use crate::inbox::work::median;
use crate::table::Table;

/// Connections of the load, each with one request under way.
const CONNECTIONS: usize = 64;
/// Requests that were answered before, where answers are repeated.
const STORED: usize = 10_000;

pub struct Bench {
    pub seconds: f64,
    pub rounds: usize,
    pub part: Option<Part>,
}

/// One part of it.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Every request is a new one.
    Fresh,
    /// Every request was answered before.
    Replay,
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
        if wanted(Part::Hot) {
            hot::run(&server).await?;
        }
        Ok(())
    }

    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    async fn fresh(&self, server: &PostgresServer) -> Result<()> {
        let (mut bare, mut by_hand, mut layer) = (Vec::new(), Vec::new(), Vec::new());
        // By turns: a machine has its better and its worse minutes.
        for _ in 0..self.rounds {
            let nothing = web::serve(web::nothing()).await?;
            bare.push(load(nothing.port, CONNECTIONS, Keys::Fresh, self.time()).await?);
            let url = server.create_database();
            let hand = web::serve(by_hand::two_writes(&url).await?).await?;
            by_hand.push(load(hand.port, CONNECTIONS, Keys::Fresh, self.time()).await?);
            let turno = Turno::connect(&server.create_database()).await?;
            let once = web::serve(web::once(&turno)).await?;
            layer.push(load(once.port, CONNECTIONS, Keys::Fresh, self.time()).await?);
            turno.close().await;
        }
        let title = format!("Once on PostgreSQL: new requests, {CONNECTIONS} connections");
        let mut table = Table::new(&title, "requests/s");
        table.add("a handler that does nothing", median(bare));
        table.add("two row writes by hand", median(by_hand));
        table.against(
            "the layer around that handler",
            median(layer),
            "two row writes by hand",
            Some(0.8),
        );
        Ok(())
    }

    async fn replay(&self, server: &PostgresServer) -> Result<()> {
        let (mut by_hand, mut layer) = (Vec::new(), Vec::new());
        let keys = Keys::Known(STORED);
        let url = server.create_database();
        let hand = web::serve(by_hand::one_read(&url, STORED).await?).await?;
        let turno = Turno::connect(&server.create_database()).await?;
        let once = web::serve(web::once(&turno)).await?;
        load::each(once.port, STORED).await?;
        for _ in 0..self.rounds {
            by_hand.push(load(hand.port, CONNECTIONS, keys, self.time()).await?);
            layer.push(load(once.port, CONNECTIONS, keys, self.time()).await?);
        }
        turno.close().await;
        let title = format!(
            "Once on PostgreSQL: repeated requests, {STORED} stored answers, {CONNECTIONS} connections"
        );
        let mut table = Table::new(&title, "requests/s");
        table.add("one indexed read by hand", median(by_hand));
        table.against(
            "the layer",
            median(layer),
            "one indexed read by hand",
            Some(0.8),
        );
        Ok(())
    }
}
