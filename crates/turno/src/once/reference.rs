//! What must hold for any bytes as JSON. The property tests and the fuzz target check it: the target includes this file.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{MAX_DEPTH, MAX_INTEGER_DIGITS, canonical_json};

/// Panics if it does not hold.
pub(super) fn check(text: &[u8]) {
    let form = canonical_json(text).ok();
    assert_eq!(form, reference(text).map(String::into_bytes));
    if let Some(form) = form {
        assert_eq!(canonical_json(&form).ok(), Some(form));
    }
}

/// Computes the canonical form with serde_json alone: slow, but easy to verify.
fn reference(text: &[u8]) -> Option<String> {
    form(serde_json::from_slice::<&RawValue>(text).ok()?.get(), 0)
}

fn form(raw: &str, depth: usize) -> Option<String> {
    match raw.as_bytes()[0] {
        b'{' | b'[' if depth == MAX_DEPTH => None,
        b'{' => {
            let Pairs(pairs) = serde_json::from_str(raw).ok()?;
            let mut members = BTreeMap::new();
            for (key, value) in pairs {
                let quoted = serde_json::to_string(&key).ok()?;
                let member = format!("{quoted}:{}", form(value.get(), depth + 1)?);
                if members.insert(key, member).is_some() {
                    return None;
                }
            }
            let members: Vec<_> = members.into_values().collect();
            Some(format!("{{{}}}", members.join(",")))
        }
        b'[' => {
            let values: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
            let forms = values.iter().map(|value| form(value.get(), depth + 1));
            Some(format!(
                "[{}]",
                forms.collect::<Option<Vec<_>>>()?.join(",")
            ))
        }
        b'"' => serde_json::to_string(&serde_json::from_str::<String>(raw).ok()?).ok(),
        b'n' | b't' | b'f' => Some(raw.to_owned()),
        _ => {
            let digits = raw.trim_start_matches('-').split(['.', 'e', 'E']).next()?;
            (digits.len() <= MAX_INTEGER_DIGITS).then(|| raw.to_owned())
        }
    }
}

/// Members of an object, including duplicate keys.
struct Pairs<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;

        impl<'de> Visitor<'de> for All {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(All)
    }
}
