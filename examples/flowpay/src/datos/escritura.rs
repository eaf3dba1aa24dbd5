//! Queries that write. As in most applications, the values were computed from earlier reads. Therefore no other caller may
//! write in between.

use super::{Tx, en};
use crate::estado::{EstadoCuota, EstadoPrestamo};
use crate::fallo::Fallo;
use crate::monto::Monto;
use crate::prestamos::aplicar::Parte;
use crate::tipos::{Asignacion, DatosPrestamo, Pago, Reestructuracion};

/// An instalment to insert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NuevaCuota {
    pub fecha_vencimiento: String,
    pub monto: Monto,
}

impl Tx {
    pub async fn insertar_usuario(&mut self, nombre: &str) -> Result<i64, Fallo> {
        let (idusuario,) = en!(self, db => sqlx::query_as(
            "insert into tbl_usuario (nombre) values ($1) returning idusuario",
        )
        .bind(nombre)
        .fetch_one(db)
        .await)?;
        Ok(idusuario)
    }

    pub async fn insertar_gestor(&mut self, nombre: &str) -> Result<i64, Fallo> {
        let (idgestor,) = en!(self, db => sqlx::query_as(
            "insert into tbl_gestor (nombre) values ($1) returning idgestor",
        )
        .bind(nombre)
        .fetch_one(db)
        .await)?;
        Ok(idgestor)
    }

    /// Inserts a loan with its instalments. The database assigns the id; the one in the given row is ignored.
    pub async fn insertar_prestamo(
        &mut self,
        datos: &DatosPrestamo,
        cuotas: &[NuevaCuota],
    ) -> Result<i64, Fallo> {
        let (idprestamo,): (i64,) = en!(self, db => sqlx::query_as(
            "insert into tbl_prestamo (codigo, estado, monto, idgestor, telefono, direccion, observaciones) \
             values ($1, $2, $3, $4, $5, $6, $7) \
             returning idprestamo",
        )
        .bind(&datos.codigo)
        .bind(datos.estado.as_str())
        .bind(datos.monto.centavos())
        .bind(datos.idgestor)
        .bind(&datos.telefono)
        .bind(&datos.direccion)
        .bind(&datos.observaciones)
        .fetch_one(db)
        .await)?;
        for (numero, cuota) in (1_i64..).zip(cuotas) {
            en!(self, db => sqlx::query(
                "insert into tbl_cuota (idprestamo, numero, fecha_vencimiento, monto, estado) \
                 values ($1, $2, $3, $4, $5)",
            )
            .bind(idprestamo)
            .bind(numero)
            .bind(&cuota.fecha_vencimiento)
            .bind(cuota.monto.centavos())
            .bind(EstadoCuota::Pendiente.as_str())
            .execute(db)
            .await
            .map(drop))?;
        }
        Ok(idprestamo)
    }

    /// Writes the whole row of a loan.
    pub async fn actualizar_prestamo(&mut self, datos: &DatosPrestamo) -> Result<(), Fallo> {
        en!(self, db => sqlx::query(
            "update tbl_prestamo \
             set codigo = $2, estado = $3, idgestor = $4, telefono = $5, direccion = $6, observaciones = $7 \
             where idprestamo = $1",
        )
        .bind(datos.idprestamo)
        .bind(&datos.codigo)
        .bind(datos.estado.as_str())
        .bind(datos.idgestor)
        .bind(&datos.telefono)
        .bind(&datos.direccion)
        .bind(&datos.observaciones)
        .execute(db)
        .await
        .map(drop))?;
        Ok(())
    }

