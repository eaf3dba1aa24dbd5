//! Identity of requests: digests of their parts.

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::canonical_json;
use crate::error::{Error, Result};

/// Maximum length of a key given by a client, in bytes.
pub const MAX_KEY_BYTES: usize = 255;
/// Minimum length of a secret, in bytes.
pub const MIN_SECRET_BYTES: usize = 16;

/// HMAC key if no secret is given. It is public.
const PUBLIC_SECRET: &[u8] = b"turno once: no secret";
/// First part of a digest of a whole request. The number is increased when the layout changes.
const OF_CONTENT: &str = "turno once content 1";
/// First part of a digest of a client's key and its scope.
const OF_KEY: &str = "turno once key 1";

/// First part of a digest of the caller.
#[cfg(feature = "http")]
const OF_CALLER: &str = "turno once caller 1";

/// The parts of a request that make its identity.
///
/// ```
/// use turno::once::Request;
///
/// let request = Request::new("POST", "/payments")
///     .tenant("acme")
///     .principal("ana")
///     .content_type("application/json")
///     .body(br#"{"amount": 10.00}"#);
/// ```
///
/// A part that is not set is absent. That differs from an empty part, except in a query.
#[derive(Clone, Copy)]
#[must_use = "a request does nothing by itself"]
pub struct Request<'a> {
    method: &'a str,
    path: &'a str,
    tenant: Option<&'a [u8]>,
    principal: Option<&'a [u8]>,
    query: &'a str,
    content_type: Option<&'a str>,
    body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Creates a request for a concrete path (`/payments/7`, not `/payments/{id}`). Method and path are used unchanged and are
    /// case-sensitive.
    pub fn new(method: &'a str, path: &'a str) -> Self {
        Request {
            method,
            path,
            tenant: None,
            principal: None,
            query: "",
            content_type: None,
            body: b"",
        }
    }

    /// Sets the tenant. Requests of different tenants are never the same.
    pub fn tenant(self, tenant: impl Into<Option<&'a str>>) -> Self {
        let tenant = tenant.into().map(str::as_bytes);
        Request { tenant, ..self }
    }

    /// Sets the authenticated caller. Without one, a client that learns another client's key can get that client's answer.
    pub fn principal(self, principal: impl Into<Option<&'a str>>) -> Self {
        let principal = principal.into().map(str::as_bytes);
        Request { principal, ..self }
    }

    /// Sets tenant and principal as raw bytes, which may not be UTF-8.
    #[cfg(feature = "http")]
    pub(super) fn caller_bytes(
        self,
        tenant: Option<&'a [u8]>,
        principal: Option<&'a [u8]>,
    ) -> Self {
        Request {
            tenant,
            principal,
            ..self
        }
    }

    /// Sets the part after the path's `?`. An empty one equals none.
    ///
    /// The order of parameters does not matter, except among those of the same name, where it can have a meaning. Nothing is
    /// decoded.
    pub fn query(self, query: impl Into<Option<&'a str>>) -> Self {
        let query = query.into().unwrap_or_default();
        Request { query, ..self }
    }

    /// Sets the header `Content-Type`. Its parameters and its case are ignored.
    pub fn content_type(self, content_type: impl Into<Option<&'a str>>) -> Self {
        let content_type = content_type.into();
        Request {
            content_type,
            ..self
        }
    }

    /// Sets the body. It is compared as [`canonical_json`] if the content type is `application/json` or ends in `+json`, and as
    /// bytes if not. An empty body is allowed with every content type.
    pub fn body(self, body: &'a [u8]) -> Self {
        Request { body, ..self }
    }
}

/// Omits the body, which may be confidential.
impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("path", &self.path)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// Key under which a request is stored, and fingerprint by which it is compared.
///
/// Both have 43 characters: an HMAC-SHA-256 in base64url without padding.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Identity {
    /// Two requests with the same key are intended to be the same request.
    pub key: String,
    /// Two requests with the same fingerprint have the same content.
    pub fingerprint: String,
}

