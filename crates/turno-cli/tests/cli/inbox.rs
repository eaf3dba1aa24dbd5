//! `turno inbox …` after a push: its output and exit codes.

use serde_json::{Value, json};

use crate::common::{Fixture, LONG, text};

on_each_store!(
    an_item_is_claimed_and_completed,
    lists_are_readable,
    an_empty_queue_is_reported,
    work_is_waited_for,
    claims_are_lengthened,
    a_failed_attempt_is_tried_again,
    an_item_is_set_aside_and_revived,
    failed_items_are_discarded,
    items_are_given_back,
    stale_claims_change_nothing,
    a_stuck_item_is_taken_away,
    many_are_revived_and_reset,
    two_processes_get_different_items,
    queues_are_counted,
    items_are_listed_page_by_page,
    completed_items_are_deleted_on_request,
    failed_items_are_swept_if_asked,
    bad_arguments_are_refused,
);

fn push(fixture: &Fixture, payloads: &[&str]) {
    fixture.json(0, &[&["inbox", "push", "mail"], payloads].concat());
}

/// Claims with these options.
#[track_caller]
fn claim(fixture: &Fixture, options: &str) -> Vec<Value> {
    let claimed = fixture.json(0, &format!("inbox claim mail --wait 30s {options}"));
    claimed["items"].as_array().unwrap().clone()
}

#[track_caller]
fn claim_one(fixture: &Fixture) -> Value {
    claim(fixture, "").remove(0)
}

fn count(fixture: &Fixture, state: &str) -> u64 {
    fixture.json(0, "inbox stats mail")[state].as_u64().unwrap()
}

fn settled(done: u64, stale: &[&str]) -> Value {
    json!({"done": done, "stale": stale})
}

fn an_item_is_claimed_and_completed(fixture: Fixture) {
    push(
        &fixture,
        &[
            "{\n\"to\": \"ana\", \"sum\": 12345678901234567890.10}",
            "--key",
            "welcome/42",
            "--group",
            "ana",
            "--priority",
            "0",
        ],
    );
    push(&fixture, &["7"]);
    let words = [
        "--json", "inbox", "claim", "mail", "--limit", "5", "--worker", "w1",
    ];
    let claimed = fixture.turno(&words).expect(0);
    // On one line, and with the same digits as in the push.
    assert_eq!(claimed.out.lines().count(), 1, "{claimed:?}");
    assert!(
        claimed.out.contains("12345678901234567890.10"),
        "{claimed:?}"
    );
    let items = claimed.json()["items"].as_array().unwrap().clone();
    let [first, second] = items.as_slice() else {
        panic!("{claimed:?}")
    };
    assert_eq!(text(&first["payload"], "to"), "ana");
    assert_eq!(
        (text(first, "key"), text(first, "group"), &first["priority"]),
        ("welcome/42", "ana", &json!(0))
    );
    assert_eq!(
        (&first["attempt"], &second["attempt"]),
        (&json!(1), &json!(1))
    );
    assert!(text(first, "expires_at") > text(first, "pushed_at"));
    assert!(text(first, "claim").starts_with(&format!("{}@", first["id"])));
    // Absent fields are omitted.
    let mut fields: Vec<&String> = second.as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(
        fields,
        [
            "abandoned",
            "attempt",
            "claim",
            "expires_at",
            "id",
            "max_attempts",
            "payload",
            "priority",
            "pushed_at"
        ]
    );

    let held = fixture.json(0, "inbox list mail --state processing");
    assert_eq!(text(&held["items"][0], "worker"), "w1");
    let claims = [text(first, "claim"), text(second, "claim")];
    let done = fixture.json(0, &["inbox", "complete", claims[0], claims[1]]);
    assert_eq!(done, settled(2, &[]));
    assert_eq!(
        (count(&fixture, "completed"), count(&fixture, "pending")),
        (2, 0)
    );
}

