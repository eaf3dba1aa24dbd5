//! Queries that read.

use std::collections::HashMap;

use jiff::Timestamp;

use super::{Tx, en};
use crate::estado::{EstadoCuota, EstadoPrestamo};
use crate::fallo::Fallo;
use crate::monto::Monto;
use crate::recurso::TipoRecurso;
use crate::tipos::{
    Aplicacion, Asignacion, Cuota, DatosPrestamo, FilaLock, FiltroLocks, Gestor, Pago, Prestamo,
    Reestructuracion, Usuario,
};

/// Maximum number of rows of `tbl_lock` in a response.
const FILAS_MAXIMO: u32 = 1000;

/// A row of `locks_postgres.sql` and `locks_sqlite.sql`.
type FilaTblLock = (
    String,
    String,
    i64,
    Option<i64>,
    Option<String>,
    Option<String>,
    bool,
    Option<String>,
    Option<String>,
    Option<String>,
    String,
);

impl Tx {
    /// Returns the row of a loan.
    pub async fn datos_prestamo(&mut self, idprestamo: i64) -> Result<DatosPrestamo, Fallo> {
        type Fila = (
            i64,
            String,
            String,
            i64,
            Option<i64>,
            String,
            String,
            String,
        );
        let fila: Option<Fila> = en!(self, db => sqlx::query_as(
            "select idprestamo, codigo, estado, monto, idgestor, telefono, direccion, observaciones \
             from tbl_prestamo \
             where idprestamo = $1",
        )
        .bind(idprestamo)
        .fetch_optional(db)
        .await)?;
        let Some((idprestamo, codigo, estado, monto, idgestor, telefono, direccion, observaciones)) =
            fila
        else {
            return Err(Fallo::negocio(
                "PRESTAMO_NO_ENCONTRADO",
                format!("El préstamo {idprestamo} no existe."),
            ));
        };
        Ok(DatosPrestamo {
            idprestamo,
            codigo,
            estado: EstadoPrestamo::leer(&estado)?,
            monto: Monto::de_centavos(monto),
            idgestor,
            telefono,
            direccion,
            observaciones,
        })
    }

    /// Returns the row of a loan, if it is active: the document's `ensurePrestamoActivo`.
    pub async fn ensure_prestamo_activo(
        &mut self,
        idprestamo: i64,
    ) -> Result<DatosPrestamo, Fallo> {
        let datos = self.datos_prestamo(idprestamo).await?;
        match datos.estado {
            EstadoPrestamo::Activo => Ok(datos),
            estado => Err(Fallo::negocio(
                "PRESTAMO_NO_ACTIVO",
                format!(
                    "El préstamo {} no está activo: {}.",
                    datos.codigo,
                    estado.as_str()
                ),
            )),
        }
    }

    /// Returns a loan with its details.
    pub async fn prestamo(&mut self, idprestamo: i64) -> Result<Prestamo, Fallo> {
        let datos = self.datos_prestamo(idprestamo).await?;
        let cuotas = self.cuotas(idprestamo).await?;
        Ok(Prestamo {
            datos,
            saldo: cuotas.iter().map(Cuota::pendiente).sum(),
            cuotas,
            pagos: self.pagos(idprestamo).await?,
            asignaciones: self.asignaciones(idprestamo).await?,
            reestructuraciones: self.reestructuraciones(idprestamo).await?,
        })
    }

    /// Returns the instalments of a loan, the oldest first.
    pub async fn cuotas(&mut self, idprestamo: i64) -> Result<Vec<Cuota>, Fallo> {
        let filas: Vec<(i64, i64, String, i64, i64, String)> = en!(self, db => sqlx::query_as(
            "select idcuota, numero, fecha_vencimiento, monto, pagado, estado \
             from tbl_cuota \
             where idprestamo = $1 \
             order by fecha_vencimiento, numero",
        )
        .bind(idprestamo)
        .fetch_all(db)
        .await)?;
        filas
            .into_iter()
            .map(
                |(idcuota, numero, fecha_vencimiento, monto, pagado, estado)| {
                    Ok(Cuota {
                        idcuota,
                        numero,
                        fecha_vencimiento,
                        monto: Monto::de_centavos(monto),
                        pagado: Monto::de_centavos(pagado),
                        estado: EstadoCuota::leer(&estado)?,
                    })
                },
            )
            .collect()
    }

