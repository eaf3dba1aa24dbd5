//! A server on the embedded store that is killed with -9 and restarted on the same file.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread;

use serde_json::{Value, json};
use turno_testkit::eventually;
use uuid::Uuid;

use crate::common::{Fixture, Kind, LONG};
use crate::work::Servers;

/// Responses to the clients.
#[derive(Default)]
struct Responses {
    leases: Mutex<Vec<Value>>,
    items: Mutex<BTreeSet<i64>>,
    keys: Mutex<Vec<(String, Value)>>,
}

impl Responses {
    fn listen(&self, servers: &Servers<'_>) {
        while !servers.is_over() {
            let name = Uuid::new_v4();
            let lease = servers.lock(&format!("held/{name}"), "10m");
            self.leases.lock().unwrap().push(lease);

            let push = json!({"items": [{"payload": name}], "request": Uuid::now_v7()});
            let pushed = servers.post("/v1/inbox/jobs", push).expect(201);
            let id = pushed["ids"][0].as_i64().unwrap();
            assert!(self.items.lock().unwrap().insert(id), "{id} came twice");

            let (key, answer) = (format!("key/{name}"), json!({"answer": {"n": name}}));
            let begin = json!({"key": key, "request": Uuid::now_v7()});
            let begun = servers.post("/v1/once", begin).expect(201);
            let head = format!("PUT /v1/once/{}", begun["claim"].as_str().unwrap());
            servers.ask(&head, &answer).expect(204);
            let mut keys = self.keys.lock().unwrap();
            keys.push((key, answer["answer"].clone()));
        }
    }

    /// Returns the acknowledged changes that a server does not know.
    fn missing(self, servers: &Servers<'_>) -> Vec<String> {
        let mut missing = Vec::new();
        for lease in self.leases.into_inner().unwrap() {
            let resource = lease["resource"].as_str().unwrap().replace('/', "%2F");
            let status = servers.get(&format!("/v1/locks/{resource}"));
            if status["holder"]["token"] != lease["token"] {
                missing.push(format!("lease {lease}: {status}"));
            }
        }
        let items = self.items.into_inner().unwrap();
        let queue = servers.ask("GET /v1/inbox/jobs", &Value::Null);
        if queue.status != 200 || queue.expect(200)["pending"] != json!(items.len()) {
            missing.push(format!("some of {} items: {queue:?}", items.len()));
        }
        for (key, answer) in self.keys.into_inner().unwrap() {
            let replay = servers.post("/v1/once", json!({"key": key}));
            if replay.status != 200 || replay.expect(200)["replay"] != answer {
                missing.push(format!("the answer of {key}"));
            }
        }
        missing
    }
}

#[test]
fn everything_acknowledged_is_there_after_a_kill() {
    let fixture = Fixture::new(Kind::Sqlite);
    let servers = Servers::start(&fixture, 1);
    let responses = killed_under_load(&servers);
    assert!(responses.leases.lock().unwrap().len() > 3);
    assert_eq!(responses.missing(&servers), [] as [String; 0]);
}

/// The control: a file that loses what was committed last, which is in its log, is noticed.
#[test]
fn a_lost_log_is_noticed() {
    let fixture = Fixture::new(Kind::Sqlite);
    let servers = Servers::start(&fixture, 1);
    let responses = killed_under_load(&servers);
    servers.kill_and(0, || {
        for log in ["store.db-wal", "store.db-shm"] {
            fs::remove_file(fixture.path(log)).unwrap();
        }
    });
    assert_ne!(responses.missing(&servers), [] as [String; 0]);
}

/// Lets clients make changes while the server is killed and restarted.
fn killed_under_load(servers: &Servers<'_>) -> Responses {
    let responses = Responses::default();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| responses.listen(servers));
        }
        for _ in 0..3 {
            let before = servers.answered.load(Ordering::SeqCst);
            eventually(LONG, "the clients to get on", || {
                (servers.answered.load(Ordering::SeqCst) >= before + 60).then_some(())
            });
            servers.kill(0);
        }
        servers.stop.store(true, Ordering::SeqCst);
    });
    responses
}
