//! Start of a server, configurations that it rejects, and its end.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use turno_testkit::{PostgresServer, Process};

use crate::common::{Fixture, Kind, LONG, text};
use crate::http::{Server, ask};

/// Starts a server. Returns it with the reader of its standard error.
fn started(mut command: Command) -> (Process, std::io::PipeReader) {
    let (reader, writer) = std::io::pipe().unwrap();
    command.stderr(writer);
    let process = Process::spawn(&mut command).unwrap();
    // The pipe ends with the process, which now holds the only other end.
    drop(command);
    (process, reader)
}

/// Ends a server, and returns its standard error.
fn ended(process: &Process, mut reader: std::io::PipeReader) -> String {
    process.term();
    assert_eq!(process.wait_timeout(LONG).unwrap().code(), Some(0));
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    said
}

on_each_store!(it_says_where_it_listens_when_it_answers);

fn it_says_where_it_listens_when_it_answers(fixture: Fixture) {
    let server = Server::start(&fixture, "");
    server.get("/healthz").expect(200);
    server.get("/readyz").expect(200);
    server
        .post("/v1/locks", json!({"resource": "a"}))
        .expect(201);
    assert!(fixture.is_locked("a"), "it is the store that was named");
}

#[test]
fn its_doctor_names_the_store_without_the_password() {
    let mut fixture = Fixture::new(Kind::Postgres);
    let shown = fixture.store.replace("owner@", "owner:***@");
    // The password is not required here.
    fixture.store = fixture.store.replace("owner@", "owner:s3cret@");
    let server = Server::start(&fixture, "");
    let response = server.get("/v1/doctor");
    assert_eq!(response.expect(200)["store"], shown);
    assert!(!response.body.contains("s3cret"), "{response:?}");
}

/// A server with the rights of an application works. Its sweeper is refused, and logs one warning.
#[test]
fn a_sweeper_without_the_right_warns_once() {
    let mut fixture = Fixture::new(Kind::Postgres);
    fixture.turno("migrate").expect(0);
    fixture.store = fixture.store.replace("owner@", "app@");
    std::fs::write(fixture.path("turno.toml"), "[cleanup]\ninterval = '10ms'\n").unwrap();
    let mut command = fixture.command("serve --json --listen 127.0.0.1:0");
    command.env("TURNO_LOG", "turno=debug");
    let (process, reader) = started(command);
    let line: Value = serde_json::from_str(&process.lines().next(LONG).unwrap()).unwrap();
    let asked = json!({"resource": "a"});
    let response = ask(text(&line, "listening"), "POST /v1/locks", None, &asked).unwrap();
    response.expect(201);
    let mut warnings = 0;
    let mut repeats = 0;
    for line in BufReader::new(&reader).lines() {
        let line = line.unwrap();
        if line.contains("the sweep is refused") {
            assert!(line.contains("grant turno_operator to"), "{line}");
            warnings += 1;
        }
        if line.contains("the sweep is still refused") {
            repeats += 1;
        }
        if repeats == 3 {
            break;
        }
    }
    assert_eq!((warnings, repeats), (1, 3));
    ended(&process, reader);
}

#[test]
fn it_says_that_it_is_open_until_there_is_a_token() {
    let fixture = Fixture::new(Kind::Sqlite);
    for open in [true, false] {
        let (process, reader) = started(fixture.command("serve --json --listen 127.0.0.1:0"));
        let line: Value = serde_json::from_str(&process.lines().next(LONG).unwrap()).unwrap();
        assert_eq!(line["open_to"], if open { "local" } else { "tokens" });
        assert_eq!(
            text(&line, "url"),
            format!("http://{}", text(&line, "listening"))
        );
        let response = ask(
            text(&line, "listening"),
            "GET /v1/locks",
            None,
            &Value::Null,
        )
        .unwrap();
        assert_eq!(response.status, if open { 200 } else { 401 });
        let said = ended(&process, reader);
        assert_eq!(said.contains("turno token create"), open, "{said}");
        assert!(process.lines().rest().is_empty(), "nothing but the object");
        fixture.turno("token create ana --role admin").expect(0);
    }
}

#[test]
fn other_machines_are_let_in_with_tokens_or_on_request_only() {
    let fixture = Fixture::new(Kind::Sqlite);
    let refused = fixture.turno("serve --listen 0.0.0.0:0").expect(2);
    for says in ["turno token create", "127.0.0.1", "--insecure"] {
        assert!(refused.err.contains(says), "{refused:?}");
    }
    assert!(refused.out.is_empty());
    let (process, reader) = started(fixture.command("serve --listen 0.0.0.0:0 --insecure"));
    process
        .lines()
        .expect_line("listening on http://0.0.0.0:", LONG);
    let said = ended(&process, reader);
    assert!(said.contains("without a token"), "{said}");

    fixture.turno("token create ana --role read").expect(0);
    let (process, reader) = started(fixture.command("serve --listen 0.0.0.0:0"));
    process
        .lines()
        .expect_line("listening on http://0.0.0.0:", LONG);
    ended(&process, reader);
}