fn lists_are_readable(fixture: Fixture) {
    push(&fixture, &[r#"{"to": "ana"}"#, "--key", "k"]);
    let listed = fixture.turno("inbox list mail").expect(0);
    let lines: Vec<&str> = listed.out.lines().collect();
    assert!(
        lines[0].starts_with("ID") && lines[0].contains("PAYLOAD"),
        "{listed:?}"
    );
    assert_eq!(lines[0].find("KEY"), lines[1].find("k "), "{listed:?}");
    assert!(lines[1].contains(r#"{"to": "ana"}"#), "{listed:?}");

    let claimed = fixture.turno("inbox claim mail").expect(0);
    let mut shown = claimed.out.lines();
    let claim = shown.next().unwrap().strip_prefix("claim").unwrap().trim();
    assert!(claimed.out.contains("\nattempt   1 of 5\n"), "{claimed:?}");
    assert!(
        claimed.out.contains("\npayload   {\"to\": \"ana\"}\n"),
        "{claimed:?}"
    );
    assert!(!claimed.out.contains("group"), "{claimed:?}");

    let says = |verb: &[&str], what: &str| {
        let done = fixture.turno(&[&["inbox"], verb].concat()).expect(0);
        assert_eq!((done.out.trim_end(), done.err.as_str()), (what, ""));
    };
    says(&["extend", claim, "--lease", "60s"], "extended: 1");
    let error = "no\x1b[2J\nserver";
    says(&["fail", claim, "--error", error, "--final"], "failed: 1");
    let failed = fixture.turno("inbox list mail --state failed").expect(0);
    // No control characters reach the terminal.
    assert!(failed.out.contains("no [2J server"), "{failed:?}");
    says(&["requeue", "mail", "--all"], "requeued: 1");
    says(&["reset", "mail"], "reset: 0");
    says(
        &["list", "mail", "--state", "failed"],
        "mail: no item is failed",
    );

    let stats = fixture.turno("inbox stats").expect(0);
    let lines: Vec<&str> = stats.out.lines().collect();
    assert!(lines[0].starts_with("QUEUE  TOTAL  PENDING  "), "{stats:?}");
    assert!(lines[1].starts_with("mail       1        1  "), "{stats:?}");
    assert_eq!(
        fixture
            .turno("inbox stats mail")
            .expect(0)
            .out
            .lines()
            .count(),
        2
    );
}

fn an_empty_queue_is_reported(fixture: Fixture) {
    assert_eq!(fixture.json(75, "inbox claim mail"), json!({"items": []}));
    let output = fixture.turno("inbox claim mail").expect(75);
    assert_eq!(
        (output.out.as_str(), output.err.as_str()),
        ("", "mail: nothing to do\n")
    );
    // An item that is not due yet is not claimed either; and a wait ends.
    push(&fixture, &["1", "--delay", "1h"]);
    push(&fixture, &["2", "--run-at", "2099-12-31T23:59:59+02:00"]);
    fixture.json(75, "inbox claim mail --wait 50ms");
    assert_eq!(count(&fixture, "scheduled"), 2);
    let listed = fixture.json(0, "inbox list mail --state scheduled");
    assert!(
        text(&listed["items"][1], "at").starts_with("2099-12-31T21:59:59"),
        "{listed}"
    );
    // An item with a due time in the past is due.
    push(&fixture, &["3", "--run-at", "2001-01-01T00:00:00Z"]);
    assert_eq!(claim_one(&fixture)["payload"], json!(3));
}

fn work_is_waited_for(fixture: Fixture) {
    fixture.turno("migrate").expect(0);
    let waiting = fixture.start("--json inbox claim mail --wait 60s");
    push(&fixture, &["7"]);
    let claimed = waiting.lines().next(LONG).expect("the item is handed out");
    assert!(waiting.wait_timeout(LONG).unwrap().success());
    let claimed: Value = serde_json::from_str(&claimed).unwrap();
    assert_eq!(claimed["items"][0]["payload"], json!(7));
}

fn claims_are_lengthened(fixture: Fixture) {
    push(&fixture, &["7"]);
    let item = claim(&fixture, "--lease 5m").remove(0);
    let id = text(&item, "claim");
    let extended = fixture.json(0, &["inbox", "extend", id, "--lease", "1h"]);
    assert_eq!(extended, settled(1, &[]));
    // While it is claimed, no other worker gets it, and its worker may settle it.
    fixture.json(75, "inbox claim mail");
    assert_eq!(fixture.json(0, &["inbox", "complete", id]), settled(1, &[]));
    assert_eq!(fixture.json(1, &["inbox", "extend", id]), settled(0, &[id]));
}

fn a_failed_attempt_is_tried_again(fixture: Fixture) {
    push(&fixture, &["7"]);
    let first = claim(&fixture, "--worker w1").remove(0);
    let id = text(&first, "claim");
    let fail = format!("inbox fail {id} --error 'no answer' --retry-in 0s");
    assert_eq!(fixture.json(0, &fail), settled(1, &[]));
    let second = claim_one(&fixture);
    assert_eq!(
        (&second["attempt"], &second["id"]),
        (&json!(2), &first["id"])
    );
    let held = fixture.json(0, "inbox list mail --state processing");
    let item = &held["items"][0];
    assert_eq!(
        (&item["attempts"], &item["state"]),
        (&json!(1), &json!("processing"))
    );
    let error = &item["errors"][0];
    assert_eq!(
        [
            text(error, "error"),
            text(error, "kind"),
            text(error, "worker")
        ],
        ["no answer", "failed", "w1"]
    );
    // Without an explicit time, there is a backoff.
    let words = ["inbox", "fail", text(&second, "claim"), "--error", "again"];
    fixture.json(0, &words);
    assert_eq!(count(&fixture, "scheduled"), 1);
}

fn an_item_is_set_aside_and_revived(fixture: Fixture) {
    push(&fixture, &["1", "2", "--max-attempts", "1"]);
    push(&fixture, &["3"]);
    for more in [&[][..], &[], &["--final"]] {
        let item = claim_one(&fixture);
        let words = ["inbox", "fail", text(&item, "claim"), "--error", "bad"];
        fixture.json(0, &[&words, more].concat());
    }
    assert_eq!(count(&fixture, "failed"), 3);
    let failed = fixture.json(0, "inbox list mail --state failed");
    let id = failed["items"][1]["id"].to_string();
    assert_eq!(failed["items"][1]["payload"], json!(2));
    // Ids of items that have not failed are ignored.
    let requeued = fixture.json(0, &["inbox", "requeue", "mail", &id, "123456789", "-1"]);
    assert_eq!(requeued, json!({"requeued": 1}));
    let again = claim_one(&fixture);
    assert_eq!(
        (&again["payload"], &again["attempt"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(
        fixture.json(0, "inbox requeue mail --all"),
        json!({"requeued": 2})
    );
    assert_eq!(count(&fixture, "failed"), 0);
    // Either ids or `--all`.
    fixture.turno("inbox requeue mail").expect(2);
    fixture
        .turno(&["inbox", "requeue", "mail", &id, "--all"])
        .expect(2);
}

fn failed_items_are_discarded(fixture: Fixture) {
    push(&fixture, &["1", "2", "3"]);
    for _ in 0..3 {
        let item = claim_one(&fixture);
        let claim = text(&item, "claim");
        fixture.json(0, &["inbox", "fail", claim, "--error", "bad", "--final"]);
    }
    let failed = fixture.json(0, "inbox list mail --state failed");
    let id = failed["items"][1]["id"].to_string();
    let discard = ["inbox", "discard", "mail"];
    // Either ids or `--all`.
    fixture.turno(&discard).expect(2);
    fixture
        .turno(&[&discard[..], &[&id, "--all"]].concat())
        .expect(2);
    assert_eq!(count(&fixture, "failed"), 3);
    let words = [&id, "123456789", "--reason", "spam", "--user", "ana"];
    assert_eq!(
        fixture.json(0, &[&discard[..], &words].concat()),
        json!({"discarded": 1})
    );
    assert_eq!(
        (count(&fixture, "failed"), count(&fixture, "total")),
        (2, 2)
    );
    let output = fixture
        .turno(&[&discard[..], &["--all"]].concat())
        .expect(0);
    assert_eq!(output.out, "discarded: 2\n");
    assert_eq!(count(&fixture, "total"), 0);
    let history = fixture.json(0, "history mail");
    let first = &history["history"][1];
    assert_eq!(
        [
            &first["event"],
            &first["count"],
            &first["actor"],
            &first["reason"]
        ],
        [
            &json!("discarded"),
            &json!(1),
            &json!("ana"),
            &json!("spam")
        ]
    );
}

fn items_are_given_back(fixture: Fixture) {
    push(&fixture, &["1", "2"]);
    let items = claim(&fixture, "--limit 2");
    let claims = [text(&items[0], "claim"), text(&items[1], "claim")];
    let back = fixture.json(0, &["inbox", "give-back", claims[0], claims[1]]);
    assert_eq!(back, settled(2, &[]));
    assert_eq!(count(&fixture, "pending"), 2);
    assert_eq!(claim_one(&fixture)["attempt"], json!(1));
}

fn stale_claims_change_nothing(fixture: Fixture) {
    push(&fixture, &["1", "2"]);
    let lost = claim(&fixture, "--lease 1ms").remove(0);
    // It ends, and the item is claimed again.
    let mut items = claim(&fixture, "--limit 2 --lease 1h");
    while items.len() < 2 {
        items.extend(claim(&fixture, "--lease 1h"));
    }
    let (lost, good) = (text(&lost, "claim"), text(&items[0], "claim"));
    let unknown = "999@0190f1f4-2b3c-7d4e-8f50-112233445566";
    for verb in [
        &["complete"][..],
        &["fail", "--error", "x"],
        &["extend"],
        &["give-back"],
    ] {
        let words = [&["inbox"], verb, &[lost, unknown]].concat();
        assert_eq!(fixture.json(1, &words), settled(0, &[lost, unknown]));
        let output = fixture.turno(&words).expect(1);
        assert!(output.out.ends_with(": 0\n"), "{output:?}");
        let lines: Vec<&str> = output.err.lines().collect();
        assert_eq!(lines.len(), 2, "{output:?}");
        assert!(
            lines[0].contains(lost) && lines[0].contains("stale"),
            "{output:?}"
        );
    }
    assert_eq!(count(&fixture, "processing"), 2);
    // Valid claims are settled nevertheless.
    let some = fixture.json(1, &["inbox", "complete", lost, good]);
    assert_eq!(some, settled(1, &[lost]));
}

fn a_stuck_item_is_taken_away(fixture: Fixture) {
    push(&fixture, &["1"]);
    let stuck = claim(&fixture, "--lease 1h").remove(0);
    assert_eq!(
        fixture.json(0, "inbox reset mail"),
        json!({"reset": 0}),
        "a quarter of an hour has not passed"
    );
    assert_eq!(
        fixture.json(0, "inbox reset mail --older-than 0s"),
        json!({"reset": 1})
    );
    let id = text(&stuck, "claim");
    assert_eq!(
        fixture.json(1, &["inbox", "complete", id]),
        settled(0, &[id])
    );
    assert_eq!(claim_one(&fixture)["id"], stuck["id"]);
}

/// More than the library handles in one call.
fn many_are_revived_and_reset(fixture: Fixture) {
    let lines: String = (0..2500).map(|n| format!("{n}\n")).collect();
    std::fs::write(fixture.path("many.ndjson"), lines).unwrap();
    fixture.json(0, "inbox push mail --file many.ndjson");
    let items = claim(&fixture, "--limit 2500 --lease 1h");
    assert_eq!(items.len(), 2500);
    assert_eq!(
        fixture.json(0, "inbox reset mail --older-than 0s"),
        json!({"reset": 2500})
    );
    let items = claim(&fixture, "--limit 2500 --lease 1h");
    let claims: Vec<&str> = items.iter().map(|item| text(item, "claim")).collect();
    let words = ["inbox", "fail", "--error", "x", "--final"];
    assert_eq!(
        fixture.json(0, &[&words, claims.as_slice()].concat()),
        settled(2500, &[])
    );
    assert_eq!(
        fixture.json(0, "inbox requeue mail --all"),
        json!({"requeued": 2500})
    );
    assert_eq!(count(&fixture, "pending"), 2500);
}

fn two_processes_get_different_items(fixture: Fixture) {
    push(&fixture, &["1", "2", "3", "4", "5", "6", "7", "8"]);
    let words = [
        "--json", "inbox", "claim", "mail", "--limit", "4", "--wait", "60s",
    ];
    let both = [fixture.start(&words), fixture.start(&words)];
    let mut ids: Vec<i64> = Vec::new();
    for process in &both {
        let claimed = process
            .lines()
            .next(LONG)
            .expect("there is enough for both");
        let claimed: Value = serde_json::from_str(&claimed).unwrap();
        let items = claimed["items"].as_array().unwrap();
        assert!(!items.is_empty());
        ids.extend(items.iter().map(|item| item["id"].as_i64().unwrap()));
        assert!(process.wait_timeout(LONG).unwrap().success());
    }
    let claimed = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), claimed, "an item was handed out twice");
    assert_eq!(count(&fixture, "processing"), claimed as u64);
}

fn queues_are_counted(fixture: Fixture) {
    fixture.turno("migrate").expect(0);
    assert_eq!(fixture.json(0, "inbox stats"), json!({"queues": []}));
    assert!(
        fixture
            .turno("inbox stats")
            .expect(0)
            .out
            .contains("there are no queues")
    );
    for queue in ["a/1", "a/2", "b/1"] {
        fixture.json(0, &["inbox", "push", queue, "1", "2"]);
    }
    let names = |more: &[&str]| -> Vec<String> {
        let stats = fixture.json(0, &[&["inbox", "stats"], more].concat());
        let queues = stats["queues"].as_array().unwrap().iter();
        queues.map(|one| text(one, "queue").to_owned()).collect()
    };
    assert_eq!(names(&[]), ["a/1", "a/2", "b/1"]);
    assert_eq!(names(&["--prefix", "a/"]), ["a/1", "a/2"]);
    let none = fixture.turno("inbox stats --prefix c/").expect(0);
    assert_eq!(none.out, "there are no queues with the prefix c/\n");
    let one = fixture.json(0, "inbox stats b/1");
    assert_eq!(
        (text(&one, "queue"), &one["total"], &one["pending"]),
        ("b/1", &json!(2), &json!(2))
    );
    assert!(one["oldest_pending_ms"].as_u64().is_some(), "{one}");
    for state in ["scheduled", "processing", "completed", "failed"] {
        assert_eq!(one[state], json!(0), "{state}");
    }
    // A name may be mistyped: for a queue that has never had an item, there is an error, and no zeros.
    for words in [
        &["inbox", "stats", "c"][..],
        &["inbox", "list", "c"],
        &["inbox", "requeue", "c", "--all"],
        &["inbox", "reset", "c"],
    ] {
        let unknown = fixture.turno(&[&["--json"], words].concat()).expect(1);
        assert_eq!(text(&unknown.error(), "code"), "no_queue", "{words:?}");
    }
    fixture.turno("inbox stats a/1 --prefix a/").expect(2);
}

fn items_are_listed_page_by_page(fixture: Fixture) {
    let long = format!("\"{}\"", "ñ".repeat(500));
    push(&fixture, &["1", "2", "3", &long]);
    let page = |more: &[&str]| -> Vec<Value> {
        let page = fixture.json(0, &[&["inbox", "list", "mail"], more].concat());
        page["items"].as_array().unwrap().clone()
    };
    let first = page(&["--limit", "2"]);
    assert_eq!([&first[0]["payload"], &first[1]["payload"]], [1, 2]);
    let after = first[1]["id"].to_string();
    let second = page(&["--limit", "2", "--after", &after]);
    // Complete for programs, shortened in tables.
    assert_eq!(second[1]["payload"].to_string(), long);
    let shown = fixture.turno("inbox list mail").expect(0).out;
    assert!(shown.contains("ñ…") && !shown.contains(&long), "{shown}");
    assert_eq!(
        (&first[0]["errors"], &first[0]["attempts"]),
        (&json!([]), &json!(0))
    );
    assert!(first[0].get("worker").is_none(), "{first:?}");

    for item in claim(&fixture, "--limit 2 --worker w1") {
        fixture.json(0, &["inbox", "complete", text(&item, "claim")]);
    }
    let done = page(&["--state", "completed"]);
    assert_eq!(
        [&done[0]["id"], &done[1]["id"]],
        [&first[1]["id"], &first[0]["id"]]
    );
    assert!(done[0].get("payload").is_none(), "{done:?}");
    let shown = fixture.turno("inbox list mail --state completed").expect(0);
    assert!(shown.out.contains("w1"), "{shown:?}");
}

fn failed_items_are_swept_if_asked(fixture: Fixture) {
    let fail = || {
        push(&fixture, &["1"]);
        let item = claim_one(&fixture);
        let claim = text(&item, "claim");
        fixture.json(0, &["inbox", "fail", claim, "--error", "bad", "--final"]);
    };
    fail();
    assert_eq!(fixture.json(0, "sweep")["failed"], json!(0));
    let swept = fixture.json(0, "sweep --keep-failed 1h");
    assert_eq!(swept["failed"], json!(0));
    assert_eq!(count(&fixture, "failed"), 1);
    let swept = fixture.json(0, "sweep --keep-failed 0s");
    assert_eq!(swept["failed"], json!(1));
    assert_eq!(count(&fixture, "failed"), 0);
    // The same, set in the file.
    fail();
    let file = "[cleanup]\nenabled = false\nkeep_failed = \"0s\"\n";
    std::fs::write(fixture.path("turno.toml"), file).unwrap();
    let swept = fixture.turno("sweep").expect(0);
    assert!(swept.out.contains("failed items deleted: 1"), "{swept:?}");
}

fn completed_items_are_deleted_on_request(fixture: Fixture) {
    let push = || fixture.json(0, "inbox push mail 1 --key k")["duplicates"].clone();
    push();
    let item = claim_one(&fixture);
    fixture.json(0, &["inbox", "complete", text(&item, "claim")]);
    assert_eq!(fixture.json(0, "sweep")["completed"], json!(0));
    assert_eq!(push(), json!([item["id"]]), "its key is kept");
    let swept = fixture.json(0, "sweep --keep-completed 0s");
    assert!(swept["completed"].as_u64() >= Some(1), "{swept}");
    assert_eq!(push(), json!([]), "its key is forgotten");
    // The same, set in the file.
    let item = claim_one(&fixture);
    fixture.json(0, &["inbox", "complete", text(&item, "claim")]);
    let file = "[cleanup]\nenabled = false\nkeep_completed = \"0s\"\n";
    std::fs::write(fixture.path("turno.toml"), file).unwrap();
    let swept = fixture.turno("sweep").expect(0);
    assert!(
        swept.out.contains("records of completed work deleted: ")
            && !swept.out.contains("work deleted: 0 "),
        "{swept:?}"
    );
}

fn bad_arguments_are_refused(fixture: Fixture) {
    fixture.turno("migrate").expect(0);
    let long = "x".repeat(256);
    let rows: [(&str, &[&str]); 25] = [
        ("queue", &["claim", ""]),
        ("queue", &["stats", "a\nb"]),
        ("queue", &["list", &long]),
        ("queue", &["requeue", "", "--all"]),
        ("queue", &["discard", "", "--all"]),
        ("queue", &["reset", ""]),
        ("limit", &["claim", "q", "--limit", "0"]),
        ("limit", &["claim", "q", "--limit", "10001"]),
        ("limit", &["claim", "q", "--limit", "x"]),
        ("lease", &["claim", "q", "--lease", "0s"]),
        ("lease", &["claim", "q", "--lease", "25h"]),
        ("lease", &["claim", "q", "--lease", "-5s"]),
        ("wait", &["claim", "q", "--wait", "25h"]),
        ("worker", &["claim", "q", "--worker", ""]),
        ("claim", &["complete"]),
        ("claim", &["complete", "17"]),
        ("claim", &["give-back", "x@y"]),
        (
            "error",
            &["fail", "17@0190f1f4-2b3c-7d4e-8f50-112233445566"],
        ),
        (
            "retry_in",
            &[
                "fail",
                "17@0190f1f4-2b3c-7d4e-8f50-112233445566",
                "--error",
                "x",
                "--retry-in",
                "5000d",
            ],
        ),
        (
            "lease",
            &[
                "extend",
                "17@0190f1f4-2b3c-7d4e-8f50-112233445566",
                "--lease",
                "0",
            ],
        ),
        ("state", &["list", "q", "--state", "lost"]),
        ("after", &["list", "q", "--after", "x"]),
        ("id", &["requeue", "q", "x"]),
        ("id", &["discard", "q", "x"]),
        ("older_than", &["reset", "q", "--older-than", "5000d"]),
    ];
    for (field, arguments) in rows {
        let refused = fixture
            .turno(&[&["--json", "inbox"], arguments].concat())
            .expect(2);
        let error = refused.error();
        assert_eq!(
            (text(&error, "code"), text(&error, "field")),
            ("invalid", field),
            "{arguments:?}: {error}"
        );
        assert!(refused.out.is_empty(), "{refused:?}");
        let output = fixture.turno(&[&["inbox"], arguments].concat()).expect(2);
        assert!(output.err.starts_with("error: "), "{output:?}");
    }
}
