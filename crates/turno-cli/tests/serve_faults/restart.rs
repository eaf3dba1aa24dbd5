//! A server on the embedded store that is killed with -9 and restarted on the same file.

use std::collections::BTreeSet;
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
}

#[test]
fn everything_acknowledged_is_there_after_a_kill() {
    let fixture = Fixture::new(Kind::Sqlite);
    let servers = Servers::start(&fixture, 1);
    let responses = Responses::default();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| responses.listen(&servers));
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
    let leases = responses.leases.into_inner().unwrap();
    assert!(leases.len() > 3);
    for lease in &leases {
        let resource = lease["resource"].as_str().unwrap().replace('/', "%2F");
        let status = servers.get(&format!("/v1/locks/{resource}"));
        assert_eq!(status["holder"]["token"], lease["token"], "{status}");
    }
    let items = responses.items.into_inner().unwrap();
    assert_eq!(
        servers.get("/v1/inbox/jobs")["pending"],
        json!(items.len()),
        "as many as were acknowledged, and none twice"
    );
    for (key, answer) in responses.keys.into_inner().unwrap() {
        let replay = servers.post("/v1/once", json!({"key": key})).expect(200);
        assert_eq!(replay["replay"], answer);
    }
}
