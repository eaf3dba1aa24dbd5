//! Policy for the requests of a route.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{self, HeaderName};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use serde::{Deserialize, Serialize};

use super::caller::Caller;
use super::{Carried, Refusal, StoredResponse, Template};
use crate::once::{DEFAULT_LEASE, DEFAULT_TTL, Probe};
use crate::store::Released;

/// Default maximum size of a request body, in bytes.
pub const MAX_BODY_BYTES: usize = 1024 * 1024;
/// Default maximum size of a stored answer, in bytes.
pub const MAX_ANSWER_BYTES: usize = 256 * 1024;
/// Default timeout of a body.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Response headers that are stored by default: those that describe the content.
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

/// Source of a request's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyFrom {
    /// A header that the client sends, usually `Idempotency-Key`.
    Header(HeaderName),
    /// The content: two requests with the same content are the same request.
    Content,
}

/// Response to a request whose work is in flight.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum InFlight {
    /// 409 with `Retry-After`.
    Conflict,
    /// The answer of the run in flight, if it is available within this time, or 409.
    Wait(Duration),
    /// A response of your own, like [`Conflict`](InFlight::Conflict) with a [template](Policy::template).
    Template(Template),
}

/// What happens to a request whose earlier run is unknown.
#[derive(Clone)]
#[non_exhaustive]
pub enum Unknown {
    /// It gets 409 until an operator has resolved it.
    Refuse,
    /// The work is done again.
    Rerun,
    /// A probe is called.
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

/// A request whose earlier run is unknown, as input of a [`Prober`].
#[derive(Debug)]
#[non_exhaustive]
pub struct ProbeRequest<'a> {
    /// Head of the request.
    pub head: &'a Parts,
    /// Body of the request.
    pub body: &'a Bytes,
    /// Key in the store.
    pub key: &'a str,
    /// Number of runs that began, including the present one.
    pub attempt: u32,
}

/// Finds out whether an unknown run had an effect.
#[async_trait]
pub trait Prober: Send + Sync {
    /// Returns done (with this answer), not done, or unsure. If unsure, the request stays unknown.
    async fn probe(&self, asked: &ProbeRequest<'_>) -> Probe<StoredResponse>;
}

/// What happens to a request that cannot be processed as configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fails {
    /// The request is rejected. This is the default.
    #[default]
    Closed,
    /// The request passes, and may be processed twice.
    Open,
}

/// What happens to a request without an identity: the header is missing, or the body does not match its content type.
pub type Unidentified = Fails;

/// Whether a policy is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    /// It is applied. This is the default.
    #[default]
    On,
    /// It changes nothing, and counts what it would have done.
    Shadow,
    /// It is ignored.
    Off,
}

/// Status codes whose responses are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statuses(Vec<std::ops::RangeInclusive<u16>>);

impl Statuses {
    /// Creates it from these ranges.
    ///
    /// ```
    /// use turno::once::http::{Policy, Statuses};
    ///
    /// let policy = Policy::new("pagos").statuses(Statuses::new([200..=299, 422..=422]));
    /// ```
    pub fn new(ranges: impl IntoIterator<Item = std::ops::RangeInclusive<u16>>) -> Self {
        Statuses(ranges.into_iter().collect())
    }

    pub(super) fn has(&self, status: StatusCode) -> bool {
        self.0.iter().any(|range| range.contains(&status.as_u16()))
    }
}

impl Default for Statuses {
    /// Returns all below 500 except those that ask for a retry: 408, 409, 423, 425 and 429.
    fn default() -> Self {
        Statuses::new([200..=407, 410..=422, 424..=424, 426..=428, 430..=499])
    }
}