/// Computes identities. All instances of an application need the same secret.
///
/// ```
/// use turno::once::{Identities, Request};
///
/// let identities = Identities::with_secret("a long and random secret")?;
/// let request = Request::new("POST", "/payments").content_type("application/json");
/// let one = identities.keyed(&request.body(br#"{"amount": 10, "to": "ana"}"#), "8e03978e")?;
/// let two = identities.keyed(&request.body(br#"{"to":"ana","amount":10}"#), "8e03978e")?;
/// let other = identities.keyed(&request.body(br#"{"to":"ana","amount":11}"#), "8e03978e")?;
/// assert_eq!(one, two);
/// assert!(one.key == other.key && one.fingerprint != other.fingerprint);
/// # Ok::<(), turno::Error>(())
/// ```
#[derive(Clone)]
pub struct Identities(Hmac<Sha256>);

impl Identities {
    /// Creates identities without a secret: the HMAC key is a public constant. They are as unique as those with a secret, but a
    /// reader of the database can verify a guess of a content or key.
    pub fn new() -> Self {
        Identities(mac(PUBLIC_SECRET))
    }

    /// Creates identities that reveal nothing without the secret. If the secret changes, earlier requests are not recognized
    /// any more.
    ///
    /// # Errors
    ///
    /// Returns an error if the secret is shorter than [`MIN_SECRET_BYTES`].
    ///
    /// ```
    /// use turno::once::{Identities, Request};
    ///
    /// let request = Request::new("POST", "/payments");
    /// let one = Identities::with_secret("a long and random secret")?.content(&request)?;
    /// let other = Identities::with_secret("another random secret")?.content(&request)?;
    /// assert_ne!(one, other);
    /// assert!(Identities::with_secret("short").is_err());
    /// # Ok::<(), turno::Error>(())
    /// ```
    pub fn with_secret(secret: impl AsRef<[u8]>) -> Result<Self> {
        let secret = secret.as_ref();
        if secret.len() < MIN_SECRET_BYTES {
            return Err(Error::invalid(
                "secret",
                format!(
                    "secret is too short: give it {MIN_SECRET_BYTES} bytes or more, such as the output of: openssl rand -base64 32"
                ),
            ));
        }
        Ok(Identities(mac(secret)))
    }

    /// Returns the identity of a request without a client key: its content is its key.
    ///
    /// # Errors
    ///
    /// Returns an error if the content type is JSON and [`canonical_json`] rejects the body.
    ///
    /// ```
    /// use turno::once::{Identities, Request};
    ///
    /// let identities = Identities::new();
    /// let request = Request::new("POST", "/payments").body(b"10.00");
    /// let ana = identities.content(&request.principal("ana"))?;
    /// assert_eq!(ana, identities.content(&request.principal("ana"))?);
    /// assert_ne!(ana, identities.content(&request.principal("ben"))?);
    /// # Ok::<(), turno::Error>(())
    /// ```
    pub fn content(&self, request: &Request<'_>) -> Result<Identity> {
        let fingerprint = self.fingerprint(request)?;
        Ok(Identity {
            key: fingerprint.clone(),
            fingerprint,
        })
    }

    /// Returns the identity of a request with a client key, from the header `Idempotency-Key`: 1 to [`MAX_KEY_BYTES`] of
    /// visible ASCII, with or without the quotation marks that the header's draft standard requires.
    ///
    /// The scope of a key is its tenant, principal, method and path.
    ///
    /// # Errors
    ///
    /// Returns an error if the key is invalid, or if the content type is JSON and [`canonical_json`] rejects the body.
    ///
    /// ```
    /// use turno::once::{Identities, Request};
    ///
    /// let identities = Identities::new();
    /// let first = identities.keyed(&Request::new("POST", "/payments").body(b"10.00"), "8e03978e")?;
    /// let other = identities.keyed(&Request::new("POST", "/payments").body(b"99.00"), "8e03978e")?;
    /// assert_eq!(first.key, other.key);
    /// assert_ne!(first.fingerprint, other.fingerprint); // the same key with other content
    /// # Ok::<(), turno::Error>(())
    /// ```
    pub fn keyed(&self, request: &Request<'_>, key: &str) -> Result<Identity> {
        let key = given_key(key)?;
        Ok(Identity {
            key: self.digest(&[
                Some(OF_KEY.as_bytes()),
                request.tenant,
                request.principal,
                Some(request.method.as_bytes()),
                Some(request.path.as_bytes()),
                Some(key.as_bytes()),
            ]),
            fingerprint: self.fingerprint(request)?,
        })
    }