    async fn pagos(&mut self, idprestamo: i64) -> Result<Vec<Pago>, Fallo> {
        let filas: Vec<(i64, Option<i64>, i64, String)> = en!(self, db => sqlx::query_as(
            "select idpago, idusuario, monto, fecha \
             from tbl_pago \
             where idprestamo = $1 \
             order by idpago",
        )
        .bind(idprestamo)
        .fetch_all(db)
        .await)?;
        let mut aplicaciones = self.aplicaciones(idprestamo).await?;
        let pago = |(idpago, idusuario, monto, fecha)| Pago {
            idpago,
            idprestamo,
            idusuario,
            monto: Monto::de_centavos(monto),
            fecha,
            aplicaciones: aplicaciones.remove(&idpago).unwrap_or_default(),
        };
        Ok(filas.into_iter().map(pago).collect())
    }

    /// Returns the instalments that each payment of a loan was applied to.
    async fn aplicaciones(
        &mut self,
        idprestamo: i64,
    ) -> Result<HashMap<i64, Vec<Aplicacion>>, Fallo> {
        let filas: Vec<(i64, i64, i64)> = en!(self, db => sqlx::query_as(
            "select a.idpago, a.idcuota, a.monto \
             from tbl_aplicacion a \
             join tbl_pago p on p.idpago = a.idpago \
             join tbl_cuota c on c.idcuota = a.idcuota \
             where p.idprestamo = $1 \
             order by c.fecha_vencimiento, c.numero",
        )
        .bind(idprestamo)
        .fetch_all(db)
        .await)?;
        let mut de_cada_pago = HashMap::<_, Vec<_>>::new();
        for (idpago, idcuota, monto) in filas {
            let monto = Monto::de_centavos(monto);
            let suyas = de_cada_pago.entry(idpago).or_default();
            suyas.push(Aplicacion { idcuota, monto });
        }
        Ok(de_cada_pago)
    }

    async fn asignaciones(&mut self, idprestamo: i64) -> Result<Vec<Asignacion>, Fallo> {
        type Fila = (Option<i64>, i64, Option<i64>, String);
        let filas: Vec<Fila> = en!(self, db => sqlx::query_as(
            "select idgestor_anterior, idgestor, idusuario, fecha \
             from tbl_asignacion \
             where idprestamo = $1 \
             order by idasignacion",
        )
        .bind(idprestamo)
        .fetch_all(db)
        .await)?;
        let asignacion = |(idgestor_anterior, idgestor, idusuario, fecha)| Asignacion {
            idgestor_anterior,
            idgestor,
            idusuario,
            fecha,
        };
        Ok(filas.into_iter().map(asignacion).collect())
    }

    async fn reestructuraciones(
        &mut self,
        idprestamo: i64,
    ) -> Result<Vec<Reestructuracion>, Fallo> {
        type Fila = (i64, i64, Option<i64>, i64, String);
        let filas: Vec<Fila> = en!(self, db => sqlx::query_as(
            "select idreestructuracion, idprestamo_nuevo, idusuario_solicitante, saldo, fecha \
             from tbl_reestructuracion \
             where idprestamo_original = $1 \
             order by idreestructuracion",
        )
        .bind(idprestamo)
        .fetch_all(db)
        .await)?;
        let reestructuracion =
            |(id, nuevo, idusuario_solicitante, saldo, fecha)| Reestructuracion {
                idreestructuracion: id,
                idprestamo_original: idprestamo,
                idprestamo_nuevo: nuevo,
                idusuario_solicitante,
                saldo: Monto::de_centavos(saldo),
                fecha,
            };
        Ok(filas.into_iter().map(reestructuracion).collect())
    }

