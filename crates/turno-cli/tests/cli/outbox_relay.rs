//! `turno outbox relay`: from the outbox to a sink, and its log.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use turno_testkit::server::RabbitMq;
use turno_testkit::{Process, eventually};

use crate::common::arguments::Arguments;
use crate::common::{Done, Fixture, Kind, LONG, piped, text};

on_each_store!(
    events_are_printed_to_the_letter,
    only_events_are_printed,
    what_waits_for_its_time_is_left,
    settings_are_of_the_option_then_the_environment_then_the_file,
    an_outage_spends_no_attempt_and_shows_no_password,
    a_second_relay_says_who_is_at_work,
    a_reader_that_goes_away_ends_it,
);

const STDOUT: [&str; 4] = ["outbox", "relay", "--sink", "stdout:"];
const PASSWORD: &str = "s3cret";

fn emit(fixture: &Fixture, arguments: impl Arguments) {
    fixture.json(0, &["outbox emit".words(), arguments.words()].concat());
}

fn stats(fixture: &Fixture) -> Value {
    fixture.json(0, "outbox stats")
}

/// A running relay, and its log.
struct Running {
    process: Process,
    said: Arc<Mutex<String>>,
}

impl Running {
    fn start(fixture: &Fixture, arguments: impl Arguments) -> Self {
        let mut command = fixture.command(arguments);
        let (reader, writer) = std::io::pipe().unwrap();
        let process = Process::spawn(command.stderr(writer)).unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let heard = said.clone();
        // Ends with the process, which holds the only other end once the command is dropped.
        drop(command);
        std::thread::spawn(move || {
            for line in BufReader::new(reader).lines().map_while(Result::ok) {
                let mut heard = heard.lock().unwrap();
                heard.push_str(&line);
                heard.push('\n');
            }
        });
        Running { process, said }
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    #[track_caller]
    fn says(&self, what: &str) {
        let wanted = format!("the relay to say {what:?}");
        eventually(LONG, &wanted, || self.said().contains(what).then_some(()));
    }

    /// Ends it with SIGTERM, and returns its output.
    #[track_caller]
    fn stop(&self) -> Vec<String> {
        self.process.term();
        let status = self.process.wait_timeout(LONG);
        assert_eq!(status.unwrap().code(), Some(0), "{}", self.said());
        self.process.lines().rest()
    }
}

/// A test that fails prints the logs of its relays.
impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("a relay said: {}", self.said());
        }
    }
}

/// Returns the address of a broker that does not exist.
fn nowhere() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    format!("amqp://turno:{PASSWORD}@127.0.0.1:{port}/")
}

fn events_are_printed_to_the_letter(fixture: Fixture) {
    let payload = r#"{ "sum": 12345678901234567890.10, "name": "\u00f1" }"#;
    emit(
        &fixture,
        &[
            "TicketCreatedEvent",
            payload,
            "--key",
            "k",
            "--correlation-id",
            "c",
            "--header",
            "tenant=north",
        ],
    );
    let lines: String = (0..200)
        .map(|n| format!("{{\"type\": \"T\", \"payload\": {n}}}\n"))
        .collect();
    let words = ["--json", "outbox", "emit", "--file", "-"];
    piped(&fixture, &words, lines.as_bytes()).expect(0);
    let relayed = fixture
        .turno(&[&STDOUT[..], &["--mode", "single", "--until-empty"]].concat())
        .expect(0);
    let events: Vec<Value> = relayed
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events.len(), 201, "{relayed:?}");
    assert!(relayed.out.lines().next().unwrap().contains(payload));
    let first = &events[0];
    assert_eq!(
        (
            text(first, "type"),
            text(first, "key"),
            text(first, "correlation_id")
        ),
        ("TicketCreatedEvent", "k", "c")
    );
    assert_eq!(first["headers"], json!({"tenant": "north"}));
    let numbers = events[1..]
        .iter()
        .map(|event| event["payload"].as_i64().unwrap());
    assert!(numbers.eq(0..200), "in the order of their emission");
    let after = stats(&fixture);
    assert_eq!(
        (&after["dispatched"], &after["pending"]),
        (&json!(201), &json!(0))
    );
    let dispatched = fixture.json(0, "outbox list --state dispatched");
    let last = &dispatched["events"][0];
    assert_eq!(last["id"], events[200]["id"], "the newest first");
    let output = fixture.turno("outbox list --state dispatched").expect(0);
    assert!(output.out.contains("DISPATCHED"), "{output:?}");
    // No event is left.
    let relayed = fixture
        .turno(&[&STDOUT[..], &["--until-empty"]].concat())
        .expect(0);
    assert_eq!(relayed.out, "");
}

