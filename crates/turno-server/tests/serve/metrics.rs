//! Metrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;
use turno::Turno;
use turno_server::{Admission, Options};
use turno_testkit::PostgresServer;
use turno_testkit::conformance::TestStore;

use crate::common::Running;

async fn scrape(server: &Running) -> String {
    let response = server.get("/metrics").await;
    assert_eq!(response.status, 200, "{response:?}");
    let kind = response.headers["content-type"].to_str().unwrap();
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    let text = String::from_utf8(response.body.to_vec()).unwrap();
    assert!(text.ends_with("# EOF\n"), "{text}");
    text
}

/// Returns the value of one series.
#[track_caller]
fn value(text: &str, series: &str) -> f64 {
    let mut lines = text.lines();
    let found = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok());
    found.unwrap_or_else(|| panic!("{series} is not there: {text}"))
}

/// Returns each name with its type and help.
fn described(text: &str) -> BTreeMap<String, (String, String)> {
    let mut all = BTreeMap::<String, (String, String)>::new();
    for line in text.lines() {
        let Some((word, rest)) = line
            .strip_prefix("# ")
            .and_then(|rest| rest.split_once(' '))
        else {
            continue;
        };
        let Some((name, said)) = rest.split_once(' ') else {
            continue;
        };
        let entry = all.entry(name.to_owned()).or_default();
        match word {
            "TYPE" => entry.0 = said.to_owned(),
            "HELP" => entry.1 = said.to_owned(),
            _ => {}
        }
    }
    all
}

/// Returns the name of a metric in queries: counters have the suffix `_total`, and info metrics `_info`.
fn asked_for(name: &str, kind: &str) -> String {
    match kind {
        "counter" => format!("{name}_total"),
        "info" => format!("{name}_info"),
        _ => name.to_owned(),
    }
}

/// `TURNO_UPDATE_GOLDEN=1` rewrites the file.
#[tokio::test]
async fn metrics_are_as_shipped_and_as_documented() {
    let test_store = TestStore::sqlite();
    let server = with_table(&test_store).await;
    // Labelled metrics appear only after the first use: of a request, and of a queue.
    let item = json!({"items": [{"payload": 1}]});
    server.post("/v1/inbox/q", item).await.expect(201);
    let all = described(&scrape(&server).await);
    let mut shipped = String::new();
    for (name, (kind, help)) in &all {
        writeln!(shipped, "{} {kind}: {help}", asked_for(name, kind)).unwrap();
    }
    let golden = "tests/golden/metrics.txt";
    if std::env::var_os("TURNO_UPDATE_GOLDEN").is_some() {
        std::fs::write(golden, &shipped).unwrap();
    }
    assert!(
        std::fs::read_to_string(golden).unwrap_or_default() == shipped,
        "{golden} is not what the server has: look at the change, then run this test with TURNO_UPDATE_GOLDEN=1\n{shipped}"
    );
    let docs = std::fs::read_to_string("../../docs/metrics.md").unwrap();
    let mut documented = BTreeMap::new();
    for line in docs.lines().filter(|line| line.starts_with("| `turno_")) {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let name = cells.next().unwrap().trim_matches('`').to_owned();
        documented.insert(name, cells.next().unwrap().to_owned());
    }
    let has = all
        .iter()
        .map(|(name, (kind, _))| (asked_for(name, kind), kind.clone()));
    assert_eq!(
        documented,
        has.collect(),
        "docs/metrics.md has other names or types"
    );
    server.end().await;
}

/// Starts a server on a store with an outbox table: two rows are pending and one is dead.
async fn with_table(test_store: &TestStore) -> Running {
    let turno = test_store.turno().await;
    let sql = "create table outbox (id integer primary key, type text, payload text, created_at timestamp, processed_at timestamp, attempts integer not null default 0);
        insert into outbox (id, type, payload, created_at, processed_at, attempts) values
          (1, 't', '{}', '2026-11-17 04:00:00', null, 0), (2, 't', '{}', '2026-11-17 04:00:01', null, 2),
          (3, 't', '{}', '2026-11-17 04:00:02', null, 5), (4, 't', '{}', '2026-11-17 04:00:03', '2026-11-17 04:00:04', 1)";
    if test_store.is_sqlite() {
        test_store.sqlite_connection().execute_batch(sql).unwrap();
    } else {
        let client = test_store.postgres_connection().await;
        client.batch_execute(sql).await.unwrap();
    }
    turno.adopt_outbox("outbox").apply().await.unwrap();
    let options = Options {
        outbox_table: Some("outbox".to_owned()),
        ..Options::default()
    };
    Running::on(turno, options).await
}

