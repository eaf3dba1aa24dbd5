//! JSON of request bodies.

#[path = "../../crates/turno/src/once/reference.rs"]
mod reference;

use turno::once::{MAX_DEPTH, MAX_INTEGER_DIGITS, canonical_json};

/// What must hold for any bytes.
pub fn check(text: &[u8]) {
    reference::check(text);
}
