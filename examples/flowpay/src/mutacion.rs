//! Mutations of the API.

use std::time::Duration;

use async_graphql::{Context, ID, InputObject, Object, Result};

use crate::fallo::Fallo;
use crate::locks::{Opciones, TIMEOUT_RAPIDA};
use crate::monto::Monto;
use crate::prestamos::{NOMBRE_BYTES, Prestamos, TEXTO_BYTES, texto};
use crate::recurso::{Recurso, TipoRecurso};
use crate::tipos::{
    Asignacion, DatosPrestamo, Gestor, Pago, Prestamo, Reestructuracion, ResultadoLock, Usuario,
};

/// A new loan, in monthly instalments.
#[derive(Debug, InputObject)]
pub struct CreatePrestamoInput {
    pub codigo: String,
    pub monto: Monto,
    pub cuotas: u32,
    pub primer_vencimiento: String,
}

/// A payment.
#[derive(Debug, InputObject)]
pub struct CreatePagoInput {
    pub idprestamo: i64,
    pub idusuario: Option<i64>,
    pub monto: Monto,
}

/// Changes to a loan. Absent fields are not changed.
#[derive(Debug, InputObject)]
pub struct UpdatePrestamoInput {
    pub idprestamo: i64,
    pub idusuario: Option<i64>,
    pub codigo: Option<String>,
    pub telefono: Option<String>,
    pub direccion: Option<String>,
    pub observaciones: Option<String>,
}

impl UpdatePrestamoInput {
    pub fn modificar(&self, datos: &mut DatosPrestamo) -> Result<(), Fallo> {
        let cambios = [
            ("codigo", &self.codigo, &mut datos.codigo, NOMBRE_BYTES),
            (
                "telefono",
                &self.telefono,
                &mut datos.telefono,
                NOMBRE_BYTES,
            ),
            (
                "direccion",
                &self.direccion,
                &mut datos.direccion,
                TEXTO_BYTES,
            ),
            (
                "observaciones",
                &self.observaciones,
                &mut datos.observaciones,
                TEXTO_BYTES,
            ),
        ];
        for (nombre, nuevo, campo, bytes) in cambios {
            if let Some(nuevo) = nuevo {
                texto(nombre, nuevo, bytes)?;
                campo.clone_from(nuevo);
            }
        }
        Ok(())
    }
}

/// The new manager of a loan.
#[derive(Debug, InputObject)]
pub struct AsignarGestorInput {
    pub idprestamo: i64,
    pub idgestor: i64,
    pub idusuario: Option<i64>,
}

/// The terms of the loan that replaces another one.
#[derive(Debug, InputObject)]
pub struct CreateReestructuracionInput {
    pub idprestamo_original: i64,
    pub idusuario_solicitante: Option<i64>,
    pub cuotas: u32,
    pub primer_vencimiento: String,
}

/// User, purpose and maximum duration of a lock. Default duration: 300 seconds.
#[derive(Debug, Default, InputObject)]
pub struct OpcionesLock {
    pub idusuario: Option<i64>,
    pub descripcion: Option<String>,
    pub timeout_segundos: Option<u32>,
}

/// The root of all mutations.
pub struct Mutacion;

#[Object(name = "Mutation")]
impl Mutacion {
    async fn crear_usuario(&self, ctx: &Context<'_>, nombre: String) -> Result<Usuario> {
        Ok(prestamos(ctx)?.crear_usuario(&nombre).await?)
    }

    async fn crear_gestor(&self, ctx: &Context<'_>, nombre: String) -> Result<Gestor> {
        Ok(prestamos(ctx)?.crear_gestor(&nombre).await?)
    }

    async fn crear_prestamo(
        &self,
        ctx: &Context<'_>,
        input: CreatePrestamoInput,
    ) -> Result<Prestamo> {
        Ok(prestamos(ctx)?.crear_prestamo(input).await?)
    }

    /// Registers a payment and applies it to the oldest instalments first. A payment of more than the outstanding amount is
    /// rejected.
    async fn registrar_pago_con_aplicacion(
        &self,
        ctx: &Context<'_>,
        input: CreatePagoInput,
    ) -> Result<Pago> {
        Ok(prestamos(ctx)?.registrar_pago_con_aplicacion(input).await?)
    }

    async fn update_prestamo(
        &self,
        ctx: &Context<'_>,
        input: UpdatePrestamoInput,
    ) -> Result<Prestamo> {
        Ok(prestamos(ctx)?.update_prestamo(input).await?)
    }

    async fn asignar_gestor(
        &self,
        ctx: &Context<'_>,
        input: AsignarGestorInput,
    ) -> Result<Asignacion> {
        Ok(prestamos(ctx)?.asignar_gestor(input).await?)
    }

    async fn reestructurar_prestamo(
        &self,
        ctx: &Context<'_>,
        input: CreateReestructuracionInput,
    ) -> Result<Reestructuracion> {
        Ok(prestamos(ctx)?.reestructurar_prestamo(input).await?)
    }

    /// Locks a resource until liberarLock or its timeout. A busy lock is a result, not an error.
    async fn adquirir_lock(
        &self,
        ctx: &Context<'_>,
        tipo_recurso: TipoRecurso,
        idrecurso: i64,
        #[graphql(default)] opciones: OpcionesLock,
    ) -> Result<ResultadoLock> {
        let recurso = Recurso {
            tipo: tipo_recurso,
            id: idrecurso,
        };
        let opciones = Opciones {
            idusuario: opciones.idusuario,
            descripcion: opciones.descripcion,
            timeout: opciones
                .timeout_segundos
                .map_or(TIMEOUT_RAPIDA, |segundos| {
                    Duration::from_secs(segundos.into())
                }),
        };
        let prestamos = prestamos(ctx)?;
        prestamos.ensure_usuario(opciones.idusuario).await?;
        Ok(prestamos.locks.adquirir_lock(recurso, opciones).await?)
    }

    /// Releases a lock. Returns false if it was not held any more.
    async fn liberar_lock(
        &self,
        ctx: &Context<'_>,
        idlock: ID,
        idusuario: Option<i64>,
    ) -> Result<bool> {
        let idlock = idlock.parse().map_err(Fallo::from)?;
        Ok(prestamos(ctx)?
            .locks
            .liberar_lock(&idlock, idusuario)
            .await?)
    }

    /// Sweeps expired locks and returns their number.
    async fn limpiar_locks_expirados(&self, ctx: &Context<'_>) -> Result<u64> {
        Ok(prestamos(ctx)?.locks.limpiar_locks_expirados().await?)
    }
}

/// Returns the dependencies that the schema was built with.
pub fn prestamos<'a>(ctx: &Context<'a>) -> Result<&'a Prestamos> {
    ctx.data::<Prestamos>()
}
