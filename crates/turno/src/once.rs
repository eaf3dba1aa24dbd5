//! Requests that are handled once: what makes two of them the same.

mod canonical;
mod identity;
mod json;
#[cfg(test)]
mod properties;

pub use canonical::canonical_json;
pub use identity::{Identities, Identity, MAX_KEY_BYTES, MIN_SECRET_BYTES, Request};
pub use json::{MAX_DEPTH, MAX_INTEGER_DIGITS};
