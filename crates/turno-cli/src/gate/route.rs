//! A route: the keys of the file, over the section `[defaults]`, over the built-in defaults.

use std::ops::Range as Span;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Method, header};
use serde::Deserialize;
use toml::Spanned;
use turno::once::http::{
    BODY_TIMEOUT, DEFAULT_HEADERS, Fails, InFlight, KeyFrom, MAX_ANSWER_BYTES, MAX_BODY_BYTES,
    Policy, Statuses, Switch, Unknown,
};
use turno::once::{DEFAULT_LEASE, DEFAULT_TTL, Released};
use turno_server::gate::{HttpProber, Upstream};

use super::file::Wrong;
use super::value::{
    AnswerHeader, FailureMode, Header, InFlightPolicy, InFlightTable, InFlightWord, Key, KeyWord,
    Mode, Name, Path, Principal, Range, Ttl, UnknownPolicy, UnknownWord, Unstored, Verb,
};
use super::word::WordOr;
use crate::config::value::{Bytes, Count, Lease, Time};

/// Header of the IETF draft.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Maximum of a quota of live keys.
const MAX_QUOTA: u32 = 1_000_000;

/// The keys of a route or of `[defaults]`. All are optional.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Keys {
    name: Option<Spanned<Name>>,
    path: Option<Spanned<Path>>,
    methods: Option<Spanned<Vec<Verb>>>,
    key: Option<Key>,
    principal: Option<Principal>,
    tenant: Option<Vec<Header>>,
    lease: Option<Lease>,
    ttl: Option<Ttl>,
    in_flight: Option<InFlightPolicy>,
    unknown: Option<UnknownPolicy>,
    store: Option<Vec<Range>>,
    unstored: Option<Unstored>,
    store_down: Option<FailureMode>,
    unidentified: Option<FailureMode>,
    headers: Option<Vec<AnswerHeader>>,
    max_body: Option<Bytes>,
    max_answer: Option<Bytes>,
    body_timeout: Option<Time>,
    quota: Option<Count<MAX_QUOTA>>,
    retry_after: Option<Time>,
    switch: Option<Mode>,
}

/// A route with all defaults applied.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) methods: Vec<Method>,
    pub(super) key: KeyFrom,
    /// `None`: the library's default.
    pub(super) principal: Option<Principal>,
    pub(super) tenant: Vec<Header>,
    pub(super) lease: Duration,
    pub(super) ttl: Duration,
    pub(super) in_flight: InFlightPolicy,
    pub(super) unknown: UnknownPolicy,
    /// `None`: the library's default.
    pub(super) store: Option<Vec<Range>>,
    pub(super) unstored: Unstored,
    pub(super) store_down: FailureMode,
    pub(super) unidentified: FailureMode,
    pub(super) headers: Vec<HeaderName>,
    pub(super) max_body: usize,
    pub(super) max_answer: usize,
    pub(super) body_timeout: Duration,
    pub(super) quota: Option<u32>,
    pub(super) retry_after: Duration,
    pub(super) switch: Mode,
}

impl Keys {
    /// Checks that `[defaults]` has no key that belongs to a single route.
    pub(super) fn are_defaults(&self) -> Result<(), (Span<usize>, &'static str)> {
        const OF_ONE: &str = "belongs to a single route, not to [defaults]: move it there";
        let name = self.name.as_ref().map(Spanned::span);
        match name.or(self.path.as_ref().map(Spanned::span)) {
            Some(span) => Err((span, OF_ONE)),
            None => Ok(()),
        }
    }

    /// Returns the route, and the place of its path in the file.
    pub(super) fn over(self, defaults: &Keys) -> Result<(Route, Span<usize>), Wrong> {
        let Some(path) = self.path else {
            return Err((
                None,
                "the route has no path: add, for example, path = \"/pagos\"".to_owned(),
            ));
        };
        let at = path.span();
        let path = path.into_inner().0;
        let methods = self.methods.as_ref().or(defaults.methods.as_ref());
        if let Some(methods) = methods
            && methods.get_ref().is_empty()
        {
            return Err((
                Some(methods.span()),
                "methods is empty: write, for example, [\"POST\"]".to_owned(),
            ));
        }
        let headers = self.headers.as_ref().or(defaults.headers.as_ref());
        let route = Route {
            name: self
                .name
                .map_or_else(|| path.clone(), |name| name.into_inner().0),
            path,
            methods: match methods {
                Some(methods) => methods
                    .get_ref()
                    .iter()
                    .map(|verb| verb.0.clone())
                    .collect(),
                None => vec![Method::POST, Method::PATCH],
            },
            key: key_from(self.key.as_ref().or(defaults.key.as_ref())),
            principal: self.principal.or_else(|| defaults.principal.clone()),
            tenant: self
                .tenant
                .or_else(|| defaults.tenant.clone())
                .unwrap_or_default(),
            lease: self
                .lease
                .or(defaults.lease)
                .map_or(DEFAULT_LEASE, |lease| lease.0),
            ttl: self.ttl.or(defaults.ttl).map_or(DEFAULT_TTL, |ttl| ttl.0),
            in_flight: self
                .in_flight
                .or_else(|| defaults.in_flight.clone())
                .unwrap_or(WordOr::Word(InFlightWord::Conflict)),
            unknown: self
                .unknown
                .or_else(|| defaults.unknown.clone())
                .unwrap_or(WordOr::Word(UnknownWord::Refuse)),
            store: self.store.or_else(|| defaults.store.clone()),
            unstored: self
                .unstored
                .or(defaults.unstored)
                .unwrap_or(Unstored::Release),
            store_down: self
                .store_down
                .or(defaults.store_down)
                .unwrap_or(FailureMode::Closed),
            unidentified: self
                .unidentified
                .or(defaults.unidentified)
                .unwrap_or(FailureMode::Closed),
            headers: match headers {
                Some(headers) => headers.iter().map(|header| header.0.name()).collect(),
                None => DEFAULT_HEADERS.into(),
            },
            max_body: self
                .max_body
                .or(defaults.max_body)
                .map_or(MAX_BODY_BYTES, |bytes| bytes.0),
            max_answer: self
                .max_answer
                .or(defaults.max_answer)
                .map_or(MAX_ANSWER_BYTES, |bytes| bytes.0),
            body_timeout: self
                .body_timeout
                .or(defaults.body_timeout)
                .map_or(BODY_TIMEOUT, |time| time.0),
            quota: self.quota.or(defaults.quota).map(|quota| quota.0),
            retry_after: self
                .retry_after
                .or(defaults.retry_after)
                .map_or(Duration::from_secs(1), |time| time.0),
            switch: self.switch.or(defaults.switch).unwrap_or(Mode::On),
        };
        Ok((route, at))
    }
}