fn only_events_are_printed(fixture: Fixture) {
    emit(&fixture, "T 1");
    let words = [&STDOUT[..], &["--until-empty", "--mode", "single"]].concat();
    let relayed = fixture.turno(&words).expect(0);
    assert_eq!(relayed.out.lines().count(), 1, "{relayed:?}");
    for said in [
        "relaying",
        "standard output",
        "single",
        "this relay is the leader",
    ] {
        assert!(relayed.err.contains(said), "{said}: {relayed:?}");
    }
    assert!(!relayed.err.contains("WARN"), "{relayed:?}");
    let report: Vec<&str> = relayed.err.lines().rev().take(2).collect();
    assert!(report[1].starts_with("SENT"), "{relayed:?}");
    assert!(report[0].trim_start().starts_with('1'), "{relayed:?}");
    // With `--json` too.
    emit(&fixture, "T 2");
    let relayed = fixture.turno(&[&["--json"], &words[..]].concat()).expect(0);
    assert_eq!(relayed.json()["payload"], json!(2));
    let report: Value = serde_json::from_str(relayed.err.lines().last().unwrap()).unwrap();
    assert_eq!((&report["sent"], &report["dead"]), (&json!(1), &json!(0)));
    // No log lines at a higher log level.
    let mut command = fixture.command(&words);
    let quiet = Done::of(command.env("TURNO_LOG", "warn").output().unwrap()).expect(0);
    assert!(!quiet.err.contains("relaying"), "{quiet:?}");
}

fn what_waits_for_its_time_is_left(fixture: Fixture) {
    emit(&fixture, "T 1 --delay 1h");
    let relayed = fixture
        .turno(&[&STDOUT[..], &["--until-empty"]].concat())
        .expect(0);
    assert_eq!(relayed.out, "");
    assert_eq!(stats(&fixture)["scheduled"], json!(1));
}

fn settings_are_of_the_option_then_the_environment_then_the_file(fixture: Fixture) {
    let file = "[outbox]\nsink = 'stdout:'\nname = 'of-file'\narchive = true\n";
    std::fs::write(fixture.path("turno.toml"), file).unwrap();
    let relay = |arguments: &[&str], environment: &[(&str, &str)]| {
        emit(&fixture, "T 1");
        let mut command = fixture.command("outbox relay --until-empty");
        command.args(arguments).envs(environment.iter().copied());
        let relayed = Done::of(command.output().unwrap()).expect(0);
        assert_eq!(relayed.out.lines().count(), 1, "{relayed:?}");
        let listed = fixture.json(0, "outbox list --state dispatched --limit 1");
        let last = fixture.json(0, &["outbox", "show", text(&listed["events"][0], "id")]);
        (text(&last, "by").to_owned(), last.get("payload").is_some())
    };
    let of = |name: &str, archived: bool| (name.to_owned(), archived);
    let environment = [("TURNO_RELAY_NAME", "of-environment")];
    assert_eq!(relay(&[], &[]), of("of-file", true));
    assert_eq!(relay(&[], &environment), of("of-environment", true));
    assert_eq!(
        relay(&["--name", "of-option", "--archive=false"], &environment),
        of("of-option", false)
    );
    std::fs::remove_file(fixture.path("turno.toml")).unwrap();
    let sink = [("TURNO_SINK", "stdout:"), ("TURNO_RELAY_NAME", "me")];
    assert_eq!(relay(&[], &sink), of("me", false));
    assert_eq!(relay(&["--archive"], &sink), of("me", true));
}

