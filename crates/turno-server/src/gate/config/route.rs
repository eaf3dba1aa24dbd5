//! A route: its keys in the file, with the built-in defaults.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Method, header};
use serde::Deserialize;
use toml::Spanned;
use turno::once::http::{
    BODY_TIMEOUT, DEFAULT_HEADERS, Fails, InFlight, KeyFrom, MAX_ANSWER_BYTES, MAX_BODY_BYTES,
    Policy, Refusal, Statuses, Switch, Unknown,
};
use turno::once::{DEFAULT_LEASE, DEFAULT_TTL, Released};

use super::template::{Answer, PlacedError, Templates};
use super::value::{
    self, AnswerHeader, Header, InFlightRule, Principal, StatusRange, Ttl, UnknownRule, Unstored,
};
use crate::gate::probe::HttpProber;
use crate::gate::upstream::Upstream;
use crate::setting::{Bytes, Count, Lease, Time};

/// Default of `retry_after`.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Maximum number of live keys per principal.
const MAX_QUOTA: u32 = 1_000_000;

/// A route of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Route {
    #[serde(deserialize_with = "value::name")]
    name: Option<Spanned<String>>,
    #[serde(deserialize_with = "value::path")]
    path: Option<Spanned<String>>,
    #[serde(deserialize_with = "value::methods")]
    pub(super) methods: Vec<Method>,
    #[serde(deserialize_with = "value::key")]
    pub(super) key: KeyFrom,
    /// `None`: the default of the library.
    pub(super) principal: Option<Principal>,
    pub(super) tenant: Vec<Header>,
    pub(super) lease: Lease,
    pub(super) ttl: Ttl,
    pub(super) in_flight: InFlightRule,
    pub(super) templates: Templates,
    pub(super) unknown: UnknownRule,
    /// `None`: the default of the library.
    pub(super) store: Option<Vec<StatusRange>>,
    pub(super) unstored: Unstored,
    pub(super) store_down: Fails,
    pub(super) unidentified: Fails,
    pub(super) headers: Vec<AnswerHeader>,
    pub(super) max_body: Bytes,
    pub(super) max_answer: Bytes,
    pub(super) body_timeout: Time,
    pub(super) quota: Option<Count<MAX_QUOTA>>,
    pub(super) retry_after: Time,
    pub(super) switch: Switch,
}

impl Default for Route {
    fn default() -> Self {
        Route {
            name: None,
            path: None,
            methods: vec![Method::POST, Method::PATCH],
            key: KeyFrom::Header(value::IDEMPOTENCY_KEY),
            principal: None,
            tenant: Vec::new(),
            lease: Time(DEFAULT_LEASE),
            ttl: Ttl(DEFAULT_TTL),
            in_flight: InFlightRule::Conflict,
            templates: Templates::default(),
            unknown: UnknownRule::Refuse,
            store: None,
            unstored: Unstored::Release,
            store_down: Fails::Closed,
            unidentified: Fails::Closed,
            headers: DEFAULT_HEADERS.map(AnswerHeader).into(),
            max_body: Bytes(MAX_BODY_BYTES),
            max_answer: Bytes(MAX_ANSWER_BYTES),
            body_timeout: Time(BODY_TIMEOUT),
            quota: None,
            retry_after: Time(RETRY_AFTER),
            switch: Switch::On,
        }
    }
}

fn names(headers: &[Header]) -> impl Iterator<Item = HeaderName> {
    headers.iter().map(|header| header.0.clone())
}

impl Route {
    /// Returns the place of the path in the file.
    pub(super) fn path_span(&self) -> Option<Range<usize>> {
        self.path.as_ref().map(Spanned::span)
    }

    /// Returns the place of a key that belongs to a single route.
    pub(super) fn own_key(&self) -> Option<Range<usize>> {
        let name = self.name.as_ref().map(Spanned::span);
        name.or_else(|| self.path_span())
    }

