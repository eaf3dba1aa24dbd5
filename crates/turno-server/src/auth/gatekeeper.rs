//! Authentication: by access token or, as long as no token was ever created, by being on this machine.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Request;
use http::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use http::uri::{Authority, Uri};
use tokio::sync::Mutex;
use tokio::time::Instant;
use turno::Turno;
use turno::problem::ProblemCode;

use super::caller::Admitted;
use super::token_cache::{TokenCache, with_timeout};
use crate::http::listener::Peer;
use crate::http::problem::Problem;

/// Minimum interval between two checks of whether the first access token was created.
const FIRST_TOKEN_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// How long a failed check of the store is cached.
const FAILED_CHECK_TTL: Duration = Duration::from_millis(500);
/// Headers that a proxy adds. A request through a proxy does not count as local, wherever the proxy runs.
const PROXY_HEADERS: [&str; 4] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-real-ip",
];

/// Which callers a server admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Admission {
    /// Callers with an access token. As long as no token was ever created, all callers on this machine.
    #[default]
    TokenOrLocal,
    /// Callers with an access token.
    Token,
    /// All callers, from any machine.
    All,
}

/// Which callers a server admits at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CurrentAdmission {
    /// Callers with an access token.
    Token,
    /// All callers on this machine, until the first access token is created.
    Local,
    /// All callers, from any machine.
    All,
}

/// The parts of a request that identify its caller.
pub(crate) struct Credentials<'a> {
    headers: &'a HeaderMap,
    uri: &'a Uri,
    peer: Option<Peer>,
}

impl<'a> Credentials<'a> {
    pub(crate) fn of<B>(request: &'a Request<B>) -> Self {
        Credentials {
            headers: request.headers(),
            uri: request.uri(),
            peer: request.extensions().get().copied(),
        }
    }
}

/// Decides which requests are admitted.
pub(crate) struct Gatekeeper {
    turno: Turno,
    admission: Admission,
    /// Host names by which clients may address this server, besides its IP addresses.
    hosts: Vec<String>,
    token_cache: TokenCache,
    first_token: FirstToken,
}

impl Gatekeeper {
    pub(crate) fn new(turno: Turno, admission: Admission, hosts: Vec<String>) -> Self {
        Gatekeeper {
            turno,
            admission,
            hosts,
            token_cache: TokenCache::default(),
            first_token: FirstToken::default(),
        }
    }

    /// Returns which callers are admitted at the moment.
    pub(crate) async fn current_admission(&self) -> turno::Result<CurrentAdmission> {
        Ok(match self.admission {
            Admission::All => CurrentAdmission::All,
            Admission::Token => CurrentAdmission::Token,
            Admission::TokenOrLocal if self.first_token.exists(&self.turno).await? => {
                CurrentAdmission::Token
            }
            Admission::TokenOrLocal => CurrentAdmission::Local,
        })
    }

    /// Authenticates the caller of a request. If the store is unavailable, the request is rejected.
    pub(crate) async fn admit(&self, credentials: &Credentials<'_>) -> Result<Admitted, Problem> {
        let peer = credentials
            .peer
            .ok_or_else(|| Problem::new(ProblemCode::Unauthorized))?;
        if self.admission == Admission::All {
            is_known_host(credentials, &self.hosts)?;
            is_own_page(credentials)?;
            return Ok(Admitted::anonymous(peer));
        }
        // A token is verified even where none is needed, so that a caller with a wrong token notices.
        if let Some(text) = bearer(credentials.headers)? {
            return self.token_cache.admit(&self.turno, text, peer).await;
        }
        match self.current_admission().await? {
            CurrentAdmission::Local => {
                is_local(credentials, peer)?;
                Ok(Admitted::anonymous(peer))
            }
            _ => Err(Problem::new(ProblemCode::Unauthorized)),
        }
    }
}

/// Whether an access token was ever created. Checked on demand, at most every [`FIRST_TOKEN_CHECK_INTERVAL`], until there is
/// one; then never again.
#[derive(Default)]
struct FirstToken {
    exists: AtomicBool,
    /// Result of the last check, and until when it is valid.
    checked: Mutex<Option<(Instant, turno::Result<()>)>>,
}

