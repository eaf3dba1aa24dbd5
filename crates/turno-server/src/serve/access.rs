//! Authentication: by access token or, as long as no token was ever created, by being on this machine.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Request;
use http::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use http::uri::{Authority, Uri};
use tokio::sync::Mutex;
use tokio::time::Instant;
use turno::{Error, Turno};

pub(crate) use turno::access::Role;

use super::caller::Caller;
use super::limit::Key;
use super::listen::Peer;
use super::problem::Problem;
use super::seen::{SHORT, Seen};
use super::words::Code;
use super::{Admission, Opening};

/// Minimum interval between two checks of whether the first access token was created.
const LOOK: Duration = Duration::from_secs(2);
/// How long a failed check of the store is cached.
const AGAIN: Duration = Duration::from_millis(500);
/// Headers that a proxy adds. A request through a proxy does not count as local, wherever the proxy runs.
const FORWARDED: [&str; 4] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-real-ip",
];

/// An admitted caller, and its key for the rate limit.
#[derive(Debug, Clone)]
pub(super) struct Admitted {
    pub(super) caller: Caller,
    pub(super) key: Key,
}

impl Admitted {
    /// A caller that needs no token.
    fn anonymous(peer: Peer) -> Self {
        Admitted {
            caller: Caller::new("anonymous", Role::Admin, ""),
            key: Key::of(peer),
        }
    }
}

/// The parts of a request that identify its caller.
pub(super) struct Asks<'a> {
    headers: &'a HeaderMap,
    uri: &'a Uri,
    peer: Option<Peer>,
}

impl<'a> Asks<'a> {
    pub(super) fn of<B>(request: &'a Request<B>) -> Self {
        Asks {
            headers: request.headers(),
            uri: request.uri(),
            peer: request.extensions().get().copied(),
        }
    }
}

/// Decides which requests are admitted.
pub(super) struct Gatekeeper {
    turno: Turno,
    admission: Admission,
    /// Host names by which clients may address this server, besides its IP addresses.
    hosts: Vec<String>,
    seen: Seen,
    open: Open,
}

impl Gatekeeper {
    pub(super) fn new(turno: Turno, admission: Admission, hosts: Vec<String>) -> Self {
        Gatekeeper {
            turno,
            admission,
            hosts,
            seen: Seen::default(),
            open: Open::default(),
        }
    }

    /// Returns which callers are admitted at the moment.
    pub(super) async fn opening(&self) -> turno::Result<Opening> {
        Ok(match self.admission {
            Admission::Everybody => Opening::Everybody,
            Admission::Token => Opening::Tokens,
            Admission::TokenOrLocal if self.open.is_open(&self.turno).await? => Opening::Local,
            Admission::TokenOrLocal => Opening::Tokens,
        })
    }

    /// Authenticates the caller of a request. If the store is unavailable, the request is rejected.
    pub(super) async fn admit(&self, asks: &Asks<'_>) -> Result<Admitted, Problem> {
        let peer = asks.peer.ok_or_else(|| Problem::new(Code::Unauthorized))?;
        if self.admission == Admission::Everybody {
            is_known_host(asks, &self.hosts)?;
            is_own_page(asks)?;
            return Ok(Admitted::anonymous(peer));
        }
        // A token is verified even where none is needed, so that a caller with a wrong token notices.
        if let Some(text) = bearer(asks.headers)? {
            return self.seen.admit(&self.turno, text, peer).await;
        }
        match self.opening().await? {
            Opening::Local => {
                is_local(asks, peer)?;
                Ok(Admitted::anonymous(peer))
            }
            _ => Err(Problem::new(Code::Unauthorized)),
        }
    }
}

/// Whether an access token was ever created. Checked on demand, at most every [`LOOK`], until there is one; then never again.
#[derive(Default)]
struct Open {
    closed: AtomicBool,
    /// Result of the last check, and until when it is valid.
    looked: Mutex<Option<(Instant, turno::Result<()>)>>,
}

