//! Rules of the outbox.

mod dead;
mod emit;
pub(super) mod fixtures;
mod order;
mod relay;
mod unknown;
mod validation;
