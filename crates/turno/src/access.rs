//! Access tokens: who may ask a server, for what, and with which names.
//!
//! An access token is text, `turno_ID_SECRET`, that is shown once. The store keeps the hash of its secret, so whoever reads
//! the database cannot use it. (The *token* of a lock is another thing: the fencing token.)
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

/// How every access token begins, so that people and scanners of secrets know one when they see it.
const BEGINNING: &str = "turno_";
/// The length of an id, written.
const ID_LENGTH: usize = 12;
/// No access token is longer; what is need not be hashed.
const LONGEST: usize = 100;

/// An access token to be made.
#[derive(Debug, Clone)]
pub struct AccessNew {
    /// What people call it: who or what uses it.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// The beginning of the names that it allows to touch; empty: all.
    pub prefix: String,
    /// For how long it is good; until it is revoked, if not said.
    pub expires_in: Option<Duration>,
}

impl AccessNew {
    /// One for all names, until it is revoked.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        AccessNew {
            name: name.into(),
            role,
            prefix: String::new(),
            expires_in: None,
        }
    }
}

/// The text of an access token, to be shown once. It is nowhere else; `Debug` does not show it.
pub struct AccessText(String);

impl AccessText {
    /// The text itself.
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
    /// Makes an access token. Its text is answered here, and never again.
    ///
    /// # Errors
    /// If a name or the time is out of rule, or the store does not answer; [`Error::is_refused`] if this role may not:
    /// on PostgreSQL, only the owner of the schema may.
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
        // From the operating system, as a key would be.
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

    /// The access tokens, newest first; those that are over too. At most [`MAX_PAGE`](crate::MAX_PAGE).
    ///
    /// # Errors
    /// As [`Turno::access_create`].
    pub async fn access_list(&self) -> Result<Vec<AccessView>> {
        self.store().access_list().await
    }

    /// Ends an access token for good. False if there is none with this id, or it has ended already.
    ///
    /// # Errors
    /// As [`Turno::access_create`].
    pub async fn access_revoke(&self, id: &str) -> Result<bool> {
        check::name("id", id)?;
        self.store().access_revoke(id).await
    }

    /// Whose text this is; `None` if it is nobody's, or is over. How long it takes tells nothing about why.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn access_verify(&self, text: &str) -> Result<Option<AccessView>> {
        let Some((id, secret)) = parts(text) else {
            return Ok(None);
        };
        let presented = hash(secret);
        let found = self.store().access_find(id).await?;
        // An id that nobody knows is compared too, with what no secret has.
        let (view, kept) = found.map_or((None, AccessHash::default()), |(view, kept)| {
            (Some(view), kept)
        });
        let right = bool::from(presented.ct_eq(&kept));
        Ok(view.filter(|view| right && view.state == AccessState::Live))
    }

    /// Whether an access token was ever made: revoking the last one must not open a server.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn access_any(&self) -> Result<bool> {
        self.store().access_any().await
    }
}

/// The id and the secret.
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
