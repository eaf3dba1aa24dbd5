//! Resources that are locked, and their names in Turno.

use std::fmt;
use std::str::FromStr;

use async_graphql::Enum;

/// Kind of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub enum TipoRecurso {
    Prestamo,
    Pago,
    Reestructuracion,
}

impl TipoRecurso {
    const TODOS: [Self; 3] = [Self::Prestamo, Self::Pago, Self::Reestructuracion];

    /// Value in `tbl_lock`.
    pub fn as_str(self) -> &'static str {
        match self {
            TipoRecurso::Prestamo => "PRESTAMO",
            TipoRecurso::Pago => "PAGO",
            TipoRecurso::Reestructuracion => "REESTRUCTURACION",
        }
    }
}

/// One resource. Its name in Turno is, for example, `PRESTAMO/123`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recurso {
    pub tipo: TipoRecurso,
    pub id: i64,
}

impl Recurso {
    pub fn prestamo(id: i64) -> Self {
        Recurso {
            tipo: TipoRecurso::Prestamo,
            id,
        }
    }
}

impl fmt::Display for Recurso {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tipo.as_str(), self.id)
    }
}

impl FromStr for TipoRecurso {
    type Err = ();

    fn from_str(nombre: &str) -> Result<Self, ()> {
        let mut todos = Self::TODOS.into_iter();
        todos.find(|tipo| tipo.as_str() == nombre).ok_or(())
    }
}
