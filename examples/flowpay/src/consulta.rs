//! Queries of the API.

use async_graphql::{Context, Object, Result};

use crate::mutacion::prestamos;
use crate::recurso::{Recurso, TipoRecurso};
use crate::tipos::{EstadoLock, FilaLock, Prestamo};

/// The root of all queries.
pub struct Consulta;

#[Object(name = "Query")]
impl Consulta {
    async fn prestamo(&self, ctx: &Context<'_>, idprestamo: i64) -> Result<Prestamo> {
        Ok(prestamos(ctx)?.prestamo(idprestamo).await?)
    }

    /// Returns whether a resource is locked, by which holder, and until when.
    async fn verificar_lock(
        &self,
        ctx: &Context<'_>,
        tipo_recurso: TipoRecurso,
        idrecurso: i64,
    ) -> Result<EstadoLock> {
        let recurso = Recurso {
            tipo: tipo_recurso,
            id: idrecurso,
        };
        Ok(prestamos(ctx)?.locks.verificar_lock(recurso).await?)
    }

    /// Returns the rows of tbl_lock, newest first: current leases, and how each earlier lease ended.
    async fn locks(
        &self,
        ctx: &Context<'_>,
        tipo_recurso: Option<TipoRecurso>,
        idrecurso: Option<i64>,
        #[graphql(default = 100)] limite: u32,
    ) -> Result<Vec<FilaLock>> {
        Ok(prestamos(ctx)?
            .locks
            .locks(tipo_recurso, idrecurso, limite)
            .await?)
    }
}
