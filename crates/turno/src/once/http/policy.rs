//! What is done with the requests of a route.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{self, HeaderName};
use http::request::Parts;
use http::{Method, StatusCode};

use super::caller::Caller;
use super::{StoredResponse, Template};
use crate::once::{DEFAULT_LEASE, DEFAULT_TTL, Probe};
use crate::store::Released;

/// The largest request body that is read, unless said otherwise.
pub const MAX_BODY_BYTES: usize = 1024 * 1024;
/// The largest answer that is stored, unless said otherwise.
pub const MAX_ANSWER_BYTES: usize = 256 * 1024;
/// How long a body may take, unless said otherwise.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// The headers of an answer that are stored, unless said otherwise: those that belong to its content.
pub const DEFAULT_HEADERS: [HeaderName; 8] = [
    header::CONTENT_TYPE,
    header::CONTENT_LANGUAGE,
    header::CONTENT_ENCODING,
    header::CONTENT_DISPOSITION,
    header::LOCATION,
    header::ETAG,
    header::LAST_MODIFIED,
    header::LINK,
];

/// Where the key of a request comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyFrom {
    /// A header that the client sends; usually `Idempotency-Key`.
    Header(HeaderName),
    /// Its content: two that say the same are one.
    Content,
}

/// What a request is answered that meets its own work in flight.
#[derive(Debug, Clone)]
pub enum InFlight {
    /// 409 with `Retry-After`.
    Conflict,
    /// The first one's answer, if it comes within this time; 409 otherwise.
    Wait(Duration),
    /// An answer of your own, perhaps with values of the request.
    Template(Template),
}

/// What is done with a request whose earlier run has vanished.
#[derive(Clone)]
pub enum Unknown {
    /// 409, until a person has looked.
    Refuse,
    /// It is done again.
    Rerun,
    /// Somebody who knows is asked.
    Ask(Arc<dyn Prober>),
}

impl fmt::Debug for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unknown::Refuse => "Refuse",
            Unknown::Rerun => "Rerun",
            Unknown::Ask(_) => "Ask",
        })
    }
}

/// A request whose earlier run has vanished, for a [`Prober`].
#[derive(Debug)]
pub struct Asked<'a> {
    /// Its head.
    pub head: &'a Parts,
    /// Its body.
    pub body: &'a Bytes,
    /// Its key in the store.
    pub key: &'a str,
    /// How many runs began, the present one included.
    pub attempt: u32,
}

/// Finds out what became of a run that vanished.
#[async_trait]
pub trait Prober: Send + Sync {
    /// Done (with this answer), not done, or unsure: then the request stays unknown.
    async fn probe(&self, asked: &Asked<'_>) -> Probe<StoredResponse>;
}

/// What is done when something does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fails {
    /// The request is refused.
    #[default]
    Closed,
    /// The request passes, and may be done twice.
    Open,
}

/// What is done with a request that has no identity: without the header, or with a body that is not what it says.
pub type Unidentified = Fails;

/// Whether a policy is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Switch {
    /// It is.
    #[default]
    On,
    /// It changes nothing, and counts what it would have done.
    Shadow,
    /// It is as if it were not there.
    Off,
}

/// Which statuses are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statuses(Vec<std::ops::RangeInclusive<u16>>);

impl Statuses {
    /// These ranges.
    pub fn new(ranges: impl IntoIterator<Item = std::ops::RangeInclusive<u16>>) -> Self {
        Statuses(ranges.into_iter().collect())
    }

    pub(super) fn has(&self, status: StatusCode) -> bool {
        self.0.iter().any(|range| range.contains(&status.as_u16()))
    }
}

impl Default for Statuses {
    /// All below 500 but those that say "later": 408, 409, 423, 425 and 429.
    fn default() -> Self {
        Statuses::new([200..=407, 410..=422, 424..=424, 426..=428, 430..=499])
    }
}

/// What is done with the requests of a route.
#[derive(Clone)]
#[must_use = "a policy does nothing by itself"]
pub struct Policy {
    pub(super) name: String,
    pub(super) methods: Vec<Method>,
    pub(super) key: KeyFrom,
    pub(super) tenant: Caller,
    pub(super) principal: Caller,
    pub(super) in_flight: InFlight,
    pub(super) unknown: Unknown,
    pub(super) statuses: Statuses,
    pub(super) unstored: Released,
    pub(super) lease: Duration,
    pub(super) ttl: Duration,
    pub(super) retry_after: Duration,
    pub(super) headers: Arc<[HeaderName]>,
    pub(super) max_body: usize,
    pub(super) max_answer: usize,
    pub(super) body_timeout: Duration,
    pub(super) store_down: Fails,
    pub(super) unidentified: Unidentified,
    pub(super) quota: Option<u32>,
    pub(super) switch: Switch,
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("name", &self.name)
            .field("methods", &self.methods)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl Policy {
    /// The usual: POST and PATCH with the header `Idempotency-Key`, for the principal that `Authorization` names;
    /// 409 while in flight, refused if unknown, answers below 500 kept for a day. The name is the beginning of the
    /// keys in the store.
    pub fn new(name: impl Into<String>) -> Self {
        Policy {
            name: name.into(),
            methods: vec![Method::POST, Method::PATCH],
            key: KeyFrom::Header(HeaderName::from_static("idempotency-key")),
            tenant: Caller::None,
            principal: Caller::Default,
            in_flight: InFlight::Conflict,
            unknown: Unknown::Refuse,
            statuses: Statuses::default(),
            unstored: Released::Undone,
            lease: DEFAULT_LEASE,
            ttl: DEFAULT_TTL,
            retry_after: Duration::from_secs(1),
            headers: DEFAULT_HEADERS.into(),
            max_body: MAX_BODY_BYTES,
            max_answer: MAX_ANSWER_BYTES,
            body_timeout: BODY_TIMEOUT,
            store_down: Fails::Closed,
            unidentified: Fails::Closed,
            quota: None,
            switch: Switch::On,
        }
    }

    /// Which methods; requests with others pass.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.methods = methods.into_iter().collect();
        self
    }