#[test]
fn what_it_cannot_work_with_is_refused_at_the_start() {
    let fixture = Fixture::new(Kind::Sqlite);
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let not_there = fixture.path("nothing.pem").display().to_string();
    for (words, code, says) in [
        (&["--listen", address.as_str()][..], 2, "--listen"),
        (&["--listen", "here"], 2, "--listen"),
        (&["--max-wait", "0s"], 2, "above zero"),
        (&["--max-body", "0"], 2, "above zero"),
        (&["--rate", "0"], 2, "--rate"),
        (&["--log-format", "xml"], 2, "json"),
        (&["--tls-cert", &not_there], 2, "--tls-key"),
        (&["--tls-key", &not_there], 2, "--tls-cert"),
        (
            &["--store", "sqlite:/nowhere/at/all.db"],
            1,
            "/nowhere/at/all.db",
        ),
        (&["--server", "http://127.0.0.1:1"], 2, "--store"),
    ] {
        let refused = fixture.turno(&[&["serve"], words].concat()).expect(code);
        assert!(refused.err.contains(says), "{words:?}: {refused:?}");
        assert!(refused.out.is_empty(), "{words:?}: {refused:?}");
    }
    let words = ["serve", "--tls-cert", &not_there, "--tls-key", &not_there];
    let refused = fixture.turno(&words);
    assert_ne!(refused.code, Some(0));
    assert!(refused.err.contains("nothing.pem"), "{refused:?}");
    for (toml, says) in [
        ("[[schedule]]\nname = \"a\"\ncron = \"soon\"", "0 3 * * *"),
        ("[[schedule]]\nname = \"a\"", "cron"),
        ("[serve]\nlisten = \"here\"", "serve.listen"),
        ("[outbox]\nsink = \"gopher://x\"", "amqp"),
    ] {
        std::fs::write(fixture.path("turno.toml"), toml).unwrap();
        let refused = fixture.turno("serve --listen 127.0.0.1:0").expect(2);
        assert!(refused.err.contains(says), "{toml}: {refused:?}");
    }
}

#[test]
fn the_file_says_how_it_works_and_options_win() {
    let fixture = Fixture::new(Kind::Sqlite);
    let toml = "[serve]\nlisten = \"127.0.0.1:0\"\nmax_body = 100\nmax_wait = \"1ms\"\nlog_format = \"json\"\n";
    std::fs::write(fixture.path("turno.toml"), toml).unwrap();
    let (process, reader) = started(fixture.command("serve"));
    let address = process.lines().expect_line("listening on http://", LONG);
    let long = "x".repeat(100);
    let post = |body: Value| ask(&address, "POST /v1/locks", None, &body).unwrap();
    assert_eq!(post(json!({"resource": long})).status, 413);
    post(json!({"resource": "a"})).expect(201);
    // The wait is limited by the file.
    post(json!({"resource": "a", "wait": "1h"})).expect(409);
    for line in ended(&process, reader).lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
        assert!(
            line["level"].is_string() && line["message"].is_string(),
            "{line}"
        );
    }
    let (process, reader) = started(fixture.command("serve --log-format human --max-body 1KiB"));
    let address = process.lines().expect_line("listening on http://", LONG);
    let response = ask(&address, "POST /v1/locks", None, &json!({"resource": long})).unwrap();
    response.expect(201);
    assert!(ended(&process, reader).contains("INFO"));
}

#[test]
fn waiting_requests_end_at_shutdown() {
    let fixture = Fixture::new(Kind::Sqlite);
    let server = Server::start(&fixture, "");
    server
        .post("/v1/locks", json!({"resource": "a", "ttl": "1h"}))
        .expect(201);
    thread::scope(|scope| {
        let waiting =
            scope.spawn(|| server.post("/v1/locks", json!({"resource": "a", "wait": "60s"})));
        turno_testkit::eventually(LONG, "a waiter", || {
            let status = server.get("/v1/locks/a").expect(200);
            (status["holder"]["waiters"] == 1).then_some(())
        });
        server.process.term();
        let response = waiting.join().unwrap();
        assert_eq!(response.expect(503)["code"], "shutting_down");
        assert!(response.headers.contains_key("retry-after"));
    });
    assert_eq!(server.process.wait_timeout(LONG).unwrap().code(), Some(0));
}

