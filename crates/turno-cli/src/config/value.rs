//! Types of settings, in addition to those of the server.

use serde::Deserialize;
pub(crate) use turno_api::duration::WireDuration;
pub(crate) use turno_server::setting::{Bytes, Count, Lease, Time};

use crate::name;

/// A number of attempts.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u32")]
pub(crate) struct Attempts(pub(crate) u32);

impl TryFrom<u32> for Attempts {
    type Error = &'static str;

    fn try_from(attempts: u32) -> Result<Self, &'static str> {
        match attempts {
            0 => Err("must be 1 or more: 1 is a single attempt"),
            attempts => Ok(Attempts(attempts)),
        }
    }
}

/// A name that the library accepts.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Name(pub(crate) String);

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name::check(&name)?;
        Ok(Name(name))
    }
}
