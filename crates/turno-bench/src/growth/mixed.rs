//! Several operations in turn, on one database.

use std::time::Instant;

use anyhow::Result;
use async_trait::async_trait;

use crate::operations::{Kind, Operation, Subject};

struct Mixed(Vec<Subject>);

#[async_trait]
impl Operation for Mixed {
    async fn run(&self, number: u64) -> Result<Instant> {
        let subject = &self.0[place(number, self.0.len())];
        subject.operation.run(number / self.0.len() as u64).await
    }

    async fn close(&self) -> Result<()> {
        for subject in &self.0 {
            subject.operation.close().await?;
        }
        Ok(())
    }
}

/// Opens Turno's operations of these kinds on a database.
pub async fn open(kinds: &[Kind], url: &str) -> Result<Subject> {
    let mut subjects = Vec::new();
    for kind in kinds {
        subjects.push(Subject::turno_in(*kind, url).await?);
    }
    Ok(Subject::new("turno", Mixed(subjects)))
}

/// Which of the operations has this number.
pub fn place(number: u64, operations: usize) -> usize {
    (number % operations as u64) as usize
}
