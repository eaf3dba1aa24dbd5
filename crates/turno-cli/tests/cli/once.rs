//! `turno once`: a command that runs once, and its answer, which is told as often as anybody asks.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use turno_testkit::{PostgresServer, Process, TcpProxy, eventually};

use crate::common::{Done, Kind, LONG, Place, is_running, state, text};

on_each_store!(
    a_command_runs_once_and_its_answer_is_told_again,
    output_is_told_again_byte_for_byte,
    too_much_output_is_passed_on_and_not_kept,
    a_reader_that_leaves_early_does_not_cut_the_answer,
    what_is_left_in_the_background_is_not_waited_for,
    the_command_knows_its_run,
    a_key_belongs_to_one_command,
    a_run_in_flight_is_told,
    a_run_in_flight_is_waited_for,
    a_signal_while_waiting_ends_the_wait,
    of_many_at_once_one_runs,
    a_run_that_was_killed_is_unknown,
    a_command_that_was_cut_off_is_unknown,
    signals_reach_the_command,
    failures_are_kept_or_tried_again,
    a_command_that_cannot_be_run_leaves_the_key_free,
    a_run_that_slept_too_long_cannot_answer,
    a_run_that_was_taken_over_is_stopped,
    an_answer_is_kept_as_long_as_is_said,
    json_says_how_it_went,
    people_see_and_forget_keys,
    pages_follow_each_other,
    answers_are_sealed,
    what_is_asked_wrongly_is_refused,
);

/// Leaves a mark each time it runs.
const MARK: &str = "echo ran >> runs;";
/// Prints its pid, then works until it is told to stop, which it says.
const WORK: &str = "trap 'echo told TERM; exit 3' TERM; echo pid $$; while :; do sleep 0.05; done";
/// Says which run it is, and waits for a line.
const ASK: &str = "echo token $TURNO_ONCE_TOKEN; read -r line; echo got $line";

/// `turno once KEY [OPTIONS] -- sh -c SCRIPT`.
fn words<'a>(key: &'a str, options: &[&'a str], script: &'a str) -> Vec<&'a str> {
    [&["once", key], options, &["--", "sh", "-c", script]].concat()
}

fn once(place: &Place, key: &str, options: &[&str], script: &str) -> Done {
    place.turno(&words(key, options, script))
}

/// The same, with its output as it is.
fn raw(place: &Place, key: &str, options: &[&str], script: &str) -> Output {
    place.command(words(key, options, script)).output().unwrap()
}

/// Started, with a pipe to its standard input, and its standard error in a file.
fn started(place: &Place, key: &str, options: &[&str], script: &str) -> Process {
    let errors = File::create(place.path("errors")).unwrap();
    let mut command = place.command(words(key, options, script));
    Process::spawn(command.stdin(Stdio::piped()).stderr(errors)).unwrap()
}

fn answer_line(process: &Process) {
    let mut stdin = process.take_stdin().unwrap();
    stdin.write_all(b"it\n").unwrap();
}

fn errors(place: &Place) -> String {
    fs::read_to_string(place.path("errors")).unwrap()
}

/// How often the command has left its mark.
fn runs(place: &Place) -> usize {
    fs::read_to_string(place.path("runs")).map_or(0, |marks| marks.lines().count())
}

fn status(place: &Place, key: &str) -> Value {
    place.json(0, &["once", key, "--status"])
}

fn a_command_runs_once_and_its_answer_is_told_again(place: Place) {
    for (key, code) in [("ok", 0), ("failed", 3)] {
        let script = format!("{MARK} echo out; echo err >&2; exit {code}");
        let before = runs(&place);
        let first = once(&place, key, &[], &script).expect(code);
        assert_eq!((&*first.out, &*first.err), ("out\n", "err\n"));
        let again = once(&place, key, &[], &script).expect(code);
        assert_eq!(again.out, "out\n");
        let told = again.err.strip_suffix("err\n").unwrap();
        assert!(
            told.starts_with(&format!("replayed: {key} ")) && told.ends_with('\n'),
            "{told}"
        );
        let quietly = once(&place, key, &["--quiet"], &script).expect(code);
        assert_eq!((&*quietly.out, &*quietly.err), ("out\n", "err\n"));
        assert_eq!(runs(&place), before + 1);
    }
}

