//! The client: server address, access token and connection settings.

mod admin;
mod error;
mod inbox;
mod locks;
mod once;
mod outbox;
mod path;
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
pub use self::stream::{Stream, StreamEvent};

/// Timeout for opening a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an idle connection is kept. Shorter than the usual limits of servers and proxies, so that the client closes first.
const IDLE: Duration = Duration::from_secs(50);
/// Maximum number of idle connections.
const IDLE_CONNECTIONS: usize = 64;

/// A client of one server. Cheap to clone; clones share their connections.
///
/// The timeout of a call is 30 seconds plus the `wait` of the request. If the response is lost, the client retries the call if
/// that is safe: the request carries an id, and the server applies it once. A call has at most 3 attempts, with a growing pause.
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
    /// Creates a client of the server at this address, such as `http://127.0.0.1:7117`. Sends nothing.
    ///
    /// The client ignores proxies of the environment and does not follow redirects, so that no other host gets the token.
    ///
    /// # Errors
    /// Returns an error if `url` is not an `http` or `https` address, or if it has a user, a password, a query or a fragment.
    ///
    /// ```
    /// use turno_client::Client;
    ///
    /// let client = Client::new("http://127.0.0.1:7117/")?;
    /// assert_eq!(client.url(), "http://127.0.0.1:7117");
    /// assert!(Client::new("http://user:password@127.0.0.1:7117").unwrap_err().is_invalid());
    /// # Ok::<_, turno_client::Error>(())
    /// ```
    pub fn new(url: &str) -> Result<Self> {
        let url = path::base(url)?;
        Ok(Client {
            http: http(&url, None)?,
            url: Arc::new(url),
            authorization: None,
        })
    }

    /// Sends this access token with every call. The token appears in no log and in no `Debug` output. Default: none.
    ///
    /// # Errors
    /// Returns an error if the token has characters that are invalid in an HTTP header.
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

    /// Trusts the certificate authorities of a PEM file, in addition to those of the system. Replaces an earlier call. Default:
    /// those of the system.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or has no certificates.
    ///
    /// ```no_run
    /// let client = turno_client::Client::new("https://turno.example")?.ca_file("/etc/turno/ca.pem")?;
    /// # Ok::<_, turno_client::Error>(())
    /// ```
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

    /// Trusts these certificate authorities (PEM), in addition to those of the system. Replaces an earlier call.
    ///
    /// # Errors
    /// Returns an error if the text has no valid certificates.
    pub fn authorities(mut self, pem: &str) -> Result<Self> {
        self.http = http(&self.url, Some(pem))?;
        Ok(self)
    }

    /// Returns the server's address, without a trailing slash. It never has a password.
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

/// Position and size of one page of a list. Default: the first page.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use turno_client::{Client, Page};
///
/// let client = Client::new("http://127.0.0.1:7117")?;
/// let mut page = Page { limit: Some(500), after: None };
/// loop {
///     let locks = client.locks("PRESTAMO/", &page).await?;
///     println!("{} locks", locks.locks.len());
///     let Some(next) = locks.next else { break };
///     page.after = Some(next);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<A = String> {
    /// Maximum number of entries of the page: 1 to 1000. Default: 100.
    pub limit: Option<u32>,
    /// Where the page begins: the `next` of the previous page. Default: the beginning of the list.
    pub after: Option<A>,
}

/// Not derived, because a derived implementation requires `A: Default`.
impl<A> Default for Page<A> {
    fn default() -> Self {
        Page {
            limit: None,
            after: None,
        }
    }
}
