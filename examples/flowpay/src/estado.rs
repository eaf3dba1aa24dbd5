//! States of loans and instalments, with their names in the API and the database.

use async_graphql::Enum;

use crate::fallo::Fallo;

/// State of a loan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub enum EstadoPrestamo {
    Activo,
    Pagado,
    Reestructurado,
}

/// State of an instalment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub enum EstadoCuota {
    Pendiente,
    Parcial,
    Pagada,
    Cancelada,
}

impl EstadoPrestamo {
    pub fn as_str(self) -> &'static str {
        match self {
            EstadoPrestamo::Activo => "ACTIVO",
            EstadoPrestamo::Pagado => "PAGADO",
            EstadoPrestamo::Reestructurado => "REESTRUCTURADO",
        }
    }

    pub fn leer(palabra: &str) -> Result<Self, Fallo> {
        [Self::Activo, Self::Pagado, Self::Reestructurado]
            .into_iter()
            .find(|estado| estado.as_str() == palabra)
            .ok_or_else(|| desconocido(palabra))
    }
}

impl EstadoCuota {
    pub fn as_str(self) -> &'static str {
        match self {
            EstadoCuota::Pendiente => "PENDIENTE",
            EstadoCuota::Parcial => "PARCIAL",
            EstadoCuota::Pagada => "PAGADA",
            EstadoCuota::Cancelada => "CANCELADA",
        }
    }

    pub fn leer(palabra: &str) -> Result<Self, Fallo> {
        [
            Self::Pendiente,
            Self::Parcial,
            Self::Pagada,
            Self::Cancelada,
        ]
        .into_iter()
        .find(|estado| estado.as_str() == palabra)
        .ok_or_else(|| desconocido(palabra))
    }
}

fn desconocido(palabra: &str) -> Fallo {
    Fallo::Interno(anyhow::anyhow!("unknown state {palabra:?} in the database"))
}
