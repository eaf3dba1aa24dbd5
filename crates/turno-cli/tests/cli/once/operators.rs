//! What operators see and configure, and invalid arguments.

use super::*;

on_each_store!(
    json_says_how_it_went,
    operators_list_and_forget_keys,
    an_operator_says_that_it_was_done,
    pages_follow_each_other,
    answers_are_sealed,
    what_is_asked_wrongly_is_refused,
);

#[test]
fn a_lease_is_of_the_option_then_the_environment_then_the_file_then_the_default() {
    let fixture = Fixture::new(Kind::Sqlite);
    let minutes = |key: &str, options: &[&str], environment: &[(&str, &str)]| {
        let mut command = fixture.command(&words(key, options, ASK));
        command.envs(environment.iter().copied());
        let process = Process::spawn(command.stdin(Stdio::piped())).unwrap();
        process.lines().expect_line("token", LONG);
        let busy = fixture.turno(&[&["--json"], &*words(key, &[], ASK)].concat());
        let left = busy.expect(75).error()["remaining_ms"].as_f64().unwrap();
        (left / 60_000.0).ceil()
    };
    let environment = [("TURNO_ONCE_LEASE", "20m")];
    assert_eq!(minutes("default", &[], &[]), 1.0);
    fs::write(fixture.path("turno.toml"), "[once]\nlease = '10m'\n").unwrap();
    assert_eq!(minutes("file", &[], &[]), 10.0);
    assert_eq!(minutes("environment", &[], &environment), 20.0);
    assert_eq!(minutes("option", &["--lease", "30m"], &environment), 30.0);
}

fn json_says_how_it_went(fixture: Fixture) {
    let run = |key: &str, options: &[&str], script: &str, code: i32| {
        let done = fixture.turno(&[&["--json"], &*words(key, options, script)].concat());
        let done = done.expect(code);
        let (before, last) = done.err.trim_end().rsplit_once('\n').unwrap();
        let word: Value = serde_json::from_str(last).unwrap();
        (done.out, before.to_owned(), word)
    };
    let script = "echo '{\"mine\":1}'; printf half >&2; exit 3";
    let (out, err, word) = run("it", &[], script, 3);
    assert_eq!((&*out, &*err), ("{\"mine\":1}\n", "half"));
    let claim = text(&status(&fixture, "it"), "claim").to_owned();
    assert_eq!(
        word,
        json!({"claim": claim, "attempt": 1, "state": "done", "exit_code": 3, "output_bytes": 15, "output_kept": true})
    );
    let (out, err, word) = run("it", &[], script, 3);
    assert_eq!((&*out, &*err), ("{\"mine\":1}\n", "half"));
    assert_eq!(
        word,
        json!({"replay": {"exit_code": 3, "output_bytes": 15, "output_kept": true}})
    );
    let (_, _, word) = run("other", &["--retry-failures"], script, 3);
    assert_eq!(text(&word, "state"), "released");
    let (_, _, word) = run("cut", &[], "printf half >&2; kill -KILL $$", 137);
    assert_eq!(text(&word, "state"), "unknown");
}

fn operators_list_and_forget_keys(fixture: Fixture) {
    fixture.turno("migrate").expect(0);
    let nothing = fixture.turno("once --list").expect(0);
    assert_eq!(nothing.out, "there are no keys\n");
    let script = "echo 'to see'; printf 'not\\033[2J to obey' >&2; exit 2";
    once(&fixture, "pago/1", &[], script).expect(2);
    raw(&fixture, "pago/2", &[], "printf '\\377'");
    once(&fixture, "otro", &[], "kill -KILL $$").expect(137);

    let shown = fixture.turno("once pago/1 --status").expect(0).out;
    for word in [
        "done",
        "kept until",
        "exit code",
        "  to see",
        "  not [2J to obey",
    ] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    assert!(!shown.contains('\x1b'));
    let shown = fixture.turno("once pago/2 --status").expect(0).out;
    assert!(shown.contains("base64"), "{shown}");
    let known = status(&fixture, "pago/1");
    assert_eq!(
        known["answer"],
        json!({"exit_code": 2, "output_bytes": 22, "stdout": "to see\n", "stderr": "not\u{1b}[2J to obey"})
    );
    assert_eq!(
        (
            text(&known, "state"),
            &known["attempt"],
            text(&known, "fingerprint").len()
        ),
        ("done", &json!(1), 43)
    );
    assert_eq!(
        status(&fixture, "pago/2")["answer"]["stdout_base64"],
        json!("/w==")
    );

    let listed = fixture.turno("once --list").expect(0).out;
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].starts_with("KEY") && lines.len() == 4, "{listed}");
    let at = lines[0].find("STATE").unwrap();
    for (line, state) in lines[1..].iter().zip(["unknown", "done", "done"]) {
        assert!(line[at..].starts_with(state), "aligned: {listed}");
    }
    let of = |options: &[&str]| -> Vec<String> {
        let listed = fixture.json(0, &[&["once", "--list"], options].concat());
        let keys = listed["keys"].as_array().unwrap().iter();
        keys.map(|key| text(key, "key").to_owned()).collect()
    };
    assert_eq!(of(&["--state", "unknown"]), ["otro"]);
    assert_eq!(
        of(&["--state", "done", "--prefix", "pago/"]),
        ["pago/1", "pago/2"]
    );
    assert!(of(&["--state", "in_flight"]).is_empty());
    let none = fixture.turno("once --list --state in_flight");
    assert_eq!(none.expect(0).out, "no key is in_flight\n");

    let forgotten = fixture.turno("once pago/1 --forget").expect(0);
    assert_eq!(forgotten.out, "forgotten: pago/1\n");
    let again = fixture.turno("once pago/1 --forget").expect(0);
    assert_eq!(again.out, "there is no key pago/1\n");
    let again = fixture.json(0, "once pago/1 --forget");
    assert_eq!(again, json!({"forgotten": false}));
    let gone = fixture.turno("--json once pago/1 --status");
    assert_eq!(text(&gone.expect(1).error(), "code"), "not_found");
}

