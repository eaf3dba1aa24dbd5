//! The service behind the gate: its address and connection settings.

use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Uri, Version};
use http_body::Body;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

/// Default of [`Upstream::connect_timeout`].
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Default of [`Upstream::keep_alive`]. Services usually close idle connections after 5 seconds or more, and a request on a
/// connection that is being closed becomes unknown.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// Maximum number of idle connections.
const MAX_IDLE: usize = 64;

/// The error for an invalid upstream address. Its text says what is wrong.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadUpstream(String);

/// The service behind the gate.
///
/// ```
/// use turno_server::gate::Upstream;
///
/// let upstream: Upstream = "http://127.0.0.1:8080".parse()?;
/// // HTTP/2 from the first byte on, for services that speak nothing else.
/// let grpc: Upstream = "h2c://127.0.0.1:50051".parse()?;
/// assert!("https://pagos.example".parse::<Upstream>().is_err());
/// # drop((upstream, grpc)); Ok::<_, turno_server::gate::BadUpstream>(())
/// ```
#[derive(Debug, Clone)]
pub struct Upstream {
    authority: Authority,
    version: Version,
    connect_timeout: Duration,
    keep_alive: Duration,
}

/// Whether the client retries a request whose connection closed before any of it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsent {
    Again,
    Never,
}

impl Upstream {
    /// Sets the timeout for opening a connection. Default: 5 seconds.
    #[must_use]
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Sets how long an idle connection may be reused. Default: 2 seconds. Zero opens a new connection per request. Keep it below
    /// the service's own limit: a request on a connection that the service is closing becomes *unknown*.
    #[must_use]
    pub fn keep_alive(mut self, keep_alive: Duration) -> Self {
        self.keep_alive = keep_alive;
        self
    }

    /// Returns host and port.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// Returns the URL of a path.
    pub(super) fn uri(&self, path: PathAndQuery) -> Result<Uri, http::Error> {
        Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(self.authority.clone())
            .path_and_query(path)
            .build()
    }

    pub(super) fn client<B>(&self, unsent: Unsent) -> Client<HttpConnector, B>
    where
        B: Body<Data = Bytes> + Send,
    {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(self.connect_timeout));
        connector.set_nodelay(true);
        let mut client = Client::builder(TokioExecutor::new());
        client
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(self.keep_alive)
            .pool_max_idle_per_host(if self.keep_alive.is_zero() {
                0
            } else {
                MAX_IDLE
            })
            .retry_canceled_requests(unsent == Unsent::Again)
            .http2_only(self.version == Version::HTTP_2);
        client.build(connector)
    }
}

impl FromStr for Upstream {
    type Err = BadUpstream;

    fn from_str(url: &str) -> Result<Self, BadUpstream> {
        // The message does not contain the address, which may have a password.
        let bad = |why: &str| BadUpstream(format!("the upstream {why}: give http://HOST:PORT"));
        let uri: Uri = url.parse().map_err(|_| bad("is no address"))?;
        let version = match uri.scheme_str() {
            Some("http") => Version::HTTP_11,
            Some("h2c") => Version::HTTP_2,
            Some("https") => {
                return Err(bad(
                    "is https, and the gate speaks no TLS: it belongs on the service's own side of the network",
                ));
            }
            _ => {
                return Err(bad(
                    "begins neither with http:// nor with h2c:// (HTTP/2 without TLS)",
                ));
            }
        };
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(bad(
                "has a path or a query, and every request brings its own",
            ));
        }
        let authority = uri.authority().ok_or_else(|| bad("has no host"))?;
        if authority.host().is_empty() || authority.as_str().contains('@') {
            return Err(bad("has a user, or no host"));
        }
        Ok(Upstream {
            authority: authority.clone(),
            version,
            connect_timeout: CONNECT_TIMEOUT,
            keep_alive: KEEP_ALIVE,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_host_and_port() {
        let upstream: Upstream = "http://[::1]:8080/".parse().unwrap();
        let uri = upstream
            .uri(PathAndQuery::from_static("/a%20b?c=d"))
            .unwrap();
        assert_eq!(uri, "http://[::1]:8080/a%20b?c=d");
        assert_eq!(
            "h2c://x".parse::<Upstream>().unwrap().version(),
            Version::HTTP_2
        );
        for bad in [
            "",
            "localhost:8080",
            "/x",
            "https://x",
            "ftp://x",
            "http://x/base",
            "http://x?a",
            "http://",
            "http://ana:s3cret@x",
        ] {
            let error = bad.parse::<Upstream>().unwrap_err().to_string();
            assert!(error.contains("http://HOST:PORT"), "{bad}: {error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
