//! `turno run`: a command under a lock, from its start to every kind of end.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use serde_json::json;
use turno_testkit::eventually;

use crate::common::{Done, Fixture, LONG, is_running, state, text};

on_each_store!(
    the_commands_own_code_is_passed_on,
    the_command_knows_its_lease,
    a_busy_lock_runs_nothing,
    the_lock_is_held_meanwhile_and_released_after,
    a_command_that_cannot_be_run_leaves_no_lock,
    the_lease_is_renewed_for_as_long_as_it_takes,
    signals_reach_the_command_and_what_it_started,
    a_signal_while_waiting_ends_the_wait,
    pausing_turno_pauses_the_command,
    killing_turno_kills_the_command,
    a_broken_lock_ends_the_command,
    a_command_that_ends_after_a_signal_is_not_killed,
    a_lost_lease_is_reported,
    a_held_lock_is_waited_for,
    several_may_share,
);

/// Prints its pid, then works until it gets a signal, and prints that.
const WORK: &str = "trap 'echo got TERM; exit 3' TERM; trap 'echo got HUP; exit 4' HUP; trap 'echo got INT; exit 5' INT; \
                    echo pid $$; while :; do sleep 0.05; done";
/// The same, but it ignores SIGTERM.
const STUBBORN: &str = "trap 'echo got TERM' TERM; echo pid $$; while :; do sleep 0.05; done";

fn run(fixture: &Fixture, command: &[&str]) -> Done {
    fixture.turno(&[&["run", "--lock", "job", "--"], command].concat())
}

fn the_commands_own_code_is_passed_on(fixture: Fixture) {
    for code in [0, 1, 2, 7, 75, 255] {
        run(&fixture, &["sh", "-c", &format!("exit {code}")]).expect(code);
        assert!(!fixture.is_locked("job"));
    }
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("INT", 130)] {
        run(&fixture, &["sh", "-c", &format!("kill -{signal} $$")]).expect(code);
        assert!(!fixture.is_locked("job"));
    }
    // Its standard output and input are passed through, and so are its arguments.
    let done = run(
        &fixture,
        &[
            "sh",
            "-c",
            "echo out; echo err >&2; printf '%s|' \"$@\"",
            "--",
            "--json",
            "a b",
            "--",
        ],
    );
    assert_eq!(
        (done.out.as_str(), done.err.as_str()),
        ("out\n--json|a b|--|", "err\n")
    );
}

fn the_command_knows_its_lease(fixture: Fixture) {
    let script = "env | grep ^TURNO_ | sort";
    let mut command = fixture.command(&[
        "run", "--lock", "job", "--owner", "me", "--", "sh", "-c", script,
    ]);
    let done = Done::of(command.output().unwrap()).expect(0);
    let variables: Vec<&str> = done.out.lines().collect();
    let token = variables
        .iter()
        .find_map(|line| line.strip_prefix("TURNO_FENCING_TOKEN="))
        .unwrap();
    let mut expected = [
        format!("TURNO_LEASE=job@{token}"),
        "TURNO_OWNER=me".to_owned(),
        "TURNO_RESOURCE=job".to_owned(),
        format!("TURNO_STORE={}", fixture.store),
        format!("TURNO_FENCING_TOKEN={token}"),
    ];
    expected.sort();
    assert_eq!(
        variables, expected,
        "and nothing of what turno tells itself"
    );
    let entry = &fixture.json(0, "lock history job")["history"][0];
    assert_eq!(entry["token"].to_string(), token);
}

fn a_busy_lock_runs_nothing(fixture: Fixture) {
    fixture.json(0, "lock acquire job --user 1");
    let done = run(&fixture, &["touch", "ran"]).expect(75);
    assert!(done.err.contains("User: 1"), "{done:?}");
    let busy = fixture.json(75, "run --lock job -- touch ran");
    assert_eq!(text(&busy, "code"), "busy");
    assert!(!fixture.path("ran").exists());
}

fn the_lock_is_held_meanwhile_and_released_after(fixture: Fixture) {
    fixture.turno("migrate").expect(0);
    let script = "read -r line; exit 9";
    let mut command = fixture.command(&[
        "run",
        "--lock",
        "job",
        "--description",
        "night run",
        "--",
        "sh",
        "-c",
        script,
    ]);
    let process = turno_testkit::Process::spawn(command.stdin(Stdio::piped())).unwrap();
    eventually(LONG, "the lock to be held", || {
        fixture.is_locked("job").then_some(())
    });
    let holder = fixture.json(0, "lock status job")["holder"].clone();
    assert_eq!(
        (text(&holder, "description"), &holder["pid"]),
        ("night run", &json!(process.id()))
    );
    drop(process.take_stdin());
    assert_eq!(process.wait_timeout(LONG).unwrap().code(), Some(9));
    assert!(!fixture.is_locked("job"));
    assert_eq!(
        text(&fixture.json(0, "lock history job")["history"][0], "event"),
        "released"
    );
}

