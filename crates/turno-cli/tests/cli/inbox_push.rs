//! `turno inbox push`: from the command line and from files, and invalid input.

use serde_json::{Value, json};

use crate::common::{Done, Fixture, piped, text};

on_each_store!(
    items_are_pushed_in_order,
    a_known_key_is_a_duplicate,
    groups_and_priorities_are_kept,
    a_file_is_pushed_in_batches,
    standard_input_is_a_file_too,
    a_bad_line_is_named_and_its_batch_not_stored,
    keys_and_groups_are_taken_from_payloads,
    bad_items_are_refused_and_nothing_is_stored,
    limits_are_as_configured,
);

/// Options, environment, and for how many minutes an item is then claimed.
type Row<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], i64);

fn claim(fixture: &Fixture, limit: &str) -> Vec<Value> {
    let claimed = fixture.json(0, &["inbox", "claim", "q", "--limit", limit]);
    claimed["items"].as_array().unwrap().clone()
}

fn pending(fixture: &Fixture) -> u64 {
    fixture.json(0, "inbox stats q")["pending"]
        .as_u64()
        .unwrap()
}

fn items_are_pushed_in_order(fixture: Fixture) {
    let pushed = fixture.json(
        0,
        &[
            "inbox",
            "push",
            "q",
            r#"{"id": 7}"#,
            "-5",
            "null",
            r#""text""#,
        ],
    );
    let ids: Vec<i64> = serde_json::from_value(pushed["ids"].clone()).unwrap();
    assert_eq!((ids.len(), &pushed["duplicates"]), (4, &json!([])));
    assert!(ids.is_sorted(), "{pushed}");
    let items = claim(&fixture, "10");
    let payloads: Vec<&Value> = items.iter().map(|item| &item["payload"]).collect();
    assert_eq!(
        payloads,
        [&json!({"id": 7}), &json!(-5), &json!(null), &json!("text")]
    );
    let output = fixture.turno("inbox push q 1 2").expect(0);
    assert_eq!(output.out.lines().count(), 2, "{output:?}");
    assert!(output.out.ends_with(" is pushed\n"), "{output:?}");
}

fn a_known_key_is_a_duplicate(fixture: Fixture) {
    let push = || fixture.json(0, "inbox push q 1 --key k");
    let first = push();
    let again = push();
    assert_eq!(first["duplicates"], json!([]));
    assert_eq!(again["ids"], first["ids"]);
    assert_eq!(again["duplicates"], first["ids"]);
    let output = fixture.turno("inbox push q 1 --key k").expect(0);
    assert!(output.out.contains("exists already"), "{output:?}");
    // In another queue it is a different key.
    let other = fixture.json(0, "inbox push other 1 --key k");
    assert_eq!(other["duplicates"], json!([]));
    assert_eq!(pending(&fixture), 1);
}

fn groups_and_priorities_are_kept(fixture: Fixture) {
    for words in [
        &["1", "2", "--group", "ana"][..],
        &["3", "--priority", "0"],
        &["4", "--priority", "3"],
    ] {
        fixture.json(0, &[&["inbox", "push", "q"], words].concat());
    }
    let items = claim(&fixture, "10");
    let payloads: Vec<i64> = items
        .iter()
        .map(|item| item["payload"].as_i64().unwrap())
        .collect();
    // One at a time per group; the most urgent first, and the least urgent last.
    assert_eq!(payloads, [3, 1, 4]);
    fixture.json(0, &["inbox", "complete", text(&items[1], "claim")]);
    assert_eq!(claim(&fixture, "10")[0]["payload"], json!(2));
}

fn a_file_is_pushed_in_batches(fixture: Fixture) {
    let lines: String = (0..5000)
        .map(|n| format!("{{\"n\": {n}, \"key\": \"k{}\"}}\n", n % 4000))
        .collect();
    std::fs::write(fixture.path("big.ndjson"), lines).unwrap();
    let words = ["inbox", "push", "q", "--file", "big.ndjson"];
    let pushed = fixture.json(0, &words);
    assert_eq!(pushed, json!({"pushed": 5000, "duplicates": 0}));
    assert_eq!(pending(&fixture), 5000);
    let items = claim(&fixture, "5000");
    assert_eq!(items.len(), 5000);
    assert_eq!(
        (&items[0]["payload"]["n"], &items[4999]["payload"]["n"]),
        (&json!(0), &json!(4999))
    );
    // With keys: across batches, and in a second run.
    let keyed = [&words[..], &["--key-field", "key"]].concat();
    assert_eq!(
        fixture.json(0, &keyed),
        json!({"pushed": 4000, "duplicates": 1000})
    );
    let output = fixture.turno(&keyed).expect(0);
    assert_eq!(
        (output.out.as_str(), output.err.as_str()),
        ("pushed: 0   duplicates: 5000\n", ""),
        "no progress where there is no terminal"
    );
}

