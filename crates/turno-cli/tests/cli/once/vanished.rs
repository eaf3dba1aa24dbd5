//! Runs that are killed, stopped, or taken over.

use super::*;

on_each_store!(
    a_run_that_was_killed_is_unknown,
    a_command_that_was_cut_off_is_unknown,
    signals_reach_the_command,
    a_run_that_slept_too_long_cannot_answer,
    a_run_that_was_taken_over_is_stopped,
);

fn a_run_that_was_killed_is_unknown(fixture: Fixture) {
    let script = format!("{MARK} echo attempt $TURNO_ONCE_ATTEMPT $TURNO_ONCE_TOKEN; {WORK}");
    let first = started(&fixture, "it", &["--lease", "1s"], &script);
    let pid = first.lines().expect_line("pid", LONG);
    let token = |done: &Value| -> i64 {
        let (_, token) = text(done, "claim").rsplit_once('@').unwrap();
        token.parse().unwrap()
    };
    let before = token(&status(&fixture, "it"));
    first.kill_9();
    assert_eq!(first.wait_timeout(LONG).unwrap().signal(), Some(9));
    eventually(LONG, "the command to be killed with it", || {
        (!is_running(&pid)).then_some(())
    });
    // Not before its lease has expired; then the result is unknown.
    let refused = once(&fixture, "it", &["--wait", "60s"], &script).expect(1);
    for word in [
        "unknown",
        "ended without an answer",
        "--done",
        "--forget",
        "--unknown rerun",
    ] {
        assert!(refused.err.contains(word), "{word}: {refused:?}");
    }
    let refused = fixture.turno(&[&["--json"], &*words("it", &[], &script)].concat());
    assert_eq!(text(&refused.expect(1).error(), "code"), "unknown");
    assert_eq!(runs(&fixture), 1);
    let listed = fixture.json(0, "once --list --state unknown");
    assert_eq!(text(&listed["keys"][0], "key"), "it");
    assert_eq!(text(&status(&fixture, "it"), "state"), "unknown");
    // An operator decides to run it again.
    let again = started(&fixture, "it", &["--unknown", "rerun"], &script);
    let output = again.lines().expect_line("attempt", LONG);
    let (attempt, after) = output.split_once(' ').unwrap();
    assert_eq!(attempt, "2");
    assert!(after.parse::<i64>().unwrap() > before, "tokens grow");
    again.lines().expect_line("pid", LONG);
    again.term();
    assert_eq!(again.wait_timeout(LONG).unwrap().code(), Some(3));
}

fn a_command_that_was_cut_off_is_unknown(fixture: Fixture) {
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("INT", 130)] {
        let script = format!("{MARK} echo begun; kill -{signal} $$");
        let cut = once(&fixture, signal, &["--retry-failures"], &script).expect(code);
        assert!(
            cut.out == "begun\n" && cut.err.contains("unknown"),
            "{cut:?}"
        );
        let before = runs(&fixture);
        once(&fixture, signal, &[], &script).expect(1);
        assert_eq!(runs(&fixture), before);
        assert_eq!(
            fixture.json(0, &["once", signal, "--forget"]),
            json!({"forgotten": true})
        );
        once(&fixture, signal, &[], &script).expect(code);
        assert_eq!(runs(&fixture), before + 1);
    }
}

fn signals_reach_the_command(fixture: Fixture) {
    let first = started(&fixture, "it", &[], WORK);
    let pid = first.lines().expect_line("pid", LONG);
    first.term();
    first.lines().expect_line("got TERM", LONG);
    assert_eq!(first.wait_timeout(LONG).unwrap().code(), Some(3));
    assert!(!is_running(&pid));
    // It ended with a code, but only because of the signal: that is not an answer.
    once(&fixture, "it", &[], WORK).expect(1);
    assert_eq!(text(&status(&fixture, "it"), "state"), "unknown");
    // Unless it has ended with success.
    let script = "trap 'exit 0' TERM; echo pid; while :; do sleep 0.05; done";
    let second = started(&fixture, "graceful", &[], script);
    second.lines().expect_line("pid", LONG);
    second.term();
    assert_eq!(second.wait_timeout(LONG).unwrap().code(), Some(0));
    once(&fixture, "graceful", &[], script).expect(0);
}

/// A run that is paused beyond its lease, and the answer of the run that took over.
fn overtaken(fixture: &Fixture, script: &str) -> (Process, Done) {
    let first = started(fixture, "it", &["--lease", "1s"], script);
    first.lines().expect_line("token", LONG);
    first.stop();
    eventually(LONG, "turno to be stopped", || {
        (state(&first.id().to_string()) == Some('T')).then_some(())
    });
    let options = ["-q", "--unknown", "rerun", "--wait", "60s"];
    let mut command = fixture.command(&words("it", &options, script));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut second = command.stderr(Stdio::piped()).spawn().unwrap();
    second.stdin.take().unwrap().write_all(b"second\n").unwrap();
    let second = Done::of(second.wait_with_output().unwrap()).expect(0);
    assert!(second.out.ends_with("got second\n"), "{second:?}");
    (first, second)
}

fn a_run_that_slept_too_long_cannot_answer(fixture: Fixture) {
    let (first, second) = overtaken(&fixture, ASK);
    // Its command ends while it is paused.
    answer_line(&first);
    first.cont();
    assert_eq!(first.wait_timeout(LONG).unwrap().code(), Some(1));
    let output = errors(&fixture);
    assert!(
        output.contains("taken over") && output.contains("--lease"),
        "{output}"
    );
    let again = once(&fixture, "it", &["-q"], ASK).expect(0);
    assert_eq!(again.out, second.out);
}

fn a_run_that_was_taken_over_is_stopped(fixture: Fixture) {
    // It handles signals from its start: it gets one as soon as turno continues.
    let script = format!(
        "trap 'echo got TERM; exit 3' TERM; {ASK}; [ \"$line\" = second ] || {{ while :; do sleep 0.05; done; }}"
    );
    let (first, second) = overtaken(&fixture, &script);
    answer_line(&first);
    first.cont();
    first.lines().expect_line("got TERM", LONG);
    assert_eq!(first.wait_timeout(LONG).unwrap().code(), Some(1));
    assert!(
        errors(&fixture).contains("taken over"),
        "{}",
        errors(&fixture)
    );
    let again = once(&fixture, "it", &["-q"], &script).expect(0);
    assert_eq!(again.out, second.out);
}

/// The database is unavailable for longer than the lease while the command runs, and is then available again: no other run
/// has taken over, and the answer is stored.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_outlives_an_outage_of_the_store() {
    let fixture = Fixture::new(Kind::Postgres);
    fixture.turno("migrate").expect(0);
    let server = PostgresServer::shared();
    let proxy = TcpProxy::start(([127, 0, 0, 1], server.port()).into())
        .await
        .unwrap();
    let through = proxy.url_for(&fixture.store);
    let words = words("it", &["--lease", "1s"], ASK);
    let mut command: Command = fixture.command(&[&["--store", &through], &*words].concat());
    let process = Process::spawn(command.stdin(Stdio::piped()).stderr(Stdio::null())).unwrap();
    process.lines().expect_line("token", LONG);
    proxy.cut().await;
    eventually(LONG, "the lease to be over", || {
        (text(&status(&fixture, "it"), "state") == "unknown").then_some(())
    });
    proxy.restore().await.unwrap();
    answer_line(&process);
    assert_eq!(process.wait_timeout(LONG).unwrap().code(), Some(0));
    let again = once(&fixture, "it", &[], ASK).expect(0);
    assert!(again.out.ends_with("got it\n"), "{again:?}");
}