fn a_command_that_cannot_be_run_leaves_no_lock(fixture: Fixture) {
    let missing = run(&fixture, &["no-such-command"]).expect(127);
    assert!(missing.err.contains("no-such-command"), "{missing:?}");
    std::fs::write(fixture.path("data"), "not a program").unwrap();
    run(&fixture, &["./data"]).expect(126);
    run(&fixture, &["/"]).expect(126);
    assert!(!fixture.is_locked("job"));
    fixture.turno("run --lock job").expect(2);
    fixture.turno("run --lock job --").expect(2);
}

fn the_lease_is_renewed_for_as_long_as_it_takes(fixture: Fixture) {
    let process = fixture.start(&[
        "run", "--lock", "job", "--ttl", "1s", "--", "sh", "-c", WORK,
    ]);
    process.lines().expect_line("pid", LONG);
    let first = fixture.json(0, "lock status job")["holder"].clone();
    // Until well after its first expiry.
    let deadline = text(&first, "expires_at").to_owned();
    eventually(LONG, "a second to pass in the store", || {
        let other = fixture.json(0, "lock acquire clock --owner me");
        let now = text(
            &fixture.json(
                0,
                &format!("lock renew clock --lease {} --ttl 1ms", text(&other, "id")),
            ),
            "acquired_at",
        )
        .to_owned();
        fixture.json(
            0,
            &["lock", "release", "clock", "--lease", text(&other, "id")],
        );
        (now > deadline).then_some(())
    });
    let still = fixture.json(0, "lock status job")["holder"].clone();
    assert_eq!(still["token"], first["token"]);
    assert!(process.wait_timeout(std::time::Duration::ZERO).is_none());
    process.term();
    assert_eq!(process.wait_timeout(LONG).unwrap().code(), Some(3));
}

fn signals_reach_the_command_and_what_it_started(fixture: Fixture) {
    use rustix::process::{Pid, Signal, kill_process};
    for (signal, name, code) in [
        (Signal::TERM, "TERM", 3),
        (Signal::HUP, "HUP", 4),
        (Signal::INT, "INT", 5),
    ] {
        let script = format!("sh -c 'echo child $$; exec sleep 600' & {WORK}");
        let process = fixture.start(&["run", "--lock", "job", "--", "sh", "-c", &script]);
        let mut seen = [String::new(), String::new()];
        while seen.iter().any(String::is_empty) {
            let line = process
                .lines()
                .next(LONG)
                .expect("the command tells its pids");
            let (what, pid) = line.split_once(' ').unwrap();
            seen[usize::from(what == "child")] = pid.to_owned();
        }
        kill_process(
            Pid::from_raw(process.id().try_into().unwrap()).unwrap(),
            signal,
        )
        .unwrap();
        process.lines().expect_line(&format!("got {name}"), LONG);
        assert_eq!(process.wait_timeout(LONG).unwrap().code(), Some(code));
        for pid in &seen {
            // A shell starts its background children with SIGINT ignored.
            if signal != Signal::INT {
                eventually(LONG, "all of the group to end", || {
                    (!is_running(pid)).then_some(())
                });
            }
        }
        if is_running(&seen[1]) {
            kill_process(
                Pid::from_raw(seen[1].parse().unwrap()).unwrap(),
                Signal::KILL,
            )
            .unwrap();
        }
        assert!(!fixture.is_locked("job"));
    }
}

fn a_signal_while_waiting_ends_the_wait(fixture: Fixture) {
    fixture.json(0, "lock acquire job --ttl 300s");
    let process = fixture.start("run --lock job --wait 300s -- touch ran");
    let waiters = || fixture.json(0, "lock status job")["waiters"].as_i64();
    eventually(LONG, "the waiter to sign in", || {
        (waiters() == Some(1)).then_some(())
    });
    process.term();
    assert_eq!(process.wait_timeout(LONG).unwrap().code(), Some(143));
    assert_eq!(waiters(), Some(0));
    assert!(!fixture.path("ran").exists());
}

/// Stopped, or a shell that waits for a child that was stopped before its exec.
fn is_paused(pid: &str) -> bool {
    matches!(state(pid), Some('T' | 'D'))
}

