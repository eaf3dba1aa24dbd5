//! Several instances, one web service, and presentations that become visible to all instances at the same moment.

use std::time::Duration;

use anyhow::{Context, Result};
use turno::Turno;
use uuid::Uuid;

use crate::database::Database;
use crate::instance::{Instance, LONG, Setup, application_name};
use crate::ledger::Manner;
use crate::scheduler;
use crate::strategy::{Strategy, partition};
use crate::web_service::WebService;

/// Pause between two polls of the database.
const PAUSE: Duration = Duration::from_millis(5);
/// Lease in scenes in which an instance is killed. Other scenes have a longer one, so that a slow machine does not look like a
/// dead instance.
const LEASE: Duration = Duration::from_secs(3);

/// All parts of a running scene.
#[derive(Debug)]
pub struct Stage {
    /// Way of coordinating the instances.
    pub how: Strategy,
    /// The web service that they call.
    pub service: WebService,
    /// The database that they share.
    pub database: Database,
    /// The presentations to send.
    pub presentations: Vec<Uuid>,
    instances: Vec<Instance>,
}

impl Stage {
    /// Starts all parts. The presentations are inserted last, when all instances are ready.
    ///
    /// # Errors
    /// Returns an error if a part does not start.
    pub async fn start(setup: &Setup, how: Strategy, manner: Manner) -> Result<Self> {
        let database = Database::open(&setup.store, "presentations").await?;
        database.clear().await?;
        let inbox = match how {
            Strategy::Turno => Some(scheduler::inbox(&Turno::connect(&setup.store).await?)),
            _ => None,
        };
        let lease = match manner {
            Manner::NeverTheFirst => LEASE,
            Manner::AcceptAll | Manner::WhenTwoHaveCalled | Manner::RefuseFirst => LONG,
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

    /// Number of instances.
    pub fn size(&self) -> usize {
        self.instances.len()
    }

    /// Waits until the web service has accepted each presentation, and each one is marked as processed.
    ///
    /// # Errors
    /// Returns an error after a timeout.
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

    /// Waits until each scheduler has run `many` more times, so that no effect of its earlier state can follow. Turno's
    /// workers have no runs.
    ///
    /// # Errors
    /// Returns an error if a scheduler does not run.
    pub async fn more_runs(&self, many: u64) -> Result<()> {
        if self.how != Strategy::Turno {
            for instance in &self.instances {
                instance.more_runs(many).await?;
            }
        }
        Ok(())
    }

    /// Kills an instance with `kill -9`, and waits until the database has detected it.
    ///
    /// # Errors
    /// Returns an error if there is no such instance or it does not end.
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

    /// Stops all parts.
    ///
    /// # Errors
    /// Returns an error if an instance does not end.
    pub async fn stop(self) -> Result<()> {
        for instance in self.instances {
            instance.stop().await?;
        }
        Ok(())
    }
}

/// Returns ids in equal shares per instance, so that no instance is idle with hash partitioning.
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