    /// Returns the error of a template.
    pub(super) fn template_error(&self) -> Option<PlacedError> {
        let in_flight = match &self.in_flight {
            InFlightRule::Template(answer) => Some(answer),
            InFlightRule::Conflict | InFlightRule::Wait(_) => None,
        };
        if in_flight.is_some() && self.templates.has(Refusal::InFlight) {
            let message =
                "in_flight has a template, and so has templates.in_flight: remove one of them";
            return Some((self.path_span().unwrap_or_default(), message.to_owned()));
        }
        in_flight
            .and_then(Answer::error)
            .or_else(|| self.templates.error())
    }

    /// Returns the path, with its parameters.
    pub fn path(&self) -> &str {
        self.path.as_ref().map_or("", |path| path.get_ref())
    }

    /// Returns the name, by default the path. The once keys of the route begin with it.
    pub fn name(&self) -> &str {
        let name = self.name.as_ref();
        name.map_or_else(|| self.path(), |name| name.get_ref())
    }

    /// Returns the methods to which the policy applies; at least one.
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// Returns the source of the client's key.
    pub fn key(&self) -> &KeyFrom {
        &self.key
    }

    /// Returns the policy of the route, for the service behind the gate.
    pub fn policy(&self, upstream: &Upstream) -> Policy {
        self.policy_without_probe().unknown(self.unknown(upstream))
    }

    /// Returns a policy with the same once keys, without a probe of the service.
    pub fn policy_without_probe(&self) -> Policy {
        let policy = Policy::new(self.name())
            .methods(self.methods.iter().cloned())
            .key(self.key.clone())
            .tenant(names(&self.tenant))
            .lease(self.lease.0)
            .ttl(self.ttl.0)
            .in_flight(match &self.in_flight {
                InFlightRule::Conflict => InFlight::Conflict,
                InFlightRule::Wait(wait) => InFlight::Wait(*wait),
                InFlightRule::Template(answer) => match answer.template() {
                    Some(template) => InFlight::Template(template.clone()),
                    None => InFlight::Conflict,
                },
            })
            .statuses(match &self.store {
                Some(ranges) => Statuses::new(ranges.iter().map(|range| range.range.clone())),
                None => Statuses::default(),
            })
            .unstored(match self.unstored {
                Unstored::Release => Released::Undone,
                Unstored::Unknown => Released::Unknown,
            })
            .store_down(self.store_down)
            .unidentified(self.unidentified)
            .headers(self.answer_headers())
            .max_body(self.max_body.0)
            .max_answer(self.max_answer.0)
            .body_timeout(self.body_timeout.0)
            .retry_after(self.retry_after.0)
            .switch(self.switch);
        let policy = self.templates.add_to(policy);
        let policy = match &self.principal {
            None => policy,
            Some(Principal::None) => policy.no_principal(),
            Some(Principal::Headers(headers)) => policy.principal(names(headers)),
            Some(Principal::Cookie(name)) => policy.principal_cookie(name),
        };
        match self.quota {
            Some(max_keys) => policy.quota(max_keys.0),
            None => policy,
        }
    }

    fn unknown(&self, upstream: &Upstream) -> Unknown {
        let probe = match &self.unknown {
            UnknownRule::Refuse => return Unknown::Refuse,
            UnknownRule::Rerun => return Unknown::Rerun,
            UnknownRule::Probe(probe) => probe,
        };
        let mut prober = HttpProber::new(upstream.clone(), probe.path.clone(), self.key.clone())
            .callers(self.caller_headers())
            .keeps(self.answer_headers(), self.max_answer.0);
        if let Some(timeout) = probe.timeout {
            prober = prober.timeout(timeout.0);
        }
        Unknown::Ask(Arc::new(prober))
    }

    /// Returns the headers that identify the caller and the tenant.
    fn caller_headers(&self) -> Vec<HeaderName> {
        let mut callers: Vec<HeaderName> = match &self.principal {
            None => vec![header::AUTHORIZATION],
            Some(Principal::None) => Vec::new(),
            Some(Principal::Headers(headers)) => names(headers).collect(),
            Some(Principal::Cookie(_)) => vec![header::COOKIE],
        };
        callers.extend(names(&self.tenant));
        callers
    }

    fn answer_headers(&self) -> impl Iterator<Item = HeaderName> {
        self.headers.iter().map(|header| header.0.clone())
    }
}