fn pausing_turno_pauses_the_command(fixture: Fixture) {
    use rustix::process::{Pid, Signal, kill_process};
    let process = fixture.start(&[
        "run", "--lock", "job", "--ttl", "60s", "--", "sh", "-c", WORK,
    ]);
    let pid = process.lines().expect_line("pid", LONG);
    let both = [process.id().to_string(), pid];
    kill_process(
        Pid::from_raw(process.id().try_into().unwrap()).unwrap(),
        Signal::TSTP,
    )
    .unwrap();
    for pid in &both {
        eventually(LONG, "both to be stopped", || is_paused(pid).then_some(()));
    }
    process.cont();
    for pid in &both {
        eventually(LONG, "both to go on", || (!is_paused(pid)).then_some(()));
    }
    process.term();
    assert_eq!(process.wait_timeout(LONG).unwrap().code(), Some(3));
}

fn killing_turno_kills_the_command(fixture: Fixture) {
    let process = fixture.start(&[
        "run", "--lock", "job", "--ttl", "2s", "--", "sh", "-c", STUBBORN,
    ]);
    let pid = process.lines().expect_line("pid", LONG);
    assert!(is_running(&pid));
    process.kill_9();
    assert_eq!(process.wait_timeout(LONG).unwrap().signal(), Some(9));
    eventually(LONG, "the command to be killed", || {
        (!is_running(&pid)).then_some(())
    });
    // The lock was not released, and ends with its TTL.
    assert!(fixture.is_locked("job"));
    fixture.json(0, "lock acquire job --wait 10s");
}

fn a_broken_lock_ends_the_command(fixture: Fixture) {
    let process = fixture.start(&[
        "run", "--lock", "job", "--ttl", "1500ms", "--", "sh", "-c", STUBBORN,
    ]);
    let pid = process.lines().expect_line("pid", LONG);
    let token = fixture.json(0, "lock status job")["holder"]["token"].to_string();
    fixture.json(0, &format!("lock break job --token {token} --reason test"));
    process.lines().expect_line("got TERM", LONG);
    // It ignores the signal, so it is killed.
    assert_eq!(process.wait_timeout(LONG).unwrap().code(), Some(1));
    assert!(!is_running(&pid));
    assert_eq!(
        text(
            &fixture.json(0, "lock history job --limit 1")["history"][0],
            "event"
        ),
        "late"
    );
}

fn a_command_that_ends_after_a_signal_is_not_killed(fixture: Fixture) {
    let script = "trap 'echo got TERM; echo cleaned > cleaned; exit 0' TERM; echo pid $$; while :; do sleep 0.01; done";
    let process = fixture.start(&[
        "run", "--lock", "job", "--ttl", "1500ms", "--", "sh", "-c", script,
    ]);
    process.lines().expect_line("pid", LONG);
    let token = fixture.json(0, "lock status job")["holder"]["token"].to_string();
    fixture.json(0, &format!("lock break job --token {token} --reason test"));
    // Its own success does not count, because the lease was lost.
    assert_eq!(process.wait_timeout(LONG).unwrap().code(), Some(1));
    assert!(fixture.path("cleaned").exists());
}

fn a_lost_lease_is_reported(fixture: Fixture) {
    let script = "echo ready; read -r line; exit $line";
    for (says, code) in [("0", 1), ("6", 6)] {
        let mut command = fixture.command(&[
            "run", "--lock", "job", "--ttl", "300s", "--", "sh", "-c", script,
        ]);
        let process =
            turno_testkit::Process::spawn(command.stdin(Stdio::piped()).stderr(Stdio::null()))
                .unwrap();
        process.lines().expect_line("ready", LONG);
        let token = fixture.json(0, "lock status job")["holder"]["token"].to_string();
        fixture.json(0, &format!("lock break job --token {token} --reason test"));
        // Long before the next renewal would have detected it.
        std::io::Write::write_all(
            &mut process.take_stdin().unwrap(),
            format!("{says}\n").as_bytes(),
        )
        .unwrap();
        assert_eq!(process.wait_timeout(LONG).unwrap().code(), Some(code));
    }
}

fn a_held_lock_is_waited_for(fixture: Fixture) {
    let first = fixture.start("run --lock job -- sh -c 'echo pid $$; sleep 0.3'");
    first.lines().expect_line("pid", LONG);
    let done = fixture
        .turno("run --lock job --wait 60s --fifo -- echo mine")
        .expect(0);
    assert_eq!(done.out, "mine\n");
    assert!(first.wait_timeout(LONG).unwrap().success());
}

fn several_may_share(fixture: Fixture) {
    let held = |more: &[&str]| {
        let words = [&["run", "--lock", "job"], more, &["--", "sh", "-c", WORK]].concat();
        let process = fixture.start(&words);
        process.lines().expect_line("pid", LONG);
        process
    };
    let both = [held(&["--permits", "2"]), held(&["--permits", "2"])];
    fixture
        .turno("run --lock job --permits 2 -- true")
        .expect(75);
    for process in &both {
        process.term();
        assert_eq!(process.wait_timeout(LONG).unwrap().code(), Some(3));
    }
    assert!(!fixture.is_locked("job"));
}
