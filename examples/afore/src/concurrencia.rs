//! `ConcurrencyService`: the document's high-level API, over Turno's lock.
//!
//! Its parts below have become Turno's: `LockManagerService.acquireLock` and `releaseLock` are `Lock::acquire` and
//! `Lease::release`, `cleanupExpiredLocks` is `Turno::sweep_every`, and the row of `TB_NSAR_BLOQUEO_DISTRIBUIDO` is that of
//! Turno's lock.

use anyhow::{Result, anyhow};
use turno::Turno;
use turno::lock::{Lease, RunError};

/// Work under a distributed lock.
#[derive(Debug, Clone)]
pub struct ConcurrencyService {
    turno: Turno,
}

impl ConcurrencyService {
    /// Time-out, retries, service and user are the settings of `turno`.
    pub fn nuevo(turno: Turno) -> Self {
        Self { turno }
    }

    /// Does `action` under a lock, which is released whatever happens; `None` if the lock is busy after all retries.
    ///
    /// While the action runs, the lock is renewed. If it is lost nevertheless, the action is stopped; what it writes
    /// can be guarded with the lease's token.
    ///
    /// # Errors
    /// Those of the action; if the lock was lost; if the store does not answer.
    pub async fn execute_with_lock<T>(
        &self,
        resource_id: &str,
        action: impl AsyncFnOnce(&Lease) -> Result<T>,
    ) -> Result<Option<T>> {
        match self.turno.lock(resource_id).run(action).await {
            Ok(value) => Ok(Some(value)),
            Err(RunError::Busy(busy)) => {
                tracing::warn!(%busy, "No se pudo adquirir el bloqueo para el recurso");
                Ok(None)
            }
            Err(RunError::Work(error)) => Err(error),
            Err(error) => Err(anyhow!("{error}")),
        }
    }

    /// Whether somebody has the lock. It says nothing about the next moment.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn is_resource_locked(&self, resource_id: &str) -> Result<bool> {
        let status = self.turno.lock_status(resource_id).await?;
        Ok(!status.holders.is_empty())
    }
}
