//! Who is let in: whoever has an access token or, as long as none was ever made, whoever is on this machine.

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

/// How often it is looked whether an access token was made meanwhile.
const LOOK: Duration = Duration::from_secs(2);
/// How soon a store is asked again that did not say.
const AGAIN: Duration = Duration::from_millis(500);
/// What a proxy adds. What came through one is not of this machine, wherever the proxy runs.
const FORWARDED: [&str; 4] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-real-ip",
];

/// Who was let in, and whose requests these are counted as.
#[derive(Debug, Clone)]
pub(super) struct Admitted {
    pub(super) caller: Caller,
    pub(super) key: Key,
}

impl Admitted {
    /// Somebody who needed no token.
    fn anonymous(peer: Peer) -> Self {
        Admitted {
            caller: Caller::new("anonymous", Role::Admin, ""),
            key: Key::of(peer),
        }
    }
}

/// What of a request tells who asks.
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

/// Who stands at the door.
pub(super) struct Gatekeeper {
    turno: Turno,
    admission: Admission,
    /// The names by which clients know this server, besides its addresses.
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

    /// Who is let in as things are now.
    pub(super) async fn opening(&self) -> turno::Result<Opening> {
        Ok(match self.admission {
            Admission::Everybody => Opening::Everybody,
            Admission::Token => Opening::Tokens,
            Admission::TokenOrLocal if self.open.is_open(&self.turno).await? => Opening::Local,
            Admission::TokenOrLocal => Opening::Tokens,
        })
    }

    /// Who asks. Never lets anybody in because the store does not answer.
    pub(super) async fn admit(&self, asks: &Asks<'_>) -> Result<Admitted, Problem> {
        let peer = asks.peer.ok_or_else(|| Problem::new(Code::Unauthorized))?;
        if self.admission == Admission::Everybody {
            is_known_host(asks, &self.hosts)?;
            is_own_page(asks)?;
            return Ok(Admitted::anonymous(peer));
        }
        // A token that is shown is looked at, even where none is needed: whoever shows a wrong one is to know.
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

/// Whether an access token was ever made: asked now and then, and once there was one, never again.
#[derive(Default)]
struct Open {
    closed: AtomicBool,
    /// What the store said when it was asked last, and until when that is good.
    looked: Mutex<Option<(Instant, turno::Result<()>)>>,
}

impl Open {
    async fn is_open(&self, turno: &Turno) -> turno::Result<bool> {
        if self.closed.load(Ordering::Acquire) {
            return Ok(false);
        }
        // Whoever comes while somebody looks waits for what is seen, or for the news that nothing is.
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

/// Nobody stands at the door for long because the store is silent.
pub(super) async fn within<T>(look: impl Future<Output = turno::Result<T>>) -> turno::Result<T> {
    match tokio::time::timeout(SHORT, look).await {
        Ok(seen) => seen,
        Err(_) => Err(Error::unavailable(
            "the store did not say in time whose access token it is",
        )),
    }
}

/// The access token that a request shows.
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

/// Lets in whoever is on this machine and means this server. A page of some other site, whose name is made to point here or
/// whose script calls here, does not.
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

/// The hosts that a request names: at least one.
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

/// Refuses names that another site could point here (DNS rebinding): its page would then be of the same origin as this server,
/// and a browser would send no sign of where it comes from. An address and a name without a dot cannot be such a name.
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

/// Refuses pages of other sites where everybody is let in: whoever looks at such a page has not asked for what it does. A
/// proxy before this server may have another name than it, and says so.
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

/// Looks at where a browser says that a request comes from; programs say nothing of the kind.
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