fn output_is_told_again_byte_for_byte(place: Place) {
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
        let first = raw(&place, key, &[], script);
        let again = raw(&place, key, &["-q"], script);
        assert_eq!(first.status.code(), again.status.code(), "{key}");
        assert!(first.stdout == again.stdout, "{key}: standard output");
        assert!(first.stderr == again.stderr, "{key}: standard error");
        if key == "large" {
            assert_eq!((first.stdout.len(), first.stderr.len()), (700_000, 300_000));
        }
    }
}

fn too_much_output_is_passed_on_and_not_kept(place: Place) {
    let script = format!("{MARK} head -c 200000 /dev/zero; exit 4");
    for most in ["0", "1KiB", "199999"] {
        let options = ["--max-output", most];
        let first = raw(&place, most, &options, &script);
        assert_eq!(
            (first.stdout.len(), first.status.code()),
            (200_000, Some(4))
        );
        assert!(String::from_utf8_lossy(&first.stderr).contains("not kept"));
        let again = once(&place, most, &options, &script).expect(4);
        assert!(again.out.is_empty(), "{most}");
        assert!(
            again.err.contains("200000 bytes, too much to keep"),
            "{again:?}"
        );
        let answer = status(&place, most)["answer"].clone();
        assert_eq!(answer, json!({"exit_code": 4, "output_bytes": 200_000}));
        let shown = place.turno(&["once", most, "--status"]).expect(0).out;
        assert!(shown.contains("too much to keep"), "{shown}");
    }
    assert_eq!(runs(&place), 3);
    let options = ["--max-output", "200000"];
    raw(&place, "just", &options, &script);
    let again = raw(&place, "just", &options, &script);
    assert_eq!(again.stdout.len(), 200_000);
}

fn a_reader_that_leaves_early_does_not_cut_the_answer(place: Place) {
    let script = "head -c 300000 /dev/zero; echo end >&2";
    let pipeline = format!(
        "{} once it -- sh -c '{script}' | head -c 1",
        crate::common::TURNO
    );
    let mut command = place.program("sh");
    let head = command.args(["-c", &pipeline]).output().unwrap();
    assert_eq!(head.stdout.len(), 1);
    let again = raw(&place, "it", &["-q"], script);
    assert_eq!(
        (again.stdout.len(), &*again.stderr),
        (300_000, &b"end\n"[..])
    );
}

fn what_is_left_in_the_background_is_not_waited_for(place: Place) {
    let script = format!("{MARK} sleep 600 & echo $!");
    let first = once(&place, "it", &[], &script).expect(0);
    let pid = first.out.trim();
    assert!(is_running(pid));
    kill(pid, Signal::KILL);
    let again = once(&place, "it", &[], &script).expect(0);
    assert_eq!((again.out, runs(&place)), (first.out, 1));
}

fn the_command_knows_its_run(place: Place) {
    let script = "env | grep ^TURNO_ | sort";
    let told = once(&place, "a b@c", &[], script).expect(0).out;
    let claim = text(&status(&place, "a b@c"), "claim").to_owned();
    let token = claim.strip_prefix("a b@c@").unwrap();
    let mut expected = [
        "TURNO_ONCE_ATTEMPT=1".to_owned(),
        "TURNO_ONCE_KEY=a b@c".to_owned(),
        format!("TURNO_ONCE_TOKEN={token}"),
        format!("TURNO_STORE={}", place.store),
    ];
    expected.sort();
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
}

fn a_key_belongs_to_one_command(place: Place) {
    let run = |words: &[&str]| place.turno(&[&["once", "it", "-q", "--"], words].concat());
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
    let error = place
        .turno(&["--json", "once", "it", "--", "true"])
        .expect(1)
        .error();
    assert_eq!(
        (text(&error, "code"), text(&error, "key")),
        ("mismatch", "it")
    );
    assert_eq!(run(&["echo", "a", "b"]).expect(0).out, "a b\n");
}

