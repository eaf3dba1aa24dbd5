//! `turno outbox …`: emitting, invalid input, and operator actions on dead events.

use serde_json::{Value, json};
use turno::outbox::OnDead;

use crate::common::arguments::Arguments;
use crate::common::refusing::refuse;
use crate::common::{Done, Fixture, piped, text};

on_each_store!(
    an_event_is_emitted_with_all_there_is_to_say,
    an_event_of_ones_own_id_is_stored_once,
    a_payload_is_read_from_a_file_or_from_standard_input,
    a_file_is_emitted_in_batches,
    a_bad_line_is_named_and_its_batch_not_stored,
    bad_events_are_refused_and_nothing_is_stored,
    bad_arguments_are_refused,
    events_are_counted_and_listed_page_by_page,
    lists_are_readable,
    dead_events_are_looked_at_and_requeued,
    dead_events_are_discarded,
    limits_are_as_configured,
    archived_events_are_deleted_on_request,
);

const ID: &str = "0190f1f4-2b3c-7d4e-8f50-112233445566";
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Emits one event, and returns its id.
#[track_caller]
fn emit(fixture: &Fixture, arguments: impl Arguments) -> String {
    let emitted = fixture.json(0, &["outbox emit".words(), arguments.words()].concat());
    let [id] = emitted["ids"].as_array().unwrap().as_slice() else {
        panic!("{emitted}")
    };
    id.as_str().unwrap().to_owned()
}

fn list(fixture: &Fixture, options: &str) -> Vec<Value> {
    let listed = fixture.json(0, &format!("outbox list {options}"));
    listed["events"].as_array().unwrap().clone()
}

fn count(fixture: &Fixture, state: &str) -> u64 {
    fixture.json(0, "outbox stats")[state].as_u64().unwrap()
}

fn an_event_is_emitted_with_all_there_is_to_say(fixture: Fixture) {
    let payload = r#"{"ticket": 7, "sum": 12345678901234567890.10}"#;
    let id = emit(
        &fixture,
        &[
            "TicketCreatedEvent",
            payload,
            "--key",
            "7",
            "--correlation-id",
            "a1b2",
            "--header",
            "tenant=north",
            "--header",
            "formula=a=b",
            "--traceparent",
            TRACE,
        ],
    );
    let shown = fixture.turno(&["--json", "outbox", "show", &id]).expect(0);
    // On one line, and with the same digits as in the emit.
    assert_eq!(shown.out.lines().count(), 1, "{shown:?}");
    assert!(shown.out.contains("12345678901234567890.10"), "{shown:?}");
    let event = shown.json();
    for (field, value) in [
        ("id", id.as_str()),
        ("state", "pending"),
        ("type", "TicketCreatedEvent"),
        ("key", "7"),
        ("correlation_id", "a1b2"),
        ("traceparent", TRACE),
    ] {
        assert_eq!(text(&event, field), value, "{event}");
    }
    assert_eq!(
        event["headers"],
        json!({"tenant": "north", "formula": "a=b"})
    );
    assert_eq!(
        (&event["refused"], &event["errors"]),
        (&json!(0), &json!([]))
    );
    // Absent fields are omitted. Without a payload, it is null.
    let bare = emit(&fixture, "ticket.closed");
    let bare = fixture.json(0, &["outbox", "show", &bare]);
    assert_eq!(bare["payload"], json!(null));
    for absent in ["key", "correlation_id", "traceparent", "headers", "by"] {
        assert!(bare.get(absent).is_none(), "{absent}: {bare}");
    }
    // With a delay.
    emit(&fixture, "T -5 --delay 1h");
    assert_eq!(
        (count(&fixture, "pending"), count(&fixture, "scheduled")),
        (2, 1)
    );
    let output = fixture.turno("outbox emit T 1").expect(0);
    assert!(output.out.ends_with(" is emitted\n"), "{output:?}");
}

fn an_event_of_ones_own_id_is_stored_once(fixture: Fixture) {
    for payload in ["1", "2"] {
        assert_eq!(emit(&fixture, &["T", payload, "--id", ID]), ID);
    }
    assert_eq!(list(&fixture, "")[0]["payload"], json!(1));
    assert_eq!(count(&fixture, "total"), 1);
}

