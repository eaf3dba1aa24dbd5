//! Authentication and authorization of callers.

pub(crate) mod caller;
pub(crate) mod gatekeeper;
pub(crate) mod token_cache;