#[test]
fn tls_is_spoken_with_files_and_read_again_on_hup() {
    let fixture = Fixture::new(Kind::Sqlite);
    let certificate = |name: &str| {
        let made = fixture
            .program("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
            ])
            .args(["-keyout", "tls.key", "-out", "tls.crt", "-days", "2"])
            .args([
                "-subj",
                &format!("/CN={name}"),
                "-addext",
                "subjectAltName=DNS:localhost",
                "-addext",
                "basicConstraints=critical,CA:FALSE",
            ])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
    };
    certificate("first");
    let mut command = fixture.command("serve --listen 127.0.0.1:0 --tls-cert tls.crt");
    command.args(["--tls-key", "tls.key"]);
    let (process, reader) = started(command);
    let address = process.lines().expect_line("listening on https://", LONG);
    let url = format!(
        "https://localhost:{}/healthz",
        address.rsplit_once(':').unwrap().1
    );
    let shown = || {
        let curl = fixture
            .program("curl")
            .args(["-sS", "-v", "--cacert", "tls.crt", &url])
            .output()
            .unwrap();
        (
            curl.status.success(),
            String::from_utf8_lossy(&curl.stderr).into_owned(),
        )
    };
    let (answered, said) = shown();
    assert!(answered && said.contains("CN=first"), "{said}");
    // This program, too, trusts the certificate only if it is configured to.
    let remote = ["--server", url.trim_end_matches("/healthz"), "doctor"];
    assert!(fixture.turno(&remote).expect(1).out.contains("certificate"));
    std::fs::write(fixture.path("turno.toml"), "ca_file = \"tls.crt\"").unwrap();
    fixture.turno(&remote).expect(0);
    certificate("second");
    let hup = Command::new("kill")
        .args(["-HUP", &process.id().to_string()])
        .status();
    assert!(hup.unwrap().success());
    turno_testkit::eventually(LONG, "the second certificate", || {
        let (answered, said) = shown();
        (answered && said.contains("CN=second")).then_some(())
    });
    assert!(
        ask(&address, "GET /healthz", None, &Value::Null).is_none(),
        "plain HTTP gets nothing"
    );
    let said = ended(&process, reader);
    assert!(said.contains("reloaded"), "{said}");
}

/// While the database is unavailable, every request logs a warning. At most one line per second and cause is written, and the
/// others are counted.
#[test]
fn an_outage_is_a_line_per_second_and_cause() {
    const OUTAGE: Duration = Duration::from_secs(2);
    let database = PostgresServer::start().unwrap();
    let fixture = Fixture {
        store: database.create_database(),
        ..Fixture::new(Kind::Sqlite)
    };
    let command = fixture.command("serve --listen 127.0.0.1:0");
    let (process, reader) = started(command);
    let address = process.lines().expect_line("listening on http://", LONG);
    let said = thread::spawn(move || {
        let lines = BufReader::new(reader).lines();
        lines.map_while(Result::ok).collect::<Vec<_>>()
    });
    let get = || ask(&address, "GET /v1/locks/a", None, &Value::Null);
    assert_eq!(get().unwrap().status, 200);
    database.kill_9().unwrap();
    let began = Instant::now();
    let failed: usize = thread::scope(|scope| {
        let client = || {
            let mut failed = 0;
            while began.elapsed() < OUTAGE {
                failed += usize::from(get().is_some_and(|response| response.status == 503));
            }
            failed
        };
        let clients: Vec<_> = (0..16).map(|_| scope.spawn(client)).collect();
        clients.into_iter().map(|it| it.join().unwrap()).sum()
    });
    process.term();
    assert_eq!(process.wait_timeout(LONG).unwrap().code(), Some(0));
    let seconds = began.elapsed().as_secs() as usize + 1;
    let said = said.join().unwrap();
    let loud = |line: &&String| line.contains(" WARN ") || line.contains(" ERROR ");
    let mut of_cause: BTreeMap<String, usize> = BTreeMap::new();
    for line in said.iter().filter(loud) {
        // Without the time, the level and the count.
        let text = line
            .split_once(": ")
            .map_or(line.as_str(), |(_, text)| text);
        let text = text.split(" times=").next().unwrap().to_owned();
        *of_cause.entry(text).or_default() += 1;
    }
    assert!(failed > 20 && !of_cause.is_empty(), "{failed}: {said:?}");
    for (cause, lines) in &of_cause {
        assert!(
            *lines <= seconds + 2,
            "{lines} lines in {seconds} s: {cause}"
        );
    }
    assert!(
        said.len() < failed,
        "{} lines for {failed} failures",
        said.len()
    );
}
