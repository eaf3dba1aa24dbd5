//! A server whose store has no space left: it refuses what it cannot store, loses nothing, and goes on when there is space again.

use std::fs;
use std::process::Stdio;

use serde_json::json;
use turno_testkit::{PostgresServer, Process, SmallDisk};
use uuid::Uuid;

use crate::common::{Fixture, Kind, LONG, TURNO};
use crate::http::{Response, Server};

/// Large enough for the tables, and for some items.
const DISK_BYTES: u64 = 24 << 20;
/// A part of the disk that the test frees later.
const FREED_BYTES: usize = 6 << 20;

/// Pushes items until the server refuses one. Returns the number of those that it has acknowledged, and the refusal.
fn push_until_full(server: &Server) -> (usize, Response) {
    // PostgreSQL would compress the same letter.
    let payload: String = (0..15_000)
        .map(|_| Uuid::new_v4().simple().to_string())
        .collect();
    for acknowledged in 0.. {
        let pushed = server.post("/v1/inbox/jobs", json!({"items": [{"payload": payload}]}));
        if pushed.status != 201 {
            return (acknowledged, pushed);
        }
        assert!(acknowledged < 1000, "the disk is small");
    }
    unreachable!("it is full at some time")
}

/// Fills the store, frees some space, and checks that everything acknowledged is there.
fn check(server: &Server, free: impl FnOnce()) {
    let pending = || server.get("/v1/inbox/jobs").expect(200)["pending"].clone();
    let (acknowledged, refusal) = push_until_full(server);
    let problem = refusal.expect(503);
    assert_eq!(problem["code"], "refused", "{problem}");
    // What needs no space still works.
    assert_eq!(pending(), json!(acknowledged));

    free();
    let (more, refusal) = push_until_full(server);
    assert_eq!(refusal.status, 503);
    assert!(more > 0, "there is space again");
    assert_eq!(pending(), json!(acknowledged + more));
    let claim = json!({"worker": "w", "limit": 1});
    let claimed = server.post("/v1/inbox/jobs/claim", claim);
    assert!(matches!(claimed.status, 200 | 503), "{claimed:?}");
}

/// The store and its log are on the small disk, which exists only for the server's process.
#[test]
fn sqlite_refuses_and_goes_on() {
    let fixture = Fixture::new(Kind::Sqlite);
    let disk = SmallDisk::command(fixture.folder.path(), DISK_BYTES);
    let mut command = fixture.program(&disk[0]);
    command
        .args(&disk[1..])
        .args([TURNO, "serve", "--listen", "127.0.0.1:0"])
        .stderr(Stdio::null());
    let process = Process::spawn(&mut command).unwrap();
    let address = process.lines().expect_line("listening on http://", LONG);
    let occupied = format!(
        "/proc/{}/root{}/occupied",
        process.id(),
        fixture.folder.path().display()
    );
    fs::write(&occupied, vec![1; FREED_BYTES]).unwrap();
    check(&Server { process, address }, || {
        fs::remove_file(occupied).unwrap()
    });
}

/// The tables are on the small disk. The server's log is elsewhere: without space for it, PostgreSQL ends.
#[test]
fn postgres_refuses_and_goes_on() {
    let postgres = PostgresServer::start().unwrap();
    let disk = SmallDisk::start(DISK_BYTES).unwrap();
    let mut fixture = Fixture::new(Kind::Postgres);
    fixture.store = postgres.create_database_on(&disk).unwrap();
    let server = Server::start(&fixture, "");
    disk.occupy(FREED_BYTES);
    check(&server, || disk.occupy(0));
}
