//! Answers of a run, and what a repetition gets.

use super::*;

on_each_store!(
    a_command_runs_once_and_its_answer_is_replayed,
    output_is_replayed_byte_for_byte,
    too_much_output_is_passed_on_and_not_kept,
    a_reader_that_leaves_early_does_not_cut_the_answer,
    what_is_left_in_the_background_is_not_waited_for,
    the_command_knows_its_run,
    a_key_belongs_to_one_command,
    failures_are_kept_or_tried_again,
    a_command_that_cannot_be_run_leaves_the_key_free,
    an_answer_is_kept_as_long_as_is_said,
);

fn a_command_runs_once_and_its_answer_is_replayed(fixture: Fixture) {
    for (key, code) in [("ok", 0), ("failed", 3)] {
        let script = format!("{MARK} echo out; echo err >&2; exit {code}");
        let before = runs(&fixture);
        let first = once(&fixture, key, &[], &script).expect(code);
        assert_eq!((&*first.out, &*first.err), ("out\n", "err\n"));
        let again = once(&fixture, key, &[], &script).expect(code);
        assert_eq!(again.out, "out\n");
        let output = again.err.strip_suffix("err\n").unwrap();
        assert!(
            output.starts_with(&format!("replayed: {key} ")) && output.ends_with('\n'),
            "{output}"
        );
        let quietly = once(&fixture, key, &["--quiet"], &script).expect(code);
        assert_eq!((&*quietly.out, &*quietly.err), ("out\n", "err\n"));
        assert_eq!(runs(&fixture), before + 1);
    }
}

fn output_is_replayed_byte_for_byte(fixture: Fixture) {
    for (key, script) in [
        ("nothing", "true"),
        (
            "text",
            "printf 'caf\\303\\251\\r\\n\\033[1m'; printf 'no newline' >&2",
        ),
        (
            "binary",
            "printf '\\377\\376\\000x'; printf 'a\\000b' >&2; exit 9",
        ),
        (
            "large",
            "head -c 700000 /dev/urandom; head -c 300000 /dev/urandom >&2",
        ),
        ("controls", "head -c 1048576 /dev/zero | tr '\\000' '\\001'"),
    ] {
        let first = raw(&fixture, key, &[], script);
        let again = raw(&fixture, key, &["-q"], script);
        assert_eq!(first.status.code(), again.status.code(), "{key}");
        assert!(first.stdout == again.stdout, "{key}: standard output");
        assert!(first.stderr == again.stderr, "{key}: standard error");
        if key == "large" {
            assert_eq!((first.stdout.len(), first.stderr.len()), (700_000, 300_000));
        }
    }
}

fn too_much_output_is_passed_on_and_not_kept(fixture: Fixture) {
    let script = format!("{MARK} head -c 200000 /dev/zero; exit 4");
    for most in ["0", "1KiB", "199999"] {
        let options = ["--max-output", most];
        let first = raw(&fixture, most, &options, &script);
        assert_eq!(
            (first.stdout.len(), first.status.code()),
            (200_000, Some(4))
        );
        assert!(String::from_utf8_lossy(&first.stderr).contains("not stored"));
        let again = once(&fixture, most, &options, &script).expect(4);
        assert!(again.out.is_empty(), "{most}");
        assert!(
            again.err.contains("200000 bytes, too large to store"),
            "{again:?}"
        );
        let answer = status(&fixture, most)["answer"].clone();
        assert_eq!(answer, json!({"exit_code": 4, "output_bytes": 200_000}));
        let shown = fixture.turno(&["once", most, "--status"]).expect(0).out;
        assert!(shown.contains("too large to store"), "{shown}");
    }
    assert_eq!(runs(&fixture), 3);
    let options = ["--max-output", "200000"];
    raw(&fixture, "just", &options, &script);
    let again = raw(&fixture, "just", &options, &script);
    assert_eq!(again.stdout.len(), 200_000);
}

fn a_reader_that_leaves_early_does_not_cut_the_answer(fixture: Fixture) {
    let script = "head -c 300000 /dev/zero; echo end >&2";
    let pipeline = format!(
        "{} once it -- sh -c '{script}' | head -c 1",
        crate::common::TURNO
    );
    let mut command = fixture.program("sh");
    let head = command.args(["-c", &pipeline]).output().unwrap();
    assert_eq!(head.stdout.len(), 1);
    let again = raw(&fixture, "it", &["-q"], script);
    assert_eq!(
        (again.stdout.len(), &*again.stderr),
        (300_000, &b"end\n"[..])
    );
}

fn what_is_left_in_the_background_is_not_waited_for(fixture: Fixture) {
    let script = format!("{MARK} sleep 600 & echo $!");
    let first = once(&fixture, "it", &[], &script).expect(0);
    let pid = first.out.trim();
    assert!(is_running(pid));
    kill(pid, Signal::KILL);
    let again = once(&fixture, "it", &[], &script).expect(0);
    assert_eq!((again.out, runs(&fixture)), (first.out, 1));
}

