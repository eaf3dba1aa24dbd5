//! `turno inbox …` after a push: its output and exit codes.

use serde_json::{Value, json};

use crate::common::{LONG, Place, text};

on_each_store!(
    an_item_is_claimed_and_completed,
    what_is_shown_is_for_people,
    nothing_to_do_is_told,
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
    completed_work_is_forgotten_when_told_to,
    failed_items_are_swept_if_asked,
    bad_arguments_are_refused,
);

fn push(place: &Place, payloads: &[&str]) {
    place.json(0, &[&["inbox", "push", "mail"], payloads].concat());
}

/// Claims with these options.
#[track_caller]
fn claim(place: &Place, more: &[&str]) -> Vec<Value> {
    let words = [&["inbox", "claim", "mail", "--wait", "30s"], more].concat();
    let claimed = place.json(0, &words);
    claimed["items"].as_array().unwrap().clone()
}

#[track_caller]
fn claim_one(place: &Place) -> Value {
    claim(place, &[]).remove(0)
}

fn count(place: &Place, state: &str) -> u64 {
    place.json(0, &["inbox", "stats", "mail"])[state]
        .as_u64()
        .unwrap()
}

fn settled(done: u64, stale: &[&str]) -> Value {
    json!({"done": done, "stale": stale})
}