    /// Inserts a payment and the parts applied to each instalment.
    pub async fn insertar_pago(
        &mut self,
        idprestamo: i64,
        idusuario: Option<i64>,
        monto: Monto,
        partes: Vec<Parte>,
    ) -> Result<Pago, Fallo> {
        let (idpago, fecha): (i64, String) = en!(self, db => sqlx::query_as(
            "insert into tbl_pago (idprestamo, idusuario, monto) values ($1, $2, $3) returning idpago, fecha",
        )
        .bind(idprestamo)
        .bind(idusuario)
        .bind(monto.centavos())
        .fetch_one(db)
        .await)?;
        for parte in &partes {
            self.aplicar(idpago, parte).await?;
        }
        Ok(Pago {
            idpago,
            idprestamo,
            idusuario,
            monto,
            fecha,
            aplicaciones: partes.into_iter().map(|parte| parte.aplicacion).collect(),
        })
    }

    async fn aplicar(&mut self, idpago: i64, parte: &Parte) -> Result<(), Fallo> {
        en!(self, db => sqlx::query(
            "insert into tbl_aplicacion (idpago, idcuota, monto) values ($1, $2, $3)",
        )
        .bind(idpago)
        .bind(parte.aplicacion.idcuota)
        .bind(parte.aplicacion.monto.centavos())
        .execute(db)
        .await
        .map(drop))?;
        en!(self, db => sqlx::query(
            "update tbl_cuota set pagado = $2, estado = $3 where idcuota = $1",
        )
        .bind(parte.aplicacion.idcuota)
        .bind(parte.pagado.centavos())
        .bind(parte.estado.as_str())
        .execute(db)
        .await
        .map(drop))?;
        Ok(())
    }

    pub async fn cambiar_estado(
        &mut self,
        idprestamo: i64,
        estado: EstadoPrestamo,
    ) -> Result<(), Fallo> {
        en!(self, db => sqlx::query(
            "update tbl_prestamo set estado = $2 where idprestamo = $1",
        )
        .bind(idprestamo)
        .bind(estado.as_str())
        .execute(db)
        .await
        .map(drop))?;
        Ok(())
    }

    /// Cancels the unpaid instalments of a loan.
    pub async fn cancelar_cuotas(&mut self, idprestamo: i64) -> Result<(), Fallo> {
        en!(self, db => sqlx::query(
            "update tbl_cuota set estado = $2 where idprestamo = $1 and estado <> $3",
        )
        .bind(idprestamo)
        .bind(EstadoCuota::Cancelada.as_str())
        .bind(EstadoCuota::Pagada.as_str())
        .execute(db)
        .await
        .map(drop))?;
        Ok(())
    }

    pub async fn insertar_asignacion(
        &mut self,
        idprestamo: i64,
        idgestor_anterior: Option<i64>,
        idgestor: i64,
        idusuario: Option<i64>,
    ) -> Result<Asignacion, Fallo> {
        let (fecha,) = en!(self, db => sqlx::query_as(
            "insert into tbl_asignacion (idprestamo, idgestor_anterior, idgestor, idusuario) \
             values ($1, $2, $3, $4) \
             returning fecha",
        )
        .bind(idprestamo)
        .bind(idgestor_anterior)
        .bind(idgestor)
        .bind(idusuario)
        .fetch_one(db)
        .await)?;
        Ok(Asignacion {
            idgestor_anterior,
            idgestor,
            idusuario,
            fecha,
        })
    }

    pub async fn insertar_reestructuracion(
        &mut self,
        idprestamo_original: i64,
        idprestamo_nuevo: i64,
        idusuario_solicitante: Option<i64>,
        saldo: Monto,
    ) -> Result<Reestructuracion, Fallo> {
        let (idreestructuracion, fecha) = en!(self, db => sqlx::query_as(
            "insert into tbl_reestructuracion \
               (idprestamo_original, idprestamo_nuevo, idusuario_solicitante, saldo) \
             values ($1, $2, $3, $4) \
             returning idreestructuracion, fecha",
        )
        .bind(idprestamo_original)
        .bind(idprestamo_nuevo)
        .bind(idusuario_solicitante)
        .bind(saldo.centavos())
        .fetch_one(db)
        .await)?;
        Ok(Reestructuracion {
            idreestructuracion,
            idprestamo_original,
            idprestamo_nuevo,
            idusuario_solicitante,
            saldo,
            fecha,
        })
    }
}
