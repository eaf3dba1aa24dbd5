//! Access tokens: which callers an HTTP server accepts. Stores keep their hashes.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::names::named;

/// SHA-256 of a secret.
pub type AccessHash = [u8; 32];

named! {
    /// The role of an access token. Each role includes the rights of those before it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum Role as "role" {
        /// Read.
        Read = "read",
        /// Acquire, push, settle, emit and begin.
        Operate = "operate",
        /// Operator actions: break, requeue, reset, discard, forget, resolve, sweep.
        Admin = "admin",
    }
}

/// Parameters of `AccessStore::access_create`.
#[derive(Clone)]
pub struct AccessCreate {
    /// The public part.
    pub id: String,
    /// The hash of the secret part.
    pub hash: AccessHash,
    /// The name, for people.
    pub name: String,
    /// The role.
    pub role: Role,
    /// The prefix of the names that it permits; empty: all.
    pub prefix: String,
    /// How long it is valid. Default: until it is revoked.
    pub expires_in: Option<Duration>,
}

impl fmt::Debug for AccessCreate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the hash, which must not reach a log.
        f.debug_struct("AccessCreate")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("role", &self.role)
            .field("prefix", &self.prefix)
            .field("expires_in", &self.expires_in)
            .finish_non_exhaustive()
    }
}

named! {
    /// The state of an access token, on the store's clock.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[serde(rename_all = "snake_case")]
    #[non_exhaustive]
    pub enum AccessState as "state" {
        /// It is valid.
        Live = "live",
        /// It has expired.
        Expired = "expired",
        /// An operator has revoked it.
        Revoked = "revoked",
    }
}

/// An access token without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AccessView {
    /// The public part.
    pub id: String,
    /// The name, for people.
    pub name: String,
    /// The role.
    pub role: Role,
    /// The prefix of the names that it permits; empty: all.
    pub prefix: String,
    /// The state.
    pub state: AccessState,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires; `None`: when it is revoked.
    pub expires_at: Option<Timestamp>,
    /// When an operator revoked it.
    pub revoked_at: Option<Timestamp>,
}
