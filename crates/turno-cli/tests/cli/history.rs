//! `turno history`: operator actions and their reasons, and the history of locks.

use serde_json::{Value, json};

use crate::common::{Fixture, text};

on_each_store!(
    operator_actions_are_in_the_history,
    components_and_names_are_distinguished,
    an_invalid_reason_is_refused,
);

/// Creates two failed items.
fn failed(fixture: &Fixture) {
    fixture.json(0, "inbox push mail 1 2");
    let claimed = fixture.json(0, "inbox claim mail --limit 2");
    for item in claimed["items"].as_array().unwrap() {
        let words = ["inbox", "fail", text(item, "claim"), "--error", "bad"];
        fixture.json(0, &[&words[..], &["--final"]].concat());
    }
}

fn entries(fixture: &Fixture, options: &str) -> Vec<Value> {
    let history = fixture.json(0, &format!("history {options}"));
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

fn operator_actions_are_in_the_history(fixture: Fixture) {
    failed(&fixture);
    let because = ["--user", "ana", "--reason", "it is back"];
    let requeue = ["inbox", "requeue", "mail", "--all"];
    fixture.json(0, &[&requeue[..], &because].concat());
    fixture.json(0, "inbox claim mail --limit 2");
    let reset = ["inbox", "reset", "mail", "--older-than", "0s"];
    fixture.json(0, &[&reset[..], &["--reason", "w hangs"]].concat());
    fixture.turno("once pago/77 -- true").expect(0);
    let forget = ["once", "pago/77", "--forget"];
    fixture.json(0, &[&forget[..], &because].concat());
    // A call that changes nothing is not recorded.
    fixture.json(0, &[&forget[..], &because].concat());
    fixture.json(0, &[&requeue[..], &because].concat());

    let output: Vec<Value> = entries(&fixture, "").iter().map(line).collect();
    assert_eq!(
        output,
        [
            json!(["once", "forgotten", "pago/77", 1, "ana", "it is back"]),
            json!(["inbox", "reset", "mail", 2, null, "w hangs"]),
            json!(["inbox", "requeued", "mail", 2, "ana", "it is back"]),
        ]
    );
    let shown = fixture.turno("history").expect(0).out;
    for word in ["PART", "COUNT", "BY", "requeued", "mail", "w hangs"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
}

fn components_and_names_are_distinguished(fixture: Fixture) {
    fixture.turno("migrate").expect(0);
    let none = fixture.turno("history").expect(0);
    assert_eq!(none.out, "the history is empty\n");
    fixture.turno("once mail -- true").expect(0);
    fixture.json(0, "once mail --forget");
    fixture.json(0, "lock acquire mail");
    let parts = |options: &str| -> Vec<Value> {
        let entries = entries(&fixture, options);
        entries.iter().map(|entry| entry["part"].clone()).collect()
    };
    assert_eq!(parts(""), ["lock", "once"]);
    assert_eq!(parts("mail"), ["lock", "once"]);
    assert_eq!(parts("--prefix ma"), ["lock", "once"]);
    assert_eq!(parts("--part once"), ["once"]);
    assert_eq!(parts("--part lock"), ["lock"]);
    assert_eq!(parts("other"), [""; 0]);
    let locks = fixture.json(0, "lock history");
    assert_eq!(locks["history"].as_array().unwrap().len(), 1);
    let shown = fixture.turno("lock history").expect(0).out;
    assert!(!shown.contains("PART"), "{shown}");
    let wrong = fixture.turno("--json history --part locks");
    assert_eq!(text(&wrong.expect(2).error(), "field"), "part");
}

fn an_invalid_reason_is_refused(fixture: Fixture) {
    failed(&fixture);
    let requeue = ["--json", "inbox", "requeue", "mail", "--all"];
    for (field, more) in [
        ("reason", &["--reason", ""][..]),
        ("reason", &["--reason", "a\nb"]),
        ("user", &["--user", ""]),
    ] {
        let refused = fixture.turno(&[&requeue, more].concat());
        assert_eq!(text(&refused.expect(2).error(), "field"), field);
    }
    let run = ["once", "k", "--reason", "why", "--", "true"];
    fixture.turno(&run).expect(2);
    assert_eq!(entries(&fixture, ""), [json!(null); 0]);
}