fn an_outage_spends_no_attempt_and_shows_no_password(fixture: Fixture) {
    emit(&fixture, "T 1");
    let url = nowhere();
    for json in [false, true] {
        let mut words = vec!["-vv", "outbox", "relay", "--sink", &url];
        words.extend(json.then_some("--json"));
        let relay = Running::start(&fixture, &words);
        relay.says("nothing can be published; no attempt is spent");
        let printed = relay.stop().join("\n");
        let said = relay.said();
        assert!(said.contains("cannot connect to RabbitMQ"), "{said}");
        assert!(
            !said.contains(PASSWORD) && !printed.contains(PASSWORD),
            "{said}"
        );
        if json {
            let report: Value = serde_json::from_str(&printed).unwrap();
            assert_eq!(report["sent"], json!(0));
        } else {
            assert!(printed.starts_with("SENT"), "{printed}");
        }
        let event = &fixture.json(0, "outbox list")["events"][0];
        assert_eq!(
            (&event["refused"], &event["doubtful"], text(event, "state")),
            (&json!(0), &json!(0), "pending")
        );
    }
    // The error does not contain an invalid URL.
    let wrong = format!("amqp://turno:{PASSWORD}@:x/");
    let refused = fixture
        .turno(&["outbox", "relay", "--sink", &wrong])
        .expect(2);
    assert!(!refused.err.contains(PASSWORD), "{refused:?}");
}

/// A relay without events gives up its lead, so the first one is kept busy: its output is not read.
fn a_second_relay_says_who_is_at_work(fixture: Fixture) {
    let words = |name| [&STDOUT[..], &["--mode", "single", "--name", name]].concat();
    emit_more_than_a_pipe_holds(&fixture);
    let mut first = Piped::start(&fixture, &words("relay-1"));
    let mut printed = first.0.stdout.take().unwrap();
    printed.read_exact(&mut [0]).unwrap();
    let second = Running::start(&fixture, &words("relay-2"));
    second.says("another relay is at work");
    assert!(second.said().contains("relay-1"), "{}", second.said());
    // Its output is read again, and it ends.
    first.term();
    let mut rest = String::new();
    printed.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("xxx"), "{rest}");
    assert_eq!(first.code(), Some(0));
    // The other one takes over.
    second.says("this relay is the leader");
    emit(&fixture, "T 2");
    let printed = second.process.lines().next(LONG).unwrap();
    assert!(printed.contains(r#""payload":2"#), "{printed}");
    assert!(second.stop().is_empty());
}

fn emit_more_than_a_pipe_holds(fixture: &Fixture) {
    let payload = format!("\"{}\"", "x".repeat(500_000));
    std::fs::write(fixture.path("payload.json"), payload).unwrap();
    emit(fixture, "T @payload.json");
}

/// A relay whose output the test reads itself, or does not read. It is killed when dropped.
struct Piped(Child);

impl Piped {
    fn start(fixture: &Fixture, arguments: impl Arguments) -> Self {
        let mut command = fixture.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Piped(command.spawn().unwrap())
    }

    fn term(&self) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").arg(id).status().unwrap().success());
    }

    #[track_caller]
    fn code(&mut self) -> Option<i32> {
        let ended = || self.0.try_wait().unwrap();
        eventually(LONG, "the relay to end", ended).code()
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        // Both fail only if the process has ended already, which is the aim.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn a_reader_that_goes_away_ends_it(fixture: Fixture) {
    let mut relay = Piped::start(&fixture, &STDOUT);
    drop(relay.0.stdout.take());
    emit(&fixture, "T 1");
    assert_eq!(relay.code(), Some(1));
    let mut said = String::new();
    let output = relay.0.stderr.as_mut().unwrap();
    output.read_to_string(&mut said).unwrap();
    assert!(said.contains("standard output is closed"), "{said}");
    assert_eq!(stats(&fixture)["dispatched"], json!(0), "nothing is lost");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let fixture = Fixture::new(Kind::Sqlite);
    // The relay cannot finish the events in progress.
    emit_more_than_a_pipe_holds(&fixture);
    let mut relay = Piped::start(&fixture, &STDOUT);
    let mut printed = relay.0.stdout.take().unwrap();
    printed.read_exact(&mut [0]).unwrap();
    let mut output = BufReader::new(relay.0.stderr.take().unwrap()).lines();
    relay.term();
    assert!(output.any(|line| line.unwrap().contains("shutting down")));
    let ended = relay.0.try_wait().unwrap();
    assert!(ended.is_none(), "it waits for its reader");
    relay.term();
    assert_eq!(relay.code(), Some(143));
}

#[test]
fn a_blocked_outbox_does_not_get_empty_and_says_so() {
    let fixture = Fixture::new(Kind::Sqlite);
    emit(&fixture, "T 1 --key k");
    crate::common::refusing::refuse(&fixture, turno::outbox::OnDead::Block, 1);
    emit(&fixture, "T 2 --key k");
    let relayed = fixture
        .turno(&[&STDOUT[..], &["--until-empty"]].concat())
        .expect(1);
    assert!(
        relayed.err.contains("outbox list --state blocked") && relayed.out.is_empty(),
        "{relayed:?}"
    );
    fixture.json(0, "outbox requeue --all");
    let relayed = fixture
        .turno(&[&STDOUT[..], &["--until-empty"]].concat())
        .expect(0);
    assert_eq!(relayed.out.lines().count(), 2, "{relayed:?}");
}

#[test]
fn refusals_outages_and_recoveries_of_a_broker_are_reported() {
    let fixture = Fixture::new(Kind::Sqlite);
    let broker = RabbitMq::start().unwrap();
    let url = broker.url();
    let relay = Running::start(
        &fixture,
        &format!("--json outbox relay --sink {url} --max-attempts 1 --on-dead Blocking=block"),
    );
    // No queue is bound: RabbitMQ returns the event.
    emit(&fixture, "Blocking 1 --key k");
    relay.says("an event was refused, and is dead");
    let blocked = || (stats(&fixture)["blocked"] == json!(1)).then_some(());
    eventually(LONG, "the event to block its key", blocked);
    let output = fixture.turno("outbox list --state blocked");
    assert!(output.expect(0).out.contains("ERROR"));

    broker.kill_9().unwrap();
    emit(&fixture, "Skipped 2");
    relay.says("nothing can be published; no attempt is spent");
    broker.restart().unwrap();
    relay.says("the sink is there again");
    let dead = || (stats(&fixture)["dead"] == json!(1)).then_some(());
    eventually(LONG, "the other event to be refused", dead);
    let report: Value = serde_json::from_str(&relay.stop().join("")).unwrap();
    assert_eq!(
        (&report["refused"], &report["dead"], &report["sent"]),
        (&json!(2), &json!(2), &json!(0))
    );
    assert!(!relay.said().contains("guest"), "{}", relay.said());
}

/// Starts a web server that responds to every request with one status. Returns the first line and the headers of each.
fn web_server(status: &'static str) -> (String, Receiver<Vec<String>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (sender, requests) = mpsc::channel();
    // Ends with the test, as all of its threads do.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut lines = stream.by_ref().lines().map_while(Result::ok);
            let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
            if head.is_empty() {
                // A connection without a request, which only checked that the server is up.
                continue;
            }
            let answer =
                format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            let length = head.iter().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                let is_it = name.eq_ignore_ascii_case("content-length");
                is_it.then(|| value.parse::<usize>().unwrap())
            });
            let mut body = vec![0; length.unwrap_or(0)];
            stream.read_exact(&mut body).unwrap();
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            let _ = sender.send(head);
        }
    });
    (url, requests)
}

