//! A token for some names must not get data of others. All data of `b/` contains the word SECRET.

use serde_json::{Value, json};
use turno::access::Role;

use crate::auth_client::{AuthClient, guarded};
use crate::openapi::{described, operations};
use crate::outbox::refuse;

const SECRET: &str = "verborgen";
const PUBLIC: &str = "sichtbar";

/// Creates data of every kind under a prefix: all names and payloads contain the word.
async fn fill(boss: &AuthClient<'_>, prefix: &str, word: &str) {
    let name = |what: &str| format!("{prefix}{word}-{what}");
    let path = |what: &str| name(what).replace('/', "%2F");
    let acquire = json!({"resource": name("held"), "owner": name("owner"), "user": word, "description": word});
    boss.post("/v1/locks", acquire).await.expect(201);
    // One that has ended, for the history, and one that was broken.
    for ending in ["released", "broken"] {
        let lease = boss
            .post("/v1/locks", json!({"resource": name(ending), "user": word}))
            .await
            .expect(201);
        let (uri, status) = match ending {
            "released" => (
                format!("/v1/leases/{}@{}", path(ending), lease["token"]),
                204,
            ),
            _ => (
                format!(
                    "/v1/locks/{}?token={}&reason={word}",
                    path(ending),
                    lease["token"]
                ),
                204,
            ),
        };
        boss.delete(&uri).await.expect(status);
    }
    let queue = path("queue");
    let items: Vec<Value> = (0..4)
        .map(|place| json!({"payload": {"word": word}, "key": name(&place.to_string()), "group": name(&place.to_string())}))
        .collect();
    boss.post(&format!("/v1/inbox/{queue}"), json!({"items": items}))
        .await
        .expect(201);
    let claimed = boss
        .post(
            &format!("/v1/inbox/{queue}/claim"),
            json!({"worker": word, "limit": 3}),
        )
        .await
        .expect(200);
    let claim = |place: usize| claimed["items"][place]["claim"].clone();
    boss.post(
        &format!("/v1/inbox/{queue}/fail"),
        json!({"claims": [{"claim": claim(0), "error": word, "final": true}]}),
    )
    .await
    .expect(200);
    boss.post(
        &format!("/v1/inbox/{queue}/complete"),
        json!({"claims": [claim(1)]}),
    )
    .await
    .expect(200);
    boss.post(
        "/v1/outbox",
        json!({"events": [{"type": name("event"), "payload": word, "key": name("key")}]}),
    )
    .await
    .expect(201);
    boss.post("/v1/once", json!({"key": name("running"), "worker": word}))
        .await
        .expect(201);
    let begun = boss
        .post("/v1/once", json!({"key": name("done"), "worker": word}))
        .await
        .expect(201);
    let done = format!("/v1/once/{}@{}", path("done"), begun["token"]);
    boss.json("PUT", &done, json!({"answer": word}))
        .await
        .expect(204);
    act_as_operator(boss, prefix, word).await;
}

/// Runs operator actions, with the word as the reason.
async fn act_as_operator(boss: &AuthClient<'_>, prefix: &str, word: &str) {
    let path = |what: &str| format!("{prefix}{word}-{what}").replace('/', "%2F");
    let queue = format!("/v1/inbox/{}", path("again"));
    let items = json!({"items": [{"payload": word}, {"payload": word}]});
    boss.post(&queue, items).await.expect(201);
    let ask = json!({"worker": word, "limit": 2});
    let claimed = boss.post(&format!("{queue}/claim"), ask).await.expect(200);
    let claim = &claimed["items"][0]["claim"];
    let ask = json!({"claims": [{"claim": claim, "error": word, "final": true}]});
    boss.post(&format!("{queue}/fail"), ask).await.expect(200);
    let because = json!({"reason": word, "user": word});
    let response = boss
        .post(&format!("{queue}/requeue"), because.clone())
        .await;
    assert_eq!(response.expect(200), json!({"requeued": 1}));
    let ask = json!({"reason": word, "older_than": "0s"});
    let response = boss.post(&format!("{queue}/reset"), ask).await;
    assert_eq!(response.expect(200), json!({"reset": 1}));

    refuse(boss.server).await;
    let response = boss.post("/v1/outbox/requeue", because).await.expect(200);
    assert_ne!(response, json!({"requeued": 0}));

    let key = path("forgotten");
    let ask = json!({"key": format!("{prefix}{word}-forgotten"), "worker": word});
    let begun = boss.post("/v1/once", ask).await.expect(201);
    let claim = format!("/v1/once/{key}@{}", begun["token"]);
    boss.json("PUT", &claim, json!({"answer": word}))
        .await
        .expect(204);
    let forget = format!("/v1/once-keys/{key}?reason={word}&user={word}");
    let response = boss.delete(&forget).await.expect(200);
    assert_eq!(response, json!({"forgotten": true}));
}