fn an_item_is_claimed_and_completed(place: Place) {
    push(
        &place,
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
    push(&place, &["7"]);
    let words = [
        "--json", "inbox", "claim", "mail", "--limit", "5", "--worker", "w1",
    ];
    let claimed = place.turno(&words).expect(0);
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

    let held = place.json(0, &["inbox", "list", "mail", "--state", "processing"]);
    assert_eq!(text(&held["items"][0], "worker"), "w1");
    let claims = [text(first, "claim"), text(second, "claim")];
    let done = place.json(0, &["inbox", "complete", claims[0], claims[1]]);
    assert_eq!(done, settled(2, &[]));
    assert_eq!(
        (count(&place, "completed"), count(&place, "pending")),
        (2, 0)
    );
}

fn what_is_shown_is_for_people(place: Place) {
    push(&place, &[r#"{"to": "ana"}"#, "--key", "k"]);
    let listed = place.turno(&["inbox", "list", "mail"]).expect(0);
    let lines: Vec<&str> = listed.out.lines().collect();
    assert!(
        lines[0].starts_with("ID") && lines[0].contains("PAYLOAD"),
        "{listed:?}"
    );
    assert_eq!(lines[0].find("KEY"), lines[1].find("k "), "{listed:?}");
    assert!(lines[1].contains(r#"{"to": "ana"}"#), "{listed:?}");

    let claimed = place.turno(&["inbox", "claim", "mail"]).expect(0);
    let mut shown = claimed.out.lines();
    let claim = shown.next().unwrap().strip_prefix("claim").unwrap().trim();
    assert!(claimed.out.contains("\nattempt   1 of 5\n"), "{claimed:?}");
    assert!(
        claimed.out.contains("\npayload   {\"to\": \"ana\"}\n"),
        "{claimed:?}"
    );
    assert!(!claimed.out.contains("group"), "{claimed:?}");

    let says = |verb: &[&str], what: &str| {
        let done = place.turno(&[&["inbox"], verb].concat()).expect(0);
        assert_eq!((done.out.trim_end(), done.err.as_str()), (what, ""));
    };
    says(&["extend", claim, "--lease", "60s"], "extended: 1");
    let error = "no\x1b[2J\nserver";
    says(&["fail", claim, "--error", error, "--final"], "failed: 1");
    let failed = place
        .turno(&["inbox", "list", "mail", "--state", "failed"])
        .expect(0);
    // No control characters reach the terminal.
    assert!(failed.out.contains("no [2J server"), "{failed:?}");
    says(&["requeue", "mail", "--all"], "requeued: 1");
    says(&["reset", "mail"], "reset: 0");
    says(
        &["list", "mail", "--state", "failed"],
        "mail: no item is failed",
    );

    let stats = place.turno(&["inbox", "stats"]).expect(0);
    let lines: Vec<&str> = stats.out.lines().collect();
    assert!(lines[0].starts_with("QUEUE  TOTAL  PENDING  "), "{stats:?}");
    assert!(lines[1].starts_with("mail       1        1  "), "{stats:?}");
    assert_eq!(
        place
            .turno(&["inbox", "stats", "mail"])
            .expect(0)
            .out
            .lines()
            .count(),
        2
    );
}

fn nothing_to_do_is_told(place: Place) {
    assert_eq!(
        place.json(75, &["inbox", "claim", "mail"]),
        json!({"items": []})
    );
    let told = place.turno(&["inbox", "claim", "mail"]).expect(75);
    assert_eq!(
        (told.out.as_str(), told.err.as_str()),
        ("", "mail: nothing to do\n")
    );
    // An item that is not due yet is not claimed either; and a wait ends.
    push(&place, &["1", "--delay", "1h"]);
    push(&place, &["2", "--run-at", "2099-12-31T23:59:59+02:00"]);
    place.json(75, &["inbox", "claim", "mail", "--wait", "50ms"]);
    assert_eq!(count(&place, "scheduled"), 2);
    let listed = place.json(0, &["inbox", "list", "mail", "--state", "scheduled"]);
    assert!(
        text(&listed["items"][1], "at").starts_with("2099-12-31T21:59:59"),
        "{listed}"
    );
    // An item with a due time in the past is due.
    push(&place, &["3", "--run-at", "2001-01-01T00:00:00Z"]);
    assert_eq!(claim_one(&place)["payload"], json!(3));
}

fn work_is_waited_for(place: Place) {
    place.turno(&["migrate"]).expect(0);
    let waiting = place.start(&["--json", "inbox", "claim", "mail", "--wait", "60s"]);
    push(&place, &["7"]);
    let claimed = waiting.lines().next(LONG).expect("the item is handed out");
    assert!(waiting.wait_timeout(LONG).unwrap().success());
    let claimed: Value = serde_json::from_str(&claimed).unwrap();
    assert_eq!(claimed["items"][0]["payload"], json!(7));
}

fn claims_are_lengthened(place: Place) {
    push(&place, &["7"]);
    let item = claim(&place, &["--lease", "5m"]).remove(0);
    let id = text(&item, "claim");
    let extended = place.json(0, &["inbox", "extend", id, "--lease", "1h"]);
    assert_eq!(extended, settled(1, &[]));
    // While it is claimed, no other worker gets it, and its worker may settle it.
    place.json(75, &["inbox", "claim", "mail"]);
    assert_eq!(place.json(0, &["inbox", "complete", id]), settled(1, &[]));
    assert_eq!(place.json(1, &["inbox", "extend", id]), settled(0, &[id]));
}

fn a_failed_attempt_is_tried_again(place: Place) {
    push(&place, &["7"]);
    let first = claim(&place, &["--worker", "w1"]).remove(0);
    let id = text(&first, "claim");
    let words = [
        "inbox",
        "fail",
        id,
        "--error",
        "no answer",
        "--retry-in",
        "0s",
    ];
    assert_eq!(place.json(0, &words), settled(1, &[]));
    let second = claim_one(&place);
    assert_eq!(
        (&second["attempt"], &second["id"]),
        (&json!(2), &first["id"])
    );
    let held = place.json(0, &["inbox", "list", "mail", "--state", "processing"]);
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
    place.json(0, &words);
    assert_eq!(count(&place, "scheduled"), 1);
}

fn an_item_is_set_aside_and_revived(place: Place) {
    push(&place, &["1", "2", "--max-attempts", "1"]);
    push(&place, &["3"]);
    for more in [&[][..], &[], &["--final"]] {
        let item = claim_one(&place);
        let words = ["inbox", "fail", text(&item, "claim"), "--error", "bad"];
        place.json(0, &[&words, more].concat());
    }
    assert_eq!(count(&place, "failed"), 3);
    let failed = place.json(0, &["inbox", "list", "mail", "--state", "failed"]);
    let id = failed["items"][1]["id"].to_string();
    assert_eq!(failed["items"][1]["payload"], json!(2));
    // Ids of items that have not failed are ignored.
    let requeued = place.json(0, &["inbox", "requeue", "mail", &id, "123456789", "-1"]);
    assert_eq!(requeued, json!({"requeued": 1}));
    let again = claim_one(&place);
    assert_eq!(
        (&again["payload"], &again["attempt"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(
        place.json(0, &["inbox", "requeue", "mail", "--all"]),
        json!({"requeued": 2})
    );
    assert_eq!(count(&place, "failed"), 0);
    // Either ids or `--all`.
    place.turno(&["inbox", "requeue", "mail"]).expect(2);
    place
        .turno(&["inbox", "requeue", "mail", &id, "--all"])
        .expect(2);
}

fn failed_items_are_discarded(place: Place) {
    push(&place, &["1", "2", "3"]);
    for _ in 0..3 {
        let item = claim_one(&place);
        let claim = text(&item, "claim");
        place.json(0, &["inbox", "fail", claim, "--error", "bad", "--final"]);
    }
    let failed = place.json(0, &["inbox", "list", "mail", "--state", "failed"]);
    let id = failed["items"][1]["id"].to_string();
    let discard = ["inbox", "discard", "mail"];
    // Either ids or `--all`.
    place.turno(&discard).expect(2);
    place
        .turno(&[&discard[..], &[&id, "--all"]].concat())
        .expect(2);
    assert_eq!(count(&place, "failed"), 3);
    let words = [&id, "123456789", "--reason", "spam", "--user", "ana"];
    assert_eq!(
        place.json(0, &[&discard[..], &words].concat()),
        json!({"discarded": 1})
    );
    assert_eq!((count(&place, "failed"), count(&place, "total")), (2, 2));
    let told = place.turno(&[&discard[..], &["--all"]].concat()).expect(0);
    assert_eq!(told.out, "discarded: 2\n");
    assert_eq!(count(&place, "total"), 0);
    let history = place.json(0, &["history", "mail"]);
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

fn items_are_given_back(place: Place) {
    push(&place, &["1", "2"]);
    let items = claim(&place, &["--limit", "2"]);
    let claims = [text(&items[0], "claim"), text(&items[1], "claim")];
    let back = place.json(0, &["inbox", "give-back", claims[0], claims[1]]);
    assert_eq!(back, settled(2, &[]));
    assert_eq!(count(&place, "pending"), 2);
    assert_eq!(claim_one(&place)["attempt"], json!(1));
}

fn stale_claims_change_nothing(place: Place) {
    push(&place, &["1", "2"]);
    let lost = claim(&place, &["--lease", "1ms"]).remove(0);
    // It ends, and the item is claimed again.
    let mut items = claim(&place, &["--limit", "2", "--lease", "1h"]);
    while items.len() < 2 {
        items.extend(claim(&place, &["--lease", "1h"]));
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
        assert_eq!(place.json(1, &words), settled(0, &[lost, unknown]));
        let told = place.turno(&words).expect(1);
        assert!(told.out.ends_with(": 0\n"), "{told:?}");
        let lines: Vec<&str> = told.err.lines().collect();
        assert_eq!(lines.len(), 2, "{told:?}");
        assert!(
            lines[0].contains(lost) && lines[0].contains("stale"),
            "{told:?}"
        );
    }
    assert_eq!(count(&place, "processing"), 2);
    // Valid claims are settled nevertheless.
    let some = place.json(1, &["inbox", "complete", lost, good]);
    assert_eq!(some, settled(1, &[lost]));
}

fn a_stuck_item_is_taken_away(place: Place) {
    push(&place, &["1"]);
    let stuck = claim(&place, &["--lease", "1h"]).remove(0);
    assert_eq!(
        place.json(0, &["inbox", "reset", "mail"]),
        json!({"reset": 0}),
        "a quarter of an hour has not passed"
    );
    assert_eq!(
        place.json(0, &["inbox", "reset", "mail", "--older-than", "0s"]),
        json!({"reset": 1})
    );
    let id = text(&stuck, "claim");
    assert_eq!(place.json(1, &["inbox", "complete", id]), settled(0, &[id]));
    assert_eq!(claim_one(&place)["id"], stuck["id"]);
}

/// More than the library handles in one call.
fn many_are_revived_and_reset(place: Place) {
    let lines: String = (0..2500).map(|n| format!("{n}\n")).collect();
    std::fs::write(place.path("many.ndjson"), lines).unwrap();
    place.json(0, &["inbox", "push", "mail", "--file", "many.ndjson"]);
    let items = claim(&place, &["--limit", "2500", "--lease", "1h"]);
    assert_eq!(items.len(), 2500);
    assert_eq!(
        place.json(0, &["inbox", "reset", "mail", "--older-than", "0s"]),
        json!({"reset": 2500})
    );
    let items = claim(&place, &["--limit", "2500", "--lease", "1h"]);
    let claims: Vec<&str> = items.iter().map(|item| text(item, "claim")).collect();
    let words = ["inbox", "fail", "--error", "x", "--final"];
    assert_eq!(
        place.json(0, &[&words, claims.as_slice()].concat()),
        settled(2500, &[])
    );
    assert_eq!(
        place.json(0, &["inbox", "requeue", "mail", "--all"]),
        json!({"requeued": 2500})
    );
    assert_eq!(count(&place, "pending"), 2500);
}

fn two_processes_get_different_items(place: Place) {
    push(&place, &["1", "2", "3", "4", "5", "6", "7", "8"]);
    let words = [
        "--json", "inbox", "claim", "mail", "--limit", "4", "--wait", "60s",
    ];
    let both = [place.start(&words), place.start(&words)];
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
    assert_eq!(count(&place, "processing"), claimed as u64);
}

fn queues_are_counted(place: Place) {
    place.turno(&["migrate"]).expect(0);
    assert_eq!(place.json(0, &["inbox", "stats"]), json!({"queues": []}));
    assert!(
        place
            .turno(&["inbox", "stats"])
            .expect(0)
            .out
            .contains("there are no queues")
    );
    for queue in ["a/1", "a/2", "b/1"] {
        place.json(0, &["inbox", "push", queue, "1", "2"]);
    }
    let names = |more: &[&str]| -> Vec<String> {
        let stats = place.json(0, &[&["inbox", "stats"], more].concat());
        let queues = stats["queues"].as_array().unwrap().iter();
        queues.map(|one| text(one, "queue").to_owned()).collect()
    };
    assert_eq!(names(&[]), ["a/1", "a/2", "b/1"]);
    assert_eq!(names(&["--prefix", "a/"]), ["a/1", "a/2"]);
    let none = place.turno(&["inbox", "stats", "--prefix", "c/"]).expect(0);
    assert_eq!(none.out, "there are no queues with the prefix c/\n");
    let one = place.json(0, &["inbox", "stats", "b/1"]);
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
        let unknown = place.turno(&[&["--json"], words].concat()).expect(1);
        assert_eq!(text(&unknown.error(), "code"), "no_queue", "{words:?}");
    }
    place
        .turno(&["inbox", "stats", "a/1", "--prefix", "a/"])
        .expect(2);
}

fn items_are_listed_page_by_page(place: Place) {
    let long = format!("\"{}\"", "ñ".repeat(500));
    push(&place, &["1", "2", "3", &long]);
    let page = |more: &[&str]| -> Vec<Value> {
        let page = place.json(0, &[&["inbox", "list", "mail"], more].concat());
        page["items"].as_array().unwrap().clone()
    };
    let first = page(&["--limit", "2"]);
    assert_eq!([&first[0]["payload"], &first[1]["payload"]], [1, 2]);
    let after = first[1]["id"].to_string();
    let second = page(&["--limit", "2", "--after", &after]);
    // Complete for programs, shortened in tables.
    assert_eq!(second[1]["payload"].to_string(), long);
    let shown = place.turno(&["inbox", "list", "mail"]).expect(0).out;
    assert!(shown.contains("ñ…") && !shown.contains(&long), "{shown}");
    assert_eq!(
        (&first[0]["errors"], &first[0]["attempts"]),
        (&json!([]), &json!(0))
    );
    assert!(first[0].get("worker").is_none(), "{first:?}");

    for item in claim(&place, &["--limit", "2", "--worker", "w1"]) {
        place.json(0, &["inbox", "complete", text(&item, "claim")]);
    }
    let done = page(&["--state", "completed"]);
    assert_eq!(
        [&done[0]["id"], &done[1]["id"]],
        [&first[1]["id"], &first[0]["id"]]
    );
    assert!(done[0].get("payload").is_none(), "{done:?}");
    let shown = place
        .turno(&["inbox", "list", "mail", "--state", "completed"])
        .expect(0);
    assert!(shown.out.contains("w1"), "{shown:?}");
}

fn failed_items_are_swept_if_asked(place: Place) {
    let fail = || {
        push(&place, &["1"]);
        let item = claim_one(&place);
        let claim = text(&item, "claim");
        place.json(0, &["inbox", "fail", claim, "--error", "bad", "--final"]);
    };
    fail();
    assert_eq!(place.json(0, &["sweep"])["failed"], json!(0));
    let swept = place.json(0, &["sweep", "--keep-failed", "1h"]);
    assert_eq!(swept["failed"], json!(0));
    assert_eq!(count(&place, "failed"), 1);
    let swept = place.json(0, &["sweep", "--keep-failed", "0s"]);
    assert_eq!(swept["failed"], json!(1));
    assert_eq!(count(&place, "failed"), 0);
    // The same, set in the file.
    fail();
    let file = "[cleanup]\nenabled = false\nkeep_failed = \"0s\"\n";
    std::fs::write(place.path("turno.toml"), file).unwrap();
    let swept = place.turno(&["sweep"]).expect(0);
    assert!(swept.out.contains("failed items deleted: 1"), "{swept:?}");
}

fn completed_work_is_forgotten_when_told_to(place: Place) {
    let push =
        || place.json(0, &["inbox", "push", "mail", "1", "--key", "k"])["duplicates"].clone();
    push();
    let item = claim_one(&place);
    place.json(0, &["inbox", "complete", text(&item, "claim")]);
    assert_eq!(place.json(0, &["sweep"])["completed"], json!(0));
    assert_eq!(push(), json!([item["id"]]), "its key is kept");
    let swept = place.json(0, &["sweep", "--keep-completed", "0s"]);
    assert!(swept["completed"].as_u64() >= Some(1), "{swept}");
    assert_eq!(push(), json!([]), "its key is forgotten");
    // The same, set in the file.
    let item = claim_one(&place);
    place.json(0, &["inbox", "complete", text(&item, "claim")]);
    let file = "[cleanup]\nenabled = false\nkeep_completed = \"0s\"\n";
    std::fs::write(place.path("turno.toml"), file).unwrap();
    let swept = place.turno(&["sweep"]).expect(0);
    assert!(
        swept.out.contains("records of completed work deleted: ")
            && !swept.out.contains("work deleted: 0 "),
        "{swept:?}"
    );
}

fn bad_arguments_are_refused(place: Place) {
    place.turno(&["migrate"]).expect(0);
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
        let refused = place
            .turno(&[&["--json", "inbox"], arguments].concat())
            .expect(2);
        let error = refused.error();
        assert_eq!(
            (text(&error, "code"), text(&error, "field")),
            ("invalid", field),
            "{arguments:?}: {error}"
        );
        assert!(refused.out.is_empty(), "{refused:?}");
        let told = place.turno(&[&["inbox"], arguments].concat()).expect(2);
        assert!(told.err.starts_with("error: "), "{told:?}");
    }
}
