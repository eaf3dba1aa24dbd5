//! `ConcurrencyService`: the document's high-level API, over Turno's lock.
//!
//! Turno replaces the layers below it: `LockManagerService.acquireLock` and `releaseLock` are `Lock::acquire` and
//! `Lease::release`, `cleanupExpiredLocks` is `Turno::sweeper`, and the row of `TB_NSAR_BLOQUEO_DISTRIBUIDO` is the row of
//! Turno's lock.

use anyhow::{Result, anyhow};
use turno::Turno;
use turno::lock::{Lease, RunError};

/// Runs work under a distributed lock.
#[derive(Debug, Clone)]
pub struct ConcurrencyService {
    turno: Turno,
}

impl ConcurrencyService {
    /// Creates the service. Timeout, retries, service and user are the settings of `turno`.
    pub fn nuevo(turno: Turno) -> Self {
        Self { turno }
    }

    /// Runs `action` under a lock and always releases the lock. Returns `None` if the lock is busy after all retries.
    ///
    /// While the action runs, the lock is renewed. If the lock is lost, the action is stopped. Its writes can be guarded with
    /// the lease's token.
    ///
    /// # Errors
    /// Returns the error of the action, or an error if the lock was lost or the store is unavailable.
    pub async fn execute_with_lock<T>(
        &self,
        resource_id: &str,
        action: impl AsyncFnOnce(&Lease) -> Result<T>,
    ) -> Result<Option<T>> {
        match self.turno.lock(resource_id).run(action).await {
            Ok(value) => Ok(Some(value)),
            Err(RunError::Busy(busy)) => {
                tracing::warn!(%busy, "No se pudo adquirir el bloqueo para el recurso: {resource_id}");
                Ok(None)
            }
            Err(RunError::Work(error)) => Err(error),
            Err(error) => Err(anyhow!("{error}")),
        }
    }

    /// Returns whether the lock is held. The result may be outdated at once.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    pub async fn is_resource_locked(&self, resource_id: &str) -> Result<bool> {
        let status = self.turno.lock(resource_id).status().await?;
        Ok(!status.holders.is_empty())
    }
}