/// Policy for the requests of a route.
#[derive(Clone)]
#[must_use = "a policy does nothing by itself"]
pub struct Policy {
    pub(super) name: String,
    pub(super) methods: Vec<Method>,
    pub(super) key: KeyFrom,
    pub(super) tenant: Caller,
    pub(super) principal: Caller,
    pub(super) in_flight: InFlight,
    templates: Vec<(Refusal, Template)>,
    default_template: Option<Template>,
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
    /// Creates a policy with the defaults: POST and PATCH with the header `Idempotency-Key`, for the principal in
    /// `Authorization`; 409 while in flight, rejected if unknown, answers below 500 kept for a day. The name is the prefix of
    /// the keys in the store.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use axum::{Router, body::Body, routing::post};
    /// # use http::Request;
    /// # use tower::ServiceExt;
    /// use std::time::Duration;
    /// use turno::once::http::{KeyFrom, OnceLayer, Policy};
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let policy = Policy::new("pagos").key(KeyFrom::Content).no_principal().ttl(Duration::from_secs(3600));
    /// let app = Router::new().route("/pagos", post(async || "paid")).layer(OnceLayer::new(turno, policy));
    /// let pay = |amount: &'static str| Request::post("/pagos").body(Body::from(amount));
    /// for (amount, is_replay) in [("10.00", false), ("10.00", true), ("99.00", false)] {
    ///     let response = app.clone().oneshot(pay(amount)?).await?;
    ///     assert_eq!(response.headers().contains_key("idempotency-replayed"), is_replay);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn new(name: impl Into<String>) -> Self {
        Policy {
            name: name.into(),
            methods: vec![Method::POST, Method::PATCH],
            key: KeyFrom::Header(HeaderName::from_static("idempotency-key")),
            tenant: Caller::None,
            principal: Caller::Default,
            in_flight: InFlight::Conflict,
            templates: Vec::new(),
            default_template: None,
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

    /// Sets the methods. Requests with other methods pass. Default: POST and PATCH.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.methods = methods.into_iter().collect();
        self
    }

    /// Sets the source of the key. Default: the header `Idempotency-Key`.
    pub fn key(mut self, key: KeyFrom) -> Self {
        self.key = key;
        self
    }

    /// Sets the headers that identify the tenant of a request. Default: none. A caller never gets an answer of another tenant.
    ///
    /// Each of them must be present and not empty, or the request is [unidentified](Policy::unidentified). `Host` means the
    /// effective authority: in HTTP/2 and with an absolute target, that of the target.
    pub fn tenant(mut self, headers: impl IntoIterator<Item = HeaderName>) -> Self {
        let headers: Vec<HeaderName> = headers.into_iter().collect();
        self.tenant = match headers.is_empty() {
            true => Caller::None,
            false => Caller::Headers(headers),
        };
        self
    }

    /// Sets the headers that identify the caller of a request. A caller never gets an answer of another principal. A caller
    /// whose token changes between two attempts is another principal: use a header that does not change, if there is one.
    ///
    /// Each of them must be present and not empty, or the request is [unidentified](Policy::unidentified).
    ///
    /// Default: `Authorization`. It may be absent only with a client key ([`KeyFrom::Header`]) and without
    /// cookies: other requests could be those of different users.
    pub fn principal(mut self, headers: impl IntoIterator<Item = HeaderName>) -> Self {
        self.principal = Caller::Headers(headers.into_iter().collect());
        self
    }

    /// Sets the cookie that identifies the caller of a request. It must occur exactly once. Default: see [`Policy::principal`].
    pub fn principal_cookie(mut self, name: impl Into<String>) -> Self {
        self.principal = Caller::Cookie(name.into());
        self
    }

    /// Sets a function that finds the principal, for example in the extensions that an earlier layer has set. `None`
    /// makes the request [unidentified](Policy::unidentified).
    ///
    /// ```
    /// use turno::once::http::Policy;
    ///
    /// #[derive(Clone)]
    /// struct User(String); // an earlier layer puts it into the extensions
    ///
    /// let policy = Policy::new("pagos").principal_from(|head| head.extensions.get::<User>().map(|user| user.0.clone()));
    /// ```
    pub fn principal_from(
        mut self,
        principal: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.principal = Caller::Found(Arc::new(principal));
        self
    }

    /// Uses no principal: two callers that send the same key, or with [`KeyFrom::Content`] the same content, get the same answer.
    pub fn no_principal(mut self) -> Self {
        self.principal = Caller::None;
        self
    }

    /// Sets the response to a request whose work is in flight. Default: [`InFlight::Conflict`].
    pub fn in_flight(mut self, in_flight: InFlight) -> Self {
        self.in_flight = in_flight;
        self
    }

    /// Sets the response to requests that are refused for this reason, for clients that know a contract other than problems. It
    /// changes nothing else: the outcome of the request, the counters and the log stay the same. Default: a problem.
    ///
    /// ```
    /// use turno::once::http::{Policy, Refusal, Template};
    ///
    /// let policy = Policy::new("certificacion")
    ///     .template(Refusal::InFlight, Template::new(200, r#"{"diagnosticoProcesar": "532"}"#)?)
    ///     .default_template(Template::new(200, r#"{"diagnosticoProcesar": "999"}"#)?);
    /// # drop(policy); Ok::<_, turno::Error>(())
    /// ```
    ///
    /// A policy in [shadow mode](Switch::Shadow) does not use it.
    pub fn template(mut self, refusal: Refusal, template: Template) -> Self {
        self.templates.retain(|(known, _)| *known != refusal);
        self.templates.push((refusal, template));
        self
    }

