//! Access tokens: which callers a server admits, with which role, and for which names.
//!
//! An access token is text, `turno_ID_SECRET`, that is shown once. The store keeps only a hash of its secret, so a reader
//! of the database cannot use it. (The *token* of a lock is something else: the fencing token.)
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
//! use turno::access::{AccessNew, Role};
//!
//! let turno = turno::Turno::connect("sqlite::memory:").await?;
//! let new = AccessNew {
//!     prefix: "payments/".into(),
//!     ..AccessNew::new("cashier", Role::Operate)
//! };
//! let (view, text) = turno.access_create(new).await?;
//! let known = turno.access_verify(text.as_str()).await?.expect("it is good");
//! assert_eq!((known.name.as_str(), known.role), ("cashier", Role::Operate));
//!
//! turno.access_revoke(&view.id).await?;
//! assert!(turno.access_verify(text.as_str()).await?.is_none());
//! # Ok(()) }
//! ```

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use chacha20poly1305::Key;
use chacha20poly1305::aead::Generate;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use uuid::Uuid;

use crate::Turno;
use crate::check;
use crate::error::{Error, Result};
use crate::store::{AccessCreate, AccessHash};
pub use crate::store::{AccessState, AccessView, Role};

/// Prefix of every access token, by which people and secret scanners recognize one.
const BEGINNING: &str = "turno_";
/// Length of an encoded id.
const ID_LENGTH: usize = 12;
/// Maximum length of an access token. Longer text is rejected without hashing it.
const LONGEST: usize = 100;

/// A new access token.
#[derive(Debug, Clone)]
pub struct AccessNew {
    /// Display name: the person or program that uses it. At most 255 bytes.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// Prefix of the names that it may access. Empty: all names.
    pub prefix: String,
    /// How long it is valid, at most ten years. `None`: until it is revoked.
    pub expires_in: Option<Duration>,
}

impl AccessNew {
    /// Creates one for all names that is valid until it is revoked.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        AccessNew {
            name: name.into(),
            role,
            prefix: String::new(),
            expires_in: None,
        }
    }
}

/// Text of an access token, to be shown once. It is stored nowhere, and `Debug` does not show it.
pub struct AccessText(String);

impl AccessText {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AccessText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessText(…)")
    }
}

impl Turno {
    /// Creates an access token. Only this call returns its text.
    ///
    /// # Errors
    /// Returns an error if a name or the time is invalid or the store is unavailable. [`Error::is_refused`] is true if the
    /// database role has no right to do this: on PostgreSQL, only the owner of the schema has.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use std::time::Duration;
    /// use turno::access::{AccessNew, Role};
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let day = Some(Duration::from_secs(24 * 60 * 60));
    /// let (view, text) = turno.access_create(AccessNew { expires_in: day, ..AccessNew::new("cashier", Role::Operate) }).await?;
    /// assert!(text.as_str().starts_with("turno_"));
    /// assert_eq!(view.name, "cashier");
    /// # Ok(()) }
    /// ```
    pub async fn access_create(&self, new: AccessNew) -> Result<(AccessView, AccessText)> {
        check::name("name", &new.name)?;
        if !new.prefix.is_empty() {
            check::name("prefix", &new.prefix)?;
        }
        if let Some(expires_in) = new.expires_in {
            check::delay("expires_in", expires_in)?;
            if expires_in.is_zero() {
                return Err(Error::invalid(
                    "expires_in",
                    "expires_in is zero: leave it out, or give it some time",
                ));
            }
        }
        let id = Uuid::new_v4().simple().to_string()[..ID_LENGTH].to_owned();
        // From the operating system's random numbers, as for a key.
        let secret = BASE64.encode(Key::generate());
        let view = self
            .store()
            .access_create(&AccessCreate {
                id: id.clone(),
                hash: hash(&secret),
                name: new.name,
                role: new.role,
                prefix: new.prefix,
                expires_in: new.expires_in,
            })
            .await?;
        Ok((view, AccessText(format!("{BEGINNING}{id}_{secret}"))))
    }

    /// Returns the access tokens, newest first, including expired and revoked ones. At most [`MAX_PAGE`](crate::MAX_PAGE).
    ///
    /// # Errors
    /// As [`Turno::access_create`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::access::{AccessNew, AccessState, Role};
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let (view, _) = turno.access_create(AccessNew::new("cashier", Role::Operate)).await?;
    /// turno.access_revoke(&view.id).await?;
    /// assert_eq!(turno.access_list().await?[0].state, AccessState::Revoked);
    /// # Ok(()) }
    /// ```
    pub async fn access_list(&self) -> Result<Vec<AccessView>> {
        self.store().access_list().await
    }

    /// Revokes an access token permanently. Returns false if there is none with this id, or if it is revoked already.
    ///
    /// # Errors
    /// As [`Turno::access_create`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::access::{AccessNew, Role};
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let (view, text) = turno.access_create(AccessNew::new("cashier", Role::Operate)).await?;
    /// assert!(turno.access_revoke(&view.id).await?);
    /// assert!(turno.access_verify(text.as_str()).await?.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn access_revoke(&self, id: &str) -> Result<bool> {
        check::name("id", id)?;
        self.store().access_revoke(id).await
    }

    /// Returns the access token with this text, or `None` if there is none or it is not valid any more. The duration of the
    /// call does not reveal the reason.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::access::{AccessNew, Role};
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let (_, text) = turno.access_create(AccessNew::new("cashier", Role::Operate)).await?;
    /// let known = turno.access_verify(text.as_str()).await?.expect("it is valid");
    /// assert_eq!(known.role, Role::Operate);
    /// assert!(turno.access_verify("turno_000000000000_guess").await?.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn access_verify(&self, text: &str) -> Result<Option<AccessView>> {
        let Some((id, secret)) = parts(text) else {
            return Ok(None);
        };
        let presented = hash(secret);
        let found = self.store().access_find(id).await?;
        // If the id is unknown, the secret is still compared, with a hash that no secret has.
        let (view, kept) = found.map_or((None, AccessHash::default()), |(view, kept)| {
            (Some(view), kept)
        });
        let right = bool::from(presented.ct_eq(&kept));
        Ok(view.filter(|view| right && view.state == AccessState::Live))
    }

    /// Returns whether an access token was ever created: revoking the last one must not open a server to all callers.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::access::{AccessNew, Role};
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// assert!(!turno.access_any().await?);
    /// let (view, _) = turno.access_create(AccessNew::new("cashier", Role::Operate)).await?;
    /// turno.access_revoke(&view.id).await?;
    /// assert!(turno.access_any().await?);
    /// # Ok(()) }
    /// ```
    pub async fn access_any(&self) -> Result<bool> {
        self.store().access_any().await
    }
}

/// Splits the text of an access token into id and secret.
fn parts(text: &str) -> Option<(&str, &str)> {
    let text = text
        .strip_prefix(BEGINNING)
        .filter(|_| text.len() <= LONGEST)?;
    let (id, secret) = text.split_once('_')?;
    let is_id = id.len() == ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then_some((id, secret))
}

fn hash(secret: &str) -> AccessHash {
    Sha256::digest(secret.as_bytes()).into()
}