    /// Where the key comes from.
    pub fn key(mut self, key: KeyFrom) -> Self {
        self.key = key;
        self
    }

    /// The headers that say for which tenant a request is. Default: none. A caller never gets an answer of another tenant.
    ///
    /// Each of them must be there and not be empty, or the request is [unidentified](Policy::unidentified). `Host` is the
    /// effective authority: in HTTP/2 and with an absolute target, the one of the target.
    pub fn tenant(mut self, headers: impl IntoIterator<Item = HeaderName>) -> Self {
        let headers: Vec<HeaderName> = headers.into_iter().collect();
        self.tenant = match headers.is_empty() {
            true => Caller::None,
            false => Caller::Headers(headers),
        };
        self
    }

    /// The headers that say who sends a request. A caller never gets an answer of another principal. A caller whose token
    /// changes between two tries is another principal: name a header that stays the same, if there is one.
    ///
    /// Each of them must be there and not be empty, or the request is [unidentified](Policy::unidentified).
    ///
    /// Default: `Authorization`. It may be absent only with a key of the client's own ([`KeyFrom::Header`]) and without
    /// cookies: other requests could be those of different users.
    pub fn principal(mut self, headers: impl IntoIterator<Item = HeaderName>) -> Self {
        self.principal = Caller::Headers(headers.into_iter().collect());
        self
    }

    /// The cookie that says who sends a request; it must be there once.
    pub fn principal_cookie(mut self, name: impl Into<String>) -> Self {
        self.principal = Caller::Cookie(name.into());
        self
    }

    /// The principal as your own code finds it: say, from what a layer before this one has put into the extensions. `None`
    /// makes the request [unidentified](Policy::unidentified).
    pub fn principal_from(
        mut self,
        principal: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.principal = Caller::Found(Arc::new(principal));
        self
    }

    /// No principal: two callers that send the same key, or with [`KeyFrom::Content`] the same content, get the same answer.
    pub fn no_principal(mut self) -> Self {
        self.principal = Caller::None;
        self
    }

    /// What a request is answered that meets its own work in flight.
    pub fn in_flight(mut self, in_flight: InFlight) -> Self {
        self.in_flight = in_flight;
        self
    }

    /// What is done with a request whose earlier run has vanished.
    pub fn unknown(mut self, unknown: Unknown) -> Self {
        self.unknown = unknown;
        self
    }

    /// Which statuses are stored.
    pub fn statuses(mut self, statuses: Statuses) -> Self {
        self.statuses = statuses;
        self
    }

    /// What an answer means that is not stored: that nothing was done, otherwise, so that a repeat does it again.
    pub fn unstored(mut self, unstored: Released) -> Self {
        self.unstored = unstored;
        self
    }

    /// How long the work is a run's before it counts as vanished; it is extended while the work goes on.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long answers are kept; zero turns away only what comes while the work is in flight.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// When whoever is turned away may come again; in a second, otherwise.
    pub fn retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = retry_after;
        self
    }

    /// Which headers of an answer are stored; [`DEFAULT_HEADERS`], otherwise.
    pub fn headers(mut self, headers: impl IntoIterator<Item = HeaderName>) -> Self {
        self.headers = headers.into_iter().collect();
        self
    }

    /// The largest request body that is read; a larger one is refused.
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.max_body = bytes;
        self
    }

    /// The largest answer that is stored; of a larger one, only that it was given.
    pub fn max_answer(mut self, bytes: usize) -> Self {
        self.max_answer = bytes;
        self
    }

    /// How long a body may take from its first byte to its last. Default: 60 seconds.
    ///
    /// A request whose body takes longer is refused with 408, and nothing is done. Of an answer whose body takes longer, only
    /// the fact is stored, and the rest is passed on as it comes.
    pub fn body_timeout(mut self, body_timeout: Duration) -> Self {
        self.body_timeout = body_timeout;
        self
    }

    /// What is done while the store does not answer. Closed, an answer that cannot be stored is not sent: the client
    /// gets 409 `answer_not_stored`. Open, it is sent.
    pub fn store_down(mut self, store_down: Fails) -> Self {
        self.store_down = store_down;
        self
    }

    /// What is done with a request that has no identity.
    pub fn unidentified(mut self, unidentified: Unidentified) -> Self {
        self.unidentified = unidentified;
        self
    }

    /// How many live keys one principal may have; any number, otherwise.
    pub fn quota(mut self, most: u32) -> Self {
        self.quota = Some(most);
        self
    }

    /// Whether it is in force.
    pub fn switch(mut self, switch: Switch) -> Self {
        self.switch = switch;
        self
    }
}