    /// Sets the response to requests that are refused for a reason without a [template](Policy::template) of its own. Default: a
    /// problem.
    pub fn default_template(mut self, template: Template) -> Self {
        self.default_template = Some(template);
        self
    }

    /// Sets what happens to a request whose earlier run is unknown. Default: [`Unknown::Refuse`].
    pub fn unknown(mut self, unknown: Unknown) -> Self {
        self.unknown = unknown;
        self
    }

    /// Sets the status codes whose responses are stored. Default: all below 500 except 408, 409, 423, 425 and 429.
    pub fn statuses(mut self, statuses: Statuses) -> Self {
        self.statuses = statuses;
        self
    }

    /// Sets what a response that is not stored means. Default: nothing was done, and a repetition does the work again.
    pub fn unstored(mut self, unstored: Released) -> Self {
        self.unstored = unstored;
        self
    }

    /// Sets the lease: a run that is not extended for this long becomes unknown. It is extended while the work is running. Default:
    /// 30 seconds.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how long answers are kept. Default: a day. With zero, repetitions are rejected only while the work is in flight.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets `Retry-After` of rejected requests. Default: 1 second.
    pub fn retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = retry_after;
        self
    }

    /// Sets the response headers that are stored. Default: [`DEFAULT_HEADERS`].
    pub fn headers(mut self, headers: impl IntoIterator<Item = HeaderName>) -> Self {
        self.headers = headers.into_iter().collect();
        self
    }

    /// Sets the maximum size of a request body, in bytes. A larger one is rejected. Default: [`MAX_BODY_BYTES`].
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.max_body = bytes;
        self
    }

    /// Sets the maximum size of a stored answer, in bytes. Of a larger one, only the fact is stored. Default:
    /// [`MAX_ANSWER_BYTES`].
    pub fn max_answer(mut self, bytes: usize) -> Self {
        self.max_answer = bytes;
        self
    }

    /// Sets how long a body may take from its first byte to its last. Default: 60 seconds.
    ///
    /// A request whose body takes longer is rejected with 408, and nothing is done. Of a response whose body takes longer, only
    /// the fact is stored, and the rest is passed on as it arrives.
    pub fn body_timeout(mut self, body_timeout: Duration) -> Self {
        self.body_timeout = body_timeout;
        self
    }

    /// Sets what happens while the store is unavailable. With `Closed`, a response that cannot be stored is not sent: the client
    /// gets 409 `answer_not_stored`. With `Open`, it is sent. Default: `Closed`.
    pub fn store_down(mut self, store_down: Fails) -> Self {
        self.store_down = store_down;
        self
    }

    /// Sets what happens to a request without an identity. Default: `Closed`, it is rejected.
    pub fn unidentified(mut self, unidentified: Unidentified) -> Self {
        self.unidentified = unidentified;
        self
    }

    /// Sets the maximum number of live keys of one principal. Default: no limit.
    pub fn quota(mut self, most: u32) -> Self {
        self.quota = Some(most);
        self
    }

    /// Sets whether the policy is applied. Default: [`Switch::On`].
    pub fn switch(mut self, switch: Switch) -> Self {
        self.switch = switch;
        self
    }

    /// Returns whether a template may apply.
    pub(super) fn has_templates(&self) -> bool {
        self.switch == Switch::On
            && (!self.templates.is_empty()
                || self.default_template.is_some()
                || matches!(self.in_flight, InFlight::Template(_)))
    }

    /// Returns the response to send: all responses to requests under a policy pass here. A refusal that has a template is replaced
    /// by it, with values of the request's body.
    pub(super) fn apply_template<B>(
        &self,
        response: Response<Carried<B>>,
        accept: &str,
        body: &[u8],
    ) -> Response<Carried<B>> {
        let refusal = response.extensions().get::<Refusal>().copied();
        match refusal.and_then(|refusal| Some((refusal, self.template_of(refusal)?))) {
            Some((refusal, template)) => refusal.mark(template.fill(accept, body)),
            None => response,
        }
    }

    fn template_of(&self, refusal: Refusal) -> Option<&Template> {
        if let (Refusal::InFlight, InFlight::Template(template)) = (refusal, &self.in_flight) {
            return Some(template);
        }
        let of = |wanted: Refusal| {
            let found = self.templates.iter().find(|(known, _)| *known == wanted);
            found.map(|(_, template)| template)
        };
        of(refusal)
            .or_else(|| of(refusal.general()?))
            .or(self.default_template.as_ref())
    }
}