fn a_run_in_flight_is_told(place: Place) {
    let first = started(&place, "it", &[], ASK);
    // Its output is passed on while it runs.
    first.lines().expect_line("token", LONG);
    let busy = once(&place, "it", &[], ASK).expect(75);
    let worker = format!("/{},", first.id());
    assert!(
        busy.out.is_empty()
            && busy.err.contains("it is in flight")
            && busy.err.contains(&worker)
            && busy.err.contains("--wait"),
        "{busy:?}"
    );
    let busy = place.turno(&[&["--json"], &*words("it", &[], ASK)].concat());
    let error = busy.expect(75).error();
    assert_eq!(
        (text(&error, "code"), text(&error, "key")),
        ("in_flight", "it")
    );
    assert!(error["remaining_ms"].as_i64().unwrap() > 0, "{error}");
    text(&error, "began_at");
    // Nor is it forgotten.
    let kept = place
        .turno(&["--json", "once", "it", "--forget"])
        .expect(75);
    assert_eq!(text(&kept.error(), "code"), "in_flight");
    assert_eq!(text(&status(&place, "it"), "state"), "in_flight");
    let shown = place.turno(&["once", "it", "--status"]).expect(0).out;
    assert!(shown.contains("lease ends"), "{shown}");
    answer_line(&first);
    assert_eq!(first.lines().rest(), ["got it"]);
    assert_eq!(first.wait_timeout(LONG).unwrap().code(), Some(0));
    assert!(
        once(&place, "it", &[], ASK)
            .expect(0)
            .out
            .ends_with("got it\n")
    );
}

/// Until somebody waits for the answer: signed in, or at least at the store.
fn is_waiting(place: &Place, process: &Process) -> bool {
    match place.kind {
        Kind::Postgres => {
            let sql = "select count(*) from {once} where waited_until is not null";
            place.ask(sql) == "1"
        }
        Kind::Sqlite => {
            let files = fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap();
            let mut files = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
            files.any(|file| file == place.path("store.db"))
        }
    }
}

fn a_run_in_flight_is_waited_for(place: Place) {
    let script = format!("{MARK} {ASK}");
    let first = started(&place, "it", &[], &script);
    let token = first.lines().expect_line("token", LONG);
    let waiting = place.start(&words("it", &["--wait", "60s"], &script));
    eventually(LONG, "the other to wait", || {
        is_waiting(&place, &waiting).then_some(())
    });
    answer_line(&first);
    assert_eq!(waiting.lines().expect_line("token", LONG), token);
    assert_eq!(waiting.lines().rest(), ["got it"]);
    assert_eq!(waiting.wait_timeout(LONG).unwrap().code(), Some(0));
    assert_eq!(first.wait_timeout(LONG).unwrap().code(), Some(0));
    assert_eq!(runs(&place), 1);
}

fn a_signal_while_waiting_ends_the_wait(place: Place) {
    let first = started(&place, "it", &[], ASK);
    first.lines().expect_line("token", LONG);
    let waiting = place.start(&words("it", &["--wait", "600s"], ASK));
    eventually(LONG, "the other to wait", || {
        is_waiting(&place, &waiting).then_some(())
    });
    waiting.term();
    assert_eq!(waiting.wait_timeout(LONG).unwrap().code(), Some(143));
    answer_line(&first);
    assert_eq!(first.wait_timeout(LONG).unwrap().code(), Some(0));
}