impl FirstToken {
    async fn exists(&self, turno: &Turno) -> turno::Result<bool> {
        if self.exists.load(Ordering::Acquire) {
            return Ok(true);
        }
        // Callers that arrive during a check wait for its result, which may be an error.
        let mut checked = self.checked.lock().await;
        if let Some((until, result)) = &*checked
            && Instant::now() < *until
        {
            return result.clone().map(|()| false);
        }
        *checked = None;
        let now = Instant::now();
        match with_timeout(turno.access_any()).await {
            Ok(true) => {
                self.exists.store(true, Ordering::Release);
                Ok(true)
            }
            Ok(false) => {
                *checked = Some((now + FIRST_TOKEN_CHECK_INTERVAL, Ok(())));
                Ok(false)
            }
            Err(error) => {
                *checked = Some((Instant::now() + FAILED_CHECK_TTL, Err(error.clone())));
                Err(error)
            }
        }
    }
}

/// Returns the access token of a request.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut shown = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = shown.next() else {
        return Ok(None);
    };
    let token = value.to_str().ok().and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        let token = token.trim();
        (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
    });
    match (token, shown.next()) {
        (Some(token), None) => Ok(Some(token)),
        _ => Err(Problem::new(ProblemCode::Unauthorized)),
    }
}

/// Admits requests that come from this machine and are addressed to this server. Rejects those of other sites' pages: by DNS
/// rebinding the name of such a site can point here, or its script can call here.
fn is_local(credentials: &Credentials<'_>, peer: Peer) -> Result<(), Problem> {
    if !peer.0.ip().to_canonical().is_loopback() {
        return Err(Problem::new(ProblemCode::Unauthorized));
    }
    let headers = credentials.headers;
    if PROXY_HEADERS.iter().any(|name| headers.contains_key(*name)) {
        return Err(Problem::new(ProblemCode::Misdirected).because(
            "the request came through a proxy, and this server runs without access tokens: create one with `turno token create`",
        ));
    }
    let named = named_hosts(credentials)?;
    if !named.iter().all(is_loopback) {
        return Err(Problem::new(ProblemCode::Misdirected));
    }
    from_page_of(headers, |host| named.iter().all(|name| *name == host))
}

/// Returns the hosts that a request names: at least one.
fn named_hosts(credentials: &Credentials<'_>) -> Result<Vec<Authority>, Problem> {
    let hosts = credentials.headers.get_all(HOST).iter();
    let named: Option<Vec<Authority>> = hosts
        .map(|host| host.as_bytes().try_into().ok())
        .chain(credentials.uri.authority().cloned().map(Some))
        .collect();
    named
        .filter(|named| !named.is_empty())
        .ok_or_else(|| Problem::new(ProblemCode::Misdirected))
}

/// Rejects host names that another site could point here (DNS rebinding). Its page would have the same origin as this server,
/// and the browser would send no `Origin` of another site. IP addresses and names without a dot cannot be used for that.
fn is_known_host(credentials: &Credentials<'_>, hosts: &[String]) -> Result<(), Problem> {
    let is_known = |name: &Authority| {
        let host = name.host();
        let address = host.trim_start_matches('[').trim_end_matches(']');
        address.parse::<IpAddr>().is_ok()
            || !host.contains('.')
            || hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    };
    match named_hosts(credentials)?.iter().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(name) => Err(Problem::new(ProblemCode::Misdirected).because(format!(
            "this server runs without access tokens and does not know the host {}: name it with --host, or create a token with `turno token create`",
            name.host()
        ))),
    }
}

/// Rejects cross-origin browser requests on a server that admits all callers: the user of the other site's page did not ask for
/// them. A proxy in front of this server may have another name, which it puts into `X-Forwarded-Host`.
fn is_own_page(credentials: &Credentials<'_>) -> Result<(), Problem> {
    let hosts = credentials.headers.get_all(HOST).iter();
    let hosts = hosts.chain(credentials.headers.get_all("x-forwarded-host"));
    let named: Vec<&str> = hosts
        .filter_map(|host| host.to_str().ok())
        .chain(credentials.uri.authority().map(Authority::as_str))
        .collect();
    from_page_of(credentials.headers, |host| {
        named.iter().any(|name| name.eq_ignore_ascii_case(host))
    })
}

/// Checks the `Origin` header. Browsers send it; other programs do not.
fn from_page_of(headers: &HeaderMap, is_own: impl Fn(&str) -> bool) -> Result<(), Problem> {
    let is_own = |origin: &http::HeaderValue| {
        let origin = origin.to_str().ok().and_then(|text| text.split_once("://"));
        origin.is_some_and(|(_, host)| is_own(host))
    };
    if headers.get_all(ORIGIN).iter().all(is_own) {
        return Ok(());
    }
    Err(Problem::new(ProblemCode::Misdirected).because(
        "the request comes from a page of another site, and this server runs without access tokens: create one with `turno token create`",
    ))
}

fn is_loopback(name: &Authority) -> bool {
    let host = name.host();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address
            .parse::<IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback())
}
