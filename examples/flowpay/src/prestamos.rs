//! The operations on loans, each under the loan's lock.
//!
//! All have the same steps: lock, read, compute, write, check the fencing token and commit, unlock. The reads are not part of
//! the writing transaction: with SQLite, a long transaction would block the single writer, and so Turno's renewals. The lock
//! covers both the reads and the writes, and its token proves it at the commit.

pub mod aplicar;
mod reestructurar;

use jiff::civil::Date;
use turno::lock::LeaseId;

use self::aplicar::{aplicar, dividir};
use crate::cita::Cita;
use crate::datos::Base;
use crate::estado::EstadoPrestamo;
use crate::fallo::Fallo;
use crate::locks::{Locks, Opciones, TIMEOUT_RAPIDA};
use crate::mutacion::{
    AsignarGestorInput, CreatePagoInput, CreatePrestamoInput, UpdatePrestamoInput,
};
use crate::recurso::Recurso;
use crate::tipos::{
    Asignacion, Cuota, DatosPrestamo, FilaLock, FiltroLocks, Gestor, Pago, Prestamo, Usuario,
};

/// Maximum length of a code, name or telephone number, in bytes.
pub const NOMBRE_BYTES: usize = 100;
/// Maximum length of a text, in bytes.
pub const TEXTO_BYTES: usize = 2000;

/// Operations on loans, with their dependencies.
#[derive(Debug, Clone)]
pub struct Prestamos {
    pub base: Base,
    pub locks: Locks,
    pub cita: Cita,
}

impl Prestamos {
    /// Returns a loan with its instalments, payments and other details.
    pub async fn prestamo(&self, idprestamo: i64) -> Result<Prestamo, Fallo> {
        self.base.leer().await?.prestamo(idprestamo).await
    }

    pub async fn crear_usuario(&self, nombre: &str) -> Result<Usuario, Fallo> {
        texto("nombre", nombre, NOMBRE_BYTES)?;
        let mut tx = self.base.escribir().await?;
        let idusuario = tx.insertar_usuario(nombre).await?;
        tx.confirmar(None).await?;
        Ok(Usuario {
            idusuario,
            nombre: nombre.to_owned(),
        })
    }

    pub async fn usuario(&self, idusuario: i64) -> Result<Usuario, Fallo> {
        self.base.leer().await?.ensure_usuario(idusuario).await
    }

    /// Rejects an operation or a lock of a user who does not exist, as the document's relation to `tbl_usuario` does. The user
    /// is optional.
    pub async fn ensure_usuario(&self, idusuario: Option<i64>) -> Result<(), Fallo> {
        match idusuario {
            Some(idusuario) => self.usuario(idusuario).await.map(drop),
            None => Ok(()),
        }
    }

    /// Returns rows of `tbl_lock`.
    pub async fn filas_lock(&self, filtro: &FiltroLocks) -> Result<Vec<FilaLock>, Fallo> {
        self.base.leer().await?.filas_lock(filtro).await
    }

    pub async fn crear_gestor(&self, nombre: &str) -> Result<Gestor, Fallo> {
        texto("nombre", nombre, NOMBRE_BYTES)?;
        let mut tx = self.base.escribir().await?;
        let idgestor = tx.insertar_gestor(nombre).await?;
        tx.confirmar(None).await?;
        Ok(Gestor {
            idgestor,
            nombre: nombre.to_owned(),
        })
    }

    /// Creates a loan. It takes no lock, because no other caller knows the loan yet.
    pub async fn crear_prestamo(&self, input: CreatePrestamoInput) -> Result<Prestamo, Fallo> {
        texto("codigo", &input.codigo, NOMBRE_BYTES)?;
        let cuotas = dividir(input.monto, input.cuotas, fecha(&input.primer_vencimiento)?)?;
        let datos = DatosPrestamo {
            idprestamo: 0,
            codigo: input.codigo,
            estado: EstadoPrestamo::Activo,
            monto: input.monto,
            idgestor: None,
            telefono: String::new(),
            direccion: String::new(),
            observaciones: String::new(),
        };
        let mut tx = self.base.escribir().await?;
        let idprestamo = tx.insertar_prestamo(&datos, &cuotas).await?;
        tx.confirmar(None).await?;
        self.prestamo(idprestamo).await
    }