fn of_many_at_once_one_runs(place: Place) {
    let script = format!("{MARK} echo $$; exit 5");
    let all: Vec<_> = (0..10)
        .map(|_| {
            let mut command = place.command(words("it", &["-q", "--wait", "600s"], &script));
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    let all: Vec<Done> = all
        .into_iter()
        .map(|child| Done::of(child.wait_with_output().unwrap()).expect(5))
        .collect();
    for done in &all {
        assert_eq!((&done.out, &*done.err), (&all[0].out, ""));
    }
    assert_eq!(runs(&place), 1);
}

fn a_run_that_was_killed_is_unknown(place: Place) {
    let script = format!("{MARK} echo attempt $TURNO_ONCE_ATTEMPT $TURNO_ONCE_TOKEN; {WORK}");
    let first = started(&place, "it", &["--lease", "1s"], &script);
    let pid = first.lines().expect_line("pid", LONG);
    let token = |done: &Value| -> i64 {
        let (_, token) = text(done, "claim").rsplit_once('@').unwrap();
        token.parse().unwrap()
    };
    let before = token(&status(&place, "it"));
    first.kill_9();
    assert_eq!(first.wait_timeout(LONG).unwrap().signal(), Some(9));
    eventually(LONG, "the command to be killed with it", || {
        (!is_running(&pid)).then_some(())
    });
    // Not before its lease is over; and then it is not known what it did.
    let refused = once(&place, "it", &["--wait", "60s"], &script).expect(1);
    for word in ["unknown", "vanished", "--forget", "--unknown rerun"] {
        assert!(refused.err.contains(word), "{word}: {refused:?}");
    }
    let refused = place.turno(&[&["--json"], &*words("it", &[], &script)].concat());
    assert_eq!(text(&refused.expect(1).error(), "code"), "unknown");
    assert_eq!(runs(&place), 1);
    let listed = place.json(0, &["once", "--list", "--state", "unknown"]);
    assert_eq!(text(&listed["keys"][0], "key"), "it");
    assert_eq!(text(&status(&place, "it"), "state"), "unknown");
    // Somebody has looked.
    let again = started(&place, "it", &["--unknown", "rerun"], &script);
    let told = again.lines().expect_line("attempt", LONG);
    let (attempt, after) = told.split_once(' ').unwrap();
    assert_eq!(attempt, "2");
    assert!(after.parse::<i64>().unwrap() > before, "tokens grow");
    again.lines().expect_line("pid", LONG);
    again.term();
    assert_eq!(again.wait_timeout(LONG).unwrap().code(), Some(3));
}

fn a_command_that_was_cut_off_is_unknown(place: Place) {
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("INT", 130)] {
        let script = format!("{MARK} echo begun; kill -{signal} $$");
        let cut = once(&place, signal, &["--retry-failures"], &script).expect(code);
        assert!(
            cut.out == "begun\n" && cut.err.contains("unknown"),
            "{cut:?}"
        );
        let before = runs(&place);
        once(&place, signal, &[], &script).expect(1);
        assert_eq!(runs(&place), before);
        assert_eq!(
            place.json(0, &["once", signal, "--forget"]),
            json!({"forgotten": true})
        );
        once(&place, signal, &[], &script).expect(code);
        assert_eq!(runs(&place), before + 1);
    }
}

fn signals_reach_the_command(place: Place) {
    let first = started(&place, "it", &[], WORK);
    let pid = first.lines().expect_line("pid", LONG);
    first.term();
    first.lines().expect_line("told TERM", LONG);
    assert_eq!(first.wait_timeout(LONG).unwrap().code(), Some(3));
    assert!(!is_running(&pid));
    // It has said how it ended, but only because it was told to: that is no answer.
    once(&place, "it", &[], WORK).expect(1);
    assert_eq!(text(&status(&place, "it"), "state"), "unknown");
    // Unless it has made the best of it.
    let script = "trap 'exit 0' TERM; echo pid; while :; do sleep 0.05; done";
    let second = started(&place, "graceful", &[], script);
    second.lines().expect_line("pid", LONG);
    second.term();
    assert_eq!(second.wait_timeout(LONG).unwrap().code(), Some(0));
    once(&place, "graceful", &[], script).expect(0);
}

fn failures_are_kept_or_tried_again(place: Place) {
    let script = format!("{MARK} [ -e ready ] || {{ echo not yet >&2; exit 6; }}; echo done");
    for _ in 0..2 {
        let failed = once(&place, "it", &["--retry-failures"], &script).expect(6);
        assert_eq!(failed.err, "not yet\n");
        place.turno(&["once", "it", "--status"]).expect(1);
    }
    fs::write(place.path("ready"), "").unwrap();
    for _ in 0..2 {
        let done = once(&place, "it", &["--retry-failures"], &script).expect(0);
        assert_eq!(done.out, "done\n");
    }
    assert_eq!(runs(&place), 3);
}

fn a_command_that_cannot_be_run_leaves_the_key_free(place: Place) {
    fs::write(place.path("data"), "not a program").unwrap();
    for (program, code) in [("./tool", 127), ("no-such-command", 127), ("./data", 126)] {
        for options in [&[][..], &["--max-output", "0"]] {
            let words = [&["once", "it"], options, &["--", program]].concat();
            let failed = place.turno(&words).expect(code);
            assert!(
                failed.err.contains(program) && failed.err.lines().count() == 1,
                "{failed:?}"
            );
        }
        place.turno(&["once", "it", "--status"]).expect(1);
    }
    fs::copy("/bin/true", place.path("tool")).unwrap();
    place.turno(&["once", "it", "--", "./tool"]).expect(0);
    // A command of its own that ends so is an answer like any other.
    for _ in 0..2 {
        once(&place, "own", &[], &format!("{MARK} no-such-command")).expect(127);
    }
    assert_eq!(runs(&place), 1);
}

fn kill(pid: &str, signal: Signal) {
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), signal).unwrap();
}