fn standard_input_is_a_file_too(fixture: Fixture) {
    let words = ["--json", "inbox", "push", "q", "--file", "-"];
    let pushed = piped(&fixture, &words, b"1\r\n\n  {\"a\": [2]}  \n3").expect(0);
    assert_eq!(pushed.json(), json!({"pushed": 3, "duplicates": 0}));
    let items = claim(&fixture, "10");
    assert_eq!(items[1]["payload"], json!({"a": [2]}));
    let empty = piped(&fixture, &words, b"").expect(0);
    assert_eq!(empty.json(), json!({"pushed": 0, "duplicates": 0}));
}

fn a_bad_line_is_named_and_its_batch_not_stored(fixture: Fixture) {
    let mut lines: Vec<String> = (0..2600).map(|n| n.to_string()).collect();
    lines[2499] = "not JSON".to_owned();
    std::fs::write(fixture.path("bad.ndjson"), lines.join("\n")).unwrap();
    let words = ["inbox", "push", "q", "--file", "bad.ndjson"];
    let refused = fixture.turno(&[&["--json"], &words[..]].concat()).expect(2);
    let error = refused.error();
    let detail = text(&error, "detail");
    assert_eq!(text(&error, "field"), "payload");
    assert!(
        detail.starts_with("line 2500: ") && detail.contains("Stored before this batch: 2000"),
        "{detail}"
    );
    assert!(detail.contains("at column 2"), "{detail}");
    assert!(refused.out.is_empty(), "{refused:?}");
    assert_eq!(pending(&fixture), 2000);

    let place_of = |input: &[u8]| {
        let push = "--json inbox push q --file - --max-payload 50";
        let error = piped(&fixture, push, input).expect(2).error();
        let detail = text(&error, "detail").to_owned();
        assert!(detail.contains("before this batch: 0"), "{detail}");
        (
            text(&error, "field").to_owned(),
            detail.split(':').next().unwrap().to_owned(),
        )
    };
    let at = |field: &str, line: &str| (field.to_owned(), line.to_owned());
    assert_eq!(place_of(b"1\n\n{\"a\": }\n"), at("payload", "line 3"));
    assert_eq!(place_of(b"1\n\"\xff\"\n"), at("payload", "line 2"));
    let long = format!("1\n2\n\"{}\"\n", "x".repeat(60));
    assert_eq!(place_of(long.as_bytes()), at("payload", "line 3"));
    // One byte over the limit, although one more byte is read for the end of the line.
    let long = format!("1\n\"{}\"\n", "x".repeat(49));
    assert_eq!(place_of(long.as_bytes()), at("payload", "line 2"));
    assert_eq!(pending(&fixture), 2000, "nothing more is stored");
}

