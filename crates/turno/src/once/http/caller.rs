//! Caller and tenant of a request: the parts of an identity that separate the answers of different callers.
//!
//! Values are compared as bytes: a header may hold bytes that are not UTF-8, and two values that are decoded to the same text
//! are still two callers.

use std::fmt;
use std::sync::Arc;

use http::header::{AUTHORIZATION, COOKIE, HOST, HeaderName};
use http::request::Parts;

use super::policy::KeyFrom;
use crate::error::{Error, Result};

/// Source of a principal or a tenant.
#[derive(Clone)]
pub(super) enum Caller {
    /// Not configured: `Authorization`, if present.
    Default,
    /// Configured as none.
    None,
    /// All of these headers.
    Headers(Vec<HeaderName>),
    /// The cookie of this name.
    Cookie(String),
    /// Result of the application's function.
    Found(Find),
}

/// Finds the caller in the head of a request.
type Find = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Caller::Default => f.write_str("Default"),
            Caller::None => f.write_str("None"),
            Caller::Headers(names) => f.debug_tuple("Headers").field(names).finish(),
            Caller::Cookie(name) => f.debug_tuple("Cookie").field(name).finish(),
            Caller::Found(_) => f.write_str("Found"),
        }
    }
}

impl Caller {
    /// Returns the principal of a request.
    pub(super) fn principal(&self, head: &Parts, key: &KeyFrom) -> Result<Option<Vec<u8>>> {
        if !matches!(self, Caller::Default) {
            return self.found(Part::Principal, head);
        }
        let authorization = Caller::Headers(vec![AUTHORIZATION]);
        // Without a client key, only the principal distinguishes callers. With cookies, there is a principal that was not
        // configured. In both cases `Authorization` is required.
        if head.headers.contains_key(AUTHORIZATION)
            || *key == KeyFrom::Content
            || head.headers.contains_key(COOKIE)
        {
            return authorization.found(Part::Principal, head);
        }
        Ok(None)
    }

    /// Returns the tenant of a request.
    pub(super) fn tenant(&self, head: &Parts) -> Result<Option<Vec<u8>>> {
        self.found(Part::Tenant, head)
    }

    fn found(&self, part: Part, head: &Parts) -> Result<Option<Vec<u8>>> {
        match self {
            Caller::Default | Caller::None => Ok(None),
            Caller::Headers(names) if names.is_empty() => {
                Err(part.absent("no header is configured"))
            }
            Caller::Headers(names) => {
                let mut found = Vec::new();
                for name in names {
                    header(part, name, head, &mut found)?;
                }
                Ok(Some(found))
            }
            Caller::Cookie(name) => cookie(part, name, head).map(Some),
            Caller::Found(find) => match find(head) {
                Some(found) => Ok(Some(found.into_bytes())),
                None => Err(part.absent("the application found none")),
            },
        }
    }
}

/// Which part of the caller.
#[derive(Clone, Copy)]
enum Part {
    Principal,
    Tenant,
}

impl Part {
    fn absent(self, why: &str) -> Error {
        let (field, says) = match self {
            Part::Principal => ("principal", "who sends it"),
            Part::Tenant => ("tenant", "for which tenant it is"),
        };
        Error::invalid(
            field,
            format!(
                "the request does not say {says}: {why}. Send it, or configure where else the {field} is found"
            ),
        )
    }
}

/// Appends a header's name and all its values, because a service may read any of them.
fn header(part: Part, name: &HeaderName, head: &Parts, found: &mut Vec<u8>) -> Result<()> {
    let mut append = |value: &[u8]| {
        // Neither a name nor a value contains a line break.
        found.extend_from_slice(name.as_str().as_bytes());
        found.push(b'\n');
        found.extend_from_slice(value);
        found.push(b'\n');
    };
    if *name == HOST {
        append(&authority(head).ok_or_else(|| part.absent("it names no host, or several"))?);
        return Ok(());
    }
    let values = || head.headers.get_all(name).iter();
    if values().all(|value| value.as_bytes().trim_ascii().is_empty()) {
        return Err(part.absent(&format!("the header {name} is absent or empty")));
    }
    values().for_each(|value| append(value.as_bytes()));
    Ok(())
}

/// Returns the effective authority (RFC 9110, 7.2): that of the target, in HTTP/2 and in the absolute form, or `Host`.
fn authority(head: &Parts) -> Option<Vec<u8>> {
    let authority = match head.uri.authority() {
        Some(authority) => authority.as_str().as_bytes(),
        None => {
            let mut hosts = head.headers.get_all(HOST).iter();
            let (Some(host), None) = (hosts.next(), hosts.next()) else {
                return None;
            };
            host.as_bytes()
        }
    };
    let host = authority.rsplit(|byte| *byte == b'@').next()?.trim_ascii();
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}

/// Returns the value of a cookie, which must occur exactly once.
fn cookie(part: Part, name: &str, head: &Parts) -> Result<Vec<u8>> {
    let mut values = head
        .headers
        .get_all(COOKIE)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b';'))
        .filter_map(|pair| {
            let pair = pair.trim_ascii();
            let (key, value) = pair.split_at_checked(name.len())?;
            (key == name.as_bytes()).then(|| value.strip_prefix(b"="))?
        });
    match (values.next(), values.next()) {
        (Some(value), None) if !value.is_empty() => {
            Ok([b"cookie\n", name.as_bytes(), b"\n", value].concat())
        }
        _ => Err(part.absent(&format!("the cookie {name} must be there once"))),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn head(request: http::request::Builder) -> Parts {
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_host_is_the_one_of_the_target() {
        let tenant = Caller::Headers(vec![HOST]);
        let of = |request| tenant.tenant(&head(request)).unwrap().unwrap();
        let plain = of(Request::post("/a").header("host", "Acme.example"));
        let absolute = Request::post("http://acme.example/a").header("host", "other.example");
        assert_eq!(plain, b"host\nacme.example\n");
        assert_eq!(plain, of(absolute));
        assert_eq!(plain, of(Request::post("http://user@acme.example/a")));
        for none in [
            Request::post("/a"),
            Request::post("/a").header("host", ""),
            Request::post("/a").header("host", "a").header("host", "b"),
        ] {
            let error = tenant.tenant(&head(none)).unwrap_err();
            assert_eq!(error.field(), Some("tenant"));
        }
    }

    #[test]
    fn a_cookie_is_found_by_its_name() {
        let principal = Caller::Cookie("sid".to_owned());
        let of = |cookies: &[&str]| {
            let mut request = Request::post("/a");
            for cookie in cookies {
                request = request.header("cookie", *cookie);
            }
            let key = KeyFrom::Content;
            principal.principal(&head(request), &key).ok().flatten()
        };
        assert_eq!(of(&["a=1; sid=x=y;b=2"]).unwrap(), b"cookie\nsid\nx=y");
        assert_eq!(of(&["a=1", "sid=x=y"]), of(&["sid=x=y"]));
        for none in [
            &[][..],
            &["sid"],
            &["sid="],
            &["xsid=1"],
            &["sidx=1"],
            &["sid=1; sid=2"],
            &["sid=1", "sid=1"],
        ] {
            assert_eq!(of(none), None, "{none:?}");
        }
    }
}