#[test]
fn a_webhook_is_called_as_the_environment_and_the_file_say() {
    let fixture = Fixture::new(Kind::Sqlite);
    let relay = |url: &str, more: &[&str]| {
        let words = ["--json", "outbox", "relay", "--until-empty", "--sink", url];
        let mut command = fixture.command(&[&words[..], more].concat());
        // Not a real secret; base64 of 24 bytes.
        command.env(
            "TURNO_WEBHOOK_SECRET",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        );
        Done::of(command.output().unwrap()).expect(0)
    };
    let file = "[outbox]\nallow_private = true\nmax_attempts = 1\n";
    std::fs::write(fixture.path("turno.toml"), file).unwrap();
    let (url, requests) = web_server("204 No Content");
    emit(&fixture, "T 1");
    let relayed = relay(&url, &[]);
    assert_eq!(relayed.json()["sent"], json!(1), "{relayed:?}");
    assert!(!relayed.err.contains("whsec_"), "{relayed:?}");
    let request = requests
        .recv_timeout(LONG)
        .unwrap()
        .join("\n")
        .to_lowercase();
    assert!(
        request.starts_with("post /hook") && request.contains("webhook-signature: v1,"),
        "{request}"
    );
    // A server that refuses; the file's limit, and the option that overrides it.
    let (url, _requests) = web_server("500 Oops");
    emit(&fixture, "T 2");
    let refused = relay(&url, &["--max-attempts", "1000"]).json();
    assert!(refused["refused"].as_u64() >= Some(1), "{refused}");
    assert_eq!(stats(&fixture)["dead"], json!(0), "it is tried again");
    emit(&fixture, "T 3");
    let refused = relay(&url, &[]).json();
    assert!(refused["dead"].as_u64() >= Some(1), "{refused}");
    let dead = fixture.turno("outbox list --state dead").expect(0);
    assert!(dead.out.contains("500"), "{dead:?}");
}