    /// Caso de uso 1. Registers a payment and applies it to the oldest instalments first.
    pub async fn registrar_pago_con_aplicacion(
        &self,
        input: CreatePagoInput,
    ) -> Result<Pago, Fallo> {
        let idprestamo = input.idprestamo;
        self.ensure_usuario(input.idusuario).await?;
        let prestamo = self.ensure_prestamo_activo(idprestamo).await?;
        let opciones = Opciones {
            idusuario: input.idusuario,
            descripcion: Some(format!(
                "Registro de pago para préstamo {}",
                prestamo.codigo
            )),
            timeout: TIMEOUT_RAPIDA,
        };
        let trabajo = async |idlock: Option<LeaseId>| {
            let (_, cuotas) = self.leer_activo(idprestamo).await?;
            let partes = aplicar(&cuotas, input.monto)?;
            self.cita.esperar().await?;

            let saldo = cuotas.iter().map(Cuota::pendiente).sum();
            let mut tx = self.base.escribir().await?;
            let pago = tx
                .insertar_pago(idprestamo, input.idusuario, input.monto, partes)
                .await?;
            if input.monto == saldo {
                tx.cambiar_estado(idprestamo, EstadoPrestamo::Pagado)
                    .await?;
            }
            tx.confirmar(idlock.as_ref()).await?;
            Ok(pago)
        };
        self.locks
            .con_lock(Recurso::prestamo(idprestamo), opciones, trabajo)
            .await
    }

    /// Caso de uso 2. Changes the given fields and writes the whole row.
    pub async fn update_prestamo(&self, input: UpdatePrestamoInput) -> Result<Prestamo, Fallo> {
        let idprestamo = input.idprestamo;
        self.ensure_usuario(input.idusuario).await?;
        let prestamo = self.ensure_prestamo_activo(idprestamo).await?;
        let opciones = Opciones {
            idusuario: input.idusuario,
            descripcion: Some(format!("Actualización de préstamo {}", prestamo.codigo)),
            timeout: TIMEOUT_RAPIDA,
        };
        let trabajo = async |idlock: Option<LeaseId>| {
            let (mut datos, _) = self.leer_activo(idprestamo).await?;
            input.modificar(&mut datos)?;
            self.cita.esperar().await?;

            let mut tx = self.base.escribir().await?;
            tx.actualizar_prestamo(&datos).await?;
            tx.confirmar(idlock.as_ref()).await?;
            self.prestamo(idprestamo).await
        };
        self.locks
            .con_lock(Recurso::prestamo(idprestamo), opciones, trabajo)
            .await
    }

    /// Caso de uso 3. Assigns a loan to a manager and records the previous one.
    pub async fn asignar_gestor(&self, input: AsignarGestorInput) -> Result<Asignacion, Fallo> {
        let AsignarGestorInput {
            idprestamo,
            idgestor,
            idusuario,
        } = input;
        self.ensure_usuario(idusuario).await?;
        let prestamo = self.ensure_prestamo_activo(idprestamo).await?;
        let gestor = self.base.leer().await?.ensure_gestor(idgestor).await?;
        let opciones = Opciones {
            idusuario,
            descripcion: Some(format!(
                "Asignación de {} a préstamo {}",
                gestor.nombre, prestamo.codigo
            )),
            timeout: TIMEOUT_RAPIDA,
        };
        let trabajo = async |idlock: Option<LeaseId>| {
            let (mut datos, _) = self.leer_activo(idprestamo).await?;
            let anterior = datos.idgestor.replace(idgestor);
            self.cita.esperar().await?;

            let mut tx = self.base.escribir().await?;
            tx.actualizar_prestamo(&datos).await?;
            let asignacion = tx
                .insertar_asignacion(idprestamo, anterior, idgestor, idusuario)
                .await?;
            tx.confirmar(idlock.as_ref()).await?;
            Ok(asignacion)
        };
        self.locks
            .con_lock(Recurso::prestamo(idprestamo), opciones, trabajo)
            .await
    }

    /// Early check that the loan is active; it also returns the code for the lock's description. It does not replace the check
    /// under the lock, where the loan is read again.
    async fn ensure_prestamo_activo(&self, idprestamo: i64) -> Result<DatosPrestamo, Fallo> {
        let mut tx = self.base.leer().await?;
        tx.ensure_prestamo_activo(idprestamo).await
    }

    async fn leer_activo(&self, idprestamo: i64) -> Result<(DatosPrestamo, Vec<Cuota>), Fallo> {
        let mut tx = self.base.leer().await?;
        let datos = tx.ensure_prestamo_activo(idprestamo).await?;
        Ok((datos, tx.cuotas(idprestamo).await?))
    }
}

fn fecha(texto: &str) -> Result<Date, Fallo> {
    texto.parse().map_err(|_| {
        Fallo::negocio(
            "FECHA_INVALIDA",
            "Una fecha se escribe AAAA-MM-DD, por ejemplo 2027-01-31.",
        )
    })
}

/// Rejects a text that is too long or contains control characters.
pub fn texto(campo: &str, valor: &str, bytes: usize) -> Result<(), Fallo> {
    if valor.len() > bytes || valor.chars().any(char::is_control) {
        return Err(Fallo::negocio(
            "TEXTO_INVALIDO",
            format!("{campo} tiene más de {bytes} bytes o caracteres de control."),
        ));
    }
    Ok(())
}
