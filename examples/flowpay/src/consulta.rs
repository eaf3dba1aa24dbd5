//! What can be asked through the API.

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

    /// Whether a resource is locked, by whom, and for how long.
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

    /// The rows of tbl_lock, newest first: what is held now, and how each holding before it ended.
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