/// Thousands of refusals for one reason: one line per second, with the count of the others.
#[test]
fn a_flood_of_warnings_is_a_line_per_second_with_a_count() {
    const MANY: usize = 500;
    let fixture = Fixture::new(Kind::Sqlite);
    std::fs::write(
        fixture.path("turno.toml"),
        "[outbox]\nallow_private = true\nbatch = 250\n",
    )
    .unwrap();
    let lines = "{\"type\": \"T\", \"payload\": 1}\n".repeat(MANY);
    let words = ["--json", "outbox", "emit", "--file", "-"];
    piped(&fixture, &words, lines.as_bytes()).expect(0);
    let (url, _requests) = web_server("400 Bad Request");
    let began = std::time::Instant::now();
    let relay = Running::start(&fixture, &["--json", "outbox", "relay", "--sink", &url]);
    eventually(LONG, "every event to be refused", || {
        let scheduled = stats(&fixture)["scheduled"].as_u64();
        (scheduled == Some(MANY as u64)).then_some(())
    });
    let report: Value = serde_json::from_str(&relay.stop().join("")).unwrap();
    let refused = report["refused"].as_u64().unwrap();
    assert!(refused >= MANY as u64, "{report}");
    let seconds = began.elapsed().as_secs() as usize + 1;
    let said = relay.said();
    let about: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("an event was refused"))
        .collect();
    // The first one, one per second, and the last count.
    assert!(
        about.len() <= seconds + 2,
        "{} lines in {seconds} s",
        about.len()
    );
    let repeated: u64 = about
        .iter()
        .filter_map(|line| {
            line.split_once("times=")?
                .1
                .split(' ')
                .next()?
                .parse::<u64>()
                .ok()
        })
        .sum();
    let first = about.iter().filter(|line| !line.contains("times=")).count() as u64;
    assert_eq!(
        repeated + first,
        refused,
        "every refusal is counted: {said}"
    );
}

/// A webhook without a secret causes a warning: once when the relay starts, and by `doctor`.
#[test]
fn an_unsigned_webhook_is_warned_about() {
    const WARNING: &str = "requests are not signed";
    let fixture = Fixture::new(Kind::Sqlite);
    let (url, _requests) = web_server("204 No Content");
    let file = |more: &str| format!("[outbox]\nallow_private = true\nsink = \"{url}\"\n{more}");
    let webhook = || {
        let findings = fixture.json(0, "doctor")["findings"].clone();
        let findings = findings.as_array().unwrap().clone();
        findings
            .into_iter()
            .find(|finding| finding["check"] == json!("webhook"))
    };
    std::fs::write(fixture.path("turno.toml"), file("")).unwrap();
    for number in ["1", "2"] {
        emit(&fixture, &["T", number]);
    }
    let relayed = fixture.turno("outbox relay --until-empty --batch 2");
    let relayed = relayed.expect(0);
    assert_eq!(relayed.err.matches(WARNING).count(), 1, "{relayed:?}");
    let finding = webhook().expect("doctor knows");
    assert_eq!(finding["severity"], json!("warning"), "{finding}");

    // Not a real secret; base64 of 24 bytes.
    let secret = "secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\n";
    std::fs::write(fixture.path("turno.toml"), file(secret)).unwrap();
    let relayed = fixture.turno("outbox relay --until-empty").expect(0);
    assert!(!relayed.err.contains(WARNING), "{relayed:?}");
    assert_eq!(webhook(), None);
}
