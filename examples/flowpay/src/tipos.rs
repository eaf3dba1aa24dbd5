//! Output types of the API: loans and their details, and locks with the names of `tbl_lock`.

use async_graphql::{Enum, ID, SimpleObject};
use turno::lock::LeaseId;

use crate::estado::{EstadoCuota, EstadoPrestamo};
use crate::monto::Monto;
use crate::recurso::TipoRecurso;

/// A row of `tbl_prestamo`.
#[derive(Debug, Clone, SimpleObject)]
pub struct DatosPrestamo {
    pub idprestamo: i64,
    pub codigo: String,
    pub estado: EstadoPrestamo,
    pub monto: Monto,
    pub idgestor: Option<i64>,
    pub telefono: String,
    pub direccion: String,
    pub observaciones: String,
}

/// A loan with its details, as a consistent snapshot.
#[derive(Debug, SimpleObject)]
pub struct Prestamo {
    #[graphql(flatten)]
    pub datos: DatosPrestamo,
    /// Outstanding amount.
    pub saldo: Monto,
    pub cuotas: Vec<Cuota>,
    pub pagos: Vec<Pago>,
    pub asignaciones: Vec<Asignacion>,
    pub reestructuraciones: Vec<Reestructuracion>,
}

/// An instalment; a row of `tbl_cuota`.
#[derive(Debug, Clone, SimpleObject)]
pub struct Cuota {
    pub idcuota: i64,
    pub numero: i64,
    pub fecha_vencimiento: String,
    pub monto: Monto,
    pub pagado: Monto,
    pub estado: EstadoCuota,
}

impl Cuota {
    /// Outstanding amount of the instalment.
    pub fn pendiente(&self) -> Monto {
        match self.estado {
            EstadoCuota::Cancelada => Monto::CERO,
            _ => self.monto - self.pagado,
        }
    }
}

/// A payment; a row of `tbl_pago`.
#[derive(Debug, Clone, SimpleObject)]
pub struct Pago {
    pub idpago: i64,
    pub idprestamo: i64,
    pub idusuario: Option<i64>,
    pub monto: Monto,
    pub fecha: String,
    pub aplicaciones: Vec<Aplicacion>,
}

/// Part of a payment that was applied to an instalment; a row of `tbl_aplicacion`.
#[derive(Debug, Clone, SimpleObject)]
pub struct Aplicacion {
    pub idcuota: i64,
    pub monto: Monto,
}

/// A manager; a row of `tbl_gestor`.
#[derive(Debug, Clone, SimpleObject)]
pub struct Gestor {
    pub idgestor: i64,
    pub nombre: String,
}

/// Change of a loan's manager, with the previous and the new one; a row of `tbl_asignacion`.
#[derive(Debug, Clone, SimpleObject)]
pub struct Asignacion {
    pub idgestor_anterior: Option<i64>,
    pub idgestor: i64,
    pub idusuario: Option<i64>,
    pub fecha: String,
}

/// Record of a loan whose debt was moved to a new loan; a row of `tbl_reestructuracion`.
#[derive(Debug, Clone, SimpleObject)]
pub struct Reestructuracion {
    pub idreestructuracion: i64,
    pub idprestamo_original: i64,
    pub idprestamo_nuevo: i64,
    pub idusuario_solicitante: Option<i64>,
    pub saldo: Monto,
    pub fecha: String,
}

/// Result of `adquirirLock`.
#[derive(Debug, SimpleObject)]
pub struct ResultadoLock {
    pub adquirido: bool,
    pub idlock: Option<ID>,
    pub mensaje: Option<String>,
}

impl ResultadoLock {
    pub fn exito(idlock: LeaseId) -> Self {
        ResultadoLock {
            adquirido: true,
            idlock: Some(idlock.into()),
            mensaje: None,
        }
    }

    pub fn rechazo(mensaje: String) -> Self {
        ResultadoLock {
            adquirido: false,
            idlock: None,
            mensaje: Some(mensaje),
        }
    }
}

/// Result of `verificarLock`. It does not contain idlock, because with it a caller could release the lock.
#[derive(Debug, Default, SimpleObject)]
pub struct EstadoLock {
    pub bloqueado: bool,
    pub idusuario: Option<i64>,
    pub descripcion: Option<String>,
    pub fecha_expiracion: Option<String>,
    pub segundos_restantes: u64,
}

/// A user; a row of `tbl_usuario`.
#[derive(Debug, Clone, SimpleObject)]
pub struct Usuario {
    pub idusuario: i64,
    pub nombre: String,
}

/// Order of the locks in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Enum)]
pub enum OrdenLocks {
    /// The newest first.
    #[default]
    Recientes,
    /// Those that expire first, first.
    ExpiranPrimero,
    /// Those that expire last, first: locks that are held for very long.
    ExpiranUltimo,
}

impl OrdenLocks {
    pub fn as_str(self) -> &'static str {
        match self {
            OrdenLocks::Recientes => "RECIENTES",
            OrdenLocks::ExpiranPrimero => "EXPIRAN_PRIMERO",
            OrdenLocks::ExpiranUltimo => "EXPIRAN_ULTIMO",
        }
    }
}

/// Which rows of `tbl_lock` to list, and in which order.
#[derive(Debug, Clone)]
pub struct FiltroLocks {
    pub tipo_recurso: Option<TipoRecurso>,
    pub idrecurso: Option<i64>,
    pub activo: Option<bool>,
    pub orden: OrdenLocks,
    pub limite: u32,
}

/// One lease of a lock; a row of the view `tbl_lock`.
#[derive(Debug, SimpleObject)]
#[graphql(name = "Lock")]
pub struct FilaLock {
    pub idlock: ID,
    pub tipo_recurso: TipoRecurso,
    pub idrecurso: i64,
    pub idusuario: Option<i64>,
    /// The user, as in `tbl_usuario`.
    pub usuario: Option<Usuario>,
    pub descripcion: Option<String>,
    /// Whether it blocks other callers. An expired lock does not, swept or not.
    pub activo: bool,
    pub fecha_creacion: Option<String>,
    pub fecha_expiracion: Option<String>,
    /// An expired lock was not released, so it has no release time.
    pub fecha_liberacion: Option<String>,
    /// State of the lease, or how it ended: acquired, released, expired, taken_over, broken.
    pub evento: String,
}
