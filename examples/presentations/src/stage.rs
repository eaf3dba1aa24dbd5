//! Several instances, one web service, and presentations that all instances see at the same moment.

use std::time::Duration;

use anyhow::{Context, Result};
use turno::Turno;
use uuid::Uuid;

use crate::database::Database;
use crate::how::{How, partition};
use crate::instance::{Instance, LONG, Setup, application_name};
use crate::ledger::Manner;
use crate::scheduler;
use crate::web_service::WebService;

/// How long to wait between two looks at the database.
const PAUSE: Duration = Duration::from_millis(5);
/// How long Turno waits for an instance that dies, where one does. Where none does, a slow machine must not look like it.
const LEASE: Duration = Duration::from_secs(3);

/// Everything that is running.
#[derive(Debug)]
pub struct Stage {
    /// How the instances are kept apart.
    pub how: How,
    /// What they call.
    pub service: WebService,
    /// What they share.
    pub database: Database,
    /// What they are to send.
    pub presentations: Vec<Uuid>,
    instances: Vec<Instance>,
}

impl Stage {
    /// Starts everything; the presentations come last, when all instances are there.
    ///
    /// # Errors
    /// If something does not start.
    pub async fn start(setup: &Setup, how: How, manner: Manner) -> Result<Self> {
        let database = Database::open(&setup.store, "presentations").await?;
        database.clear().await?;
        let inbox = match how {
            How::Turno => Some(scheduler::inbox(&Turno::connect(&setup.store).await?)),
            _ => None,
        };
        let lease = match manner {
            Manner::NeverTheFirst => LEASE,
            Manner::WhenTwoHaveCalled | Manner::RefuseFirst => LONG,
        };
        let service = WebService::start(manner).await?;
        let mut instances = Vec::new();
        for number in 0..setup.instances {
            instances.push(Instance::start(setup, how, number, &service.url, lease).await?);
        }
        let presentations = evenly_partitioned(setup.presentations, setup.instances);
        database.receive(&presentations, inbox.as_ref()).await?;
        Ok(Stage {
            how,
            service,
            database,
            presentations,
            instances,
        })
    }

    /// How many instances there are.
    pub fn size(&self) -> usize {
        self.instances.len()
    }

    /// Waits until the web service has accepted every presentation, and every one is marked.
    ///
    /// # Errors
    /// If that does not happen.
    pub async fn all_processed(&self) -> Result<()> {
        let all = self.presentations.len();
        self.service
            .wait_for(LONG, |ledger| ledger.accepted().len() == all)
            .await?;
        until("every mark", async || {
            Ok(self.database.processed().await?.len() == all)
        })
        .await
    }

    /// Waits until each scheduler has run so many times more, so that nothing can come any more from what it knew
    /// before. Turno's workers have no runs.
    ///
    /// # Errors
    /// If one does not run.
    pub async fn more_runs(&self, many: u64) -> Result<()> {
        if self.how != How::Turno {
            for instance in &self.instances {
                instance.more_runs(many).await?;
            }
        }
        Ok(())
    }

    /// Kills an instance with `kill -9`, and goes on when the database has noticed.
    ///
    /// # Errors
    /// If there is no such instance, or it stays.
    pub async fn kill_9(&mut self, number: u32) -> Result<()> {
        let place = self
            .instances
            .iter()
            .position(|instance| instance.number == number)
            .context("there is no such instance")?;
        self.instances.remove(place).kill_9().await?;
        let name = application_name(number);
        until("the database to notice", async || {
            self.database.has_forgotten(&name).await
        })
        .await
    }

    /// Ends everything.
    ///
    /// # Errors
    /// If an instance does not end.
    pub async fn stop(self) -> Result<()> {
        for instance in self.instances {
            instance.stop().await?;
        }
        Ok(())
    }
}

/// Ids of which every instance has the same share, so that hash partitioning leaves none idle.
fn evenly_partitioned(many: u32, instances: u32) -> Vec<Uuid> {
    let of_partition = |wanted| {
        std::iter::repeat_with(Uuid::now_v7).find(|id| partition(*id, instances) == wanted)
    };
    (0..many)
        .filter_map(|number| of_partition(number % instances))
        .collect()
}

async fn until(what: &str, mut condition: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let looking = async {
        while !condition().await? {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    };
    tokio::time::timeout(LONG, looking)
        .await
        .with_context(|| format!("waited {LONG:?} in vain for {what}"))?
}