fn key_from(key: Option<&Key>) -> KeyFrom {
    match key {
        None | Some(WordOr::Word(KeyWord::Header)) => KeyFrom::Header(IDEMPOTENCY_KEY),
        Some(WordOr::Word(KeyWord::Content)) => KeyFrom::Content,
        Some(WordOr::Table(table)) => KeyFrom::Header(table.header.name()),
    }
}

fn names(headers: &[Header]) -> impl Iterator<Item = HeaderName> {
    headers.iter().map(Header::name)
}

impl FailureMode {
    fn fails(self) -> Fails {
        match self {
            FailureMode::Closed => Fails::Closed,
            FailureMode::Open => Fails::Open,
        }
    }
}

impl Route {
    /// Returns the policy of the route.
    pub(super) fn policy(&self, upstream: &Upstream) -> Policy {
        let policy = Policy::new(&self.name)
            .methods(self.methods.iter().cloned())
            .key(self.key.clone())
            .tenant(names(&self.tenant))
            .lease(self.lease)
            .ttl(self.ttl)
            .in_flight(self.in_flight())
            .unknown(self.unknown(upstream))
            .statuses(self.statuses())
            .unstored(match self.unstored {
                Unstored::Release => Released::Undone,
                Unstored::Unknown => Released::Unknown,
            })
            .store_down(self.store_down.fails())
            .unidentified(self.unidentified.fails())
            .headers(self.headers.iter().cloned())
            .max_body(self.max_body)
            .max_answer(self.max_answer)
            .body_timeout(self.body_timeout)
            .retry_after(self.retry_after)
            .switch(match self.switch {
                Mode::On => Switch::On,
                Mode::Shadow => Switch::Shadow,
                Mode::Off => Switch::Off,
            });
        let policy = match &self.principal {
            None => policy,
            Some(Principal::None) => policy.no_principal(),
            Some(Principal::Headers(headers)) => policy.principal(names(headers)),
            Some(Principal::Cookie(name)) => policy.principal_cookie(name),
        };
        match self.quota {
            Some(most) => policy.quota(most),
            None => policy,
        }
    }

    /// Returns the headers that identify the caller and the tenant.
    fn callers(&self) -> Vec<HeaderName> {
        let mut callers: Vec<HeaderName> = match &self.principal {
            None => vec![header::AUTHORIZATION],
            Some(Principal::None) => Vec::new(),
            Some(Principal::Headers(headers)) => names(headers).collect(),
            Some(Principal::Cookie(_)) => vec![header::COOKIE],
        };
        callers.extend(names(&self.tenant));
        callers
    }

    fn statuses(&self) -> Statuses {
        match &self.store {
            Some(ranges) => Statuses::new(ranges.iter().map(|range| range.range.clone())),
            None => Statuses::default(),
        }
    }

    fn in_flight(&self) -> InFlight {
        match &self.in_flight {
            WordOr::Word(InFlightWord::Conflict) => InFlight::Conflict,
            WordOr::Table(InFlightTable::Wait(wait)) => InFlight::Wait(*wait),
            WordOr::Table(InFlightTable::Template(answer)) => {
                InFlight::Template(answer.template.clone())
            }
        }
    }

    fn unknown(&self, upstream: &Upstream) -> Unknown {
        let probe = match &self.unknown {
            WordOr::Word(UnknownWord::Refuse) => return Unknown::Refuse,
            WordOr::Word(UnknownWord::Rerun) => return Unknown::Rerun,
            WordOr::Table(table) => &table.probe,
        };
        let mut prober =
            HttpProber::new(upstream.clone(), probe.path.path.clone(), self.key.clone())
                .callers(self.callers())
                .keeps(self.headers.iter().cloned(), self.max_answer);
        if let Some(timeout) = probe.timeout {
            prober = prober.timeout(timeout.0);
        }
        Unknown::Ask(Arc::new(prober))
    }
}
