//! JSON as it is written, neither parsed nor changed.

use std::error::Error;

use tokio_postgres::types::{FromSql, Type};

/// The text of a `json` column.
pub(super) struct Json(pub(super) String);

impl<'a> FromSql<'a> for Json {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Json(std::str::from_utf8(raw)?.to_owned()))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::JSON
    }
}
