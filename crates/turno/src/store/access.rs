//! The access tokens' part of the seam: who may ask a server, kept as hashes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The verbs of access tokens. A store that is somebody else's, such as a server, keeps none: as provided, they refuse.
#[async_trait]
pub trait AccessStore {
    /// Keeps a new access token.
    async fn access_create(&self, ask: &AccessCreate) -> Result<AccessView> {
        let _ = ask;
        Err(not_here())
    }

    /// The access tokens, newest first; those that are over too. At most [`MAX_PAGE`](crate::MAX_PAGE).
    async fn access_list(&self) -> Result<Vec<AccessView>> {
        Err(not_here())
    }

    /// Ends an access token for good. False if there is none that could be ended.
    async fn access_revoke(&self, id: &str) -> Result<bool> {
        let _ = id;
        Err(not_here())
    }

    /// An access token by its id, with the hash of its secret.
    async fn access_find(&self, id: &str) -> Result<Option<(AccessView, AccessHash)>> {
        let _ = id;
        Err(not_here())
    }

    /// Whether an access token was ever made: revoking the last one must not open a server.
    async fn access_any(&self) -> Result<bool> {
        Err(not_here())
    }
}

fn not_here() -> Error {
    Error::refused(
        "access tokens are kept in the store itself: name the store's URL, and not a server's",
    )
}

/// SHA-256 of a secret.
pub type AccessHash = [u8; 32];

/// What whoever has an access token may do; each may also do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Look.
    Read,
    /// Take, push, settle, emit and begin.
    Operate,
    /// What a person decides: break, requeue, reset, discard, forget, resolve, sweep.
    Admin,
}

impl Role {
    /// The word that stores and faces use.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Operate => "operate",
            Role::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Role {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        [Role::Read, Role::Operate, Role::Admin]
            .into_iter()
            .find(|role| role.as_str() == word)
            .ok_or_else(|| Error::invalid("role", "role must be read, operate or admin"))
    }
}

/// Parameters of [`AccessStore::access_create`].
#[derive(Clone)]
pub struct AccessCreate {
    /// Its public part.
    pub id: String,
    /// The hash of its secret part.
    pub hash: AccessHash,
    /// What people call it.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// The beginning of the names that it allows to touch; empty: all.
    pub prefix: String,
    /// For how long it is good; for ever, if not said.
    pub expires_in: Option<Duration>,
}

impl fmt::Debug for AccessCreate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the hash: it is nobody's business.
        f.debug_struct("AccessCreate")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("role", &self.role)
            .field("prefix", &self.prefix)
            .field("expires_in", &self.expires_in)
            .finish_non_exhaustive()
    }
}

/// Whether an access token is good, on the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AccessState {
    /// It is.
    Live,
    /// Its time is up.
    Expired,
    /// A person has ended it.
    Revoked,
}

impl AccessState {
    /// The word that stores and faces use.
    pub fn as_str(self) -> &'static str {
        match self {
            AccessState::Live => "live",
            AccessState::Expired => "expired",
            AccessState::Revoked => "revoked",
        }
    }

    pub(crate) fn parse(word: &str) -> Result<Self> {
        [
            AccessState::Live,
            AccessState::Expired,
            AccessState::Revoked,
        ]
        .into_iter()
        .find(|state| state.as_str() == word)
        .ok_or_else(|| super::unexpected("state of an access token", word))
    }
}

impl fmt::Display for AccessState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An access token as people see it: without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AccessView {
    /// Its public part.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// The beginning of the names that it allows to touch; empty: all.
    pub prefix: String,
    /// Whether it is good.
    pub state: AccessState,
    /// Since when.
    pub created_at: Timestamp,
    /// Until when; `None`: until it is revoked.
    pub expires_at: Option<Timestamp>,
    /// When a person ended it.
    pub revoked_at: Option<Timestamp>,
}
