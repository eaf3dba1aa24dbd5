//! Repetitions while the command runs.

use super::*;

on_each_store!(
    a_run_in_flight_is_reported,
    a_run_in_flight_is_waited_for,
    a_signal_while_waiting_ends_the_wait,
    of_many_at_once_one_runs,
);

fn a_run_in_flight_is_reported(fixture: Fixture) {
    let first = started(&fixture, "it", &[], ASK);
    // Its output is passed on while it runs.
    first.lines().expect_line("token", LONG);
    let busy = once(&fixture, "it", &[], ASK).expect(75);
    let worker = format!("/{},", first.id());
    assert!(
        busy.out.is_empty()
            && busy.err.contains("it is in flight")
            && busy.err.contains(&worker)
            && busy.err.contains("--wait"),
        "{busy:?}"
    );
    let busy = fixture.turno(&[&["--json"], &*words("it", &[], ASK)].concat());
    let error = busy.expect(75).error();
    assert_eq!(
        (text(&error, "code"), text(&error, "key")),
        ("in_flight", "it")
    );
    assert!(error["remaining_ms"].as_i64().unwrap() > 0, "{error}");
    text(&error, "began_at");
    // It cannot be forgotten either.
    let kept = fixture.turno("--json once it --forget").expect(75);
    assert_eq!(text(&kept.error(), "code"), "in_flight");
    assert_eq!(text(&status(&fixture, "it"), "state"), "in_flight");
    let shown = fixture.turno("once it --status").expect(0).out;
    assert!(shown.contains("lease ends"), "{shown}");
    answer_line(&first);
    assert_eq!(first.lines().rest(), ["got it"]);
    assert_eq!(first.wait_timeout(LONG).unwrap().code(), Some(0));
    assert!(
        once(&fixture, "it", &[], ASK)
            .expect(0)
            .out
            .ends_with("got it\n")
    );
}

/// Waits until a caller waits for the answer: registered as a waiter, or at least connected to the store.
fn is_waiting(fixture: &Fixture, process: &Process) -> bool {
    match fixture.kind {
        Kind::Postgres => {
            let sql = "select count(*) from {once} where waited_until is not null";
            fixture.ask(sql) == "1"
        }
        Kind::Sqlite => {
            let files = fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap();
            let mut files = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
            files.any(|file| file == fixture.path("store.db"))
        }
    }
}

fn a_run_in_flight_is_waited_for(fixture: Fixture) {
    let script = format!("{MARK} {ASK}");
    let first = started(&fixture, "it", &[], &script);
    let token = first.lines().expect_line("token", LONG);
    let waiting = fixture.start(&words("it", &["--wait", "60s"], &script));
    eventually(LONG, "the other to wait", || {
        is_waiting(&fixture, &waiting).then_some(())
    });
    answer_line(&first);
    assert_eq!(waiting.lines().expect_line("token", LONG), token);
    assert_eq!(waiting.lines().rest(), ["got it"]);
    assert_eq!(waiting.wait_timeout(LONG).unwrap().code(), Some(0));
    assert_eq!(first.wait_timeout(LONG).unwrap().code(), Some(0));
    assert_eq!(runs(&fixture), 1);
}

fn a_signal_while_waiting_ends_the_wait(fixture: Fixture) {
    let first = started(&fixture, "it", &[], ASK);
    first.lines().expect_line("token", LONG);
    let waiting = fixture.start(&words("it", &["--wait", "600s"], ASK));
    eventually(LONG, "the other to wait", || {
        is_waiting(&fixture, &waiting).then_some(())
    });
    waiting.term();
    assert_eq!(waiting.wait_timeout(LONG).unwrap().code(), Some(143));
    answer_line(&first);
    assert_eq!(first.wait_timeout(LONG).unwrap().code(), Some(0));
}

fn of_many_at_once_one_runs(fixture: Fixture) {
    let script = format!("{MARK} echo $$; exit 5");
    let all: Vec<_> = (0..10)
        .map(|_| {
            let mut command = fixture.command(&words("it", &["-q", "--wait", "600s"], &script));
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
    assert_eq!(runs(&fixture), 1);
}