fn keys_and_groups_are_taken_from_payloads(fixture: Fixture) {
    let push = "--json inbox push q --file - --key-field id --group-field user";
    let input = br#"{"id": 1, "user": "ana"}
        {"id": "1", "user": "ana"}
        {"id": 12345678901234567890.10, "user": 7}"#;
    let pushed = piped(&fixture, push, input).expect(0);
    assert_eq!(pushed.json(), json!({"pushed": 2, "duplicates": 1}));
    let items = claim(&fixture, "10");
    assert_eq!(
        (text(&items[0], "key"), text(&items[0], "group")),
        ("1", "ana")
    );
    assert_eq!(
        (text(&items[1], "key"), text(&items[1], "group")),
        ("12345678901234567890.10", "7")
    );
    // Also on the command line.
    let again = fixture.json(
        0,
        &[
            "inbox",
            "push",
            "q",
            r#"{"id": 1}"#,
            r#"{"id": 2}"#,
            "--key-field",
            "id",
        ],
    );
    assert_eq!(again["duplicates"], json!([items[0]["id"]]));
    let long = format!(r#"{{"id": "{}", "user": 1}}"#, "x".repeat(256));
    for (field, line) in [
        ("key_field", "7"),
        ("key_field", r#"{"user": 1}"#),
        ("key_field", r#"{"id": null, "user": 1}"#),
        ("group_field", r#"{"id": 3}"#),
        ("group", r#"{"id": 3, "user": "a\tb"}"#),
        ("key", &long),
    ] {
        let input = format!("{{\"id\": 4, \"user\": 1}}\n{line}\n");
        let refused = piped(&fixture, push, input.as_bytes()).expect(2);
        let error = refused.error();
        assert_eq!(text(&error, "field"), field, "{error}");
        assert!(text(&error, "detail").starts_with("line 2: "), "{error}");
    }
    let left = fixture.json(0, "inbox stats q");
    assert_eq!(left["total"], json!(3), "nothing more is stored");
}

fn bad_items_are_refused_and_nothing_is_stored(fixture: Fixture) {
    fixture.turno("migrate").expect(0);
    let long = "x".repeat(256);
    let rows: [(&str, &[&str]); 23] = [
        ("queue", &["", "1"]),
        ("queue", &["a\nb", "1"]),
        ("payload", &["q"]),
        ("payload", &["q", "hello"]),
        ("payload", &["q", "1", "{"]),
        ("payload", &["q", ""]),
        ("payload", &["q", "12345", "--max-payload", "4"]),
        ("max_payload", &["q", "1", "--max-payload", "0"]),
        ("key", &["q", "1", "--key", ""]),
        ("key", &["q", "1", "--key", &long]),
        ("key", &["q", "1", "2", "--key", "k"]),
        ("group", &["q", "1", "--group", "a\tb"]),
        ("priority", &["q", "1", "--priority", "4"]),
        ("priority", &["q", "1", "--priority", "-1"]),
        ("priority", &["q", "1", "--priority", "256"]),
        ("max_attempts", &["q", "1", "--max-attempts", "0"]),
        ("max_attempts", &["q", "1", "--max-attempts", "1001"]),
        ("delay", &["q", "1", "--delay", "soon"]),
        ("delay", &["q", "1", "--delay", "-5s"]),
        ("delay", &["q", "1", "--delay", "5000d"]),
        ("run_at", &["q", "1", "--run-at", "tomorrow"]),
        ("key_field", &["q", "7", "--key-field", "id"]),
        ("file", &["q", "--file", "missing.ndjson"]),
    ];
    for (field, arguments) in rows {
        let words = [&["--json", "inbox", "push"], arguments].concat();
        let refused = fixture.turno(&words).expect(2);
        let error = refused.error();
        assert_eq!(
            (text(&error, "code"), text(&error, "field")),
            ("invalid", field),
            "{arguments:?}: {error}"
        );
        assert!(refused.out.is_empty(), "{refused:?}");
    }
    // The message says how to quote.
    let output = fixture.turno("inbox push q hello").expect(2);
    assert!(output.err.contains(r#"'"hello"'"#), "{output:?}");
    // Not both.
    for both in [
        &["1", "--file", "x"][..],
        &["--file", "x", "--key", "k"],
        &["1", "--key", "k", "--key-field", "id"],
        &["1", "--group", "g", "--group-field", "id"],
        &["1", "--delay", "1s", "--run-at", "2030-01-01T00:00:00Z"],
    ] {
        fixture
            .turno(&[&["inbox", "push", "q"], both].concat())
            .expect(2);
    }
    for table in ["{inbox_item}", "{inbox_key}"] {
        let sql = format!("select count(*) from {table}");
        assert_eq!(fixture.ask(&sql), "0", "{table}");
    }
}

fn limits_are_as_configured(fixture: Fixture) {
    let push = |more: &[&str], environment: &[(&str, &str)]| {
        let mut command = fixture.command("--json inbox push q 1234567890");
        command.args(more).envs(environment.iter().copied());
        Done::of(command.output().unwrap())
    };
    let file = "[lock]\ntimeout = '1m'\n[inbox]\nmax_payload = 9\nlease = '10m'\n";
    std::fs::write(fixture.path("turno.toml"), file).unwrap();
    assert_eq!(text(&push(&[], &[]).expect(2).error(), "field"), "payload");
    let environment = [("TURNO_MAX_PAYLOAD", "10")];
    push(&[], &environment).expect(0);
    push(&["--max-payload", "9"], &environment).expect(2);
    push(&["--max-payload", "10"], &[]).expect(0);
    push(&["--max-payload", "10"], &[]).expect(0);
    // The lease from the file, the environment and the option.
    let rows: [Row; 3] = [
        (&[], &[], 10),
        (&[], &[("TURNO_LEASE", "20m")], 20),
        (&["--lease", "30m"], &[("TURNO_LEASE", "20m")], 30),
    ];
    for (more, environment, minutes) in rows {
        let mut command = fixture.command("--json inbox claim q");
        command.args(more).envs(environment.iter().copied());
        let claimed = Done::of(command.output().unwrap()).expect(0).json();
        let at = |field| text(&claimed["items"][0], field).parse::<jiff::Timestamp>();
        let lease = at("expires_at").unwrap().as_second() - at("pushed_at").unwrap().as_second();
        assert!(
            (minutes * 60..minutes * 60 + 300).contains(&lease),
            "{lease} s of {minutes} min"
        );
    }
}
