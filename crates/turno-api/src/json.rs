//! JSON that is stored and sent as text.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
use serde_json::value::RawValue;

/// JSON as text: numbers are kept as they are written.
///
/// It is serialized as the value itself, not as a string. The text is parsed only then, so a store that reads it pays nothing.
///
/// ```
/// use turno_api::json::JsonText;
///
/// let text = JsonText::from(r#"{"amount": 10.50}"#);
/// assert_eq!(serde_json::to_string(&text)?, r#"{"amount": 10.50}"#);
/// assert_eq!(serde_json::from_str::<JsonText>("1.0")?, "1.0");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct JsonText(String);

impl JsonText {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl Deref for JsonText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<String> for JsonText {
    fn from(text: String) -> Self {
        JsonText(text)
    }
}

impl From<&str> for JsonText {
    fn from(text: &str) -> Self {
        JsonText(text.to_owned())
    }
}

impl From<Box<RawValue>> for JsonText {
    fn from(value: Box<RawValue>) -> Self {
        JsonText(Box::<str>::from(value).into())
    }
}

impl From<JsonText> for String {
    fn from(text: JsonText) -> Self {
        text.0
    }
}

impl PartialEq<&str> for JsonText {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl PartialEq<String> for JsonText {
    fn eq(&self, other: &String) -> bool {
        self.0 == *other
    }
}

impl fmt::Display for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value: &RawValue = serde_json::from_str(&self.0).map_err(|error| {
            ser::Error::custom(format!(
                "the text of a payload or an answer is not JSON: {error}"
            ))
        })?;
        value.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Into::into)
    }
}

/// Deserializes a field that is present. An explicit `null` is kept as a value (a payload or an answer); only a missing field
/// becomes `None`.
pub(crate) fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
