//! What is shown, and operator actions: on a store, and through a server.

use serde_json::{Value, json};

use crate::common::{Fixture, Kind, text};
use crate::scene;
use crate::tmux::Tmux;

on_each_store!(a_person_sees_and_acts);

fn a_person_sees_and_acts(fixture: Fixture) {
    scene::set(&fixture);
    sees_and_acts(&fixture, &[("TURNO_USER", "eva")]);
}

#[test]
fn a_person_sees_and_acts_through_a_server() {
    let fixture = Fixture::new(Kind::Sqlite);
    scene::set(&fixture);
    let (_server, url) = scene::serve(&fixture);
    sees_and_acts(&fixture, &[("TURNO_SERVER", &url), ("TURNO_USER", "eva")]);
}

fn sees_and_acts(fixture: &Fixture, variables: &[(&str, &str)]) {
    let top = Tmux::start(fixture, variables);
    // The same figures as in the other commands.
    for lock in fixture.json(0, &["lock", "list"])["locks"]
        .as_array()
        .unwrap()
    {
        top.await_row(&[text(lock, "resource"), text(lock, "user")]);
    }
    let held = top.await_text("2 held · 0 waiting");
    for figure in ["1 Locks 2 ", "2 Queues 1 · 2 failed", "3 Outbox 0 · 2 dead"] {
        assert!(held.contains(figure), "{held}");
    }
    top.press("2");
    let stats = fixture.json(0, &["inbox", "stats", "mail"]);
    let names = ["pending", "scheduled", "processing", "completed", "failed"];
    let mut row = vec!["mail".to_owned()];
    row.extend(names.map(|name| stats[name].to_string()));
    let row: Vec<&str> = row.iter().map(String::as_str).collect();
    assert_eq!(row, ["mail", "1", "0", "0", "0", "2"]);
    top.await_row(&row);

    // One item, and then all of them.
    top.press("Enter");
    top.await_text("mail · 2 failed");
    top.press("r");
    top.reason("Requeue this item?", "the address is mended");
    top.await_text("1 item was requeued");
    top.press("Escape");
    top.await_row(&["mail", "2", "0", "0", "0", "1"]);
    top.press("r");
    top.reason("Requeue all failed items?", "all are mended");
    top.await_row(&["mail", "3", "0", "0", "0", "0"]);

    // One event is retried, the other one is discarded.
    top.press("3");
    top.await_row(&["TicketCreated", "dead"]);
    top.press("r");
    top.reason("Requeue this event?", "the queue is bound");
    top.await_text("1 event was requeued");
    top.await_screen("one dead event", |screen| !screen.contains("TicketCreated"));
    top.press("d");
    top.reason("Discard this event?", "not wanted any more");
    top.await_text("No event is dead.");

    // An item that was claimed recently is left to its worker.
    fixture.turno(&["inbox", "claim", "mail"]).expect(0);
    top.press("2");
    top.await_row(&["mail", "2", "0", "1", "0", "0"]);
    top.press("s");
    top.reason("Reset stuck items?", "it hangs");
    top.await_text("no item of mail is stuck");

    // Of the unknown keys, one was not done, and one was.
    top.press("4");
    top.await_text("2 unknown");
    top.press("f");
    top.reason("Forget this key?", "it was not charged");
    top.await_text("pago/77 was forgotten");
    top.await_text("1 unknown");
    top.press("c");
    top.reason("Answer in JSON (optional):", "{\"charged\": 78}");
    top.reason("Reason:", "the bank has the charge");
    top.await_text("pago/78 is done");
    let known = fixture.json(0, &["once", "pago/78", "--status"]);
    assert_eq!(
        (&known["state"], &known["answer"]),
        (&json!("done"), &json!({"charged": 78})),
        "{known}"
    );

    // The second lock, found by the filter.
    top.press("1");
    top.write("/loan/2");
    top.press("Enter");
    top.await_screen("loan/2 only", |screen| {
        screen.contains("loan/2") && !screen.contains("loan/1")
    });
    top.press("b");
    top.reason("Break this lock?", "its host is gone");
    top.await_text("loan/2 was broken");
    top.press("Escape");
    // A key immediately after Escape would be read as a different key.
    top.await_screen("no filter", |screen| {
        screen.contains(" 1 held") && !screen.contains("/loan/2")
    });

    // All of it is in the history, with user and reason.
    top.press("5");
    for part in [
        "broken",
        "its host is gone",
        "not wanted any more",
        "all are mended",
        "eva",
    ] {
        top.await_text(part);
    }
    let history = fixture.json(0, &["history"]);
    let actions = history["history"].as_array().unwrap().iter();
    let actions: Vec<Value> = actions
        .filter(|entry| entry["actor"] == "eva")
        .map(|entry| {
            json!([
                entry["part"],
                entry["event"],
                entry["resource"],
                entry["reason"]
            ])
        })
        .collect();
    assert_eq!(
        actions,
        [
            json!(["lock", "broken", "loan/2", "its host is gone"]),
            json!(["once", "resolved", "pago/78", "the bank has the charge"]),
            json!(["once", "forgotten", "pago/77", "it was not charged"]),
            json!(["outbox", "discarded", "", "not wanted any more"]),
            json!(["outbox", "requeued", "", "the queue is bound"]),
            json!(["inbox", "requeued", "mail", "all are mended"]),
            json!(["inbox", "requeued", "mail", "the address is mended"]),
        ]
    );
    assert!(fixture.is_locked("loan/1") && !fixture.is_locked("loan/2"));
}
