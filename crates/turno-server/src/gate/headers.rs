//! Hop-by-hop headers, and the headers that the gate adds.

use std::net::{IpAddr, SocketAddr};

use http::header::{
    self, CONNECTION, CONTENT_LENGTH, EXPECT, FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue,
    TE, TRANSFER_ENCODING, UPGRADE,
};
use http::{Request, Uri, Version};
use http_body::Body;
use turno::once::http::Attempt;

/// Hop-by-hop headers (RFC 9110, section 7.6.1). `Trailer` is not among them, because the gate forwards trailers.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("http2-settings"),
];

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The fencing token of a run, for services that store it.
pub(super) const FENCE: HeaderName = HeaderName::from_static("turno-fence");
/// Number of runs of the request that have begun, including this one.
pub(super) const ATTEMPT: HeaderName = HeaderName::from_static("turno-attempt");
/// The once key of the request.
pub(super) const KEY: HeaderName = HeaderName::from_static("turno-key");

/// Headers that the gate removes from a client's request: the gate itself handles `Expect: 100-continue`, and only the gate
/// knows which run this is.
const OWN: [HeaderName; 4] = [EXPECT, FENCE, ATTEMPT, KEY];

/// Removes the hop-by-hop headers.
pub(super) fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = tokens(headers, &CONNECTION)
        .filter_map(|token| token.parse().ok())
        // The gate sets the length and the host itself.
        .filter(|name| *name != CONTENT_LENGTH && *name != HOST)
        .collect();
    remove(headers, |name| {
        HOP_BY_HOP.contains(name) || named.contains(name)
    });
}

/// Removes the headers that only the gate may set.
pub(super) fn disown(headers: &mut HeaderMap) {
    remove(headers, |name| OWN.contains(name));
}

/// Scans the headers that are present: they are few, and most are kept.
fn remove(headers: &mut HeaderMap, is_unwanted: impl Fn(&HeaderName) -> bool) {
    let unwanted: Vec<HeaderName> = headers
        .keys()
        .filter(|name| is_unwanted(name))
        .cloned()
        .collect();
    for name in &unwanted {
        headers.remove(name);
    }
}

/// Returns the elements of a list header.
fn tokens<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

/// Returns the protocol to which an HTTP/1.1 client wants to upgrade.
pub(super) fn upgrade(request: &Request<impl Sized>) -> Option<HeaderValue> {
    let wanted = request.headers().get(UPGRADE)?;
    let is_meant = request.version() == Version::HTTP_11
        && tokens(request.headers(), &CONNECTION)
            .any(|token| token.eq_ignore_ascii_case("upgrade"));
    // HTTP/2 is used from the first byte of a connection or not at all.
    let is_http = wanted.as_bytes().eq_ignore_ascii_case(b"h2c");
    (is_meant && !is_http).then(|| wanted.clone())
}

/// Whether the client accepts trailers.
pub(super) fn takes_trailers(headers: &HeaderMap) -> bool {
    tokens(headers, &TE).any(|token| token.eq_ignore_ascii_case("trailers"))
}

/// Returns the effective authority of a request: the one of its target, or else the `Host` header.
pub(super) fn host(target: &Uri, headers: &HeaderMap) -> Option<HeaderValue> {
    if let Some(authority) = target.authority() {
        return authority.as_str().parse().ok();
    }
    headers.get(HOST).cloned()
}

/// Address of the client, in the form of the headers.
#[derive(Debug)]
pub(super) struct Peer {
    /// Value for `X-Forwarded-For`.
    address: HeaderValue,
    /// Element for `Forwarded`.
    element: String,
}

impl Peer {
    pub(super) fn new(peer: SocketAddr) -> Self {
        let address = peer.ip().to_canonical();
        let element = match address {
            IpAddr::V4(address) => format!("for={address}"),
            IpAddr::V6(address) => format!("for=\"[{address}]\""),
        };
        Peer {
            address: HeaderValue::try_from(address.to_string())
                .unwrap_or(HeaderValue::from_static("unknown")),
            element,
        }
    }

