//! The client: an address, a token, and how calls are made.

mod error;
mod inbox;
mod locks;
mod once;
mod outbox;
mod path;
mod people;
mod send;
mod stream;
mod tls;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::redirect::Policy;
use reqwest::{Method, Url};

pub use self::error::{Error, Result};
pub use self::locks::{Acquired, AcquiredAll, Broke, Released, Renewed};
pub use self::once::{Began, Ended, Resolved};
pub use self::stream::{Stream, StreamEvent};

/// How long it may take to connect.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an idle connection is kept; shorter than servers and what is between usually keep theirs.
const IDLE: Duration = Duration::from_secs(50);
/// How many idle connections are kept.
const IDLE_CONNECTIONS: usize = 64;

/// A client of one server. Cheap to clone; connections are kept and shared.
///
/// Calls take at the most 30 seconds, and as much longer as they are told to wait. One whose answer was lost is repeated a
/// few times, if that is safe: it carries an identity, and is applied once.
///
/// ```
/// let client = turno_client::Client::new("https://turno.example")?.token("turno_…_secret")?;
/// assert!(!format!("{client:?}").contains("secret"));
/// # Ok::<_, turno_client::Error>(())
/// ```
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    url: Arc<Url>,
    authorization: Option<HeaderValue>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("url", &self.url())
            .field("has_token", &self.authorization.is_some())
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the server at this address, such as `http://127.0.0.1:7117`. Nothing is sent yet.
    ///
    /// Proxies that the environment names are not used, and redirects not followed: a token goes to nobody else.
    ///
    /// # Errors
    /// If it is no address of a server.
    pub fn new(url: &str) -> Result<Self> {
        let url = path::base(url)?;
        Ok(Client {
            http: http(&url, None)?,
            url: Arc::new(url),
            authorization: None,
        })
    }

    /// Shows this access token with every call. It appears in no log and no `Debug`.
    ///
    /// # Errors
    /// If it has characters that no token has.
    pub fn token(mut self, secret: impl AsRef<str>) -> Result<Self> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", secret.as_ref().trim()))
            .map_err(|_| {
                Error::invalid(
                    "token",
                    "the token has characters that no token has: give it as `turno token create` printed it",
                )
            })?;
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(self)
    }

    /// Trusts the authorities of a file in PEM, besides those of the system.
    ///
    /// # Errors
    /// If the file cannot be read, or has no certificates.
    pub fn ca_file(self, file: impl AsRef<Path>) -> Result<Self> {
        let file = file.as_ref();
        let pem = std::fs::read_to_string(file).map_err(|error| {
            Error::invalid(
                "ca_file",
                format!(
                    "{} cannot be read ({error}): name a file with certificates in PEM",
                    file.display()
                ),
            )
        })?;
        self.authorities(&pem)
    }

    /// Trusts these authorities, in PEM, besides those of the system.
    ///
    /// # Errors
    /// If they are no certificates.
    pub fn authorities(mut self, pem: &str) -> Result<Self> {
        self.http = http(&self.url, Some(pem))?;
        Ok(self)
    }

    /// The server's address, without a password.
    pub fn url(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    fn request(&self, method: Method, url: Url) -> reqwest::RequestBuilder {
        let request = self.http.request(method, url);
        match &self.authorization {
            Some(value) => request.header(reqwest::header::AUTHORIZATION, value.clone()),
            None => request,
        }
    }
}

fn http(url: &Url, authorities: Option<&str>) -> Result<reqwest::Client> {
    let tls = match url.scheme() {
        "http" => tls::none()?,
        _ => tls::client(authorities)?,
    };
    reqwest::Client::builder()
        .user_agent(concat!("turno-client/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .tcp_nodelay(true)
        .tls_backend_preconfigured(tls)
        .build()
        .map_err(|error| Error::broken(format!("no client can be built: {error}")))
}

/// One page of a list: all of it, unless said otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<A = String> {
    /// The size of the page: 1 to 1000; 100, if not said.
    pub limit: Option<u32>,
    /// Where it begins: the `next` of the page before.
    pub after: Option<A>,
}

/// Not derived: a place in a list need not have a default of its own.
impl<A> Default for Page<A> {
    fn default() -> Self {
        Page {
            limit: None,
            after: None,
        }
    }
}
