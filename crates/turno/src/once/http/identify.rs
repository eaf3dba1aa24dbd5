//! Identification of a request.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;

use super::policy::{KeyFrom, Policy};
use crate::error::{Error, Result};
use crate::once::{Identities, Request};
use crate::store::Quota;

/// Identity of a request in the store.
#[derive(Debug, Clone)]
pub(super) struct Identified {
    pub(super) key: String,
    pub(super) fingerprint: String,
    pub(super) quota: Option<Quota>,
    /// Key that the client sent.
    client_key: Option<String>,
}

impl Identified {
    /// Logs a warning for operators, with both keys: the store's, and the one that the client knows.
    pub(super) fn log(&self, policy: &Policy, message: &'static str) {
        tracing::warn!(
            route = policy.name,
            key = self.key,
            client_key = self.client_key.as_deref(),
            message
        );
    }
}

impl Policy {
    /// Returns the key in the store of a request with this head and body, for
    /// [`Once::status`](crate::once::Once::status). It depends on method, path, key and caller, and with
    /// [`KeyFrom::Content`] on the content.
    ///
    /// # Errors
    /// Returns an error if the request cannot be identified.
    pub fn store_key(&self, identities: &Identities, head: &Parts, body: &Bytes) -> Result<String> {
        Ok(identify(identities, self, head, body)?.key)
    }
}

pub(super) fn identify(
    identities: &Identities,
    policy: &Policy,
    head: &Parts,
    body: &Bytes,
) -> Result<Identified> {
    let tenant = policy.tenant.tenant(head)?;
    let principal = policy.principal.principal(head, &policy.key)?;
    let content_type = text(head, &CONTENT_TYPE)?;
    // A compressed body is compared as bytes: the same content can be compressed in many ways.
    let encoded = match text(head, &CONTENT_ENCODING)? {
        None | Some("identity") => None,
        Some(encoding) => Some(format!(
            "{encoding}, of {}",
            content_type.unwrap_or_default()
        )),
    };
    let request = Request::new(head.method.as_str(), head.uri.path())
        .caller_bytes(tenant.as_deref(), principal.as_deref())
        .query(head.uri.query())
        .content_type(encoded.as_deref().or(content_type))
        .body(body);
    let mut client_key = None;
    let identity = match &policy.key {
        KeyFrom::Content => identities.content(&request)?,
        KeyFrom::Header(name) => {
            let mut given = head.headers.get_all(name).iter();
            let (Some(key), None) = (given.next(), given.next()) else {
                return Err(Error::invalid(
                    "key",
                    format!(
                        "the header {name} must be there once: send one key for each request, and the same when it is repeated"
                    ),
                ));
            };
            let key = key.to_str().map_err(|_| {
                Error::invalid("key", format!("the header {name} must be visible ASCII"))
            })?;
            client_key = Some(key.to_owned());
            identities.keyed(&request, key)?
        }
    };
    let quota = policy.quota.map(|most| Quota {
        scope: format!("{}:{}", policy.name, identities.caller(&request)),
        most,
    });
    Ok(Identified {
        key: format!("{}:{}", policy.name, identity.key),
        fingerprint: identity.fingerprint,
        quota,
        client_key,
    })
}

fn text<'a>(head: &'a Parts, name: &http::HeaderName) -> Result<Option<&'a str>> {
    let Some(value) = head.headers.get(name) else {
        return Ok(None);
    };
    value.to_str().map(Some).map_err(|_| {
        Error::invalid(
            "body",
            format!("the header {name} must be visible ASCII: correct it"),
        )
    })
}
