//! A server whose store has no space left: it refuses what it cannot store, loses nothing, and goes on when there is space again.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use serde_json::json;
use turno_testkit::{PostgresServer, Process, SmallDisk};
use uuid::Uuid;

use crate::common::{Fixture, Kind, LONG, TURNO};
use crate::http::{Response, Server};

/// Large enough for the tables, and for some items.
const DISK_BYTES: u64 = 40 << 20;
/// A part of the disk that the test frees later, in two halves. Each is larger than SQLite's log, which else cannot be emptied into the
/// database.
const FREED_BYTES: usize = 20 << 20;

/// Pushes items until the server refuses one. Returns the ids of those that it has acknowledged, and the refusal.
fn push_until_full(server: &Server) -> (BTreeSet<i64>, Response) {
    // PostgreSQL would compress the same letter.
    let payload: String = (0..15_000)
        .map(|_| Uuid::new_v4().simple().to_string())
        .collect();
    let mut acknowledged = BTreeSet::new();
    while acknowledged.len() < 1000 {
        let pushed = server.post("/v1/inbox/jobs", json!({"items": [{"payload": payload}]}));
        if pushed.status != 201 {
            return (acknowledged, pushed);
        }
        let id = pushed.expect(201)["ids"][0].as_i64();
        assert!(acknowledged.insert(id.expect("an id")));
    }
    panic!("the disk is small, and took 1000 items")
}

/// Claims all items, and returns their ids. Few at a time: SQLite writes an item with its payload again when it is claimed.
fn claim_all(server: &Server) -> BTreeSet<i64> {
    let mut claimed = BTreeSet::new();
    loop {
        let ask = json!({"worker": "w", "limit": 2, "lease": "10m"});
        let answer = server.post("/v1/inbox/jobs/claim", ask).expect(200);
        let items = answer["items"].as_array().expect("a list").clone();
        if items.is_empty() {
            return claimed;
        }
        for item in items {
            assert!(claimed.insert(item["id"].as_i64().expect("an id")));
        }
    }
}

/// Fills the store twice, and frees some space after each time. `occupy` replaces what is occupied by so many bytes. Returns the items
/// that the server has acknowledged and does not have any more.
fn lost(server: &Server, occupy: impl Fn(usize), meanwhile: impl FnOnce()) -> BTreeSet<i64> {
    let pending = || server.get("/v1/inbox/jobs").expect(200)["pending"].clone();
    occupy(FREED_BYTES);
    let (mut acknowledged, refusal) = push_until_full(server);
    let problem = refusal.expect(503);
    assert_eq!(problem["code"], "refused", "{problem}");
    // What needs no space still works.
    assert_eq!(pending(), json!(acknowledged.len()));

    occupy(FREED_BYTES / 2);
    let (more, refusal) = push_until_full(server);
    assert_eq!(refusal.status, 503);
    assert!(!more.is_empty(), "there is space again");
    acknowledged.extend(more);
    assert_eq!(pending(), json!(acknowledged.len()));

    occupy(0);
    meanwhile();
    let claimed = claim_all(server);
    assert!(claimed.is_subset(&acknowledged), "nothing refused is there");
    &acknowledged - &claimed
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
    let occupy = |bytes| fs::write(&occupied, vec![1; bytes]).unwrap();
    assert_eq!(
        lost(&Server { process, address }, occupy, || {}),
        BTreeSet::new()
    );
}

/// Runs the check on PostgreSQL, with a statement before the items are claimed. The tables are on the small disk. The server's log is
/// elsewhere: without space for it, PostgreSQL ends.
fn lost_on_postgres(meanwhile: &str) -> BTreeSet<i64> {
    let postgres = PostgresServer::start().unwrap();
    let disk = SmallDisk::start(DISK_BYTES).unwrap();
    let mut fixture = Fixture::new(Kind::Postgres);
    fixture.store = postgres.create_database_on(&disk).unwrap();
    let server = Server::start(&fixture, "");
    lost(
        &server,
        |bytes| disk.occupy(bytes),
        || fixture.tell(meanwhile),
    )
}

#[test]
fn postgres_refuses_and_goes_on() {
    assert_eq!(lost_on_postgres("select 1"), BTreeSet::new());
}

/// The control: an acknowledged item that is not in its table any more is noticed.
#[test]
fn a_lost_item_is_noticed() {
    let lose = "delete from {inbox_item} where id = (select min(id) from {inbox_item})";
    assert_eq!(lost_on_postgres(lose).len(), 1);
}
