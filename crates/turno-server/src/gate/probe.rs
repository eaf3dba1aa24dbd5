//! Probe: asks the service for the outcome of a request whose earlier run is unknown.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HOST, HeaderName};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Version};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use turno::once::Probe;
use turno::once::http::{
    DEFAULT_HEADERS, KeyFrom, MAX_ANSWER_BYTES, ProbeRequest, Prober, StoredResponse,
};

use super::headers;
use super::upstream::{Unsent, Upstream};

/// Default timeout of a probe.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Placeholder for the request's key in a path.
const KEY: &str = "{key}";
/// Characters of a key that are percent-encoded in a path: all but the unreserved ones of RFC 3986.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A path in which `{key}` is a placeholder for the request's key: `/pagos/by-key/{key}`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ProbePath(String);

impl fmt::Display for ProbePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for ProbePath {
    type Error = String;

    fn try_from(path: String) -> Result<Self, String> {
        path.parse()
    }
}

impl ProbePath {
    fn with(&self, key: &str) -> Option<PathAndQuery> {
        // Path segments with a special meaning, even if they are percent-encoded.
        if matches!(key, "." | "..") {
            return None;
        }
        let key = utf8_percent_encode(key, ESCAPED).to_string();
        self.0.replace(KEY, &key).parse().ok()
    }
}

impl FromStr for ProbePath {
    type Err = String;

    fn from_str(path: &str) -> Result<Self, String> {
        let bare = path.replace(KEY, "key");
        let is_path = path.starts_with('/')
            && !bare.contains(['{', '}', '#'])
            && bare.parse::<PathAndQuery>().is_ok();
        if !is_path {
            return Err(
                "is no path: write one such as /pagos/by-key/{key}, with nothing else in braces"
                    .to_owned(),
            );
        }
        Ok(ProbePath(path.to_owned()))
    }
}

/// Probes with a GET request that has the request's key and the headers that identify the caller.
///
/// | response | meaning |
/// |---|---|
/// | 2xx | The request was carried out, and this is its response, with status. |
/// | 404 | The request was not carried out. It runs now. |
/// | another status, or none within the timeout | Unsure. The request stays unknown. |
///
/// The key is the client's own, in the header that the policy reads and in place of `{key}` in the path. If the policy derives
/// the key from the content, it is the once key, which the service also gets as `Turno-Key` with every request.
#[derive(Debug, Clone)]
pub struct HttpProber {
    upstream: Upstream,
    client: Client<HttpConnector, Empty<Bytes>>,
    path: ProbePath,
    key: KeyFrom,
    callers: Vec<HeaderName>,
    kept: Vec<HeaderName>,
    max_answer: usize,
    timeout: Duration,
}

impl HttpProber {
    /// Creates a probe of this path, for requests with this kind of key.
    pub fn new(upstream: Upstream, path: ProbePath, key: KeyFrom) -> Self {
        HttpProber {
            client: upstream.client(Unsent::Again),
            upstream,
            path,
            key,
            callers: vec![AUTHORIZATION],
            kept: DEFAULT_HEADERS.into(),
            max_answer: MAX_ANSWER_BYTES,
            timeout: TIMEOUT,
        }
    }

    /// Sets the headers that identify the caller and the tenant. Default: `Authorization`.
    #[must_use]
    pub fn callers(mut self, callers: impl IntoIterator<Item = HeaderName>) -> Self {
        self.callers = callers.into_iter().collect();
        self
    }

    /// Sets which headers of a response are kept and its maximum size in bytes. A larger response counts as unsure.
    #[must_use]
    pub fn keeps(
        mut self,
        headers: impl IntoIterator<Item = HeaderName>,
        max_answer: usize,
    ) -> Self {
        self.kept = headers.into_iter().collect();
        self.max_answer = max_answer;
        self
    }

    /// Sets the timeout of a probe. Default: 5 seconds.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn question(&self, asked: &ProbeRequest<'_>) -> Option<Request<Empty<Bytes>>> {
        let given = &asked.head.headers;
        let mut said = HeaderMap::new();
        said.insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
        for name in &self.callers {
            if *name == HOST {
                // In HTTP/2 the host is part of the address, which is the service's own.
                if self.upstream.version() == Version::HTTP_11
                    && let Some(host) = headers::host(&asked.head.uri, given)
                {
                    said.insert(HOST, host);
                }
                continue;
            }
            for value in given.get_all(name) {
                said.append(name, value.clone());
            }
        }
        if let Ok(key) = HeaderValue::from_str(asked.key) {
            said.insert(headers::KEY, key);
        }
        let key = match &self.key {
            KeyFrom::Content => asked.key,
            KeyFrom::Header(name) => {
                let key = given.get(name)?;
                said.insert(name, key.clone());
                // Some clients quote the key; the quotation marks are not part of it.
                key.to_str().ok()?.trim_matches('"')
            }
        };
        let uri = self.upstream.uri(self.path.with(key)?).ok()?;
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = uri;
        *request.version_mut() = self.upstream.version();
        *request.headers_mut() = said;
        Some(request)
    }

    async fn ask(&self, asked: &ProbeRequest<'_>) -> Option<Probe<StoredResponse>> {
        let response = self.client.request(self.question(asked)?).await.ok()?;
        let (mut head, body) = response.into_parts();
        if head.status == StatusCode::NOT_FOUND {
            return Some(Probe::NotDone);
        }
        if !head.status.is_success() {
            return None;
        }
        headers::strip(&mut head.headers);
        let body = Limited::new(body, self.max_answer).collect().await.ok()?;
        Some(Probe::Done(StoredResponse::new(
            head.status,
            &head.headers,
            &self.kept,
            &body.to_bytes(),
        )))
    }
}

#[async_trait]
impl Prober for HttpProber {
    async fn probe(&self, asked: &ProbeRequest<'_>) -> Probe<StoredResponse> {
        let found = tokio::time::timeout(self.timeout, self.ask(asked)).await;
        found.ok().flatten().unwrap_or_else(|| {
            tracing::warn!(key = asked.key, upstream = %self.upstream.authority(), "the service cannot say what became of a request");
            Probe::Unsure
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_stays_one_part_of_the_path() {
        let path: ProbePath = "/pagos/by-key/{key}?full=1".parse().unwrap();
        assert_eq!(
            path.with("a/../b?c#d é").unwrap().as_str(),
            "/pagos/by-key/a%2F..%2Fb%3Fc%23d%20%C3%A9?full=1"
        );
        assert_eq!(path.with(".."), None);
        for bad in ["", "pagos", "/pagos/{id}", "/pagos/{key", "/a b", "/a#b"] {
            assert!(bad.parse::<ProbePath>().is_err(), "{bad}");
        }
    }
}
