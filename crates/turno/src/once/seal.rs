//! Encryption of stored answers: a reader of the database cannot read them.
//!
//! XChaCha20-Poly1305 with a random nonce. The once key is authenticated too, so that an answer cannot be moved to another
//! key. Each encrypted answer names its encryption key: new answers are encrypted with the first key, and all configured
//! keys decrypt.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use chacha20poly1305::aead::{Aead, Generate, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use serde::{Deserialize, Serialize};

use crate::check;
use crate::error::{Error, Kind, Result};

/// Prefix of every encrypted answer, and of no other. Only `seal` writes it.
const SEALED: &str = r#"{"turno_sealed":{"#;
/// Length of a key, in bytes.
const KEY_BYTES: usize = 32;

/// Keys that encrypt answers: written `ID:BASE64`, 32 bytes each, separated by commas. The first one encrypts;
/// all of them decrypt.
///
/// ```
/// let keys: turno::once::AnswerKeys =
///     "2026-11:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=".parse()?;
/// # Ok::<_, turno::Error>(())
/// ```
#[derive(Clone)]
pub struct AnswerKeys {
    /// At least one.
    keys: Vec<(String, XChaCha20Poly1305)>,
}

impl fmt::Debug for AnswerKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = self.keys.iter().map(|(id, _)| id);
        f.debug_list().entries(ids).finish()
    }
}

#[derive(Serialize, Deserialize)]
struct Envelope {
    turno_sealed: Sealed,
}

#[derive(Serialize, Deserialize)]
struct Sealed {
    key: String,
    nonce: String,
    data: String,
}

impl AnswerKeys {
    /// Creates a set with one key, which encrypts.
    ///
    /// # Errors
    /// Returns an error if its id is invalid.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::once::AnswerKeys;
    ///
    /// let keys = AnswerKeys::new("2026-12", [7; 32])?.and("2026-11", [6; 32])?; // use random bytes
    /// let turno = turno::Turno::builder().answer_keys(keys).connect("sqlite::memory:").await?;
    /// let pay = async || Ok::<_, turno::Error>("receipt 1".to_owned());
    /// assert_eq!(turno.once("pago/77").run(pay).await?, "receipt 1");
    /// # Ok(()) }
    /// ```
    pub fn new(id: impl Into<String>, key: [u8; KEY_BYTES]) -> Result<Self> {
        let mut keys = AnswerKeys { keys: Vec::new() };
        keys.add(id.into(), key)?;
        Ok(keys)
    }

    /// Adds an older key, which only decrypts.
    ///
    /// # Errors
    /// Returns an error if its id is invalid or already in use.
    pub fn and(mut self, id: impl Into<String>, key: [u8; KEY_BYTES]) -> Result<Self> {
        self.add(id.into(), key)?;
        Ok(self)
    }

    fn add(&mut self, id: String, key: [u8; KEY_BYTES]) -> Result<()> {
        check::name("answer_keys", &id)?;
        if self.keys.iter().any(|(known, _)| *known == id) {
            return Err(Error::invalid(
                "answer_keys",
                format!("answer_keys has the id {id:?} twice: give each key its own"),
            ));
        }
        self.keys
            .push((id, XChaCha20Poly1305::new(&Key::from(key))));
        Ok(())
    }

    /// Encrypts an answer. The result is JSON too. Public for the fuzz targets.
    #[doc(hidden)]
    pub fn seal(&self, once_key: &str, answer: &str) -> Result<String> {
        let broken = |_| Error::new(Kind::Broken, "an answer could not be sealed");
        let (id, cipher) = self
            .keys
            .first()
            .ok_or_else(|| Error::invalid("answer_keys", "answer_keys is empty"))?;
        let nonce = XNonce::try_generate().map_err(|error| {
            Error::new(
                Kind::Unavailable,
                format!("the system gives no random numbers ({error})"),
            )
        })?;
        let payload = Payload {
            msg: answer.as_bytes(),
            aad: once_key.as_bytes(),
        };
        let data = cipher.encrypt(&nonce, payload).map_err(broken)?;
        super::answer::text_of(&Envelope {
            turno_sealed: Sealed {
                key: id.clone(),
                nonce: BASE64.encode(nonce),
                data: BASE64.encode(data),
            },
        })
    }

