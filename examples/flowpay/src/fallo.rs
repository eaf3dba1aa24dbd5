//! Errors of the API.

use turno::lock::{Busy, Language, RunError};

/// A business error or an internal error.
///
/// It has no `Display` on purpose: `async_graphql` turns every type that has one into an error without a code.
#[derive(Debug)]
pub enum Fallo {
    /// Returned to the caller as it is, with a code that a program can read.
    Negocio {
        codigo: &'static str,
        mensaje: String,
    },
    /// Written to the log, not shown to the caller.
    Interno(anyhow::Error),
}

impl Fallo {
    pub fn negocio(codigo: &'static str, mensaje: impl Into<String>) -> Self {
        Fallo::Negocio {
            codigo,
            mensaje: mensaje.into(),
        }
    }

    /// The lock is held by another user. The message says by which one, and until when.
    pub fn bloqueado(busy: &Busy) -> Self {
        Fallo::negocio("RECURSO_BLOQUEADO", busy.message(Language::Spanish))
    }

    /// The lock was lost during the operation.
    pub fn lock_perdido() -> Self {
        Fallo::negocio(
            "LOCK_PERDIDO",
            "El lock expiró o lo tiene otra operación. No se registró ningún cambio: intente nuevamente.",
        )
    }
}

impl From<Fallo> for async_graphql::Error {
    fn from(fallo: Fallo) -> Self {
        let (codigo, mensaje) = match fallo {
            Fallo::Negocio { codigo, mensaje } => (codigo, mensaje),
            Fallo::Interno(causa) => {
                tracing::error!("{causa:#}");
                ("ERROR_INTERNO", "Error interno: intente más tarde.".into())
            }
        };
        let mut error = async_graphql::Error::new(mensaje);
        error
            .extensions
            .get_or_insert_default()
            .set("codigo", codigo);
        error
    }
}

impl From<turno::Error> for Fallo {
    fn from(error: turno::Error) -> Self {
        match error.field() {
            _ if error.is_lost() => Fallo::lock_perdido(),
            Some(campo) => Fallo::negocio(
                "ARGUMENTO_INVALIDO",
                format!("El argumento {campo} no es válido."),
            ),
            None => Fallo::Interno(error.into()),
        }
    }
}

impl From<RunError<Fallo>> for Fallo {
    fn from(error: RunError<Fallo>) -> Self {
        match error {
            RunError::Busy(busy) => Fallo::bloqueado(&busy),
            RunError::Lost(_) => Fallo::lock_perdido(),
            RunError::Store(error) => error.into(),
            RunError::Work(fallo) => fallo,
            other => Fallo::Interno(anyhow::anyhow!("{other}")),
        }
    }
}

impl From<sqlx::Error> for Fallo {
    fn from(error: sqlx::Error) -> Self {
        Fallo::Interno(error.into())
    }
}

impl From<std::io::Error> for Fallo {
    fn from(error: std::io::Error) -> Self {
        Fallo::Interno(error.into())
    }
}
