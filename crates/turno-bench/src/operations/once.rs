//! A new request: begin it, and complete it with an answer.

use std::time::Instant;

use anyhow::{Context, Result};
use async_trait::async_trait;
use deadpool_postgres::Pool;
use turno::Turno;

use super::{Operation, POOL, Subject};
use crate::once::hand_written;

pub async fn turno(url: &str) -> Result<Subject> {
    let turno = Turno::builder().connections(POOL).connect(url).await?;
    Ok(Subject::new("turno", TurnoOnce(turno)))
}

/// Stored answer of each request.
#[derive(serde::Serialize)]
struct Answer {
    folio: &'static str,
    estado: &'static str,
}

const ANSWER: Answer = Answer {
    folio: "A-000123",
    estado: "registrado",
};

fn key(number: u64) -> String {
    format!("pago-{number:026}")
}

struct TurnoOnce(Turno);

#[async_trait]
impl Operation for TurnoOnce {
    async fn run(&self, number: u64) -> Result<Instant> {
        let claim = self.0.once(key(number)).begin().await?.fresh();
        claim.context("the key was used")?.complete(&ANSWER).await?;
        Ok(Instant::now())
    }

    async fn close(&self) -> Result<()> {
        self.0.close().await;
        Ok(())
    }
}

pub async fn hand_written(url: &str) -> Result<Subject> {
    let pool = hand_written::pool(url).await?;
    Ok(Subject::new("two row writes by hand", HandWritten(pool)))
}

struct HandWritten(Pool);

#[async_trait]
impl Operation for HandWritten {
    async fn run(&self, number: u64) -> Result<Instant> {
        let key = key(number);
        hand_written::begin(&self.0, &key).await?;
        hand_written::complete(&self.0, &key).await?;
        Ok(Instant::now())
    }
}
