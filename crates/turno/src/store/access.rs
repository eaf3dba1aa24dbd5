//! Store methods of access tokens.

use async_trait::async_trait;
pub use turno_api::access::*;

use crate::error::{Error, Result};

/// Store methods of access tokens. A store that is itself a server keeps none: the defaults return an error.
#[async_trait]
pub trait AccessStore {
    /// Stores a new access token.
    async fn access_create(&self, ask: &AccessCreate) -> Result<AccessView> {
        let _ = ask;
        Err(not_here())
    }

    /// The access tokens, newest first, with expired and revoked ones. At most [`MAX_PAGE`](crate::MAX_PAGE).
    async fn access_list(&self) -> Result<Vec<AccessView>> {
        Err(not_here())
    }

    /// Revokes an access token. False if there is no valid one with this id.
    async fn access_revoke(&self, id: &str) -> Result<bool> {
        let _ = id;
        Err(not_here())
    }

    /// An access token by its id, with the hash of its secret.
    async fn access_find(&self, id: &str) -> Result<Option<(AccessView, AccessHash)>> {
        let _ = id;
        Err(not_here())
    }

    /// Whether an access token was ever created: revoking the last one must not open a server to all callers.
    async fn access_any(&self) -> Result<bool> {
        Err(not_here())
    }
}

fn not_here() -> Error {
    Error::refused(
        "access tokens are kept in the store itself: name the store's URL, and not a server's",
    )
}
