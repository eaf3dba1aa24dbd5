//! Fencing tokens, and the ids of items, leases and claims.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::check;
use crate::error::{Error, Result};

/// A fencing token: a number that grows with each grant of a resource.
///
/// It follows the database's clock in microseconds. If that clock has not advanced, it is one more than the last token. So it
/// also grows across release, expiry, purge and restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Token(pub i64);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of an item: unique in its store, and growing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct ItemId(pub i64);

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Serializes an id as its text, and deserializes it by parsing.
macro_rules! serialize_as_text {
    ($id:ty) => {
        impl Serialize for $id {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $id {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?
                    .parse()
                    .map_err(serde::de::Error::custom)
            }
        }
    };
}

serialize_as_text!(LeaseId);
serialize_as_text!(ClaimId);
serialize_as_text!(OnceClaim);

/// The id of a lease: its resource and its fencing token, as text `PRESTAMO/123@1794708000000000`.
///
/// A store finds the lease by these two, so an id needs no lookup of its own.
///
/// ```
/// use turno_api::ids::LeaseId;
///
/// let id: LeaseId = "PRESTAMO/123@1794708000000000".parse()?;
/// assert_eq!(id.resource, "PRESTAMO/123");
/// assert_eq!(id.to_string(), "PRESTAMO/123@1794708000000000");
/// # Ok::<_, turno_api::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseId {
    /// The resource.
    pub resource: String,
    /// The fencing token.
    pub token: Token,
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.resource, self.token)
    }
}

impl FromStr for LeaseId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // From the right: a resource may contain an @.
        let parts = text
            .rsplit_once('@')
            .and_then(|(resource, token)| Some((resource, token.parse().ok()?)));
        let Some((resource, token)) = parts else {
            return Err(Error::invalid(
                "lease",
                "a lease id looks like RESOURCE@TOKEN, as acquire answered it",
            ));
        };
        check::name("lease", resource)?;
        Ok(LeaseId {
            resource: resource.to_owned(),
            token: Token(token),
        })
    }
}

/// A claim on one item, as text `ITEM@TOKEN`. Every change to a claimed item must present it.
///
/// ```
/// use turno_api::ids::ClaimId;
///
/// let claim: ClaimId = "17@0190f1f4-2b3c-7d4e-8f50-112233445566".parse()?;
/// assert_eq!(claim.item.0, 17);
/// assert!("17".parse::<ClaimId>().unwrap_err().is_invalid());
/// # Ok::<(), turno_api::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId {
    /// The item.
    pub item: ItemId,
    /// The claim's own token. Items of one claim share it.
    pub token: Uuid,
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.item, self.token)
    }
}

impl FromStr for ClaimId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.split_once('@')
            .and_then(|(item, token)| {
                Some(ClaimId {
                    item: ItemId(item.parse().ok()?),
                    token: Uuid::try_parse(token).ok()?,
                })
            })
            .ok_or_else(|| {
                Error::invalid(
                    "claim",
                    "claim is not one: it looks like 17@0190f1f4-2b3c-7d4e-8f50-112233445566, as a claim was answered",
                )
            })
    }
}

/// The claim of one run of a once key: the key and the run's token, as text `KEY@1794708000000000`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OnceClaim {
    /// The once key.
    pub key: String,
    /// The fencing token: of all runs of this key, the answer of the one with the highest token counts.
    pub token: Token,
}

impl fmt::Display for OnceClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.key, self.token)
    }
}

impl FromStr for OnceClaim {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // From the right: a key may contain an @.
        let parts = text.rsplit_once('@').and_then(|(key, token)| {
            let is_number = token.bytes().all(|byte| byte.is_ascii_digit());
            Some((key, token.parse().ok().filter(|_| is_number)?))
        });
        let Some((key, token)) = parts else {
            return Err(Error::invalid(
                "claim",
                "a claim looks like KEY@TOKEN, as begin answered it",
            ));
        };
        check::name("claim", key)?;
        Ok(OnceClaim {
            key: key.to_owned(),
            token: Token(token),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_id_survives_the_round_trip() {
        for resource in ["a", "a@b", "PRESTAMO/123", "ñ@1"] {
            let id = LeaseId {
                resource: resource.into(),
                token: Token(7),
            };
            assert_eq!(id.to_string().parse::<LeaseId>().unwrap(), id);
        }
        for bad in ["", "a", "a@", "@1", "a@x", "a@1.5"] {
            assert_eq!(
                bad.parse::<LeaseId>().unwrap_err().field(),
                Some("lease"),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_claim_of_a_key_survives_the_round_trip() {
        for key in ["a", "a@b", "POST /pagos/1", "ñ@1"] {
            let claim = OnceClaim {
                key: key.into(),
                token: Token(7),
            };
            assert_eq!(claim.to_string().parse::<OnceClaim>().unwrap(), claim);
        }
        for bad in ["", "a", "a@", "@1", "a@x", "a@-1", "a@+1"] {
            assert_eq!(
                bad.parse::<OnceClaim>().unwrap_err().field(),
                Some("claim"),
                "{bad}"
            );
        }
    }
}
