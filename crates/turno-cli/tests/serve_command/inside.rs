//! Background tasks of a server: schedules, the relay, the sweep.

use std::process::Stdio;

use serde_json::{Value, json};
use turno_testkit::{Process, eventually};

use crate::common::{Fixture, Kind, LONG};
use crate::http::{Server, ask};

#[test]
fn schedules_of_the_file_are_pushed() {
    let fixture = Fixture::new(Kind::Sqlite);
    let toml = "[[schedule]]\nname = \"tick\"\ncron = \"* * * * * *\"\nqueue = \"ticks\"\npayload = { kind = \"daily\" }\n";
    std::fs::write(fixture.path("turno.toml"), toml).unwrap();
    let server = Server::start(&fixture, "");
    let body = json!({"worker": "w", "wait": "60s"});
    let response = server.post("/v1/inbox/ticks/claim", body).expect(200);
    assert_eq!(response["items"][0]["payload"], json!({"kind": "daily"}));
}

#[test]
fn events_are_relayed_if_a_sink_is_named() {
    let fixture = Fixture::new(Kind::Sqlite);
    let mut command = fixture.command("serve --listen 127.0.0.1:0");
    // The environment overrides the file.
    command.env("TURNO_SINK", "stdout:").stderr(Stdio::null());
    let process = Process::spawn(&mut command).unwrap();
    let address = process.lines().expect_line("listening on http://", LONG);
    let body = json!({"events": [{"type": "TicketCreatedEvent", "payload": {"ticket": 7}}]});
    let emitted = ask(&address, "POST /v1/outbox", None, &body)
        .unwrap()
        .expect(201);
    let event: Value = serde_json::from_str(&process.lines().next(LONG).unwrap()).unwrap();
    assert_eq!(event["id"], emitted["ids"][0], "{event}");
    process.term();
    assert_eq!(process.wait_timeout(LONG).unwrap().code(), Some(0));
}

#[test]
fn a_server_sweeps_unless_cleanup_is_disabled() {
    let fixture = Fixture::new(Kind::Sqlite);
    let sweep = |enabled: bool| {
        let toml = format!("[cleanup]\nenabled = {enabled}\ninterval = \"10ms\"\n");
        std::fs::write(fixture.path("turno.toml"), toml).unwrap();
        let server = Server::start(&fixture, "");
        let lock = json!({"resource": format!("swept/{enabled}"), "ttl": "1ms"});
        server.post("/v1/locks", lock).expect(201);
        server
    };
    let expired = "select count(*) from {lock_history} where event = 'expired'";
    let server = sweep(false);
    drop(server);
    let _server = sweep(true);
    eventually(LONG, "the sweep", || {
        (fixture.ask(expired) != "0").then_some(())
    });
}