fn a_payload_is_read_from_a_file_or_from_standard_input(fixture: Fixture) {
    std::fs::write(fixture.path("event.json"), "{\n  \"a\": 1.10\n}\n").unwrap();
    emit(&fixture, "T @event.json");
    let words = ["--json", "outbox", "emit", "T", "-"];
    piped(&fixture, &words, b" [1,\n 2]\n").expect(0);
    let payloads: Vec<Value> = list(&fixture, "")
        .iter()
        .map(|event| event["payload"].clone())
        .collect();
    assert_eq!(payloads, [json!({"a": 1.10}), json!([1, 2])]);
    for (input, says) in [
        (&b""[..], "not JSON"),
        (b"\xff", "UTF-8"),
        (b"\"0123456789\"", "8 is the most"),
    ] {
        let words = [&words[..], &["--max-payload", "8"]].concat();
        let error = piped(&fixture, &words, input).expect(2).error();
        assert_eq!(text(&error, "field"), "payload");
        assert!(text(&error, "detail").contains(says), "{error}");
    }
    let missing = fixture.turno("outbox emit T @missing.json");
    assert!(
        missing
            .expect(2)
            .err
            .contains("missing.json cannot be read")
    );
    assert_eq!(count(&fixture, "total"), 2);
}

fn a_file_is_emitted_in_batches(fixture: Fixture) {
    let lines: String = (0..2500)
        .map(|n| {
            format!(
                "{{\"type\": \"T\", \"payload\": {{\"n\": {n}}}, \"key\": {}}}\n",
                n % 7
            )
        })
        .collect();
    std::fs::write(fixture.path("big.ndjson"), lines).unwrap();
    let words = ["outbox", "emit", "--file", "big.ndjson"];
    let emitted = fixture.json(0, &words);
    let ids = emitted["ids"].as_array().unwrap();
    assert_eq!(ids.len(), 2500);
    assert_eq!(count(&fixture, "pending"), 2500);
    let first = &list(&fixture, "--limit 1")[0];
    assert_eq!(
        (&first["id"], &first["payload"]),
        (&ids[0], &json!({"n": 0}))
    );
    assert_eq!(text(first, "key"), "0");
    let output = fixture.turno(&words).expect(0);
    assert_eq!(
        (output.out.as_str(), output.err.as_str()),
        ("emitted: 2500\n", ""),
        "no progress where there is no terminal"
    );
    // Standard input is a file too.
    let line = format!(r#"{{"type": "T", "payload": null, "delay": "1h", "id": "{ID}"}}"#);
    let words = ["--json", "outbox", "emit", "--file", "-"];
    for _ in 0..2 {
        let emitted = piped(&fixture, &words, line.as_bytes()).expect(0);
        assert_eq!(emitted.json(), json!({"ids": [ID]}));
    }
    assert_eq!(count(&fixture, "scheduled"), 1);
    assert_eq!(
        piped(&fixture, &words, b"\n").expect(0).json(),
        json!({"ids": []})
    );
}

fn a_bad_line_is_named_and_its_batch_not_stored(fixture: Fixture) {
    let mut lines = vec![r#"{"type": "T", "payload": 1}"#.to_owned(); 1600];
    lines[1499] = "not JSON".to_owned();
    std::fs::write(fixture.path("bad.ndjson"), lines.join("\n")).unwrap();
    let words = ["--json", "outbox", "emit", "--file", "bad.ndjson"];
    let refused = fixture.turno(&words).expect(2);
    let error = refused.error();
    let detail = text(&error, "detail");
    assert!(
        detail.starts_with("line 1500: ") && detail.contains("before this batch: 1000 events"),
        "{detail}"
    );
    assert!(refused.out.is_empty(), "{refused:?}");
    assert_eq!(count(&fixture, "pending"), 1000);

    let long = format!(r#"{{"type": "{}", "payload": 1}}"#, "Ab".repeat(120));
    for (field, line) in [
        ("event", "7"),
        ("event", r#"{"type": "T"}"#),
        ("event", r#"{"type": "T", "payload": }"#),
        ("event", r#"{"type": "T", "payload": 1, "kye": 7}"#),
        ("type", r#"{"type": "", "payload": 1}"#),
        ("type", &long),
        ("key", r#"{"type": "T", "payload": 1, "key": ""}"#),
        ("id", r#"{"type": "T", "payload": 1, "id": "7"}"#),
        ("delay", r#"{"type": "T", "payload": 1, "delay": "soon"}"#),
        (
            "headers",
            r#"{"type": "T", "payload": 1, "headers": {"ce-id": "x"}}"#,
        ),
        (
            "payload",
            r#"{"type": "T", "payload": "123456789012345678901234567890"}"#,
        ),
    ] {
        let input = format!("{{\"type\": \"T\", \"payload\": 1}}\n{line}\n");
        let emit = "--json outbox emit --max-payload 20 --file -";
        let error = piped(&fixture, emit, input.as_bytes()).expect(2).error();
        assert_eq!(text(&error, "field"), field, "{error}");
        assert!(text(&error, "detail").starts_with("line 2: "), "{error}");
    }
    assert_eq!(count(&fixture, "total"), 1000, "nothing more is stored");
}

fn bad_events_are_refused_and_nothing_is_stored(fixture: Fixture) {
    fixture.turno("migrate").expect(0);
    // Each two letters of it become a word of the routing key, with a dot.
    let long = "Ab".repeat(120);
    let key = "x".repeat(256);
    let rows: [(&str, &[&str]); 18] = [
        ("type", &[]),
        ("type", &[""]),
        ("type", &["a\nb"]),
        ("type", &[&long]),
        ("payload", &["T", "hello"]),
        ("payload", &["T", "{"]),
        ("payload", &["T", ""]),
        ("payload", &["T", "12345", "--max-payload", "4"]),
        ("max_payload", &["T", "--max-payload", "0"]),
        ("key", &["T", "--key", &key]),
        ("correlation_id", &["T", "--correlation-id", ""]),
        ("header", &["T", "--header", "tenant"]),
        ("header", &["T", "--header", "a=1", "--header", "a=2"]),
        ("headers", &["T", "--header", "ce-id=7"]),
        ("headers", &["T", "--header", "a b=7"]),
        ("delay", &["T", "--delay", "-5s"]),
        ("traceparent", &["T", "--traceparent", "00-x"]),
        ("id", &["T", "--id", "7"]),
    ];
    for (field, arguments) in rows {
        let words = [&["--json", "outbox", "emit"], arguments].concat();
        let refused = fixture.turno(&words).expect(2);
        let error = refused.error();
        assert_eq!(
            (text(&error, "code"), text(&error, "field")),
            ("invalid", field),
            "{arguments:?}: {error}"
        );
        assert!(refused.out.is_empty(), "{refused:?}");
    }
    // The message says what to do.
    for (arguments, says) in [
        (&["T", "hello"][..], r#"'"hello"'"#),
        (&["T", "1", "--id", "7"], "UUID, such as 0190f1f4"),
        (&["T", "1", "--header", "x"], "NAME=VALUE"),
        (&[&long], "shorter type"),
    ] {
        let output = fixture.turno(&[&["outbox", "emit"], arguments].concat());
        let output = output.expect(2);
        assert!(output.err.contains(says), "{output:?}");
    }
    for both in [&["T", "--file", "x"][..], &["--file", "x", "--key", "k"]] {
        fixture
            .turno(&[&["outbox", "emit"], both].concat())
            .expect(2);
    }
    assert_eq!(count(&fixture, "total"), 0);
}

fn bad_arguments_are_refused(fixture: Fixture) {
    fixture.turno("migrate").expect(0);
    let long = "x".repeat(256);
    let rows: [(&str, &[&str]); 22] = [
        ("state", &["list", "--state", "lost"]),
        ("after", &["list", "--after", "x"]),
        ("limit", &["list", "--limit", "x"]),
        ("id", &["show"]),
        ("id", &["show", "7"]),
        ("id", &["requeue"]),
        ("id", &["requeue", "x"]),
        ("id", &["discard"]),
        ("id", &["discard", "x"]),
        ("user", &["discard", ID, "--user", ""]),
        ("reason", &["discard", ID, "--reason", ""]),
        ("reason", &["requeue", "--all", "--reason", "a\nb"]),
        ("sink", &["relay"]),
        ("sink", &["relay", "--sink", "ftp://host"]),
        ("mode", &["relay", "--sink", "stdout:", "--mode", "fast"]),
        ("batch", &["relay", "--sink", "stdout:", "--batch", "0"]),
        (
            "max_attempts",
            &["relay", "--sink", "stdout:", "--max-attempts", "0"],
        ),
        ("lease", &["relay", "--sink", "stdout:", "--lease", "25h"]),
        ("poll", &["relay", "--sink", "stdout:", "--poll", "0s"]),
        (
            "timeout",
            &["relay", "--sink", "stdout:", "--timeout", "0s"],
        ),
        (
            "on_dead",
            &["relay", "--sink", "stdout:", "--on-dead", "T="],
        ),
        ("name", &["relay", "--sink", "stdout:", "--name", &long]),
    ];
    for (field, arguments) in rows {
        let mut command = fixture.command(&[&["--json", "outbox"], arguments].concat());
        let refused = Done::of(command.env("TURNO_LOG", "off").output().unwrap()).expect(2);
        let error = refused.error();
        assert_eq!(
            (text(&error, "code"), text(&error, "field")),
            ("invalid", field),
            "{arguments:?}: {error}"
        );
        assert!(refused.out.is_empty(), "{refused:?}");
    }
}

fn events_are_counted_and_listed_page_by_page(fixture: Fixture) {
    fixture.turno("migrate").expect(0);
    let none = fixture.json(0, "outbox stats");
    for state in [
        "total",
        "pending",
        "scheduled",
        "processing",
        "dispatched",
        "dead",
        "blocked",
        "parked_keys",
    ] {
        assert_eq!(none[state], json!(0), "{state}");
    }
    assert_eq!(none["oldest_pending_ms"], json!(null));
    let output = fixture.turno("outbox stats").expect(0);
    assert_eq!(output.out, "there are no events\n");
    let output = fixture.turno("outbox list").expect(0);
    assert_eq!(output.out, "no event is pending\n");

    let ids: Vec<String> = (0..3)
        .map(|n| emit(&fixture, &["T", &n.to_string()]))
        .collect();
    let first = list(&fixture, "--limit 2");
    assert_eq!([text(&first[0], "id"), text(&first[1], "id")], ids[..2]);
    let after = first[1]["seq"].to_string();
    let second = list(&fixture, &format!("--limit 2 --after {after}"));
    assert_eq!((second.len(), text(&second[0], "id")), (1, ids[2].as_str()));
    let stats = fixture.json(0, "outbox stats");
    assert_eq!((&stats["total"], &stats["pending"]), (&json!(3), &json!(3)));
    assert!(stats["oldest_pending_ms"].as_u64().is_some(), "{stats}");
}

fn lists_are_readable(fixture: Fixture) {
    let long = format!("\"{}\"", "ñ".repeat(500));
    let id = emit(&fixture, &["TicketCreatedEvent", &long, "--key", "k"]);
    let listed = fixture.turno("outbox list").expect(0);
    let lines: Vec<&str> = listed.out.lines().collect();
    assert!(lines[0].starts_with("SEQ"), "{listed:?}");
    assert_eq!(lines[0].find("ID"), lines[1].find(&id), "{listed:?}");
    assert_eq!(
        lines[0].find("TYPE"),
        lines[1].find("TicketCreatedEvent"),
        "{listed:?}"
    );
    assert!(
        listed.out.contains("ñ…") && !listed.out.contains(&long),
        "{listed:?}"
    );
    let stats = fixture.turno("outbox stats").expect(0);
    let lines: Vec<&str> = stats.out.lines().collect();
    assert!(
        lines[0].starts_with("TOTAL  PENDING  SCHEDULED"),
        "{stats:?}"
    );
    // Complete, and indented.
    let nested = r#"{"a":{"b":[1.10,"x"]}}"#;
    let id = emit(&fixture, &["T", nested, "--header", "tenant=north"]);
    let shown = fixture.turno(&["outbox", "show", &id]).expect(0).out;
    assert!(
        shown.contains("{\n  \"a\": {\n    \"b\": [\n      1.10,\n      \"x\"\n    ]\n  }\n}"),
        "{shown}"
    );
    assert!(
        shown.contains(&id) && shown.contains("tenant  north"),
        "{shown}"
    );
    let unknown = fixture.turno(&["--json", "outbox", "show", ID]).expect(1);
    assert_eq!(text(&unknown.error(), "code"), "not_found");
    assert!(text(&unknown.error(), "detail").contains(ID), "{unknown:?}");
}

fn dead_events_are_looked_at_and_requeued(fixture: Fixture) {
    let first = emit(&fixture, "T 1 --key k");
    let second = emit(&fixture, "T 2");
    refuse(&fixture, OnDead::Skip, 2);
    let dead = list(&fixture, "--state dead");
    assert_eq!(dead.len(), 2);
    let error = &dead[0]["errors"][0];
    assert_eq!(
        (
            &dead[0]["refused"],
            text(error, "error"),
            text(error, "worker")
        ),
        (&json!(1), "no queue is\nbound", "relay-1")
    );
    let output = fixture.turno("outbox list --state dead").expect(0);
    assert!(
        output.out.contains("DEAD") && output.out.contains("no queue is bound"),
        "{output:?}"
    );
    let shown = fixture.turno(&["outbox", "show", &first]).expect(0).out;
    for part in ["dead", "ATTEMPT", "relay-1", "no queue is bound"] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    let requeued = fixture.json(0, &["outbox", "requeue", &first, ID]);
    assert_eq!(requeued, json!({"requeued": 1}), "one is passed over");
    assert_eq!(
        (count(&fixture, "pending"), count(&fixture, "dead")),
        (1, 1)
    );
    let output = fixture.turno("outbox requeue --all").expect(0);
    assert_eq!(output.out, "requeued: 1\n");
    let revived = fixture.json(0, &["outbox", "show", &second]);
    assert_eq!(
        (text(&revived, "state"), &revived["refused"]),
        ("pending", &json!(0)),
        "all its attempts are before it"
    );
}

fn dead_events_are_discarded(fixture: Fixture) {
    let skipped = emit(&fixture, "T 1");
    refuse(&fixture, OnDead::Skip, 1);
    let blocked = emit(&fixture, "T 2 --key k");
    refuse(&fixture, OnDead::Block, 2);
    let listed = list(&fixture, "--state blocked");
    assert_eq!(text(&listed[0], "id"), blocked);
    assert_eq!(
        (count(&fixture, "dead"), count(&fixture, "blocked")),
        (1, 1)
    );

    let words = [
        "outbox", "discard", &skipped, "--user", "ana", "--reason", "a test",
    ];
    assert_eq!(fixture.json(0, &words), json!({"discarded": 1}));
    assert_eq!(fixture.json(0, &words), json!({"discarded": 0}));
    let event = fixture.json(0, &["outbox", "show", &skipped]);
    assert_eq!(
        (text(&event, "state"), text(&event, "by")),
        ("discarded", "ana")
    );
    // The default user is that of the file; the environment overrides it.
    let file = "[application]\nuser = 'file'\n";
    std::fs::write(fixture.path("turno.toml"), file).unwrap();
    let output = fixture.turno(&["outbox", "discard", &blocked]).expect(0);
    assert_eq!(output.out, "discarded: 1\n");
    let event = fixture.json(0, &["outbox", "show", &blocked]);
    assert_eq!(text(&event, "by"), "file");
    assert_eq!(
        (count(&fixture, "dead"), count(&fixture, "blocked")),
        (0, 0)
    );
    let history = fixture.json(0, "history --part outbox");
    let output = |fixture: usize| {
        let entry = &history["history"][fixture];
        (entry["actor"].clone(), entry["reason"].clone())
    };
    assert_eq!(output(0), (json!("file"), json!(null)));
    assert_eq!(output(1), (json!("ana"), json!("a test")));
    assert_eq!(history["history"].as_array().unwrap().len(), 2);
}

fn limits_are_as_configured(fixture: Fixture) {
    let emit = |options: &str, environment: &[(&str, &str)]| {
        let mut command = fixture.command("--json outbox emit T 1234567890");
        command
            .args(options.words())
            .envs(environment.iter().copied());
        Done::of(command.output().unwrap())
    };
    let file = "[inbox]\nmax_payload = 5\n[outbox]\nmax_payload = 9\n";
    std::fs::write(fixture.path("turno.toml"), file).unwrap();
    assert_eq!(text(&emit("", &[]).expect(2).error(), "field"), "payload");
    let environment = [("TURNO_MAX_PAYLOAD", "10")];
    emit("", &environment).expect(0);
    emit("--max-payload 9", &environment).expect(2);
    emit("--max-payload 10", &[]).expect(0);
    // The inbox has a separate limit.
    std::fs::write(fixture.path("turno.toml"), "[inbox]\nmax_payload = 5\n").unwrap();
    emit("", &[]).expect(0);
}

fn archived_events_are_deleted_on_request(fixture: Fixture) {
    let relay = "outbox relay --sink stdout: --until-empty --archive";
    let id = emit(&fixture, &["T", r#"{"a": 1.10}"#]);
    fixture.turno(relay).expect(0);
    let kept = fixture.json(0, &["outbox", "show", &id]);
    assert_eq!(
        (text(&kept, "state"), text(&kept, "type")),
        ("dispatched", "T")
    );
    assert_eq!(kept["payload"], json!({"a": 1.10}));
    let swept = fixture.json(0, "sweep");
    assert_eq!((&swept["archived"], &swept["seen"]), (&json!(0), &json!(0)));
    let swept = fixture.json(0, "sweep --keep-archive 0s --keep-seen 0s");
    assert_eq!(swept["archived"], json!(1));
    let id_only = fixture.json(0, &["outbox", "show", &id]);
    assert!(id_only.get("payload").is_none(), "{id_only}");
    // The same, set in the file.
    emit(&fixture, "T 2");
    let file = "[outbox]\nsink = 'stdout:'\narchive = true\n[cleanup]\nenabled = false\nkeep_archive = '0s'\n";
    std::fs::write(fixture.path("turno.toml"), file).unwrap();
    fixture.turno("outbox relay --until-empty").expect(0);
    let swept = fixture.turno("sweep").expect(0);
    assert!(
        swept.out.contains("archived events deleted: 1"),
        "{swept:?}"
    );
}
