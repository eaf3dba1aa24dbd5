//! Every operation, requested by every role: which callers are authorized, which are not, and why.
//!
//! The operations come from the OpenAPI description: one that is not in the table fails the test.

use serde_json::Value;
use turno::access::Role;

use crate::auth_client::{AuthClient, guarded};
use crate::common::Running;
use crate::openapi::{described, operations};

/// Names that an operation concerns.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reach {
    /// Names in the request.
    Named,
    /// A list of names, which is filtered for the caller.
    Narrowed,
    /// All names: only for tokens without a prefix.
    All,
    /// No names, only the caller itself.
    Own,
}

use Reach::{All, Named, Narrowed, Own};
use Role::{Admin, Operate, Read};

/// An operation, the required role, and its request: the parts of its path, query and
/// body, where `NAME` is a name, and the status for an authorized caller.
type Row = (
    &'static str,
    Role,
    Reach,
    &'static str,
    &'static str,
    &'static str,
    u16,
);

const EVENT: &str = "0190f1f4-2b3c-7d4e-8f50-112233445566";
const SETTLE: &str = r#"{"claims": ["1@0190f1f4-2b3c-7d4e-8f50-112233445566"]}"#;
const DISCARD: &str = r#"{"ids": ["0190f1f4-2b3c-7d4e-8f50-112233445566"]}"#;