    /// Adds the headers with the client's address.
    pub(super) fn forward(&self, headers: &mut HeaderMap, host: Option<&HeaderValue>) {
        append(headers, FORWARDED_FOR, self.address.clone());
        // A proxy that terminates TLS in front of the gate has set these already, with the right values.
        headers
            .entry(FORWARDED_PROTO)
            .or_insert(HeaderValue::from_static("http"));
        if let Some(host) = host {
            headers
                .entry(FORWARDED_HOST)
                .or_insert_with(|| host.clone());
        }
        let host = host
            .and_then(|host| host.to_str().ok())
            .filter(|host| !host.contains(['"', '\\']));
        let parts = match host {
            Some(host) => [&self.element, ";host=\"", host, "\";proto=http"],
            None => [&self.element, "", "", ";proto=http"],
        };
        if let Ok(element) = HeaderValue::try_from(parts.concat()) {
            append(headers, FORWARDED, element);
        }
    }
}

/// Appends an element to a list header, on the same line.
fn append(headers: &mut HeaderMap, name: HeaderName, more: HeaderValue) {
    let mut list = Vec::new();
    for value in headers.get_all(&name) {
        list.extend_from_slice(value.as_bytes());
        list.extend_from_slice(b", ");
    }
    if list.is_empty() {
        headers.insert(name, more);
        return;
    }
    list.extend_from_slice(more.as_bytes());
    if let Ok(value) = HeaderValue::try_from(list) {
        headers.insert(name, value);
    }
}

/// Adds the headers that identify the run and its request.
pub(super) fn attempt(headers: &mut HeaderMap, attempt: &Attempt) {
    headers.insert(FENCE, attempt.token().0.into());
    headers.insert(ATTEMPT, attempt.number().into());
    // A route's name may have characters that are not ASCII.
    if let Ok(key) = HeaderValue::from_str(attempt.key()) {
        headers.insert(KEY, key);
    }
}

/// Sets the length of the body as the gate knows it.
pub(super) fn length(headers: &mut HeaderMap, body: &impl Body, version: Version) {
    match body.size_hint().exact() {
        Some(0) if !headers.contains_key(CONTENT_LENGTH) => {}
        Some(length) => {
            headers.insert(CONTENT_LENGTH, length.into());
        }
        None => {
            headers.remove(CONTENT_LENGTH);
            // Set explicitly: hyper would drop the body of a GET without it.
            if version == Version::HTTP_11 && !body.is_end_stream() {
                headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&str, &str)]) -> HeaderMap {
        list.iter()
            .map(|(name, value)| {
                let name: HeaderName = name.parse().unwrap();
                (name, value.parse().unwrap())
            })
            .collect()
    }

    #[test]
    fn headers_of_one_connection_go_and_the_others_stay() {
        let mut given = headers(&[
            ("connection", "close, X-Secret,content-length"),
            ("connection", "host"),
            ("x-secret", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-authorization", "Basic x"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("content-length", "5"),
            ("host", "a"),
            ("trailer", "x-sum"),
            ("x-other", "2"),
        ]);
        strip(&mut given);
        let kept = headers(&[
            ("content-length", "5"),
            ("host", "a"),
            ("trailer", "x-sum"),
            ("x-other", "2"),
        ]);
        assert_eq!(given, kept);
    }

    #[test]
    fn where_it_comes_from_is_added_to_what_was_said() {
        let mut given = headers(&[
            ("x-forwarded-for", "203.0.113.7"),
            ("x-forwarded-proto", "https"),
            ("forwarded", "for=203.0.113.7"),
        ]);
        let host = HeaderValue::from_static("pagos.example:8443");
        let peer = "[::ffff:10.0.0.9]:4711".parse().unwrap();
        Peer::new(peer).forward(&mut given, Some(&host));
        assert_eq!(given[FORWARDED_FOR], "203.0.113.7, 10.0.0.9");
        assert_eq!(given[FORWARDED_PROTO], "https");
        assert_eq!(given[FORWARDED_HOST], "pagos.example:8443");
        assert_eq!(
            given[FORWARDED],
            "for=203.0.113.7, for=10.0.0.9;host=\"pagos.example:8443\";proto=http"
        );
        let mut none = HeaderMap::new();
        Peer::new("[2001:db8::1]:1".parse().unwrap()).forward(&mut none, None);
        assert_eq!(none[FORWARDED_FOR], "2001:db8::1");
        assert_eq!(none[FORWARDED], "for=\"[2001:db8::1]\";proto=http");
    }
}
