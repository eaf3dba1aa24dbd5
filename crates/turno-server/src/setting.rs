//! Types of settings in files. Each checks its value when it is parsed, so that errors have their place in the file.

use std::time::Duration;

use serde::Deserialize;
use turno_api::duration::WireDuration;

/// A duration above zero, of at most `MAX_SECONDS`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "WireDuration")]
pub struct Time<const MAX_SECONDS: u64 = { u64::MAX }>(pub Duration);

/// The lease of a claim or run.
pub type Lease = Time<{ turno::MAX_TTL.as_secs() }>;

impl<const MAX_SECONDS: u64> TryFrom<WireDuration> for Time<MAX_SECONDS> {
    type Error = String;

    fn try_from(WireDuration(time): WireDuration) -> Result<Self, String> {
        match time {
            Duration::ZERO => Err("must be above zero: give a duration such as 30s".to_owned()),
            time if time > Duration::from_secs(MAX_SECONDS) => Err(format!(
                "is above the maximum of {MAX_SECONDS} seconds: lower it"
            )),
            time => Ok(Time(time)),
        }
    }
}

/// A size in bytes, above zero.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u32")]
pub struct Bytes(pub usize);

impl TryFrom<u32> for Bytes {
    type Error = &'static str;

    fn try_from(bytes: u32) -> Result<Self, &'static str> {
        match bytes {
            0 => Err("must be 1 or more: give a number of bytes such as 1048576"),
            bytes => Ok(Bytes(usize::try_from(bytes).unwrap_or(usize::MAX))),
        }
    }
}

/// A number from 1 to `MAX`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u32")]
pub struct Count<const MAX: u32>(pub u32);

impl<const MAX: u32> TryFrom<u32> for Count<MAX> {
    type Error = String;

    fn try_from(count: u32) -> Result<Self, String> {
        match count {
            count if (1..=MAX).contains(&count) => Ok(Count(count)),
            _ => Err(format!("must be between 1 and {MAX}")),
        }
    }
}
