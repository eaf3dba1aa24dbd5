//! The document's lock service (`lock-service.ts`), over Turno's locks.
//!
//! `adquirirLock`, `liberarLock`, `conLock`, `verificarLock` and `limpiarLocksExpirados` have the same meaning as there. The
//! database decides who gets a lock, in one atomic step and by its own clock.

use std::time::Duration;

use turno::Turno;
use turno::lock::{Acquire, Language, LeaseId, Lock, LockHolder, ReleaseOutcome, Sweep};

use crate::fallo::Fallo;
use crate::recurso::Recurso;
use crate::tipos::{EstadoLock, ResultadoLock};

/// Quick operations, such as a payment: 5 minutes.
pub const TIMEOUT_RAPIDA: Duration = Duration::from_secs(300);
/// Complex operations, such as a restructuring: 10 minutes.
pub const TIMEOUT_COMPLEJA: Duration = Duration::from_secs(600);
/// Very complex operations: 15 minutes. This is the maximum, because a holder that dies blocks a loan for that long.
pub const TIMEOUT_MUY_COMPLEJA: Duration = Duration::from_secs(900);
/// Interval between sweeps of expired locks: hourly, as the document recommends.
pub const LIMPIEZA: Duration = Duration::from_secs(60 * 60);

/// User, purpose and maximum duration of a lock.
#[derive(Debug, Clone)]
pub struct Opciones {
    pub idusuario: Option<i64>,
    pub descripcion: Option<String>,
    pub timeout: Duration,
}

/// Level of protection. Use `Completa`; the others show the problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proteccion {
    /// The lock, and its token checked in the transaction that writes.
    Completa,
    /// The lock alone, as in the document.
    SinGuard,
    /// No protection.
    SinLock,
}

/// The lock service.
#[derive(Debug, Clone)]
pub struct Locks {
    pub turno: Turno,
    pub proteccion: Proteccion,
    /// Replaces the timeout of each operation.
    pub timeout: Option<Duration>,
}

impl Locks {
    /// Tries to lock a resource. It stays locked until [`Locks::liberar_lock`] or until its timeout.
    pub async fn adquirir_lock(
        &self,
        recurso: Recurso,
        opciones: Opciones,
    ) -> Result<ResultadoLock, Fallo> {
        Ok(match self.lock(recurso, opciones)?.acquire().await? {
            Acquire::Acquired(lease) => ResultadoLock::exito(lease.detach()),
            Acquire::Busy(busy) => ResultadoLock::rechazo(busy.message(Language::Spanish)),
        })
    }

    /// Releases a lock. Returns false if it was not held any more: it has expired or was released before.
    pub async fn liberar_lock(
        &self,
        idlock: &LeaseId,
        idusuario: Option<i64>,
    ) -> Result<bool, Fallo> {
        let holders = self.turno.lock(&idlock.resource).status().await?.holders;
        let ajeno = |holder: &LockHolder| {
            holder.token == idlock.token && usuario(&holder.attribution.user) != idusuario
        };
        if holders.iter().any(ajeno) {
            return Err(Fallo::negocio(
                "LOCK_DE_OTRO_USUARIO",
                "El lock pertenece a otro usuario.",
            ));
        }
        let outcome = self
            .turno
            .lock(&idlock.resource)
            .release(idlock.token)
            .await?;
        Ok(matches!(outcome, ReleaseOutcome::Released { .. }))
    }

    /// Runs work under a lock. The lock is renewed meanwhile, and released on success, error, panic and cancellation.
    ///
    /// The work gets the idlock, which it must pass at the commit: see [`Tx::confirmar`](crate::datos::Tx::confirmar).
    pub async fn con_lock<T>(
        &self,
        recurso: Recurso,
        opciones: Opciones,
        trabajo: impl AsyncFnOnce(Option<LeaseId>) -> Result<T, Fallo>,
    ) -> Result<T, Fallo> {
        if self.proteccion == Proteccion::SinLock {
            return trabajo(None).await;
        }
        let lock = self.lock(recurso, opciones)?;
        let hecho = lock
            .run(async |lease| trabajo(self.para_presentar(lease.id())).await)
            .await?;
        Ok(hecho)
    }

    /// Returns the lease to check in the transaction, or `None` if the guard is off.
    pub fn para_presentar(&self, idlock: LeaseId) -> Option<LeaseId> {
        (self.proteccion == Proteccion::Completa).then_some(idlock)
    }

    /// Returns whether a resource is locked, by which holder, and until when.
    pub async fn verificar_lock(&self, recurso: Recurso) -> Result<EstadoLock, Fallo> {
        let status = self.turno.lock(recurso.to_string()).status().await?;
        Ok(match status.holders.first() {
            None => EstadoLock::default(),
            Some(holder) => EstadoLock {
                bloqueado: true,
                idusuario: usuario(&holder.attribution.user),
                descripcion: holder.attribution.description.clone(),
                fecha_expiracion: Some(holder.expires_at.to_string()),
                segundos_restantes: holder.remaining.as_secs(),
            },
        })
    }

    /// Sweeps expired locks and returns their number. It is only a cleanup: an expired lock does not block other callers.
    pub async fn limpiar_locks_expirados(&self) -> Result<u64, Fallo> {
        Ok(self.turno.sweep(&Sweep::default()).await?.expired)
    }

    fn lock(&self, recurso: Recurso, opciones: Opciones) -> Result<Lock, Fallo> {
        let timeout = self.timeout.unwrap_or(opciones.timeout);
        if timeout.is_zero() || timeout > TIMEOUT_MUY_COMPLEJA {
            return Err(Fallo::negocio(
                "TIMEOUT_INVALIDO",
                "El timeout debe estar entre 1 y 900 segundos.",
            ));
        }
        let mut lock = self.turno.lock(recurso.to_string()).ttl(timeout);
        if let Some(idusuario) = opciones.idusuario {
            lock = lock.user(idusuario.to_string());
        }
        if let Some(descripcion) = opciones.descripcion {
            lock = lock.description(descripcion);
        }
        Ok(lock)
    }
}

fn usuario(user: &Option<String>) -> Option<i64> {
    user.as_deref().and_then(|user| user.parse().ok())
}
