//! Start of the gate, configurations that it rejects, and its end.

use std::io::Read as _;
use std::net::TcpListener;
use std::process::Stdio;
use std::thread;

use turno_testkit::Process;

use crate::common::{Done, Fixture, Kind, LONG};
use crate::legacy::{Gate, Legacy, ROUTES, assert_processed};

fn fixture() -> Fixture {
    let fixture = Fixture::new(Kind::Sqlite);
    std::fs::write(fixture.path("routes.toml"), ROUTES).unwrap();
    fixture
}

const GATE: &str = "gate --routes routes.toml --upstream http://127.0.0.1:9";

#[test]
fn what_it_cannot_work_with_is_refused_at_the_start() {
    let fixture = fixture();
    let refused = fixture.turno("gate --routes routes.toml").expect(2);
    assert!(refused.err.contains("--upstream"), "{refused:?}");
    for (upstream, says) in [
        ("https://x", "no TLS"),
        ("http://x/base", "path"),
        ("http://ana:s3cret@x", "user"),
        ("x", "http://HOST:PORT"),
    ] {
        let refused = fixture
            .turno(&["gate", "--routes", "routes.toml", "--upstream", upstream])
            .expect(2);
        assert!(refused.err.contains(says), "{upstream}: {refused:?}");
    }
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = fixture
        .turno(&format!("{GATE} --listen {address}"))
        .expect(2);
    assert!(refused.err.contains("--listen"), "{refused:?}");
    let refused = fixture
        .turno(&format!("{GATE} --store sqlite:/nowhere/at/all.db"))
        .expect(1);
    assert!(refused.err.contains("/nowhere/at/all.db"), "{refused:?}");
    std::fs::write(fixture.path("secret"), "short\n").unwrap();
    let refused = fixture
        .turno(&format!("{GATE} --secret-file secret"))
        .expect(2);
    assert!(refused.err.contains("too short"), "{refused:?}");
    let mut command = fixture.command(GATE);
    let refused = Done::of(command.env("TURNO_ONCE_SECRET", "s3cret").output().unwrap()).expect(2);
    assert!(
        refused.err.contains("too short") && !refused.err.contains("s3cret"),
        "{refused:?}"
    );
}

#[test]
fn it_says_where_it_listens_and_warns_where_others_can_reach_it() {
    let fixture = fixture();
    for (listen, warns) in [("127.0.0.1:0", false), ("0.0.0.0:0", true)] {
        let mut command = fixture.command(&format!("{GATE} --listen {listen}"));
        let (mut reader, writer) = std::io::pipe().unwrap();
        command.stderr(writer);
        let process = Process::spawn(&mut command).unwrap();
        // Ends with the process, which now holds the only other end.
        drop(command);
        let line = process.lines().expect_line("listening on http://", LONG);
        assert!(line.ends_with(" for 127.0.0.1:9"), "{line}");
        process.term();
        assert_eq!(process.wait_timeout(LONG).unwrap().code(), Some(0));
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        assert_eq!(said.contains("adds no authentication"), warns, "{said}");
        assert!(
            process
                .lines()
                .rest()
                .iter()
                .any(|line| line.starts_with("FRESH"))
        );
    }
}

#[test]
fn what_is_in_flight_is_answered_before_it_ends() {
    let fixture = fixture();
    let legacy = Legacy::start();
    let gate = Gate::start(&fixture, &legacy, ROUTES);
    thread::scope(|scope| {
        let first = scope.spawn(|| gate.certify(r#"{"curp": "AAAA", "esperar": true}"#));
        legacy.begins("AAAA");
        gate.process.term();
        legacy.go();
        assert_processed(&first.join().unwrap());
    });
    assert_eq!(gate.process.wait_timeout(LONG).unwrap().code(), Some(0));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let fixture = fixture();
    let legacy = Legacy::start();
    let gate = Gate::start(&fixture, &legacy, ROUTES);
    thread::scope(|scope| {
        let first = scope.spawn(|| gate.try_certify(r#"{"curp": "AAAA", "esperar": true}"#));
        legacy.begins("AAAA");
        turno_testkit::eventually(LONG, "the gate to end", || {
            gate.process.term();
            gate.process
                .wait_timeout(std::time::Duration::from_millis(5))
        });
        assert!(first.join().unwrap().is_none());
    });
}

#[test]
fn a_secret_changes_what_is_stored() {
    let fixture = fixture();
    let legacy = Legacy::start();
    let keep = ROUTES.replace("ttl = \"0s\"", "ttl = \"1h\"");
    let entrada = r#"{"curp": "AAAA"}"#;
    std::fs::write(fixture.path("secret"), "a long and random secret\n").unwrap();
    let plain = Gate::start(&fixture, &legacy, &keep);
    let secret = Gate::start_with(&fixture, &legacy, &keep, &["--secret-file", "secret"]);
    for gate in [&plain, &secret] {
        assert_eq!(
            gate.certify(entrada).headers.get("idempotency-replayed"),
            None
        );
        assert_eq!(
            gate.certify(entrada).headers["idempotency-replayed"],
            "true"
        );
    }
    assert_eq!(fixture.ask("select count(*) from {once}"), "2");
}

#[test]
fn silence_is_no_output() {
    // With `--json`, a gate prints nothing else on its standard output.
    let fixture = fixture();
    let mut command = fixture.command(GATE);
    command
        .args(["--json", "--listen", "127.0.0.1:0"])
        .stderr(Stdio::null());
    let process = Process::spawn(&mut command).unwrap();
    let first = process.lines().next(LONG).unwrap();
    process.term();
    assert_eq!(process.wait_timeout(LONG).unwrap().code(), Some(0));
    for line in std::iter::once(first).chain(process.lines().rest()) {
        serde_json::from_str::<serde_json::Value>(&line).unwrap();
    }
}

/// An operator finds the key in the store by what a client knows: its key and its identity.
#[test]
fn a_request_is_found_by_the_key_of_its_client() {
    let fixture = fixture();
    let legacy = Legacy::start();
    std::fs::write(fixture.path("secret"), "a long and random secret\n").unwrap();
    let routes = ROUTES
        .replace("ttl = \"0s\"", "ttl = \"1h\"")
        .replace("key = \"content\"", "key = \"header\"");
    let gate = Gate::start_with(&fixture, &legacy, &routes, &["--secret-file", "secret"]);
    let headers = [
        ("content-type", "application/json"),
        ("x-user", "ana"),
        ("idempotency-key", "folio-77"),
    ];
    let response = crate::http::ask(
        &gate.address,
        &format!("POST {}", crate::legacy::PATH),
        &headers,
        r#"{"curp": "AAAA"}"#,
    );
    assert_processed(&response.unwrap());
    let find = |user: &str, key: &str| {
        let words = ["--json", "once", "--find", "--routes", "routes.toml"];
        let which = ["--route", "certificacion", "--key", key];
        let who = ["--header", user, "--secret-file", "secret"];
        fixture.turno(&[&words[..], &which, &who].concat())
    };
    let found = find("x-user: ana", "folio-77").expect(0).json();
    assert_eq!(found["state"], "done");
    let key = found["key"].as_str().unwrap();
    assert!(key.starts_with("certificacion:"), "{found}");
    assert_eq!(fixture.ask("select key from {once}"), key);
    find("x-user: eva", "folio-77").expect(1);
    find("x-user: ana", "folio-78").expect(1);
    find("x-other: ana", "folio-77").expect(2);
}
