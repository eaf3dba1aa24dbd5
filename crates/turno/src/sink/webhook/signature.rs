//! Signatures of Standard Webhooks. They prove to a receiver that has the secret who sent a request and when.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::{Error, Result};

/// Prefix of a secret.
const PREFIX: &str = "whsec_";

/// Signs with every configured secret.
#[derive(Default)]
pub(super) struct Signer(Vec<Vec<u8>>);

impl Signer {
    pub(super) fn add(&mut self, secret: &str) -> Result<()> {
        let wrong = |reason: &str| {
            Error::invalid(
                "secret",
                format!(
                    "the webhook's secret cannot be used: {reason}. It is whsec_ and base64 of 24 to 64 random bytes; \
                     make one with: echo whsec_$(openssl rand -base64 32)"
                ),
            )
        };
        let encoded = secret
            .strip_prefix(PREFIX)
            .ok_or_else(|| wrong("it does not begin with whsec_"))?;
        let key = STANDARD
            .decode(encoded)
            .map_err(|_| wrong("what follows whsec_ is no base64"))?;
        if !(24..=64).contains(&key.len()) {
            return Err(wrong("it is too short, or too long"));
        }
        self.0.push(key);
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the signatures of one request, each as `v1,…`, separated by spaces, or `None` without a secret.
    pub(super) fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> Option<String> {
        let one = |key: &Vec<u8>| {
            let mut mac =
                Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
            mac.update(format!("{id}.{seconds}.").as_bytes());
            mac.update(body);
            format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
        };
        let all: Vec<_> = self.0.iter().map(one).collect();
        (!all.is_empty()).then(|| all.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_standard_is_signed_as_it_says() {
        let mut signer = Signer::default();
        signer
            .add("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
            .unwrap();
        let signature = signer.sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(
            signature.as_deref(),
            Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
        );
    }

    #[test]
    fn a_secret_that_is_none_is_not_repeated() {
        for secret in ["s3cret", "whsec_s3cret", "whsec_czNjcmV0", ""] {
            let error = Signer::default().add(secret).unwrap_err();
            assert_eq!(error.field(), Some("secret"));
            let shown = format!("{error} {error:?}");
            assert!(
                !shown.contains("s3cret") && !shown.contains("czNj"),
                "{shown}"
            );
        }
        assert_eq!(Signer::default().sign("id", 0, b""), None);
    }
}
