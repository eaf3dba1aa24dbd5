//! Queries of the API.

use async_graphql::{Context, Object, Result};

use crate::mutacion::prestamos;
use crate::recurso::{Recurso, TipoRecurso};
use crate::tipos::{EstadoLock, FilaLock, FiltroLocks, OrdenLocks, Prestamo, Usuario};

/// The root of all queries.
pub struct Consulta;

#[Object(name = "Query")]
impl Consulta {
    async fn prestamo(&self, ctx: &Context<'_>, idprestamo: i64) -> Result<Prestamo> {
        Ok(prestamos(ctx)?.prestamo(idprestamo).await?)
    }

    async fn usuario(&self, ctx: &Context<'_>, idusuario: i64) -> Result<Usuario> {
        Ok(prestamos(ctx)?.usuario(idusuario).await?)
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

    /// Returns the rows of tbl_lock: current leases, expired ones, and how each earlier lease ended.
    async fn locks(
        &self,
        ctx: &Context<'_>,
        tipo_recurso: Option<TipoRecurso>,
        idrecurso: Option<i64>,
        activo: Option<bool>,
        #[graphql(default)] orden: OrdenLocks,
        #[graphql(default = 100)] limite: u32,
    ) -> Result<Vec<FilaLock>> {
        let filtro = FiltroLocks {
            tipo_recurso,
            idrecurso,
            activo,
            orden,
            limite,
        };
        Ok(prestamos(ctx)?.filas_lock(&filtro).await?)
    }
}