/// All lists, with queries that try to get more than the caller should see.
const LOOKS: &[(&str, &[&str])] = &[
    (
        "lock_list",
        &["", "?limit=1000", "?after=a/zzzz", "?after=%00"],
    ),
    (
        "history",
        &[
            "",
            "?limit=1000",
            "?after=9000000000000",
            "?part=lock",
            "?part=inbox",
            "?part=outbox",
            "?part=once",
            "?resource=",
            "?resource=&after=9000000000000",
        ],
    ),
    ("whoami", &[""]),
    ("inbox_queues", &[""]),
    (
        "inbox_list",
        &[
            "?state=pending",
            "?state=processing",
            "?state=failed",
            "?state=completed",
            "?state=scheduled",
            "?after=0",
        ],
    ),
    ("inbox_stats", &[""]),
    ("inbox_settings", &[""]),
    ("outbox_stats", &[""]),
    ("outbox_list", &["", "?state=pending", "?state=dispatched"]),
    (
        "once_list",
        &["", "?state=done", "?state=in_flight", "?after=a/zzzz"],
    ),
    ("metrics", &[""]),
    ("doctor", &[""]),
];

/// Operations on a single name, which the matrix tests; and the stream, which is tested below.
const OTHERS: &[&str] = &["lock_status", "outbox_find", "once_status", "stream"];

/// Lists that contain names and words, so that a caller with all rights must find them.
const TELLING: &[&str] = &[
    "lock_list",
    "history",
    "inbox_queues",
    "inbox_list",
    "outbox_list",
    "once_list",
    "metrics",
];

#[tokio::test]
async fn nothing_of_other_names_is_shown() {
    for server in guarded().await {
        let boss = AuthClient::new(&server, Role::Admin, "").await;
        fill(&boss, "a/", PUBLIC).await;
        fill(&boss, "b/", SECRET).await;
        let scoped = AuthClient::new(&server, Role::Admin, "a/").await;
        let api = described();
        for (method, path, operation) in operations(&api) {
            let id = operation["operationId"].as_str().unwrap();
            if method != "get" || operation.get("security").is_some() || OTHERS.contains(&id) {
                continue;
            }
            let looks = LOOKS.iter().find(|look| look.0 == id);
            let (_, queries) = looks.unwrap_or_else(|| panic!("no test reads {id}"));
            let (mut own, mut all) = (String::new(), String::new());
            for query in *queries {
                let at = |queue: &str| format!("{}{query}", path.replace("{queue}", queue));
                let mine = format!("a%2F{PUBLIC}-queue");
                let response = scoped.get(&at(&mine)).await;
                assert!(response.status.as_u16() < 500, "{response:?}");
                own.push_str(&String::from_utf8_lossy(&response.body));
                let theirs = format!("b%2F{SECRET}-queue");
                for queue in [&mine, &theirs] {
                    let response = boss.get(&at(queue)).await;
                    all.push_str(&String::from_utf8_lossy(&response.body));
                }
            }
            assert!(!own.contains(SECRET), "{id} tells a/ of b/: {own}");
            if TELLING.contains(&id) {
                // The control: the data exists, and a caller with the rights sees it.
                assert!(all.contains(SECRET) && all.contains(PUBLIC), "{id}: {all}");
            }
        }
        drop((boss, scoped));
        server.end().await;
    }
}

#[tokio::test]
async fn nothing_of_other_names_is_streamed() {
    for server in guarded().await {
        let boss = AuthClient::new(&server, Role::Admin, "").await;
        fill(&boss, "a/", PUBLIC).await;
        fill(&boss, "b/", SECRET).await;
        let scoped = AuthClient::new(&server, Role::Read, "a/").await;
        let mut own = scoped.open("GET", "/v1/stream", None).await;
        let mut all = boss.open("GET", "/v1/stream", None).await;
        own.until(&format!("a/{PUBLIC}-held")).await;
        all.until(&format!("b/{SECRET}-held")).await;
        // Changes, too; a/ last, so that all of b/ is done when it arrives.
        fill(&boss, "b/later/", SECRET).await;
        fill(&boss, "a/later/", PUBLIC).await;
        for last in ["held", "queue", "running", "broken", "again", "forgotten"] {
            let own = own.until(&format!("a/later/{PUBLIC}-{last}")).await;
            assert!(!own.contains(SECRET), "{own}");
            assert!(!own.contains("event: outbox"), "{own}");
            assert!(!own.contains(r#""part":"outbox""#), "{own}");
            all.until(&format!("b/later/{SECRET}-{last}")).await;
        }
        // The control: a caller with all rights gets the outbox's entries.
        all.until(r#""part":"outbox""#).await;
        drop((boss, scoped, own, all));
        server.stop.cancel();
        server.end().await;
    }
}
