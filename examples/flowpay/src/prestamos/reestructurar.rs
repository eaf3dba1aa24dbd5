//! Restructuring: the operation that acquires and releases its lock explicitly.

use turno::lock::LeaseId;

use super::aplicar::dividir;
use super::{Prestamos, fecha};
use crate::estado::EstadoPrestamo;
use crate::fallo::Fallo;
use crate::locks::{Opciones, Proteccion, TIMEOUT_COMPLEJA};
use crate::mutacion::CreateReestructuracionInput;
use crate::recurso::Recurso;
use crate::tipos::{Cuota, DatosPrestamo, Reestructuracion};

impl Prestamos {
    /// Caso de uso 4. Moves the outstanding amount to a new loan. The lock is acquired and released explicitly, as in the
    /// document. It is not renewed, so the work must end within ten minutes.
    pub async fn reestructurar_prestamo(
        &self,
        input: CreateReestructuracionInput,
    ) -> Result<Reestructuracion, Fallo> {
        self.ensure_usuario(input.idusuario_solicitante).await?;
        let original = self
            .ensure_prestamo_activo(input.idprestamo_original)
            .await?;
        if self.locks.proteccion == Proteccion::SinLock {
            return self.reestructurar(input, None).await;
        }
        let opciones = Opciones {
            idusuario: input.idusuario_solicitante,
            descripcion: Some(format!("Reestructuración de préstamo {}", original.codigo)),
            timeout: TIMEOUT_COMPLEJA,
        };
        let recurso = Recurso::prestamo(input.idprestamo_original);
        let idusuario = input.idusuario_solicitante;
        let lock = self.locks.adquirir_lock(recurso, opciones).await?;
        let idlock: LeaseId = match lock.idlock {
            Some(idlock) => idlock.parse()?,
            None => {
                let mensaje = lock.mensaje.unwrap_or_default();
                return Err(Fallo::negocio("RECURSO_BLOQUEADO", mensaje));
            }
        };
        let presentado = self.locks.para_presentar(idlock.clone());
        let resultado = self.reestructurar(input, presentado).await;
        // Release on success and on error. If the release fails, the lock ends with its timeout.
        if let Err(fallo) = self.locks.liberar_lock(&idlock, idusuario).await {
            tracing::error!(%idlock, ?fallo, "No se pudo liberar el lock");
        }
        resultado
    }

    async fn reestructurar(
        &self,
        input: CreateReestructuracionInput,
        idlock: Option<LeaseId>,
    ) -> Result<Reestructuracion, Fallo> {
        let idoriginal = input.idprestamo_original;
        let (original, cuotas) = self.leer_activo(idoriginal).await?;
        let saldo = cuotas.iter().map(Cuota::pendiente).sum();
        let nuevas = dividir(saldo, input.cuotas, fecha(&input.primer_vencimiento)?)?;
        let nuevo = DatosPrestamo {
            codigo: format!("{}-R", original.codigo),
            monto: saldo,
            ..original
        };
        self.cita.esperar().await?;

        let mut tx = self.base.escribir().await?;
        tx.cancelar_cuotas(idoriginal).await?;
        tx.cambiar_estado(idoriginal, EstadoPrestamo::Reestructurado)
            .await?;
        let idnuevo = tx.insertar_prestamo(&nuevo, &nuevas).await?;
        let reestructuracion = tx
            .insertar_reestructuracion(idoriginal, idnuevo, input.idusuario_solicitante, saldo)
            .await?;
        tx.confirmar(idlock.as_ref()).await?;
        Ok(reestructuracion)
    }
}
