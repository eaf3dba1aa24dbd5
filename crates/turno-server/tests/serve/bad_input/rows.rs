//! What is asked wrongly, route by route.

/// A route that has a body, with one that is right.
pub struct Body {
    pub method: &'static str,
    pub path: &'static str,
    pub good: &'static str,
    /// What it must have.
    pub required: &'static [&'static str],
    /// Whether there may be none.
    pub is_optional: bool,
}

const fn body(
    method: &'static str,
    path: &'static str,
    good: &'static str,
    required: &'static [&'static str],
) -> Body {
    Body {
        method,
        path,
        good,
        required,
        is_optional: false,
    }
}

const fn optional(method: &'static str, path: &'static str) -> Body {
    Body {
        method,
        path,
        good: "{}",
        required: &[],
        is_optional: true,
    }
}

const SETTLE: &str = r#"{"claims": ["1@0190f1f4-2b3c-7d4e-8f50-112233445566"]}"#;

#[rustfmt::skip]
pub const BODIES: &[Body] = &[
    body("POST", "/v1/locks", r#"{"resource": "r"}"#, &["resource"]),
    body("POST", "/v1/lock-sets", r#"{"resources": ["r"]}"#, &["resources"]),
    optional("PUT", "/v1/leases/r@1"),
    body("POST", "/v1/inbox/q", r#"{"items": [{"payload": 1}]}"#, &["items"]),
    body("POST", "/v1/inbox/q/claim", r#"{"worker": "w"}"#, &["worker"]),
    body("POST", "/v1/inbox/q/complete", SETTLE, &["claims"]),
    body("POST", "/v1/inbox/q/fail", SETTLE, &["claims"]),
    body("POST", "/v1/inbox/q/extend", SETTLE, &["claims"]),
    body("POST", "/v1/inbox/q/give-back", SETTLE, &["claims"]),
    optional("POST", "/v1/inbox/q/requeue"),
    optional("POST", "/v1/inbox/q/reset"),
    body("POST", "/v1/outbox", r#"{"events": [{"type": "t", "payload": 1}]}"#, &["events"]),
    optional("POST", "/v1/outbox/requeue"),
    body("POST", "/v1/outbox/discard", r#"{"ids": ["0190f1f4-2b3c-7d4e-8f50-112233445566"]}"#, &["ids"]),
    body("POST", "/v1/once", r#"{"key": "k"}"#, &["key"]),
    body("PUT", "/v1/once/k@1", "{}", &[]),
    optional("PATCH", "/v1/once/k@1"),
    optional("POST", "/v1/sweep"),
];

/// A request that is out of rule, and the field that is named.
pub struct Row {
    pub method: &'static str,
    pub path: &'static str,
    pub body: &'static str,
    pub field: &'static str,
}

const fn row(
    method: &'static str,
    path: &'static str,
    body: &'static str,
    field: &'static str,
) -> Row {
    Row {
        method,
        path,
        body,
        field,
    }
}

const fn post(path: &'static str, body: &'static str, field: &'static str) -> Row {
    row("POST", path, body, field)
}

/// Where a name stands in a body.
#[rustfmt::skip]
pub const NAMES: &[Row] = &[
    post("/v1/locks", r#"{"resource": "NAME"}"#, "resource"),
    post("/v1/locks", r#"{"resource": "r", "owner": "NAME"}"#, "owner"),
    post("/v1/locks", r#"{"resource": "r", "user": "NAME"}"#, "user"),
    post("/v1/locks", r#"{"resource": "r", "service": "NAME"}"#, "service"),
    post("/v1/locks", r#"{"resource": "r", "host": "NAME"}"#, "host"),
    post("/v1/lock-sets", r#"{"resources": ["a", "NAME"]}"#, "resource"),
    post("/v1/inbox/q", r#"{"items": [{"payload": 1}, {"payload": 1, "key": "NAME"}]}"#, "items[1].key"),
    post("/v1/inbox/q", r#"{"items": [{"payload": 1, "group": "NAME"}]}"#, "items[0].group"),
    post("/v1/inbox/q/claim", r#"{"worker": "NAME"}"#, "worker"),
    post("/v1/outbox", r#"{"events": [{"type": "NAME", "payload": 1}]}"#, "events[0].type"),
    post("/v1/outbox", r#"{"events": [{"type": "t", "payload": 1, "key": "NAME"}]}"#, "events[0].key"),
    post("/v1/outbox", r#"{"events": [{"type": "t", "payload": 1, "correlation_id": "NAME"}]}"#, "events[0].correlation_id"),
    post("/v1/inbox/q/requeue", r#"{"user": "NAME"}"#, "user"),
    post("/v1/inbox/q/reset", r#"{"user": "NAME"}"#, "user"),
    post("/v1/outbox/requeue", r#"{"user": "NAME"}"#, "user"),
    post("/v1/outbox/discard", r#"{"ids": ["0190f1f4-2b3c-7d4e-8f50-112233445566"], "user": "NAME"}"#, "user"),
    post("/v1/once", r#"{"key": "NAME"}"#, "key"),
    post("/v1/once", r#"{"key": "k", "fingerprint": "NAME"}"#, "fingerprint"),
    post("/v1/once", r#"{"key": "k", "worker": "NAME"}"#, "worker"),
    post("/v1/once", r#"{"key": "k", "quota": {"scope": "NAME", "most": 1}}"#, "scope"),
];

/// Values of bodies.
#[rustfmt::skip]
pub const VALUES: &[Row] = &[
    // Durations.
    post("/v1/locks", r#"{"resource": "r", "ttl": "soon"}"#, "ttl"),
    post("/v1/locks", r#"{"resource": "r", "ttl": "-5s"}"#, "ttl"),
    post("/v1/locks", r#"{"resource": "r", "ttl": -1}"#, "ttl"),
    post("/v1/locks", r#"{"resource": "r", "ttl": 1.5}"#, "ttl"),
    post("/v1/locks", r#"{"resource": "r", "ttl": true}"#, "ttl"),
    post("/v1/locks", r#"{"resource": "r", "ttl": {}}"#, "ttl"),
    post("/v1/locks", r#"{"resource": "r", "ttl": "1mo"}"#, "ttl"),
    post("/v1/locks", r#"{"resource": "r", "ttl": "0s"}"#, "ttl"),
    post("/v1/locks", r#"{"resource": "r", "ttl": "25h"}"#, "ttl"),
    post("/v1/locks", r#"{"resource": "r", "ttl": "99999h"}"#, "ttl"),
    post("/v1/locks", r#"{"resource": "r", "ttl": 30}"#, "ttl"),
    post("/v1/locks", r#"{"resource": "r", "wait": "soon"}"#, "wait"),
    post("/v1/locks", r#"{"resource": "r", "min_hold": "1h"}"#, "min_hold"),
    post("/v1/locks", r#"{"resource": "r", "max_hold": 0}"#, "max_hold"),
    post("/v1/locks", r#"{"resource": "r", "max_hold": 18446744073709551615}"#, "max_hold"),
    row("PUT", "/v1/leases/r@1", r#"{"ttl": "25h"}"#, "ttl"),
    post("/v1/inbox/q", r#"{"items": [{"payload": 1, "delay": "soon"}]}"#, "items[0].delay"),
    post("/v1/inbox/q", r#"{"items": [{"payload": 1, "delay": "9999999h"}]}"#, "items[0].delay"),
    post("/v1/inbox/q", r#"{"items": [{"payload": 1, "run_at": "tomorrow"}]}"#, "items[0].run_at"),
    post("/v1/inbox/q", r#"{"items": [{"payload": 1, "run_at": "2500-01-01T00:00:00Z"}]}"#, "items[0].run_at"),
    post("/v1/inbox/q", r#"{"items": [{"payload": 1, "run_at": "2030-01-01T00:00:00Z", "delay": "1s"}]}"#, "items[0].run_at"),
    post("/v1/inbox/q/claim", r#"{"worker": "w", "lease": "0s"}"#, "lease"),
    post("/v1/inbox/q/claim", r#"{"worker": "w", "lease": "2d"}"#, "lease"),
    post("/v1/inbox/q/reset", r#"{"older_than": "99999999h"}"#, "older_than"),
    post("/v1/outbox", r#"{"events": [{"type": "t", "payload": 1, "delay": "9999999h"}]}"#, "events[0].delay"),
    post("/v1/once", r#"{"key": "k", "lease": "0s"}"#, "lease"),
    post("/v1/once", r#"{"key": "k", "ttl": "9999999h"}"#, "ttl"),
    row("PUT", "/v1/once/k@1", r#"{"ttl": 18446744073709551615}"#, "ttl"),
    row("PATCH", "/v1/once/k@1", r#"{"lease": "2d"}"#, "lease"),
    post("/v1/sweep", r#"{"keep_history": "9999999h"}"#, "keep_history"),
    post("/v1/sweep", r#"{"purge_after": "soon"}"#, "purge_after"),
    post("/v1/sweep", r#"{"keep_seen": 18446744073709551615}"#, "keep_seen"),
    // Words, numbers, lists.
    post("/v1/locks", r#"{"resource": "r", "mode": "both"}"#, "mode"),
    post("/v1/locks", r#"{"resource": "r", "order": "lifo"}"#, "order"),
    post("/v1/locks", r#"{"resource": "r", "permits": 0}"#, "permits"),
    post("/v1/locks", r#"{"resource": "r", "permits": 10001}"#, "permits"),
    post("/v1/locks", r#"{"resource": "r", "permits": -1}"#, "permits"),
    post("/v1/locks", r#"{"resource": "r", "mode": "exclusive", "permits": 2}"#, "permits"),
    post("/v1/locks", r#"{"resource": "r", "pid": "7"}"#, "pid"),
    post("/v1/locks", r#"{"resource": "r", "description": ""}"#, "description"),
    post("/v1/locks", r#"{"resource": "r", "request": "7"}"#, "request"),
    post("/v1/locks", r#"{"resource": "r", "resource": "s"}"#, "resource"),
    post("/v1/lock-sets", r#"{"resources": []}"#, "resources"),
    post("/v1/lock-sets", r#"{"resources": [1]}"#, "resources[0]"),
    post("/v1/inbox/q", r#"{"items": []}"#, "items"),
    post("/v1/inbox/q", r#"{"items": [{}]}"#, "items[0].payload"),
    post("/v1/inbox/q", r#"{"items": [{"payload": 1, "nonsense": 1}]}"#, "items[0].nonsense"),
    post("/v1/inbox/q", r#"{"items": [{"payload": 1}, {"payload": 1, "priority": 4}]}"#, "items[1].priority"),
    post("/v1/inbox/q", r#"{"items": [{"payload": 1, "priority": "high"}]}"#, "items[0].priority"),
    post("/v1/inbox/q", r#"{"items": [{"payload": 1, "max_attempts": 0}]}"#, "items[0].max_attempts"),
    post("/v1/inbox/q/claim", r#"{"worker": "w", "limit": 0}"#, "limit"),
    post("/v1/inbox/q/claim", r#"{"worker": "w", "limit": 10001}"#, "limit"),
    post("/v1/inbox/q/complete", r#"{"claims": []}"#, "claims"),
    post("/v1/inbox/q/complete", r#"{"claims": ["17"]}"#, "claims[0]"),
    post("/v1/inbox/q/complete", r#"{"claims": [17]}"#, "claims[0]"),
    post("/v1/inbox/q/complete", r#"{"claims": [{"claim": "17"}]}"#, "claims[0].claim"),
    post("/v1/inbox/q/complete", r#"{"claims": [{"claim": "1@0190f1f4-2b3c-7d4e-8f50-112233445566", "error": "e"}]}"#, "claims[0].error"),
    post("/v1/inbox/q/complete", r#"{"claims": [{"claim": "1@0190f1f4-2b3c-7d4e-8f50-112233445566", "lease": "1s"}]}"#, "claims[0].lease"),
    post("/v1/inbox/q/give-back", r#"{"claims": [{"claim": "1@0190f1f4-2b3c-7d4e-8f50-112233445566", "final": true}]}"#, "claims[0].final"),
    post("/v1/inbox/q/extend", r#"{"claims": [{"claim": "1@0190f1f4-2b3c-7d4e-8f50-112233445566", "retry_in": 1}]}"#, "claims[0].retry_in"),
    post("/v1/inbox/q/extend", r#"{"claims": [{"claim": "1@0190f1f4-2b3c-7d4e-8f50-112233445566", "lease": "2d"}]}"#, "lease"),
    post("/v1/inbox/q/fail", r#"{"claims": [{"claim": "1@0190f1f4-2b3c-7d4e-8f50-112233445566", "lease": "1s"}]}"#, "claims[0].lease"),
    post("/v1/inbox/q/fail", r#"{"claims": [{"claim": "1@0190f1f4-2b3c-7d4e-8f50-112233445566", "final": "yes"}]}"#, "claims[0].final"),
    post("/v1/inbox/q/fail", r#"{"claims": [{"claim": "1@0190f1f4-2b3c-7d4e-8f50-112233445566", "nonsense": 1}]}"#, "claims[0].nonsense"),
    post("/v1/inbox/q/requeue", r#"{"ids": ["7"]}"#, "ids[0]"),
    post("/v1/inbox/q/requeue", r#"{"reason": ""}"#, "reason"),
    post("/v1/inbox/q/requeue", r#"{"reason": "a\u0000b"}"#, "reason"),
    post("/v1/inbox/q/reset", r#"{"reason": "a\nb"}"#, "reason"),
    post("/v1/outbox/requeue", r#"{"reason": ""}"#, "reason"),
    post("/v1/outbox/discard", r#"{"ids": ["0190f1f4-2b3c-7d4e-8f50-112233445566"], "reason": 7}"#, "reason"),
    post("/v1/outbox/discard", r#"{"ids": ["0190f1f4-2b3c-7d4e-8f50-112233445566"], "reason": ""}"#, "reason"),
    post("/v1/outbox", r#"{"events": []}"#, "events"),
    post("/v1/outbox", r#"{"events": [{"payload": 1}]}"#, "events[0].type"),
    post("/v1/outbox", r#"{"events": [{"type": "t"}]}"#, "events[0].payload"),
    post("/v1/outbox", r#"{"events": [{"type": "t", "payload": 1, "traceparent": "t"}]}"#, "events[0].traceparent"),
    post("/v1/outbox", r#"{"events": [{"type": "t", "payload": 1, "headers": {"a b": "c"}}]}"#, "events[0].headers"),
    post("/v1/outbox", r#"{"events": [{"type": "t", "payload": 1, "headers": {"a": 1}}]}"#, "events[0].headers.a"),
    post("/v1/outbox", r#"{"events": [{"type": "t", "payload": 1, "id": "7"}]}"#, "events[0].id"),
    post("/v1/outbox/requeue", r#"{"ids": ["7"]}"#, "ids[0]"),
    post("/v1/outbox/discard", r#"{"ids": []}"#, "ids"),
    post("/v1/once", r#"{"key": "k", "unknown": "guess"}"#, "unknown"),
    post("/v1/once", r#"{"key": "k", "quota": {"scope": "s"}}"#, "quota.most"),
    post("/v1/once", r#"{"key": "k", "quota": {"scope": "s", "most": 0}}"#, "quota"),
    post("/v1/once", r#"{"key": "k", "quota": 1}"#, "quota"),
    // serde would take a list for an object, field by field.
    post("/v1/inbox/q", r#"{"items": [[1]]}"#, "items[0]"),
    post("/v1/outbox", r#"{"events": [["t", 1]]}"#, "events[0]"),
    post("/v1/once", r#"{"key": "k", "quota": ["s", 1]}"#, "quota"),
];

/// Paths and queries; `LONG` is a name that is too long.
#[rustfmt::skip]
pub const QUERIES: &[Row] = &[
    row("GET", "/v1/locks?limit=0", "", "limit"),
    row("GET", "/v1/locks?limit=1001", "", "limit"),
    row("GET", "/v1/locks?limit=-1", "", "limit"),
    row("GET", "/v1/locks?limit=many", "", "limit"),
    row("GET", "/v1/locks?limit=", "", "limit"),
    row("GET", "/v1/locks?limit=1&limit=2", "", "limit"),
    row("GET", "/v1/locks?nonsense=1", "", "nonsense"),
    row("GET", "/v1/locks?prefix=a%00", "", "prefix"),
    row("GET", "/v1/locks?after=a%00", "", "after"),
    row("GET", "/v1/locks/a%0Ab", "", "resource"),
    row("GET", "/v1/locks/LONG", "", "resource"),
    row("DELETE", "/v1/locks/r", "", "token"),
    row("DELETE", "/v1/locks/r?token=1", "", "reason"),
    row("DELETE", "/v1/locks/r?token=x&reason=y", "", "token"),
    row("DELETE", "/v1/locks/r?token=1&reason=", "", "reason"),
    row("DELETE", "/v1/locks/r?token=1&reason=y&user=a%0Ab", "", "user"),
    row("DELETE", "/v1/locks/r?token=1&reason=y&request=7", "", "request"),
    row("DELETE", "/v1/leases/r", "", "lease"),
    row("DELETE", "/v1/leases/r@x", "", "lease"),
    row("DELETE", "/v1/leases/r@1?hold=7", "", "hold"),
    row("PUT", "/v1/leases/@1", "{}", "lease"),
    row("PUT", "/v1/leases/a%0Ab@1", "{}", "lease"),
    row("GET", "/v1/history?limit=0", "", "limit"),
    row("GET", "/v1/history?limit=1001", "", "limit"),
    row("GET", "/v1/history?after=x", "", "after"),
    row("GET", "/v1/history?resource=", "", "resource"),
    row("GET", "/v1/history?resource=&after=7", "", "resource"),
    row("GET", "/v1/history?resource=&part=outbox", "", "resource"),
    row("GET", "/v1/history?part=all", "", "part"),
    row("GET", "/v1/history?prefix=%00", "", "prefix"),
    row("GET", "/v1/inbox?nonsense=1", "", "nonsense"),
    row("GET", "/v1/inbox?prefix=%00", "", "prefix"),
    row("GET", "/v1/inbox/a%0Ab", "", "queue"),
    row("GET", "/v1/inbox/$outbox", "", "queue"),
    row("GET", "/v1/inbox/$outbox/items", "", "queue"),
    row("POST", "/v1/inbox/$outbox", r#"{"items": [{"payload": 1}]}"#, "queue"),
    row("POST", "/v1/inbox/$outbox/claim", r#"{"worker": "w"}"#, "queue"),
    row("POST", "/v1/inbox/$outbox/complete", SETTLE, "queue"),
    row("POST", "/v1/inbox/$outbox/fail", SETTLE, "queue"),
    row("POST", "/v1/inbox/$outbox/extend", SETTLE, "queue"),
    row("POST", "/v1/inbox/$outbox/give-back", SETTLE, "queue"),
    row("POST", "/v1/inbox/$outbox/requeue", "{}", "queue"),
    row("POST", "/v1/inbox/$outbox/reset", "{}", "queue"),
    row("POST", "/v1/inbox/a%00/complete", SETTLE, "queue"),
    row("GET", "/v1/inbox/q/items?state=done", "", "state"),
    row("GET", "/v1/inbox/q/items?limit=0", "", "limit"),
    row("GET", "/v1/inbox/q/items?limit=1001", "", "limit"),
    row("GET", "/v1/inbox/q/items?after=x", "", "after"),
    row("GET", "/v1/outbox/events?state=discarded", "", "state"),
    row("GET", "/v1/outbox/events?limit=0", "", "limit"),
    row("GET", "/v1/outbox/events?limit=1001", "", "limit"),
    row("GET", "/v1/outbox/events?after=99999999999999999999", "", "after"),
    row("GET", "/v1/outbox/events/7", "", "id"),
    row("GET", "/v1/once?state=gone", "", "state"),
    row("GET", "/v1/once?limit=0", "", "limit"),
    row("GET", "/v1/once?limit=1001", "", "limit"),
    row("GET", "/v1/once?prefix=%00", "", "prefix"),
    row("GET", "/v1/once?after=%00", "", "after"),
    row("PUT", "/v1/once/k", "{}", "claim"),
    row("PUT", "/v1/once/k@-1", "{}", "claim"),
    row("PATCH", "/v1/once/a%0Ab@1", "{}", "claim"),
    row("DELETE", "/v1/once/k@1?outcome=done", "", "outcome"),
    row("DELETE", "/v1/once/k@1?nonsense=1", "", "nonsense"),
    row("GET", "/v1/once-keys/a%0Ab", "", "key"),
    row("DELETE", "/v1/once-keys/a%0Ab", "", "key"),
    row("DELETE", "/v1/once-keys/k?reason=", "", "reason"),
    row("DELETE", "/v1/once-keys/k?reason=a%00b", "", "reason"),
    row("DELETE", "/v1/once-keys/k?user=LONG", "", "user"),
    row("DELETE", "/v1/once-keys/k?nonsense=1", "", "nonsense"),
];
