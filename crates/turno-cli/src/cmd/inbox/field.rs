//! Unique keys and groups that are taken from payloads.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::fail::Usage;
use crate::{name, payload};

/// Source of an item's key or group in its payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    /// What is taken: `key`, `group`.
    part: &'static str,
    /// The option that names the field.
    option: &'static str,
    /// The top-level field of the payload.
    field: &'a str,
}

impl<'a> Source<'a> {
    pub(super) fn of_key(field: &'a str) -> Self {
        Source {
            part: "key",
            option: "key_field",
            field,
        }
    }

    pub(super) fn of_group(field: &'a str) -> Self {
        Source {
            part: "group",
            option: "group_field",
            field,
        }
    }

    /// Returns the text of a string, or a number as it is written.
    pub(super) fn take(self, payload: &str) -> Result<String, Usage> {
        let (part, field) = (self.part, self.field);
        let fields: BTreeMap<String, &RawValue> = serde_json::from_str(payload).map_err(|_| {
            self.wrong(format!(
                "payload is not an object, so it has no field {field:?}"
            ))
        })?;
        let value = fields
            .get(field)
            .ok_or_else(|| self.wrong(format!("payload has no field {field:?}")))?;
        let taken = payload::word(value).ok_or_else(|| {
            self.wrong(format!(
                "the payload's field {field:?} is neither a string nor a number"
            ))
        })?;
        name::check(&taken).map_err(|rule| {
            Usage::new(
                part,
                format!("{part} {rule}: change the payload's field {field:?}"),
            )
        })?;
        Ok(taken)
    }

    fn wrong(self, what: String) -> Usage {
        let detail = format!(
            "{what}: name a field that has the {} of every item",
            self.part
        );
        Usage::new(self.option, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(payload: &str) -> Result<String, Usage> {
        Source::of_key("id").take(payload)
    }

    #[test]
    fn a_key_is_text_or_a_number_as_it_is_written() {
        assert_eq!(take(r#"{"id": "a\"b"}"#).unwrap(), "a\"b");
        assert_eq!(
            take(r#"{"x": {"id": 1}, "id": 12345678901234567890}"#).unwrap(),
            "12345678901234567890"
        );
        assert_eq!(take(r#"{"id": -1.50}"#).unwrap(), "-1.50");
        for (payload, field) in [
            ("7", "key_field"),
            ("{}", "key_field"),
            (r#"{"id": null}"#, "key_field"),
            (r#"{"id": {"id": 1}}"#, "key_field"),
            (r#"{"id": ""}"#, "key"),
            (r#"{"id": "a\nb"}"#, "key"),
        ] {
            assert_eq!(take(payload).unwrap_err().field, field, "{payload}");
        }
    }
}