/// A run that sleeps past its lease, and the answer of the one that took over.
fn overtaken(place: &Place, script: &str) -> (Process, Done) {
    let first = started(place, "it", &["--lease", "1s"], script);
    first.lines().expect_line("token", LONG);
    first.stop();
    eventually(LONG, "turno to be stopped", || {
        (state(&first.id().to_string()) == Some('T')).then_some(())
    });
    let options = ["-q", "--unknown", "rerun", "--wait", "60s"];
    let mut command = place.command(words("it", &options, script));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut second = command.stderr(Stdio::piped()).spawn().unwrap();
    second.stdin.take().unwrap().write_all(b"second\n").unwrap();
    let second = Done::of(second.wait_with_output().unwrap()).expect(0);
    assert!(second.out.ends_with("got second\n"), "{second:?}");
    (first, second)
}

fn a_run_that_slept_too_long_cannot_answer(place: Place) {
    let (first, second) = overtaken(&place, ASK);
    // Its command ends while it sleeps.
    answer_line(&first);
    first.cont();
    assert_eq!(first.wait_timeout(LONG).unwrap().code(), Some(1));
    let told = errors(&place);
    assert!(
        told.contains("taken over") && told.contains("--lease"),
        "{told}"
    );
    let again = once(&place, "it", &["-q"], ASK).expect(0);
    assert_eq!(again.out, second.out);
}

fn a_run_that_was_taken_over_is_stopped(place: Place) {
    // It listens from the first moment on: it is told as soon as turno is awake.
    let script = format!(
        "trap 'echo told TERM; exit 3' TERM; {ASK}; [ \"$line\" = second ] || {{ while :; do sleep 0.05; done; }}"
    );
    let (first, second) = overtaken(&place, &script);
    answer_line(&first);
    first.cont();
    first.lines().expect_line("told TERM", LONG);
    assert_eq!(first.wait_timeout(LONG).unwrap().code(), Some(1));
    assert!(errors(&place).contains("taken over"), "{}", errors(&place));
    let again = once(&place, "it", &["-q"], &script).expect(0);
    assert_eq!(again.out, second.out);
}

fn an_answer_is_kept_as_long_as_is_said(place: Place) {
    let run = |options: &[&str], environment: &[(&str, &str)]| {
        let mut command = place.command(words("it", options, MARK));
        command.envs(environment.iter().copied());
        Done::of(command.output().unwrap()).expect(0);
        runs(&place)
    };
    // None is kept by the file, a while by the environment, none by an option.
    fs::write(place.path("turno.toml"), "[once]\nttl = 0\n").unwrap();
    assert_eq!([run(&[], &[]), run(&[], &[])], [1, 2]);
    let hour = [("TURNO_ONCE_TTL", "1h")];
    let none = ["--ttl", "0"];
    assert_eq!([run(&none, &hour), run(&none, &hour)], [3, 4]);
    assert_eq!([run(&[], &hour), run(&[], &hour), run(&[], &[])], [5, 5, 5]);
    // What is over is swept.
    let brief = ["--lease", "1ms", "--ttl", "1ms"];
    once(&place, "brief", &brief, "true").expect(0);
    eventually(LONG, "the answer to be swept", || {
        (place.json(0, &["sweep"])["once"] == json!(1)).then_some(())
    });
    let swept = place.turno(&["sweep"]).expect(0).out;
    assert!(swept.contains("answers forgotten: 0"), "{swept}");
}

