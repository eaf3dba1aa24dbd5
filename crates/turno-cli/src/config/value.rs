//! Types of settings.

use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Deserializer};
use turno_api::duration::WireDuration;

use crate::name;

/// A duration above zero.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time(pub(crate) Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Pause::deserialize(from)?.0 {
            Duration::ZERO => Err(de::Error::custom(
                "must be above zero: give a duration such as 30s",
            )),
            time => Ok(Time(time)),
        }
    }
}

/// A duration that may be zero.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pause(pub(crate) Duration);

impl<'de> Deserialize<'de> for Pause {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        WireDuration::deserialize(from).map(|WireDuration(pause)| Pause(pause))
    }
}

/// A number of attempts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tries(pub(crate) u32);

impl<'de> Deserialize<'de> for Tries {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match u32::deserialize(from)? {
            0 => Err(de::Error::custom(
                "must be 1 or more: 1 is a single attempt",
            )),
            tries => Ok(Tries(tries)),
        }
    }
}

/// A size in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes(pub(crate) usize);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match u32::deserialize(from)? {
            0 => Err(de::Error::custom(
                "must be 1 or more: give a number of bytes such as 1048576",
            )),
            bytes => Ok(Bytes(usize::try_from(bytes).unwrap_or(usize::MAX))),
        }
    }
}

/// A name that the library accepts.
#[derive(Debug, Clone)]
pub(crate) struct Name(pub(crate) String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        name::check(&name).map_err(de::Error::custom)?;
        Ok(Name(name))
    }
}

/// Duration of a claim's lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease(pub(crate) Duration);

impl<'de> Deserialize<'de> for Lease {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let lease = Time::deserialize(from)?.0;
        if lease > turno::MAX_TTL {
            let most = turno::MAX_TTL;
            return Err(de::Error::custom(format!(
                "the lease is above the maximum of {most:?}: lower it"
            )));
        }
        Ok(Lease(lease))
    }
}

/// A number from one to `MOST`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count<const MOST: u32>(pub(crate) u32);

impl<'de, const MOST: u32> Deserialize<'de> for Count<MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let count = u32::deserialize(from)?;
        if !(1..=MOST).contains(&count) {
            return Err(de::Error::custom(format!("must be between 1 and {MOST}")));
        }
        Ok(Count(count))
    }
}
