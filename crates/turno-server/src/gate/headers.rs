//! Headers that belong to one connection only, and those that the gate adds.

use std::net::{IpAddr, SocketAddr};

use http::header::{
    self, CONNECTION, CONTENT_LENGTH, EXPECT, FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue,
    TE, TRANSFER_ENCODING, UPGRADE,
};
use http::{Request, Uri, Version};
use http_body::Body;
use turno::once::http::Attempt;

/// Headers of one connection (RFC 9110, 7.6.1). `Trailer` is not among them: it announces what is passed on.
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

/// The fencing token of a run, for a service that writes it down.
pub(super) const FENCE: HeaderName = HeaderName::from_static("turno-fence");
/// How many runs of the request began.
pub(super) const ATTEMPT: HeaderName = HeaderName::from_static("turno-attempt");
/// The request's key in the store.
pub(super) const KEY: HeaderName = HeaderName::from_static("turno-key");

/// What a client may not say: the gate itself lets it go on that waits for 100 Continue, and knows which run this is.
const OWN: [HeaderName; 4] = [EXPECT, FENCE, ATTEMPT, KEY];

/// Removes what belongs to one connection only.
pub(super) fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = tokens(headers, &CONNECTION)
        .filter_map(|token| token.parse().ok())
        // How long the body is, and for whom the request is, is said anew.
        .filter(|name| *name != CONTENT_LENGTH && *name != HOST)
        .collect();
    remove(headers, |name| {
        HOP_BY_HOP.contains(name) || named.contains(name)
    });
}

/// Removes what only the gate says to a service.
pub(super) fn disown(headers: &mut HeaderMap) {
    remove(headers, |name| OWN.contains(name));
}

/// Looks at those that are there, which are few and as a rule to be kept.
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

/// The words of a list header.
fn tokens<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

/// The protocol that a client of HTTP/1.1 wants to go on with.
pub(super) fn upgrade(request: &Request<impl Sized>) -> Option<HeaderValue> {
    let wanted = request.headers().get(UPGRADE)?;
    let is_meant = request.version() == Version::HTTP_11
        && tokens(request.headers(), &CONNECTION)
            .any(|token| token.eq_ignore_ascii_case("upgrade"));
    // HTTP/2 is spoken from the first byte on, or not at all.
    let is_http = wanted.as_bytes().eq_ignore_ascii_case(b"h2c");
    (is_meant && !is_http).then(|| wanted.clone())
}

/// Whether a client takes trailers.
pub(super) fn takes_trailers(headers: &HeaderMap) -> bool {
    tokens(headers, &TE).any(|token| token.eq_ignore_ascii_case("trailers"))
}

/// The effective authority of a request: the one of its target, or else the header `Host`.
pub(super) fn host(target: &Uri, headers: &HeaderMap) -> Option<HeaderValue> {
    if let Some(authority) = target.authority() {
        return authority.as_str().parse().ok();
    }
    headers.get(HOST).cloned()
}

/// Who is at the other end of a connection, as headers have it.
#[derive(Debug)]
pub(super) struct Peer {
    /// In `X-Forwarded-For`.
    address: HeaderValue,
    /// In `Forwarded`.
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

    /// Says from where a request comes.
    pub(super) fn forward(&self, headers: &mut HeaderMap, host: Option<&HeaderValue>) {
        append(headers, FORWARDED_FOR, self.address.clone());
        // Whoever ends TLS before the gate has said these already, and knows better.
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

/// One more to a list, on the same line.
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

/// Says which run of which request this is.
pub(super) fn attempt(headers: &mut HeaderMap, attempt: &Attempt) {
    headers.insert(FENCE, attempt.token().0.into());
    headers.insert(ATTEMPT, attempt.number().into());
    // A route's name may be no ASCII.
    if let Ok(key) = HeaderValue::from_str(attempt.key()) {
        headers.insert(KEY, key);
    }
}

/// Says how long the body is, as the gate knows it.
pub(super) fn length(headers: &mut HeaderMap, body: &impl Body, version: Version) {
    match body.size_hint().exact() {
        Some(0) if !headers.contains_key(CONTENT_LENGTH) => {}
        Some(length) => {
            headers.insert(CONTENT_LENGTH, length.into());
        }
        None => {
            headers.remove(CONTENT_LENGTH);
            // Said aloud: bodies of GET would be lost otherwise.
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