#[test]
fn a_lease_is_of_the_option_then_the_environment_then_the_file_then_the_default() {
    let place = Place::new(Kind::Sqlite);
    let minutes = |key: &str, options: &[&str], environment: &[(&str, &str)]| {
        let mut command = place.command(words(key, options, ASK));
        command.envs(environment.iter().copied());
        let process = Process::spawn(command.stdin(Stdio::piped())).unwrap();
        process.lines().expect_line("token", LONG);
        let busy = place.turno(&[&["--json"], &*words(key, &[], ASK)].concat());
        let left = busy.expect(75).error()["remaining_ms"].as_f64().unwrap();
        (left / 60_000.0).ceil()
    };
    let environment = [("TURNO_ONCE_LEASE", "20m")];
    assert_eq!(minutes("default", &[], &[]), 1.0);
    fs::write(place.path("turno.toml"), "[once]\nlease = '10m'\n").unwrap();
    assert_eq!(minutes("file", &[], &[]), 10.0);
    assert_eq!(minutes("environment", &[], &environment), 20.0);
    assert_eq!(minutes("option", &["--lease", "30m"], &environment), 30.0);
}

fn json_says_how_it_went(place: Place) {
    let run = |key: &str, options: &[&str], script: &str, code: i32| {
        let done = place.turno(&[&["--json"], &*words(key, options, script)].concat());
        let done = done.expect(code);
        let (before, last) = done.err.trim_end().rsplit_once('\n').unwrap();
        let word: Value = serde_json::from_str(last).unwrap();
        (done.out, before.to_owned(), word)
    };
    let script = "echo '{\"mine\":1}'; printf half >&2; exit 3";
    let (out, err, word) = run("it", &[], script, 3);
    assert_eq!((&*out, &*err), ("{\"mine\":1}\n", "half"));
    let claim = text(&status(&place, "it"), "claim").to_owned();
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

fn people_see_and_forget_keys(place: Place) {
    let nothing = place.turno(&["once", "--list"]).expect(0);
    assert_eq!(nothing.out, "no key is known\n");
    let script = "echo 'to see'; printf 'not\\033[2J to obey' >&2; exit 2";
    once(&place, "pago/1", &[], script).expect(2);
    raw(&place, "pago/2", &[], "printf '\\377'");
    once(&place, "otro", &[], "kill -KILL $$").expect(137);

    let shown = place.turno(&["once", "pago/1", "--status"]).expect(0).out;
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
    let shown = place.turno(&["once", "pago/2", "--status"]).expect(0).out;
    assert!(shown.contains("base64"), "{shown}");
    let known = status(&place, "pago/1");
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
        status(&place, "pago/2")["answer"]["stdout_base64"],
        json!("/w==")
    );

    let listed = place.turno(&["once", "--list"]).expect(0).out;
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].starts_with("KEY") && lines.len() == 4, "{listed}");
    let at = lines[0].find("STATE").unwrap();
    for (line, state) in lines[1..].iter().zip(["unknown", "done", "done"]) {
        assert!(line[at..].starts_with(state), "aligned: {listed}");
    }
    let of = |options: &[&str]| -> Vec<String> {
        let listed = place.json(0, &[&["once", "--list"], options].concat());
        let keys = listed["keys"].as_array().unwrap().iter();
        keys.map(|key| text(key, "key").to_owned()).collect()
    };
    assert_eq!(of(&["--state", "unknown"]), ["otro"]);
    assert_eq!(
        of(&["--state", "done", "--prefix", "pago/"]),
        ["pago/1", "pago/2"]
    );
    assert!(of(&["--state", "in_flight"]).is_empty());
    let none = place.turno(&["once", "--list", "--state", "in_flight"]);
    assert_eq!(none.expect(0).out, "no key is in_flight\n");

    let forgotten = place.turno(&["once", "pago/1", "--forget"]).expect(0);
    assert_eq!(forgotten.out, "forgotten: pago/1\n");
    let again = place.turno(&["once", "pago/1", "--forget"]).expect(0);
    assert_eq!(again.out, "nothing is known of pago/1\n");
    let again = place.json(0, &["once", "pago/1", "--forget"]);
    assert_eq!(again, json!({"forgotten": false}));
    let gone = place.turno(&["--json", "once", "pago/1", "--status"]);
    assert_eq!(text(&gone.expect(1).error(), "code"), "not_found");
}