fn the_command_knows_its_run(fixture: Fixture) {
    let script = "env | grep ^TURNO_ | sort";
    let output = once(&fixture, "a b@c", &[], script).expect(0).out;
    let claim = text(&status(&fixture, "a b@c"), "claim").to_owned();
    let token = claim.strip_prefix("a b@c@").unwrap();
    let mut expected = [
        "TURNO_ONCE_ATTEMPT=1".to_owned(),
        "TURNO_ONCE_KEY=a b@c".to_owned(),
        format!("TURNO_ONCE_TOKEN={token}"),
        format!("TURNO_STORE={}", fixture.store),
    ];
    expected.sort();
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
}

fn a_key_belongs_to_one_command(fixture: Fixture) {
    let run = |words: &[&str]| fixture.turno(&[&["once", "it", "-q", "--"], words].concat());
    assert_eq!(run(&["echo", "a", "b"]).expect(0).out, "a b\n");
    for other in [
        &["echo", "a b"][..],
        &["echo", "a"],
        &["echo", "a", "b", ""],
    ] {
        let refused = run(other).expect(1);
        assert!(refused.out.is_empty(), "{refused:?}");
        assert!(
            refused.err.contains("another command") && refused.err.contains("--forget"),
            "{refused:?}"
        );
    }
    let error = fixture.turno("--json once it -- true").expect(1).error();
    assert_eq!(
        (text(&error, "code"), text(&error, "key")),
        ("mismatch", "it")
    );
    assert_eq!(run(&["echo", "a", "b"]).expect(0).out, "a b\n");
}

fn failures_are_kept_or_tried_again(fixture: Fixture) {
    let script = format!("{MARK} [ -e ready ] || {{ echo not yet >&2; exit 6; }}; echo done");
    for _ in 0..2 {
        let failed = once(&fixture, "it", &["--retry-failures"], &script).expect(6);
        assert_eq!(failed.err, "not yet\n");
        fixture.turno("once it --status").expect(1);
    }
    fs::write(fixture.path("ready"), "").unwrap();
    for _ in 0..2 {
        let done = once(&fixture, "it", &["--retry-failures"], &script).expect(0);
        assert_eq!(done.out, "done\n");
    }
    assert_eq!(runs(&fixture), 3);
}

fn a_command_that_cannot_be_run_leaves_the_key_free(fixture: Fixture) {
    fs::write(fixture.path("data"), "not a program").unwrap();
    for (program, code) in [("./tool", 127), ("no-such-command", 127), ("./data", 126)] {
        for options in [&[][..], &["--max-output", "0"]] {
            let words = [&["once", "it"], options, &["--", program]].concat();
            let failed = fixture.turno(&words).expect(code);
            assert!(
                failed.err.contains(program) && failed.err.lines().count() == 1,
                "{failed:?}"
            );
        }
        fixture.turno("once it --status").expect(1);
    }
    fs::copy("/bin/true", fixture.path("tool")).unwrap();
    fixture.turno("once it -- ./tool").expect(0);
    // A command that ends with this code has an answer like any other.
    for _ in 0..2 {
        once(&fixture, "own", &[], &format!("{MARK} no-such-command")).expect(127);
    }
    assert_eq!(runs(&fixture), 1);
}

fn an_answer_is_kept_as_long_as_is_said(fixture: Fixture) {
    let run = |options: &[&str], environment: &[(&str, &str)]| {
        let mut command = fixture.command(&words("it", options, MARK));
        command.envs(environment.iter().copied());
        Done::of(command.output().unwrap()).expect(0);
        runs(&fixture)
    };
    // TTL zero from the file, a longer one from the environment, zero from an option.
    fs::write(fixture.path("turno.toml"), "[once]\nttl = \"0s\"\n").unwrap();
    assert_eq!([run(&[], &[]), run(&[], &[])], [1, 2]);
    let hour = [("TURNO_ONCE_TTL", "1h")];
    let none = ["--ttl", "0s"];
    assert_eq!([run(&none, &hour), run(&none, &hour)], [3, 4]);
    assert_eq!([run(&[], &hour), run(&[], &hour), run(&[], &[])], [5, 5, 5]);
    // Expired answers are swept.
    let brief = ["--lease", "1ms", "--ttl", "1ms"];
    once(&fixture, "brief", &brief, "true").expect(0);
    eventually(LONG, "the answer to be swept", || {
        (fixture.json(0, "sweep")["once"] == json!(1)).then_some(())
    });
    let swept = fixture.turno("sweep").expect(0).out;
    assert!(swept.contains("answers deleted: 0"), "{swept}");
}
