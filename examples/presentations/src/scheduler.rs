//! What starts the use case, in every instance.

use std::time::Duration;

use anyhow::Result;
use tokio::time::MissedTickBehavior;
use tracing::error;
use turno::Turno;
use turno::inbox::{Inbox, Job};

use crate::database::Presentation;
use crate::how::{How, partition};
use crate::use_case::ProcessPresentationUseCase;

/// The queue that presentations are pushed to.
const QUEUE: &str = "presentations";

/// Runs every so often, and takes what is not processed, one after the other.
#[derive(Debug)]
pub struct Scheduler {
    /// What is done with each presentation.
    pub use_case: ProcessPresentationUseCase,
    /// The pause between two runs.
    pub every: Duration,
    /// Which of the instances this is, from 0.
    pub instance_partition: u32,
    /// How many there are: what only hash partitioning has to know.
    pub total_instances: u32,
}

impl Scheduler {
    /// Runs for ever; `ran` is told after each run.
    ///
    /// # Errors
    /// Those of `ran`.
    pub async fn run(&self, mut ran: impl FnMut() -> Result<()>) -> Result<()> {
        let mut ticks = tokio::time::interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.run_once().await {
                error!("a run has failed, the next may not: {error:#}");
            }
            ran()?;
        }
    }

    async fn run_once(&self) -> Result<()> {
        for id in self.use_case.database.unprocessed().await? {
            if self.is_ours(id) {
                // What failed is unprocessed, and in the next run's list. The use case has logged why.
                let _ = self.use_case.execute(id).await;
            }
        }
        Ok(())
    }

    fn is_ours(&self, id: uuid::Uuid) -> bool {
        self.use_case.how != How::HashPartition
            || partition(id, self.total_instances) == self.instance_partition
    }
}

/// Turno's inbox of presentations.
pub fn inbox(turno: &Turno) -> Inbox {
    turno.inbox(QUEUE)
}

/// With Turno there is no scheduler: a push wakes a worker.
///
/// # Errors
/// If what it did last could not be recorded.
pub async fn work(
    use_case: ProcessPresentationUseCase,
    turno: &Turno,
    lease: Duration,
    retry_in: Duration,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    let handler = move |job: Job<Presentation>| {
        let use_case = use_case.clone();
        async move {
            // As the document's scheduler does, and not with an exponential back-off.
            job.retry_in(retry_in);
            use_case.execute_job(job).await
        }
    };
    inbox(turno)
        .worker(handler)
        // One after the other in each instance, as the others here do; a real one would do many at once.
        .concurrency(1)
        .prefetch(0)
        .lease(lease)
        .run(shutdown)
        .await?;
    Ok(())
}