fn pages_follow_each_other(place: Place) {
    for key in ["a", "b", "c", "d", "e"] {
        place.turno(&["once", key, "--", "true"]).expect(0);
    }
    let mut seen: Vec<String> = Vec::new();
    loop {
        let after = seen.last().cloned().unwrap_or_default();
        let words = ["once", "--list", "--limit", "2", "--after", &after];
        let page = place.json(0, &words)["keys"].clone();
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

fn answers_are_sealed(place: Place) {
    let (old, new) = (
        "old:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
        "new:YTEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
    );
    let run = |keys: Option<&str>, arguments: &[&str]| {
        let mut command = place.command(arguments);
        if let Some(keys) = keys {
            command.env("TURNO_ANSWER_KEYS", keys);
        }
        Done::of(command.output().unwrap())
    };
    let words = ["once", "it", "-q", "--", "echo", "s3cret"];
    run(Some(old), &words).expect(0);
    let stored = place.ask("select answer from {once}");
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
    // The file, and the environment over it.
    fs::write(
        place.path("turno.toml"),
        "[once]\nanswer_keys_file = 'keys'\n",
    )
    .unwrap();
    fs::write(
        place.path("keys"),
        format!("# newest first\n{new}\n{old}\n"),
    )
    .unwrap();
    assert_eq!(run(None, &words).expect(0).out, "s3cret\n");
    run(Some(new), &words).expect(1);
    // Without, one can still forget.
    run(None, &["once", "it", "--forget"]).expect(0);
    fs::remove_file(place.path("keys")).unwrap();
    let missing = run(None, &[&["--json"], &words[..]].concat()).expect(2);
    assert_eq!(text(&missing.error(), "field"), "once.answer_keys_file");
    for bad in ["", "s3cret", "a:s3cret"] {
        let refused = run(Some(bad), &[&["--json"], &words[..]].concat()).expect(2);
        assert_eq!(text(&refused.error(), "field"), "TURNO_ANSWER_KEYS");
        assert!(!refused.err.contains("s3cret"), "{refused:?}");
    }
    place.turno(&["once", "--list"]).expect(0);
}

fn what_is_asked_wrongly_is_refused(place: Place) {
    place.turno(&["migrate"]).expect(0);
    let long = "x".repeat(256);
    let run = ["--", "touch", "ran"];
    let rows: [(&str, &[&str]); 15] = [
        ("key", &[""]),
        ("key", &[&long]),
        ("key", &["a\nb"]),
        ("lease", &["it", "--lease", "0"]),
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
        let error = place.turno(&words).expect(2).error();
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
        &["once", "--list", "--state", "lost"],
        &["once", "--list", "--limit", "many"],
    ] {
        let refused = place.turno(words).expect(2);
        assert!(refused.err.starts_with("error: "), "{refused:?}");
    }
    assert!(!place.path("ran").exists());
    assert_eq!(place.ask("select count(*) from {once}"), "0");
}

/// The database is away for longer than the lease while the command runs, and comes back: nobody has taken over, and the
/// answer is stored.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_outlives_an_outage_of_the_store() {
    let place = Place::new(Kind::Postgres);
    place.turno(&["migrate"]).expect(0);
    let server = PostgresServer::shared();
    let proxy = TcpProxy::start(([127, 0, 0, 1], server.port()).into())
        .await
        .unwrap();
    let through = proxy.url_for(&place.store);
    let words = words("it", &["--lease", "1s"], ASK);
    let mut command: Command = place.command([&["--store", &through], &*words].concat());
    let process = Process::spawn(command.stdin(Stdio::piped()).stderr(Stdio::null())).unwrap();
    process.lines().expect_line("token", LONG);
    proxy.cut().await;
    eventually(LONG, "the lease to be over", || {
        (text(&status(&place, "it"), "state") == "unknown").then_some(())
    });
    proxy.restore().await.unwrap();
    answer_line(&process);
    assert_eq!(process.wait_timeout(LONG).unwrap().code(), Some(0));
    let again = once(&place, "it", &[], ASK).expect(0);
    assert!(again.out.ends_with("got it\n"), "{again:?}");
}