fn an_operator_says_that_it_was_done(fixture: Fixture) {
    let script = format!("{MARK} kill -KILL $$");
    let done = |key: &str, more: &[&str]| {
        let because = ["--user", "ana", "--reason", "the bank has it"];
        fixture.turno(&[&["--json", "once", key, "--done"], more, &because].concat())
    };
    for key in ["code", "none", "other"] {
        once(&fixture, key, &[], &script).expect(137);
    }
    let resolved = done("code", &["--exit-code", "0"]).expect(0);
    assert_eq!(resolved.json(), json!({"key": "code", "state": "done"}));
    let replayed = once(&fixture, "code", &[], &script).expect(0);
    assert_eq!(replayed.out, "");
    let again = done("code", &["--exit-code", "3"]).expect(1).error();
    assert_eq!(text(&again, "code"), "answered");
    once(&fixture, "code", &[], &script).expect(0);

    let resolved = fixture.turno("once none --done --reason 'it was'");
    assert_eq!(resolved.expect(0).out, "done: none\n");
    let output = once(&fixture, "none", &[], &script).expect(1);
    assert!(output.err.contains("is done"), "{output:?}");
    done("other", &["--answer", r#"{"receipt": 7}"#]).expect(0);
    assert_eq!(status(&fixture, "other")["answer"], json!({"receipt": 7}));
    assert_eq!(runs(&fixture), 3, "none of them ran again");

    let never = done("never", &[]).expect(1).error();
    assert_eq!(text(&never, "code"), "not_found");
    let process = started(&fixture, "running", &[], ASK);
    process.lines().expect_line("token", LONG);
    let busy = done("running", &[]).expect(75).error();
    assert_eq!(
        (text(&busy, "code"), text(&busy, "key")),
        ("in_flight", "running")
    );
    answer_line(&process);
    assert_eq!(process.wait_timeout(LONG).unwrap().code(), Some(0));

    let output = fixture.json(0, "history --part once");
    let output = output["history"].as_array().unwrap().iter();
    let output: Vec<Value> = output
        .map(|entry| {
            json!([
                entry["event"],
                entry["resource"],
                entry["actor"],
                entry["reason"]
            ])
        })
        .collect();
    assert_eq!(
        output,
        [
            json!(["resolved", "other", "ana", "the bank has it"]),
            json!(["resolved", "none", null, "it was"]),
            json!(["resolved", "code", "ana", "the bank has it"]),
        ]
    );
}

fn pages_follow_each_other(fixture: Fixture) {
    for key in ["a", "b", "c", "d", "e"] {
        fixture.turno(&["once", key, "--", "true"]).expect(0);
    }
    let mut seen: Vec<String> = Vec::new();
    loop {
        let after = seen.last().cloned().unwrap_or_default();
        let words = ["once", "--list", "--limit", "2", "--after", &after];
        let page = fixture.json(0, &words)["keys"].clone();
        let keys = page.as_array().unwrap().iter();
        let keys: Vec<String> = keys.map(|key| text(key, "key").to_owned()).collect();
        assert!(keys.len() <= 2);
        if keys.is_empty() {
            break;
        }
        seen.extend(keys);
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
}

fn answers_are_sealed(fixture: Fixture) {
    let (old, new) = (
        "old:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
        "new:YTEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
    );
    let run = |keys: Option<&str>, arguments: &[&str]| {
        let mut command = fixture.command(arguments);
        if let Some(keys) = keys {
            command.env("TURNO_ANSWER_KEYS", keys);
        }
        Done::of(command.output().unwrap())
    };
    let words = ["once", "it", "-q", "--", "echo", "s3cret"];
    run(Some(old), &words).expect(0);
    let stored = fixture.ask("select answer from {once}");
    assert!(
        stored.contains("turno_sealed") && !stored.contains("s3cret"),
        "{stored}"
    );
    let both = format!("{new},{old}");
    assert_eq!(run(Some(&both), &words).expect(0).out, "s3cret\n");
    let known = run(Some(&both), &["--json", "once", "it", "--status"]).expect(0);
    assert_eq!(known.json()["answer"]["stdout"], json!("s3cret\n"));
    for keys in [None, Some(new)] {
        for words in [&words[..], &["once", "it", "--status"]] {
            let refused = run(keys, words).expect(1);
            assert!(
                refused.out.is_empty() && refused.err.contains("answer_keys"),
                "{refused:?}"
            );
        }
    }
    // From the file, and overridden by the environment.
    fs::write(
        fixture.path("turno.toml"),
        "[once]\nanswer_keys_file = 'keys'\n",
    )
    .unwrap();
    fs::write(
        fixture.path("keys"),
        format!("# newest first\n{new}\n{old}\n"),
    )
    .unwrap();
    assert_eq!(run(None, &words).expect(0).out, "s3cret\n");
    run(Some(new), &words).expect(1);
    // The answer of an operator is encrypted too.
    run(Some(old), &["once", "cut", "--", "sh", "-c", "kill -9 $$"]).expect(137);
    run(
        Some(old),
        &["once", "cut", "--done", "--answer", "\"s3cret\""],
    )
    .expect(0);
    let stored = fixture.ask("select answer from {once} where key = 'cut'");
    assert!(
        stored.contains("turno_sealed") && !stored.contains("s3cret"),
        "{stored}"
    );
    // Without the key, the once key can still be forgotten.
    run(None, &["once", "it", "--forget"]).expect(0);
    fs::remove_file(fixture.path("keys")).unwrap();
    let missing = run(None, &[&["--json"], &words[..]].concat()).expect(2);
    assert_eq!(text(&missing.error(), "field"), "once.answer_keys_file");
    for bad in ["", "s3cret", "a:s3cret"] {
        let refused = run(Some(bad), &[&["--json"], &words[..]].concat()).expect(2);
        assert_eq!(text(&refused.error(), "field"), "TURNO_ANSWER_KEYS");
        assert!(!refused.err.contains("s3cret"), "{refused:?}");
    }
    fixture.turno("once --list").expect(0);
}

fn what_is_asked_wrongly_is_refused(fixture: Fixture) {
    fixture.turno("migrate").expect(0);
    let long = "x".repeat(256);
    let run = ["--", "touch", "ran"];
    let rows: [(&str, &[&str]); 15] = [
        ("key", &[""]),
        ("key", &[&long]),
        ("key", &["a\nb"]),
        ("lease", &["it", "--lease", "0s"]),
        ("lease", &["it", "--lease", "25h"]),
        ("lease", &["it", "--lease=soon"]),
        ("ttl", &["it", "--ttl", "-5s"]),
        ("ttl", &["it", "--ttl", "3661d"]),
        ("wait", &["it", "--wait", "25h"]),
        ("unknown", &["it", "--unknown", "maybe"]),
        ("max_output", &["it", "--max-output", "lots"]),
        ("max_output", &["it", "--max-output", "17MiB"]),
        ("state", &["it", "--state", "lost"]),
        ("status", &["it", "--status"]),
        ("key", &["it", "--list"]),
    ];
    for (field, options) in rows {
        let words = [&["--json", "once"], options, &run].concat();
        let error = fixture.turno(&words).expect(2).error();
        assert_eq!(
            (text(&error, "code"), text(&error, "field")),
            ("invalid", field),
            "{options:?}: {error}"
        );
    }
    for words in [
        &["once"][..],
        &["once", "it"],
        &["once", "it", "--"],
        &["once", "--", "touch", "ran"],
        &["once", "it", "touch", "ran"],
        &["once", "--status"],
        &["once", "", "--status"],
        &["once", "a\nb", "--forget"],
        &["once", "it", "--status", "--forget"],
        &["once", "it", "--list"],
        &["once", "it", "--status", "--wait", "1s"],
        &["once", "it", "--forget", "--prefix", "i"],
        &["once", "--done"],
        &["once", "it", "--done", "--forget"],
        &["once", "it", "--done", "--wait", "1s"],
        &["once", "it", "--done", "--answer", "{"],
        &["once", "it", "--done", "--answer", "1", "--exit-code", "0"],
        &["once", "it", "--done", "--exit-code", "256"],
        &["once", "it", "--done", "--reason", ""],
        &["once", "it", "--status", "--answer", "1"],
        &["once", "it", "--status", "--reason", "why"],
        &["once", "--list", "--state", "lost"],
        &["once", "--list", "--limit", "many"],
    ] {
        let refused = fixture.turno(words).expect(2);
        assert!(refused.err.starts_with("error: "), "{refused:?}");
    }
    assert!(!fixture.path("ran").exists());
    assert_eq!(fixture.ask("select count(*) from {once}"), "0");
}
