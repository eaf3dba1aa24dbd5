//! JSON that is stored as text.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::error::{Error, Result};

/// Parses JSON text from the store.
///
/// # Errors
/// Returns an error if the text is not JSON. The store checks it when it is stored, so the data was corrupted since.
pub fn raw(text: &str) -> Result<Box<RawValue>> {
    RawValue::from_string(text.to_owned()).map_err(|error| {
        Error::broken("what is stored is not JSON, and was when it was stored").caused_by(error)
    })
}

/// Parses optional JSON text from the store.
pub(crate) fn optional(text: Option<&str>) -> Result<Option<Box<RawValue>>> {
    text.map(raw).transpose()
}

/// Deserializes a field that is present. An explicit `null` is kept as a value (a payload or an answer); only a missing field
/// becomes `None`.
pub(crate) fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}