    /// Decrypts an answer. An answer that was stored without encryption is returned unchanged. Public for the
    /// fuzz targets.
    #[doc(hidden)]
    pub fn open(&self, once_key: &str, stored: String) -> Result<String> {
        if !stored.starts_with(SEALED) {
            return Ok(stored);
        }
        let refused = |why: String| {
            Error::new(
                Kind::Refused,
                format!("the stored answer of {once_key} cannot be opened: {why}"),
            )
        };
        let damaged = || refused("it is damaged, or belongs to another request".to_owned());
        let envelope: Envelope = serde_json::from_str(&stored).map_err(|_| damaged())?;
        let sealed = envelope.turno_sealed;
        let Some((_, cipher)) = self.keys.iter().find(|(id, _)| *id == sealed.key) else {
            return Err(refused(format!(
                "it is sealed with the key {:?}; add that to answer_keys",
                sealed.key
            )));
        };
        let nonce: [u8; 24] = BASE64
            .decode(&sealed.nonce)
            .ok()
            .and_then(|nonce| nonce.try_into().ok())
            .ok_or_else(damaged)?;
        let data = BASE64.decode(&sealed.data).map_err(|_| damaged())?;
        let payload = Payload {
            msg: &data,
            aad: once_key.as_bytes(),
        };
        cipher
            .decrypt(&XNonce::from(nonce), payload)
            .ok()
            .and_then(|answer| String::from_utf8(answer).ok())
            .ok_or_else(damaged)
    }
}

impl FromStr for AnswerKeys {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut keys = AnswerKeys { keys: Vec::new() };
        for one in text.split(',').map(str::trim) {
            // The message contains nothing of it, because it is a secret.
            let key = one.split_once(':').and_then(|(id, key)| {
                Some((id.trim(), BASE64.decode(key.trim()).ok()?.try_into().ok()?))
            });
            let Some((id, key)) = key else {
                return Err(Error::invalid(
                    "answer_keys",
                    "answer_keys is a list of ID:BASE64, with 32 bytes each: make one with `openssl rand -base64 32`",
                ));
            };
            keys.add(id.to_owned(), key)?;
        }
        Ok(keys)
    }
}

/// Rejects an encrypted answer when no keys are configured, so that it is not mistaken for the answer itself.
pub(super) fn refuse_sealed(stored: String) -> Result<String> {
    if stored.starts_with(SEALED) {
        return Err(Error::new(
            Kind::Refused,
            "the stored answer is sealed, and there is no key to open it: set answer_keys",
        ));
    }
    Ok(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_with_its_key_under_its_name_only() {
        let old = AnswerKeys::new("old", [1; 32]).unwrap();
        let new = AnswerKeys::new("new", [2; 32]).unwrap();
        let both = new.clone().and("old", [1; 32]).unwrap();
        let sealed = old.seal("k", r#"{"card":"4242"}"#).unwrap();
        assert!(sealed.starts_with(SEALED) && !sealed.contains("4242"));
        assert_ne!(sealed, old.seal("k", r#"{"card":"4242"}"#).unwrap());
        assert_eq!(
            both.open("k", sealed.clone()).unwrap(),
            r#"{"card":"4242"}"#
        );
        assert!(both.open("other", sealed.clone()).is_err());
        assert!(new.open("k", sealed.clone()).unwrap_err().is_refused());
        assert!(refuse_sealed(sealed.clone()).is_err());
        let other = AnswerKeys::new("old", [3; 32]).unwrap();
        assert!(other.open("k", sealed).is_err());
        assert_eq!(both.open("k", "1".to_owned()).unwrap(), "1");
    }

    #[test]
    fn keys_are_read_and_never_shown() {
        let key = BASE64.encode([7; 32]);
        let keys: AnswerKeys = format!("a:{key}, b:{}", BASE64.encode([8; 32]))
            .parse()
            .unwrap();
        assert_eq!(format!("{keys:?}"), r#"["a", "b"]"#);
        for bad in ["", "a", "a:", "a:AAAA", &key, &format!("a:{key},a:{key}")] {
            let error = bad.parse::<AnswerKeys>().unwrap_err();
            assert_eq!(error.field(), Some("answer_keys"));
            assert!(!error.to_string().contains(&key));
        }
    }
}