    /// Returns the digest of the tenant and the principal.
    #[cfg(feature = "http")]
    pub(super) fn caller(&self, request: &Request<'_>) -> String {
        self.digest(&[
            Some(OF_CALLER.as_bytes()),
            request.tenant,
            request.principal,
        ])
    }

    fn fingerprint(&self, request: &Request<'_>) -> Result<String> {
        let media_type = request.content_type.map(media_type);
        let body = match &media_type {
            Some(media_type) if is_json(media_type) && !request.body.is_empty() => {
                Cow::Owned(canonical_json(request.body)?)
            }
            _ => Cow::Borrowed(request.body),
        };
        Ok(self.digest(&[
            Some(OF_CONTENT.as_bytes()),
            request.tenant,
            request.principal,
            Some(request.method.as_bytes()),
            Some(request.path.as_bytes()),
            Some(sorted(request.query).as_bytes()),
            media_type.as_deref().map(str::as_bytes),
            Some(&body),
        ]))
    }

    /// Computes a digest. Each part is preceded by its presence and length, so that no two lists of parts give the same bytes.
    fn digest(&self, parts: &[Option<&[u8]>]) -> String {
        let mut mac = self.0.clone();
        for part in parts {
            match part {
                None => mac.update(&[0]),
                Some(bytes) => {
                    mac.update(&[1]);
                    mac.update(&(bytes.len() as u64).to_be_bytes());
                    mac.update(bytes);
                }
            }
        }
        URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
    }
}

impl Default for Identities {
    fn default() -> Self {
        Identities::new()
    }
}

/// Omits the secret.
impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identities").finish_non_exhaustive()
    }
}

fn mac(secret: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(secret).expect("HMAC takes keys of any length")
}

/// Returns a content type without its parameters, in lower case.
fn media_type(content_type: &str) -> String {
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim_ascii().to_ascii_lowercase()
}

fn is_json(media_type: &str) -> bool {
    media_type == "application/json" || media_type.ends_with("+json")
}

/// Sorts a query's parameters by the bytes of their names. The sort is stable, so that `a=2&a=1` differs from `a=1&a=2`.
fn sorted(query: &str) -> String {
    let mut pairs: Vec<_> = query.split('&').collect();
    pairs.sort_by_key(|pair| pair.split('=').next());
    pairs.join("&")
}

/// Parses a client's key: `abc` and `"abc"` are the same key.
fn given_key(given: &str) -> Result<Cow<'_, str>> {
    let key = match given.strip_prefix('"') {
        None => Cow::Borrowed(given),
        Some(quoted) => Cow::Owned(unquoted(quoted).ok_or_else(|| {
            Error::invalid(
                "key",
                "key begins with a quotation mark and is no string of RFC 9651: end it with another, write \\\" and \\\\ \
                 for those inside, and nothing behind it; or leave all of them out",
            )
        })?),
    };
    if !(1..=MAX_KEY_BYTES).contains(&key.len()) {
        return Err(Error::invalid(
            "key",
            format!(
                "key has {} bytes: give it 1 to {MAX_KEY_BYTES}, such as a UUID",
                key.len()
            ),
        ));
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::invalid(
            "key",
            "key has a character that is not visible ASCII: take letters, digits and signs only, such as a UUID",
        ));
    }
    Ok(key)
}

