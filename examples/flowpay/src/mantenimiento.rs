//! Commands of an operator and of a cron job: the document's *Mantenimiento*.

use anyhow::{Result, anyhow};
use turno::Turno;

use crate::locks::{Locks, Proteccion};
use crate::recurso::Recurso;

/// Sweeps expired locks once, and prints their number.
pub async fn limpiar(store: &str) -> Result<()> {
    let locks = abrir(store).await?;
    let locks_limpiados = locks.limpiar_locks_expirados().await;
    let locks_limpiados = locks_limpiados.map_err(|fallo| anyhow!("{fallo:?}"))?;
    println!("Locks limpiados: {locks_limpiados}");
    locks.turno.close().await;
    Ok(())
}

/// Prints whether a loan is locked, by which user, and until when.
pub async fn verificar(store: &str, idprestamo: i64) -> Result<()> {
    let locks = abrir(store).await?;
    let estado = locks.verificar_lock(Recurso::prestamo(idprestamo)).await;
    let estado = estado.map_err(|fallo| anyhow!("{fallo:?}"))?;
    if estado.bloqueado {
        let usuario = estado.idusuario.map(|idusuario| idusuario.to_string());
        let usuario = usuario.as_deref().unwrap_or("desconocido");
        println!("Préstamo bloqueado por usuario {usuario}");
        println!("Expira en: {}", estado.fecha_expiracion.unwrap_or_default());
    } else {
        println!("Préstamo libre");
    }
    locks.turno.close().await;
    Ok(())
}

async fn abrir(store: &str) -> Result<Locks> {
    Ok(Locks {
        turno: Turno::connect(store).await?,
        proteccion: Proteccion::Completa,
        timeout: None,
    })
}