    /// Returns a manager, or an error if there is none.
    pub async fn ensure_gestor(&mut self, idgestor: i64) -> Result<Gestor, Fallo> {
        let fila: Option<(i64, String)> = en!(self, db => sqlx::query_as(
            "select idgestor, nombre from tbl_gestor where idgestor = $1",
        )
        .bind(idgestor)
        .fetch_optional(db)
        .await)?;
        fila.map(|(idgestor, nombre)| Gestor { idgestor, nombre })
            .ok_or_else(|| {
                Fallo::negocio(
                    "GESTOR_NO_ENCONTRADO",
                    format!("El gestor {idgestor} no existe."),
                )
            })
    }

    /// Returns a user, or an error if there is none.
    pub async fn ensure_usuario(&mut self, idusuario: i64) -> Result<Usuario, Fallo> {
        let fila: Option<(i64, String)> = en!(self, db => sqlx::query_as(
            "select idusuario, nombre from tbl_usuario where idusuario = $1",
        )
        .bind(idusuario)
        .fetch_optional(db)
        .await)?;
        fila.map(|(idusuario, nombre)| Usuario { idusuario, nombre })
            .ok_or_else(|| {
                Fallo::negocio(
                    "USUARIO_NO_ENCONTRADO",
                    format!("El usuario {idusuario} no existe."),
                )
            })
    }

    /// Returns the number of users.
    pub async fn usuarios(&mut self) -> Result<i64, Fallo> {
        let (usuarios,) = en!(self, db => sqlx::query_as("select count(*) from tbl_usuario")
            .fetch_one(db)
            .await)?;
        Ok(usuarios)
    }

    /// Returns rows of the view `tbl_lock`.
    pub async fn filas_lock(&mut self, filtro: &FiltroLocks) -> Result<Vec<FilaLock>, Fallo> {
        let consulta = match self {
            Tx::Sqlite(_) => include_str!("../../sql/locks_sqlite.sql"),
            Tx::Postgres(_) => include_str!("../../sql/locks_postgres.sql"),
        };
        let filas: Vec<FilaTblLock> = en!(self, db => sqlx::query_as(consulta)
            .bind(filtro.tipo_recurso.map(TipoRecurso::as_str))
            .bind(filtro.idrecurso)
            .bind(filtro.activo)
            .bind(filtro.orden.as_str())
            .bind(i64::from(filtro.limite.min(FILAS_MAXIMO)))
            .fetch_all(db)
            .await)?;
        filas.into_iter().map(fila_lock).collect()
    }
}

fn fila_lock(fila: FilaTblLock) -> Result<FilaLock, Fallo> {
    let (
        idlock,
        tipo,
        idrecurso,
        idusuario,
        nombre,
        descripcion,
        activo,
        creada,
        expira,
        liberada,
        evento,
    ) = fila;
    let tipo_recurso = tipo
        .parse()
        .map_err(|()| Fallo::Interno(anyhow::anyhow!("unknown kind of resource {tipo:?}")))?;
    Ok(FilaLock {
        idlock: idlock.into(),
        tipo_recurso,
        idrecurso,
        idusuario,
        usuario: idusuario
            .zip(nombre)
            .map(|(idusuario, nombre)| Usuario { idusuario, nombre }),
        descripcion,
        activo,
        fecha_creacion: creada.map(fecha).transpose()?,
        fecha_expiracion: expira.map(fecha).transpose()?,
        fecha_liberacion: liberada.map(fecha).transpose()?,
        evento,
    })
}

/// Writes a time of the view as `verificarLock` writes it, without trailing zeros.
fn fecha(texto: String) -> Result<String, Fallo> {
    let fecha: Timestamp = texto
        .parse()
        .map_err(|error| Fallo::Interno(anyhow::anyhow!("{texto:?} is not a time: {error}")))?;
    Ok(fecha.to_string())
}
