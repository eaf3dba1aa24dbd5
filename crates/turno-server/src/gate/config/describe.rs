//! Describes a route, for `turno gate --check`.

use std::time::Duration;

use http::{HeaderName, Method};
use jiff::SignedDuration;
use serde_json::{Value, json};
use turno::once::http::{Fails, KeyFrom, Refusal, Switch};
use turno_api::duration::ms;

use super::route::Route;
use super::value::{Header, InFlightRule, Principal, UnknownRule, Unstored};

impl Route {
    /// Returns the properties of the route as labels and texts. A text is `None` if the property is not set.
    pub fn describe(&self) -> Vec<(&'static str, Option<String>)> {
        let kept = match self.ttl.0.is_zero() {
            true => "not kept: only duplicates in flight are rejected".to_owned(),
            false => format!("kept for {}", shown(self.ttl.0)),
        };
        vec![
            ("name", Some(self.name().to_owned())),
            ("switch", Some(switch(self.switch).to_owned())),
            ("key", Some(key(&self.key).to_owned())),
            ("principal", Some(principal(self))),
            ("tenant", list(&self.tenant)),
            ("in flight", Some(in_flight(self))),
            ("templates", templates(self)),
            ("answers", Some(kept)),
            ("stored", Some(stored(self))),
            ("unknown", Some(unknown(&self.unknown))),
            ("lease", Some(shown(self.lease.0))),
            ("unidentified", Some(failure(self.unidentified).to_owned())),
            ("store down", Some(failure(self.store_down).to_owned())),
            ("quota", self.quota.map(|max_keys| max_keys.0.to_string())),
        ]
    }

    /// Returns the properties of the route as JSON.
    pub fn to_json(&self) -> Value {
        let headers = self.headers.iter().map(|header| header.0.as_str());
        json!({
            "name": self.name(),
            "path": self.path(),
            "methods": self.methods.iter().map(Method::as_str).collect::<Vec<_>>(),
            "key": key(&self.key),
            "principal": match &self.principal {
                None => json!(["authorization"]),
                Some(Principal::None) => json!("none"),
                Some(Principal::Headers(headers)) => json!(names(headers)),
                Some(Principal::Cookie(name)) => json!({ "cookie": name }),
            },
            "tenant": names(&self.tenant),
            "lease_ms": ms(self.lease.0),
            "ttl_ms": ms(self.ttl.0),
            "in_flight": in_flight(self),
            "templates": self.templates.list().map(|(name, answer)| {
                let template = json!({ "status": answer.status, "content_types": answer.content_types });
                (name.to_owned(), template)
            }).collect::<serde_json::Map<_, _>>(),
            "unknown": unknown(&self.unknown),
            "stored": stored(self),
            "store_down": self.store_down,
            "unidentified": self.unidentified,
            "headers": headers.collect::<Vec<_>>(),
            "max_body": self.max_body.0,
            "max_answer": self.max_answer.0,
            "body_timeout_ms": ms(self.body_timeout.0),
            "quota": self.quota.map(|max_keys| max_keys.0),
            "retry_after_ms": ms(self.retry_after.0),
            "switch": self.switch,
        })
    }
}

/// Formats a duration as in the file: `30s`, `24h`.
fn shown(duration: Duration) -> String {
    let signed = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    format!("{signed:#}")
}

fn names(headers: &[Header]) -> Vec<&str> {
    headers.iter().map(|header| header.0.as_str()).collect()
}

fn list(headers: &[Header]) -> Option<String> {
    (!headers.is_empty()).then(|| names(headers).join(", "))
}

fn key(key: &KeyFrom) -> &str {
    match key {
        KeyFrom::Content => "content",
        KeyFrom::Header(name) => HeaderName::as_str(name),
    }
}

fn principal(route: &Route) -> String {
    match (&route.principal, &route.key) {
        (None, KeyFrom::Content) => "authorization".to_owned(),
        (None, KeyFrom::Header(_)) => {
            "authorization; none if the request has neither it nor cookies".to_owned()
        }
        (Some(Principal::None), _) => "none: answers go to every caller".to_owned(),
        (Some(Principal::Headers(headers)), _) => list(headers).unwrap_or_default(),
        (Some(Principal::Cookie(name)), _) => format!("the cookie {name}"),
    }
}

fn in_flight(route: &Route) -> String {
    let refused = match route.templates.has(Refusal::InFlight) {
        true => "its template",
        false => "409",
    };
    match &route.in_flight {
        InFlightRule::Conflict => format!("conflict: {refused}"),
        InFlightRule::Wait(wait) => {
            let wait = shown(*wait);
            format!("waits {wait} for the answer of the first request, then {refused}")
        }
        InFlightRule::Template(answer) => format!("{} with a custom response", answer.status),
    }
}

/// Lists the refusals with a response of their own, and its status.
fn templates(route: &Route) -> Option<String> {
    let texts: Vec<String> = route
        .templates
        .list()
        .map(|(name, answer)| match answer.content_types.len() {
            1 => format!("{name}: {}", answer.status),
            types => format!("{name}: {} in {types} content types", answer.status),
        })
        .collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

fn unknown(rule: &UnknownRule) -> String {
    match rule {
        UnknownRule::Refuse => {
            "rejected: 409, until an operator resolves or forgets the key".to_owned()
        }
        UnknownRule::Rerun => "run again".to_owned(),
        UnknownRule::Probe(probe) => format!("probe: GET {}", probe.path),
    }
}

fn stored(route: &Route) -> String {
    let statuses = match &route.store {
        None => "below 500, except 408, 409, 423, 425 and 429".to_owned(),
        Some(ranges) if ranges.is_empty() => "none".to_owned(),
        Some(ranges) => {
            let texts: Vec<&str> = ranges.iter().map(|range| range.text.as_str()).collect();
            texts.join(", ")
        }
    };
    let others = match route.unstored {
        Unstored::Release => "others are run again",
        Unstored::Unknown => "others are unknown",
    };
    format!("{statuses}; {others}")
}

fn failure(mode: Fails) -> &'static str {
    match mode {
        Fails::Closed => "rejected",
        Fails::Open => "forwarded, and may run twice",
    }
}

fn switch(switch: Switch) -> &'static str {
    match switch {
        Switch::On => "on",
        Switch::Shadow => "shadow: counts duplicates, and changes nothing",
        Switch::Off => "off",
    }
}