#[tokio::test]
async fn an_outbox_table_is_counted_if_it_is_configured() {
    for test_store in [TestStore::sqlite(), TestStore::postgres()] {
        let server = with_table(&test_store).await;
        let text = scrape(&server).await;
        for (state, count) in [("pending", 2.0), ("processing", 0.0), ("dead", 1.0)] {
            let series = format!("turno_outbox_table_events{{table=\"outbox\",state=\"{state}\"}}");
            assert_eq!(value(&text, &series), count, "{state}");
        }
        let of_table = |name: &str| {
            value(
                &text,
                &format!("turno_outbox_table_{name}{{table=\"outbox\"}}"),
            )
        };
        assert_eq!((of_table("attempts"), of_table("parked_keys")), (7.0, 0.0));
        assert!(of_table("oldest_pending_seconds") > 0.0);
        // Turno's own outbox is another one.
        assert_eq!(value(&text, "turno_outbox_events{state=\"pending\"}"), 0.0);
        server.end().await;
    }
    // The control: without the setting there are no such metrics.
    let server = Running::start().await;
    assert!(!scrape(&server).await.contains("outbox_table"));
    server.end().await;
}

#[tokio::test]
async fn every_primitive_is_counted() {
    for server in [Running::start().await, Running::start_postgres().await] {
        let ask = json!({"resource": "a", "owner": "1", "wait": "1s"});
        let lease = server.post("/v1/locks", ask.clone()).await.expect(201);
        server.post("/v1/locks", ask).await.expect(200);
        server
            .post("/v1/locks", json!({"resource": "a"}))
            .await
            .problem(409, "busy");
        let both = json!({"resources": ["b", "c"]});
        server.post("/v1/lock-sets", both).await.expect(201);
        let path = format!("/v1/leases/{}", lease["id"].as_str().unwrap());
        server.put(&path, json!({"ttl": "1m"})).await.expect(200);
        server.delete(&path).await.expect(204);
        server.delete(&path).await.expect(204);
        server.delete(&path).await.problem(410, "lost");
        let held = server.get("/v1/locks/b").await.expect(200);
        let force = format!("/v1/locks/b?token={}&reason=test", held["holder"]["token"]);
        server.delete(&force).await.expect(204);

        let items = json!({"items": [{"payload": 1, "key": "k"}, {"payload": 2, "key": "k"}, {"payload": 3}, {"payload": 4}]});
        server.post("/v1/inbox/q", items).await.expect(201);
        let claim = json!({"worker": "w", "limit": 10});
        let claimed = server.post("/v1/inbox/q/claim", claim).await.expect(200);
        let claim = |place: usize| json!({"claims": [claimed["items"][place]["claim"]]});
        server
            .post("/v1/inbox/q/extend", claim(0))
            .await
            .expect(200);
        server
            .post("/v1/inbox/q/complete", claim(0))
            .await
            .expect(200);
        server
            .post(
                "/v1/inbox/q/complete",
                json!({"claims": ["999@0190f1f4-2b3c-7d4e-8f50-112233445566"]}),
            )
            .await
            .expect(200);
        let failed = json!({"claims": [{"claim": claimed["items"][1]["claim"], "error": "no"}]});
        server.post("/v1/inbox/q/fail", failed).await.expect(200);
        server
            .post("/v1/inbox/q/give-back", claim(2))
            .await
            .expect(200);

        let events = json!({"events": [{"type": "A", "payload": 1}, {"type": "B", "payload": 2}]});
        server.post("/v1/outbox", events).await.expect(201);

        let begin = json!({"key": "k", "fingerprint": "f"});
        let begun = server.post("/v1/once", begin.clone()).await.expect(201);
        server
            .post("/v1/once", begin.clone())
            .await
            .problem(409, "in_flight");
        let path = format!("/v1/once/{}", begun["claim"].as_str().unwrap());
        server.put(&path, json!({"answer": 1})).await.expect(204);
        server.post("/v1/once", begin).await.expect(200);
        let other = json!({"key": "k", "fingerprint": "g"});
        server
            .post("/v1/once", other)
            .await
            .problem(422, "mismatch");
        server
            .put("/v1/once/k@1", json!({"answer": 1}))
            .await
            .problem(410, "stale");
        server.post("/v1/sweep", json!({})).await.expect(200);

        let text = scrape(&server).await;
        for (family, label, counts) in [
            (
                "lock",
                "outcome",
                &[
                    ("acquired", 3),
                    ("reentered", 1),
                    ("busy", 1),
                    ("renewed", 1),
                    ("released", 2),
                    ("lost", 1),
                    ("broken", 1),
                ][..],
            ),
            (
                "inbox",
                "outcome",
                &[
                    ("pushed", 3),
                    ("duplicate", 1),
                    ("claimed", 3),
                    ("extended", 1),
                    ("completed", 1),
                    ("stale", 1),
                    ("failed", 1),
                    ("given_back", 1),
                ],
            ),
            (
                "outbox",
                "outcome",
                &[("emitted", 2), ("requeued", 0), ("discarded", 0)],
            ),
            (
                "once",
                "outcome",
                &[
                    ("fresh", 1),
                    ("in_flight", 1),
                    ("completed", 1),
                    ("replay", 1),
                    ("mismatch", 1),
                    ("stale", 1),
                ],
            ),
        ] {
            for (word, count) in counts {
                let series = format!("turno_{family}_outcomes_total{{{label}=\"{word}\"}}");
                assert_eq!(value(&text, &series), f64::from(*count), "{series}");
            }
        }
        assert_eq!(value(&text, "turno_sweeps_total"), 1.0);
        assert_eq!(value(&text, "turno_store_up"), 1.0);
        assert_eq!(value(&text, "turno_locks_held"), 1.0);
        assert_eq!(
            value(
                &text,
                "turno_inbox_queue_items{queue=\"q\",state=\"pending\"}"
            ),
            1.0
        );
        assert_eq!(
            value(&text, "turno_inbox_queue_completed_total{queue=\"q\"}"),
            1.0
        );
        assert_eq!(value(&text, "turno_outbox_events{state=\"pending\"}"), 2.0);
        let labels = "{route=\"/v1/leases/{id}\",method=\"DELETE\",status=\"4xx\"}";
        assert_eq!(
            value(&text, &format!("turno_http_requests_total{labels}")),
            1.0
        );
        let labels = "{route=\"/v1/leases/{id}\",method=\"DELETE\"}";
        assert_eq!(
            value(&text, &format!("turno_http_request_seconds_count{labels}")),
            3.0
        );
        // The request for the metrics itself.
        assert_eq!(value(&text, "turno_http_requests_in_flight"), 1.0);
        assert!(value(&text, "turno_http_connections") >= 1.0);
        server.end().await;
    }
}