impl Open {
    async fn is_open(&self, turno: &Turno) -> turno::Result<bool> {
        if self.closed.load(Ordering::Acquire) {
            return Ok(false);
        }
        // Callers that arrive during a check wait for its result, which may be an error.
        let mut looked = self.looked.lock().await;
        if let Some((until, said)) = &*looked
            && Instant::now() < *until
        {
            return said.clone().map(|()| true);
        }
        *looked = None;
        let now = Instant::now();
        match within(turno.access_any()).await {
            Ok(true) => {
                self.closed.store(true, Ordering::Release);
                Ok(false)
            }
            Ok(false) => {
                *looked = Some((now + LOOK, Ok(())));
                Ok(true)
            }
            Err(error) => {
                *looked = Some((Instant::now() + AGAIN, Err(error.clone())));
                Err(error)
            }
        }
    }
}

/// Applies a timeout to a lookup of the store, so that no request waits long for authentication.
pub(super) async fn within<T>(look: impl Future<Output = turno::Result<T>>) -> turno::Result<T> {
    match tokio::time::timeout(SHORT, look).await {
        Ok(seen) => seen,
        Err(_) => Err(Error::unavailable(
            "the store did not say in time whose access token it is",
        )),
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
        _ => Err(Problem::new(Code::Unauthorized)),
    }
}

/// Admits requests that come from this machine and are addressed to this server. Rejects those of other sites' pages: by DNS
/// rebinding the name of such a site can point here, or its script can call here.
fn is_local(asks: &Asks<'_>, peer: Peer) -> Result<(), Problem> {
    if !peer.0.ip().to_canonical().is_loopback() {
        return Err(Problem::new(Code::Unauthorized));
    }
    let headers = asks.headers;
    if FORWARDED.iter().any(|name| headers.contains_key(*name)) {
        return Err(Problem::new(Code::Misdirected).because(
            "the request came through a proxy, and this server runs without access tokens: make one with `turno token create`",
        ));
    }
    let named = named_hosts(asks)?;
    if !named.iter().all(is_loopback) {
        return Err(Problem::new(Code::Misdirected));
    }
    from_page_of(headers, |host| named.iter().all(|name| *name == host))
}

/// Returns the hosts that a request names: at least one.
fn named_hosts(asks: &Asks<'_>) -> Result<Vec<Authority>, Problem> {
    let hosts = asks.headers.get_all(HOST).iter();
    let named: Option<Vec<Authority>> = hosts
        .map(|host| host.as_bytes().try_into().ok())
        .chain(asks.uri.authority().cloned().map(Some))
        .collect();
    named
        .filter(|named| !named.is_empty())
        .ok_or_else(|| Problem::new(Code::Misdirected))
}

/// Rejects host names that another site could point here (DNS rebinding). Its page would have the same origin as this server,
/// and the browser would send no `Origin` of another site. IP addresses and names without a dot cannot be used for that.
fn is_known_host(asks: &Asks<'_>, hosts: &[String]) -> Result<(), Problem> {
    let is_known = |name: &Authority| {
        let host = name.host();
        let address = host.trim_start_matches('[').trim_end_matches(']');
        address.parse::<IpAddr>().is_ok()
            || !host.contains('.')
            || hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    };
    match named_hosts(asks)?.iter().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(name) => Err(Problem::new(Code::Misdirected).because(format!(
            "this server runs without access tokens and does not know the host {}: name it with --host, or make a token with `turno token create`",
            name.host()
        ))),
    }
}

/// Rejects cross-origin browser requests on a server that admits all callers: the user of the other site's page did not ask for
/// them. A proxy in front of this server may have another name, which it puts into `X-Forwarded-Host`.
fn is_own_page(asks: &Asks<'_>) -> Result<(), Problem> {
    let hosts = asks.headers.get_all(HOST).iter();
    let hosts = hosts.chain(asks.headers.get_all("x-forwarded-host"));
    let named: Vec<&str> = hosts
        .filter_map(|host| host.to_str().ok())
        .chain(asks.uri.authority().map(Authority::as_str))
        .collect();
    from_page_of(asks.headers, |host| {
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
    Err(Problem::new(Code::Misdirected).because(
        "a page of another site asks, and this server runs without access tokens: make one with `turno token create`",
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
