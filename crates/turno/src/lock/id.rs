//! The name of a lease.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::check;
use crate::error::{Error, Result};
use crate::store::Token;
use crate::tx::Transaction;

/// The name of one holding: its resource and its token, written `PRESTAMO/123@1794708000000000`.
///
/// It says all that a store needs to find the lease, so that nothing has to be looked up by it.
///
/// ```
/// use turno::lock::LeaseId;
///
/// let id: LeaseId = "PRESTAMO/123@1794708000000000".parse()?;
/// assert_eq!(id.resource, "PRESTAMO/123");
/// assert_eq!(id.to_string(), "PRESTAMO/123@1794708000000000");
/// # Ok::<_, turno::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseId {
    /// What is locked.
    pub resource: String,
    /// With which token.
    pub token: Token,
}

impl LeaseId {
    /// Checks in the caller's [transaction](crate::tx) that the lease has not ended; as [`Lease::guard`](super::Lease::guard).
    ///
    /// # Errors
    /// Returns an error ([`Error::is_lost`]) if the token is stale: the caller must roll back.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
    /// let id = turno.lock("PRESTAMO/123").acquire().await?.acquired().ok_or("busy")?.detach();
    /// let mut connection = rusqlite::Connection::open(&file)?;
    /// let mut tx = connection.transaction()?;
    /// id.guard(&mut tx).await?; // last, before the commit
    /// tx.commit()?;
    /// # Ok(()) }
    /// ```
    pub async fn guard(&self, tx: &mut impl Transaction) -> Result<()> {
        tx.lock_guard(&self.resource, self.token).await
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.resource, self.token)
    }
}

impl FromStr for LeaseId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // From the right: a resource may have an @ of its own.
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

impl Serialize for LeaseId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LeaseId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_the_round_trip() {
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
}