/// Returns the text before the closing quotation mark, if that is the last character.
fn unquoted(quoted: &str) -> Option<String> {
    let mut letters = quoted.strip_suffix('"')?.chars();
    let mut key = String::with_capacity(quoted.len());
    while let Some(letter) = letters.next() {
        key.push(match letter {
            '"' => return None,
            '\\' => letters.next().filter(|next| matches!(next, '"' | '\\'))?,
            _ => letter,
        });
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(request: Request<'_>) -> String {
        let identity = Identities::new().content(&request).unwrap();
        assert_eq!(identity.key, identity.fingerprint);
        assert_eq!(identity.key.len(), 43);
        identity.key
    }

    fn post() -> Request<'static> {
        Request::new("POST", "/payments")
    }

    /// Example of docs/once-identity.md, whose values were computed by another program.
    #[test]
    fn the_example_of_the_documentation_is_right() {
        let identities = Identities::with_secret("correct horse battery staple").unwrap();
        let request = Request::new("POST", "/payments")
            .tenant("acme")
            .query("b=2&a=1")
            .content_type("Application/JSON; charset=utf-8")
            .body(br#"{ "to": "\u0041na", "amount": 10.00 }"#);
        let identity = identities.keyed(&request, "\"8e03978e\"").unwrap();
        let page = include_str!("../../../../docs/once-identity.md");
        assert_eq!(
            identity.fingerprint,
            "veqWaNLMuU7IWv0CBBWH4SabDQbo2GxObooNmHp41ts"
        );
        assert_eq!(identity.key, "YfaWfZMvS-i6HTc_D33_WwbPV1feN0J3ygiwxTplcJI");
        assert!(page.contains(&identity.fingerprint) && page.contains(&identity.key));
        assert!(page.contains(str::from_utf8(PUBLIC_SECRET).unwrap()));
    }

    #[test]
    fn every_part_counts() {
        let json = post().content_type("application/json").body(b"{\"a\":1}");
        let mut digests = vec![
            content(post()),
            content(post().tenant("")),
            content(post().principal("")),
            content(post().tenant("a")),
            content(post().principal("a")),
            content(post().content_type("")),
            content(post().content_type("text/plain")),
            content(post().query("a")),
            content(post().query("a=")),
            content(post().body(b"a")),
            content(Request::new("post", "/payments")),
            content(Request::new("PUT", "/payments")),
            content(Request::new("POST", "/payments/")),
            content(Request::new("POST", "/payments/7")),
            content(json),
            content(json.body(b"{\"a\":1.0}")),
            content(json.body(b"")),
            content(json.content_type("text/plain")),
            Identities::with_secret([7; 16])
                .unwrap()
                .content(&post())
                .unwrap()
                .key,
        ];
        let count = digests.len();
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), count);
    }

    #[test]
    fn what_does_not_count() {
        assert_eq!(content(post().query("")), content(post()));
        assert_eq!(content(post().query(None)), content(post()));
        assert_eq!(
            content(post().content_type("text/plain")),
            content(post().content_type(" Text/PLAIN ;charset=utf-8"))
        );
    }

    #[test]
    fn a_query_is_sorted_by_name_only() {
        assert_eq!(sorted("b=1&a=2"), "a=2&b=1");
        assert_eq!(sorted("a=2&b=0&a=1"), "a=2&a=1&b=0");
        assert_eq!(sorted("a-b=1&a=2"), "a=2&a-b=1");
        assert_eq!(sorted(""), "");
        assert_ne!(
            content(post().query("a=2&a=1")),
            content(post().query("a=1&a=2"))
        );
        assert_eq!(
            content(post().query("a=2&b=1")),
            content(post().query("b=1&a=2"))
        );
    }

    #[test]
    fn json_is_compared_by_its_meaning_and_all_else_by_its_bytes() {
        let (one, other) = (&br#"{"a":1,"b":2}"#[..], &br#"{"b": 2, "a": 1}"#[..]);
        for json in [
            "application/json",
            "APPLICATION/Problem+JSON; charset=utf-8",
        ] {
            let request = post().content_type(json);
            assert_eq!(content(request.body(one)), content(request.body(other)));
            let error = Identities::new().content(&request.body(b"{")).unwrap_err();
            assert_eq!(error.field(), Some("body"));
        }
        for raw in [
            None,
            Some("text/plain"),
            Some("application/jsonp"),
            Some("application/json-seq"),
        ] {
            let request = post().content_type(raw);
            assert_ne!(content(request.body(one)), content(request.body(other)));
            assert!(Identities::new().content(&request.body(b"{\xff")).is_ok());
        }
    }

    #[test]
    fn a_key_belongs_to_its_tenant_principal_method_and_path() {
        let identities = Identities::new();
        let of = |request: Request<'_>, key: &str| identities.keyed(&request, key).unwrap();
        let first = of(post().body(b"1"), "k");
        let changed = of(post().body(b"2"), "k");
        assert_eq!(first.key, changed.key);
        assert_ne!(first.fingerprint, changed.fingerprint);
        assert_eq!(first.fingerprint, content(post().body(b"1")));
        for other in [
            of(post().body(b"1"), "K"),
            of(post().body(b"1").tenant("a"), "k"),
            of(post().body(b"1").principal("a"), "k"),
            of(Request::new("PUT", "/payments").body(b"1"), "k"),
            of(Request::new("POST", "/refunds").body(b"1"), "k"),
        ] {
            assert_ne!(first.key, other.key);
        }
    }

    #[test]
    fn a_given_key_is_visible_ascii_with_or_without_quotation_marks() {
        let longest = "k".repeat(MAX_KEY_BYTES);
        for (given, key) in [
            ("8e03978e-40d5", "8e03978e-40d5"),
            ("\"8e03978e-40d5\"", "8e03978e-40d5"),
            (r#""a\"b\\c""#, r#"a"b\c"#),
            (r#"a"b\c"#, r#"a"b\c"#),
            (&longest, &longest),
            (&format!("\"{longest}\""), &longest),
        ] {
            assert_eq!(given_key(given).unwrap(), key);
        }
        for given in [
            "",
            "\"",
            "\"\"",
            "\"abc",
            "\"a\"b\"",
            "\"abc\";p=1",
            r#""a\""#,
            r#""a\n""#,
            "a b",
            "\"a b\"",
            "a\tb",
            "a\u{7f}",
            "ñ",
            &format!("{longest}k"),
            &format!("\"{longest}k\""),
        ] {
            let error = Identities::new().keyed(&post(), given).unwrap_err();
            assert_eq!(error.field(), Some("key"), "{given:?}");
        }
    }

    #[test]
    fn no_list_of_parts_looks_like_another() {
        let digest = |parts: &[Option<&[u8]>]| Identities::new().digest(parts);
        let lists: [&[Option<&[u8]>]; 12] = [
            &[],
            &[None],
            &[None, None],
            &[Some(b"")],
            &[Some(b""), Some(b"")],
            &[Some(b"ab"), Some(b"")],
            &[Some(b"a"), Some(b"b")],
            &[Some(b"ab")],
            &[Some(b"a"), None, Some(b"b")],
            // With the bytes that precede parts.
            &[Some(b"a\x01"), Some(b"b")],
            &[Some(b"a"), Some(b"\x01b")],
            &[Some(b"a\x00"), Some(b"b")],
        ];
        for (index, one) in lists.iter().enumerate() {
            for other in &lists[index + 1..] {
                assert_ne!(digest(one), digest(other), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn secrets_and_bodies_are_not_shown() {
        let identities = Identities::with_secret("a long and random s3cret").unwrap();
        let request = post().body(b"s3cret");
        let short = Identities::with_secret("s3cret").unwrap_err();
        assert_eq!(short.field(), Some("secret"));
        let shown = format!("{identities:?} {request:?} {short} {short:?}");
        assert!(!shown.contains("s3cret"), "{shown}");
        // "s3cret" as numbers, as a derived `Debug` would show bytes.
        assert!(!shown.contains("115, 51"), "{shown}");
    }
}