/// A name must not break the format, and the number of names is limited.
#[tokio::test]
async fn queues_have_metrics_up_to_a_limit() {
    let server = Running::start().await;
    for queue in 0..203 {
        let queue = server.turno.inbox(format!("q{queue:03}\"\\{{}}"));
        queue.push(&json!(1)).await.unwrap();
    }
    let text = scrape(&server).await;
    let series = "turno_inbox_queue_items{queue=\"q000\\\"\\\\{}\",state=\"pending\"}";
    assert_eq!(value(&text, series), 1.0);
    assert_eq!(
        text.matches("turno_inbox_queue_completed_total{").count(),
        200
    );
    assert_eq!(value(&text, "turno_inbox_queues_left_out"), 3.0);
    // The sum includes all of them.
    assert_eq!(value(&text, "turno_inbox_items{state=\"pending\"}"), 203.0);
    server.end().await;
}

#[tokio::test]
async fn what_the_process_counts_is_there_without_the_store() {
    let database = PostgresServer::start().unwrap();
    let turno = Turno::connect(&database.create_database()).await.unwrap();
    // No token has to be looked up in the store that is down.
    let options = Options {
        admission: Admission::All,
        ..Options::default()
    };
    let server = Running::on(turno, options).await;
    server
        .post("/v1/locks", json!({"resource": "a"}))
        .await
        .expect(201);
    database.stop().unwrap();
    let text = scrape(&server).await;
    assert_eq!(value(&text, "turno_store_up"), 0.0);
    assert_eq!(
        value(&text, "turno_lock_outcomes_total{outcome=\"acquired\"}"),
        1.0
    );
    // An unknown value is omitted, not reported as zero.
    assert!(!text.contains("turno_locks_held"), "{text}");
    assert!(!text.contains("turno_inbox_items"), "{text}");
    server.end().await;
}
