//! Prints what each route does.

use serde_json::{Value, json};
use turno::once::http::KeyFrom;

use super::file::RoutesFile;
use super::route::Route;
use super::value::{
    FailureMode, Header, InFlightTable, InFlightWord, Mode, Principal, UnknownWord, Unstored,
};
use super::word::WordOr;
use crate::duration::Shown;
use crate::output::Output;

/// Prints the routes.
pub(crate) fn explain(file: &RoutesFile, output: Output) -> anyhow::Result<()> {
    if output.is_json() {
        let routes: Vec<Value> = file.routes.iter().map(describe).collect();
        return output.json(&json!({ "routes": routes }));
    }
    for (number, route) in file.routes.iter().enumerate() {
        if number > 0 {
            output.line("")?;
        }
        output.line(&format!("{} {}", methods(route), route.path))?;
        output.pairs(&lines(route))?;
    }
    Ok(())
}

fn methods(route: &Route) -> String {
    let methods: Vec<&str> = route.methods.iter().map(http::Method::as_str).collect();
    methods.join(", ")
}

fn list(headers: &[Header]) -> Option<String> {
    let names: Vec<&str> = headers.iter().map(|header| header.0.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
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

fn key(route: &Route) -> String {
    match &route.key {
        KeyFrom::Content => "content".to_owned(),
        KeyFrom::Header(name) => name.to_string(),
    }
}

fn in_flight(route: &Route) -> String {
    match &route.in_flight {
        WordOr::Word(InFlightWord::Conflict) => "conflict: 409".to_owned(),
        WordOr::Table(InFlightTable::Wait(wait)) => {
            format!(
                "waits {} for the answer of the first request, then 409",
                Shown(*wait)
            )
        }
        WordOr::Table(InFlightTable::Template(answer)) => {
            format!("{} with a custom response", answer.status)
        }
    }
}

fn unknown(route: &Route) -> String {
    match &route.unknown {
        WordOr::Word(UnknownWord::Refuse) => {
            "rejected: 409, until an operator resolves or forgets the key".to_owned()
        }
        WordOr::Word(UnknownWord::Rerun) => "run again".to_owned(),
        WordOr::Table(table) => format!("probe: GET {}", table.probe.path.text),
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

fn door(door: FailureMode) -> &'static str {
    match door {
        FailureMode::Closed => "rejected",
        FailureMode::Open => "forwarded, and may run twice",
    }
}

fn switch(route: &Route) -> &'static str {
    match route.switch {
        Mode::On => "on",
        Mode::Shadow => "shadow: counts duplicates, and changes nothing",
        Mode::Off => "off",
    }
}

fn lines(route: &Route) -> Vec<(&'static str, Option<String>)> {
    let kept = match route.ttl.is_zero() {
        true => "not kept: only duplicates in flight are rejected".to_owned(),
        false => format!("kept for {}", Shown(route.ttl)),
    };
    vec![
        ("  name", Some(route.name.clone())),
        ("  switch", Some(switch(route).to_owned())),
        ("  key", Some(key(route))),
        ("  principal", Some(principal(route))),
        ("  tenant", list(&route.tenant)),
        ("  in flight", Some(in_flight(route))),
        ("  answers", Some(kept)),
        ("  stored", Some(stored(route))),
        ("  unknown", Some(unknown(route))),
        ("  lease", Some(Shown(route.lease).to_string())),
        ("  unidentified", Some(door(route.unidentified).to_owned())),
        ("  store down", Some(door(route.store_down).to_owned())),
        ("  quota", route.quota.map(|most| most.to_string())),
    ]
}

fn describe(route: &Route) -> Value {
    let word = |door| match door {
        FailureMode::Closed => "closed",
        FailureMode::Open => "open",
    };
    json!({
        "name": route.name,
        "path": route.path,
        "methods": route.methods.iter().map(http::Method::as_str).collect::<Vec<_>>(),
        "key": key(route),
        "principal": match &route.principal {
            None => json!(["authorization"]),
            Some(Principal::None) => json!("none"),
            Some(Principal::Headers(headers)) => json!(headers.iter().map(|header| &header.0).collect::<Vec<_>>()),
            Some(Principal::Cookie(name)) => json!({ "cookie": name }),
        },
        "tenant": route.tenant.iter().map(|header| &header.0).collect::<Vec<_>>(),
        "lease_ms": route.lease.as_millis() as u64,
        "ttl_ms": route.ttl.as_millis() as u64,
        "in_flight": in_flight(route),
        "unknown": unknown(route),
        "stored": stored(route),
        "store_down": word(route.store_down),
        "unidentified": word(route.unidentified),
        "headers": route.headers.iter().map(http::HeaderName::as_str).collect::<Vec<_>>(),
        "max_body": route.max_body,
        "max_answer": route.max_answer,
        "body_timeout_ms": route.body_timeout.as_millis() as u64,
        "quota": route.quota,
        "retry_after_ms": route.retry_after.as_millis() as u64,
        "switch": match route.switch {
            Mode::On => "on",
            Mode::Shadow => "shadow",
            Mode::Off => "off",
        },
    })
}
