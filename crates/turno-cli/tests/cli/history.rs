//! `turno history`: operator actions and their reasons, and the history of locks.

use serde_json::{Value, json};

use crate::common::{Place, text};

on_each_store!(
    what_people_do_is_told,
    parts_and_names_are_told_apart,
    a_reason_out_of_rule_is_refused,
);

/// Creates two failed items.
fn failed(place: &Place) {
    place.json(0, &["inbox", "push", "mail", "1", "2"]);
    let claimed = place.json(0, &["inbox", "claim", "mail", "--limit", "2"]);
    for item in claimed["items"].as_array().unwrap() {
        let words = ["inbox", "fail", text(item, "claim"), "--error", "bad"];
        place.json(0, &[&words[..], &["--final"]].concat());
    }
}

fn entries(place: &Place, more: &[&str]) -> Vec<Value> {
    let history = place.json(0, &[&["history"], more].concat());
    history["history"].as_array().unwrap().clone()
}

/// Returns component, event, resource, count, user and reason.
fn line(entry: &Value) -> Value {
    json!([
        entry["part"],
        entry["event"],
        entry["resource"],
        entry["count"],
        entry["actor"],
        entry["reason"]
    ])
}

fn what_people_do_is_told(place: Place) {
    failed(&place);
    let because = ["--user", "ana", "--reason", "it is back"];
    let requeue = ["inbox", "requeue", "mail", "--all"];
    place.json(0, &[&requeue[..], &because].concat());
    place.json(0, &["inbox", "claim", "mail", "--limit", "2"]);
    let reset = ["inbox", "reset", "mail", "--older-than", "0s"];
    place.json(0, &[&reset[..], &["--reason", "w hangs"]].concat());
    place.turno(&["once", "pago/77", "--", "true"]).expect(0);
    let forget = ["once", "pago/77", "--forget"];
    place.json(0, &[&forget[..], &because].concat());
    // A call that changes nothing is not recorded.
    place.json(0, &[&forget[..], &because].concat());
    place.json(0, &[&requeue[..], &because].concat());

    let told: Vec<Value> = entries(&place, &[]).iter().map(line).collect();
    assert_eq!(
        told,
        [
            json!(["once", "forgotten", "pago/77", 1, "ana", "it is back"]),
            json!(["inbox", "reset", "mail", 2, null, "w hangs"]),
            json!(["inbox", "requeued", "mail", 2, "ana", "it is back"]),
        ]
    );
    let shown = place.turno(&["history"]).expect(0).out;
    for word in ["PART", "COUNT", "BY", "requeued", "mail", "w hangs"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
}

fn parts_and_names_are_told_apart(place: Place) {
    place.turno(&["migrate"]).expect(0);
    let none = place.turno(&["history"]).expect(0);
    assert_eq!(none.out, "the history is empty\n");
    place.turno(&["once", "mail", "--", "true"]).expect(0);
    place.json(0, &["once", "mail", "--forget"]);
    place.json(0, &["lock", "acquire", "mail"]);
    let parts = |more: &[&str]| -> Vec<Value> {
        let entries = entries(&place, more);
        entries.iter().map(|entry| entry["part"].clone()).collect()
    };
    assert_eq!(parts(&[]), ["lock", "once"]);
    assert_eq!(parts(&["mail"]), ["lock", "once"]);
    assert_eq!(parts(&["--prefix", "ma"]), ["lock", "once"]);
    assert_eq!(parts(&["--part", "once"]), ["once"]);
    assert_eq!(parts(&["--part", "lock"]), ["lock"]);
    assert_eq!(parts(&["other"]), [""; 0]);
    let locks = place.json(0, &["lock", "history"]);
    assert_eq!(locks["history"].as_array().unwrap().len(), 1);
    let shown = place.turno(&["lock", "history"]).expect(0).out;
    assert!(!shown.contains("PART"), "{shown}");
    let wrong = place.turno(&["--json", "history", "--part", "locks"]);
    assert_eq!(text(&wrong.expect(2).error(), "field"), "part");
}

fn a_reason_out_of_rule_is_refused(place: Place) {
    failed(&place);
    let requeue = ["--json", "inbox", "requeue", "mail", "--all"];
    for (field, more) in [
        ("reason", &["--reason", ""][..]),
        ("reason", &["--reason", "a\nb"]),
        ("user", &["--user", ""]),
    ] {
        let refused = place.turno(&[&requeue, more].concat());
        assert_eq!(text(&refused.expect(2).error(), "field"), field);
    }
    let run = ["once", "k", "--reason", "why", "--", "true"];
    place.turno(&run).expect(2);
    assert_eq!(entries(&place, &[]), [json!(null); 0]);
}
