//! The scheduler, or Turno's worker, which starts the use case in each instance.

use std::time::Duration;

use anyhow::Result;
use tokio::time::MissedTickBehavior;
use tracing::error;
use turno::Turno;
use turno::inbox::{Inbox, Job};

use crate::database::{Presentation, TABLE};
use crate::strategy::{Strategy, partition};
use crate::use_case::ProcessPresentationUseCase;

/// Queue that presentations are pushed to.
const QUEUE: &str = "presentations";

/// Periodically selects unprocessed presentations and processes them one after the other.
#[derive(Debug)]
pub struct Scheduler {
    /// Use case that processes a presentation.
    pub use_case: ProcessPresentationUseCase,
    /// Pause between two runs.
    pub every: Duration,
    /// Number of this instance, from 0.
    pub instance_partition: u32,
    /// Total number of instances. Only hash partitioning needs it.
    pub total_instances: u32,
}

impl Scheduler {
    /// Runs forever. `ran` is called after each run.
    ///
    /// # Errors
    /// Returns the errors of `ran`.
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
                // A failed presentation stays unprocessed and is in the list of the next run. The use case has logged the
                // error.
                let _ = self.use_case.execute(id).await;
            }
        }
        Ok(())
    }

    fn is_ours(&self, id: uuid::Uuid) -> bool {
        self.use_case.how != Strategy::HashPartition
            || partition(id, self.total_instances) == self.instance_partition
    }
}

/// Returns Turno's inbox of presentations.
pub fn inbox(turno: &Turno) -> Inbox {
    turno.inbox(QUEUE)
}

/// Runs Turno's worker. There is no scheduler: a push wakes a worker.
///
/// # Errors
/// Returns an error if the outcome of its last item could not be recorded.
pub async fn work(
    use_case: ProcessPresentationUseCase,
    turno: &Turno,
    lease: Duration,
    retry_in: Duration,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<()> {
    let handler = move |job: Job<Presentation>| {
        let use_case = use_case.clone();
        async move {
            // A fixed pause as in the document's scheduler, instead of an exponential backoff.
            job.retry_in(retry_in);
            use_case.execute_job(job).await.map(drop)
        }
    };
    inbox(turno)
        .worker(handler)
        // One item at a time per instance, as the other ways do here. A real application would run several at once.
        .concurrency(1)
        .prefetch(0)
        .lease(lease)
        .run(shutdown)
        .await?;
    Ok(())
}

/// Runs Turno on the adopted table, for a fleet in which some instances still use the document's statements. `ran` is called
/// after each run.
///
/// # Errors
/// Returns the errors of `ran`.
pub async fn work_on_table(
    use_case: &ProcessPresentationUseCase,
    turno: &Turno,
    lease: Duration,
    every: Duration,
    mut ran: impl FnMut() -> Result<()>,
) -> Result<()> {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = run_on_table(use_case, turno, lease).await {
            error!("a run has failed, the next may not: {error:#}");
        }
        ran()?;
    }
}

/// Takes one row after the other, until there is none, or until one fails: it would be the next one again.
async fn run_on_table(
    use_case: &ProcessPresentationUseCase,
    turno: &Turno,
    lease: Duration,
) -> Result<()> {
    let table = turno.adopted(TABLE);
    while let Some(row) = table.next(None, 1, lease).await?.first() {
        use_case.execute_row(&table, row).await?;
    }
    Ok(())
}