#[rustfmt::skip]
const TABLE: &[Row] = &[
    ("lock_acquire", Operate, Named, "", "", r#"{"resource": "NAME"}"#, 201),
    ("lock_acquire_all", Operate, Named, "", "", r#"{"resources": ["NAME"]}"#, 201),
    ("lock_renew", Operate, Named, "NAME@1", "", "{}", 410),
    ("lock_release", Operate, Named, "NAME@1", "", "", 410),
    ("lock_list", Read, Narrowed, "", "prefix=NAME", "", 200),
    ("lock_status", Read, Named, "NAME", "", "", 200),
    ("lock_break", Admin, Named, "NAME", "token=1&reason=it+hangs", "", 409),
    ("history", Read, Narrowed, "", "prefix=NAME", "", 200),
    ("inbox_push", Operate, Named, "NAME", "", r#"{"items": [{"payload": 1}]}"#, 201),
    ("inbox_claim", Operate, Named, "NAME", "", r#"{"worker": "w"}"#, 200),
    ("inbox_complete", Operate, Named, "NAME", "", SETTLE, 200),
    ("inbox_fail", Operate, Named, "NAME", "", SETTLE, 200),
    ("inbox_extend", Operate, Named, "NAME", "", SETTLE, 200),
    ("inbox_give_back", Operate, Named, "NAME", "", SETTLE, 200),
    ("inbox_queues", Read, Narrowed, "", "prefix=NAME", "", 200),
    ("inbox_stats", Read, Named, "NAME", "", "", 404),
    ("inbox_list", Read, Named, "NAME", "", "", 404),
    ("inbox_requeue", Admin, Named, "NAME", "", "{}", 200),
    ("inbox_discard", Admin, Named, "NAME", "", "{}", 200),
    ("inbox_reset", Admin, Named, "NAME", "", "{}", 200),
    ("inbox_settings", Read, Named, "NAME", "", "", 200),
    ("inbox_configure", Admin, Named, "NAME", "", r#"{"max_running": 5}"#, 200),
    ("outbox_emit", Operate, Named, "", "", r#"{"events": [{"type": "NAME", "payload": 1}]}"#, 201),
    ("outbox_stats", Read, All, "", "", "", 200),
    ("outbox_list", Read, All, "", "", "", 200),
    ("outbox_find", Read, All, EVENT, "", "", 404),
    ("outbox_requeue", Admin, All, "", "", "{}", 200),
    ("outbox_discard", Admin, All, "", "", DISCARD, 200),
    ("once_begin", Operate, Named, "", "", r#"{"key": "NAME"}"#, 201),
    ("once_complete", Operate, Named, "NAME@1", "", "{}", 410),
    ("once_extend", Operate, Named, "NAME@1", "", "{}", 410),
    ("once_release", Operate, Named, "NAME@1", "", "", 410),
    ("once_list", Read, Narrowed, "", "prefix=NAME", "", 200),
    ("once_status", Read, Named, "NAME", "", "", 404),
    ("once_forget", Admin, Named, "NAME", "", "", 200),
    ("once_resolve", Admin, Named, "NAME", "", "{}", 404),
    ("sweep", Admin, All, "", "", "{}", 200),
    ("doctor", Admin, All, "", "", "", 200),
    ("stream", Read, Narrowed, "", "prefix=NAME", "", 200),
    ("whoami", Read, Own, "", "", "", 200),
    ("metrics", Read, All, "", "", "", 200),
];

/// Paths that need no token.
const OPEN: &[&str] = &["/", "/healthz", "/openapi.json", "/readyz"];

/// Expected response: a status, and the problem code if the request was not authorized.
type Verdict = (u16, &'static str);

const SPEAK_UP: Verdict = (401, "unauthorized");
const FORBIDDEN: Verdict = (403, "forbidden");
const OUT_OF_SCOPE: Verdict = (403, "out_of_scope");

#[tokio::test]
async fn each_role_calls_each_operation() {
    for server in guarded().await {
        let mut callers = vec![(None, "", stranger(&server))];
        for role in [Read, Operate, Admin] {
            for prefix in ["", "in/"] {
                let client = AuthClient::new(&server, role, prefix).await;
                callers.push((Some(role), prefix, client));
            }
        }
        let api = described();
        let mut fresh = 0..;
        let mut asked = 0;
        for (method, path, operation) in operations(&api) {
            let id = operation["operationId"].as_str().unwrap();
            if OPEN.contains(&path) {
                for (role, prefix, client) in &callers {
                    let response = client.get(path).await;
                    assert_eq!(response.status, 200, "{id} by {role:?} of {prefix:?}");
                }
                continue;
            }
            let row = TABLE
                .iter()
                .find(|row| row.0 == id)
                .unwrap_or_else(|| panic!("{id} ({method} {path}) is not in the table"));
            for (role, prefix, client) in &callers {
                for place in ["in", "out"] {
                    let name = format!("{place}/{}", fresh.next().unwrap());
                    let expected = verdict(row, *role, prefix, &name);
                    let (status, code) = ask(client, method, path, row, &name).await;
                    assert_eq!(
                        (status, code.as_str()),
                        expected,
                        "{id} with {name} by {role:?} of {prefix:?}"
                    );
                    asked += 1;
                }
            }
        }
        assert_eq!(asked, TABLE.len() * callers.len() * 2, "the table has more");
        drop(callers);
        server.end().await;
    }
}

fn stranger(server: &Running) -> AuthClient<'_> {
    AuthClient {
        server,
        token: None,
    }
}

/// Returns the result by the documented rule.
fn verdict(row: &Row, role: Option<Role>, prefix: &str, name: &str) -> Verdict {
    let (_, needed, reach, .., status) = *row;
    match role {
        None => SPEAK_UP,
        Some(role) if role < needed => FORBIDDEN,
        Some(_) if prefix.is_empty() || reach == Own => (status, ""),
        Some(_) if reach == All || !name.starts_with(prefix) => OUT_OF_SCOPE,
        Some(_) => (status, ""),
    }
}

/// Sends a request. Returns the status, and the code if it was not authorized.
async fn ask(
    client: &AuthClient<'_>,
    method: &str,
    path: &str,
    row: &Row,
    name: &str,
) -> (u16, String) {
    let (_, _, _, at, query, body, _) = *row;
    let within = at.replace("NAME", name).replace('/', "%2F");
    let mut uri = match (path.split_once('{'), path.split_once('}')) {
        (Some((before, _)), Some((_, after))) => format!("{before}{within}{after}"),
        _ => path.to_owned(),
    };
    if !query.is_empty() {
        uri = format!("{uri}?{}", query.replace("NAME", name));
    }
    let body: Option<Value> =
        (!body.is_empty()).then(|| serde_json::from_str(&body.replace("NAME", name)).unwrap());
    let method = method.to_ascii_uppercase();
    let mut opened = client.open(&method, &uri, body.as_ref()).await;
    match opened.response.status().as_u16() {
        status @ (401 | 403) => (status, opened.code().await),
        status => (status, String::new()),
    }
}
