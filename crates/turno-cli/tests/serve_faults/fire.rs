//! Two servers on one PostgreSQL, one of which is repeatedly killed with -9: no acknowledged change is lost,
//! and nothing is granted twice.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread;

use serde_json::{Value, json};
use turno_testkit::eventually;
use uuid::Uuid;

use crate::common::{Fixture, Kind, LONG};
use crate::ledger::{Counter, Effects, Items};
use crate::work::Servers;

/// Number of kills, each after a number of responses.
const KILLS: usize = 10;
const ANSWERS_BETWEEN: u64 = 300;

fn kill_again_and_again(servers: &Servers<'_>) {
    for which in 0..KILLS {
        let before = servers.answered.load(Ordering::SeqCst);
        eventually(LONG, "the clients to get on", || {
            (servers.answered.load(Ordering::SeqCst) >= before + ANSWERS_BETWEEN).then_some(())
        });
        servers.kill(which);
    }
    servers.stop.store(true, Ordering::SeqCst);
}

pub fn count(servers: &Servers<'_>, counter: &Counter) {
    while !servers.is_over() {
        let lease = servers.lock("counter", "60s");
        counter.add_one(lease["token"].as_i64());
        servers.unlock(&lease);
    }
}

pub fn push(servers: &Servers<'_>, items: &Items) {
    while !servers.is_over() {
        let body = json!({"items": [{"payload": 1}, {"payload": 2}], "request": Uuid::now_v7()});
        let pushed = servers.post("/v1/inbox/jobs", body).expect(201);
        for id in pushed["ids"].as_array().unwrap() {
            items.pushed(id.as_i64().unwrap());
        }
    }
}

pub fn work(servers: &Servers<'_>, items: &Items) {
    while !(servers.is_over() && items.is_empty()) {
        let body = json!({
            "worker": "w", "limit": 5, "lease": "30s", "wait": "1s", "request": Uuid::now_v7(),
        });
        let claimed = servers.post("/v1/inbox/jobs/claim", body).expect(200);
        let claimed = claimed["items"].as_array().unwrap();
        for item in claimed {
            let body = json!({"claims": [item["claim"]], "request": Uuid::now_v7()});
            let settled = servers.post("/v1/inbox/jobs/complete", body).expect(200);
            // A stale claim does not count: its item is claimed again.
            if settled["done"] == 1 {
                items.completed(item["id"].as_i64().unwrap());
            }
        }
    }
}

/// Several clients use the same keys.
pub fn do_once(servers: &Servers<'_>, effects: &Effects) {
    for number in 0.. {
        if servers.is_over() {
            return;
        }
        let key = format!("payment/{number}");
        let answer = loop {
            let body = json!({"key": key, "lease": "60s", "wait": "5s", "request": Uuid::now_v7()});
            let response = servers.post("/v1/once", body);
            let said: Value = serde_json::from_str(&response.body).unwrap();
            match response.status {
                201 => {
                    effects.done(&key);
                    let answer = json!({"by": Uuid::new_v4()});
                    let head = format!("PUT /v1/once/{}", said["claim"].as_str().unwrap());
                    // If the answer was stored already and its acknowledgement was lost, storing it again succeeds.
                    servers.ask(&head, &json!({"answer": answer})).expect(204);
                    break answer;
                }
                200 => break said["replay"].clone(),
                _ => assert_eq!(said["code"], "in_flight", "{said}"),
            }
        };
        effects.heard(&key, answer);
    }
}

pub fn hold(servers: &Servers<'_>, held: &Mutex<Vec<Value>>) {
    while !servers.is_over() {
        let lease = servers.lock(&format!("held/{}", Uuid::new_v4()), "10m");
        held.lock().unwrap().push(lease);
    }
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_granted_twice() {
    let fixture = Fixture::new(Kind::Postgres);
    let servers = Servers::start(&fixture, 2);
    let (counter, items, effects) = (Counter::default(), Items::default(), Effects::default());
    let held = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| count(&servers, &counter));
            scope.spawn(|| do_once(&servers, &effects));
        }
        scope.spawn(|| push(&servers, &items));
        scope.spawn(|| work(&servers, &items));
        scope.spawn(|| work(&servers, &items));
        scope.spawn(|| hold(&servers, &held));
        kill_again_and_again(&servers);
    });
    assert!(
        servers.unanswered.load(Ordering::SeqCst) > 0,
        "no request was hit"
    );

    let (lost, updates) = counter.lost();
    assert!(lost == 0 && updates > 0, "{lost} of {updates} were lost");

    assert!(items.number() > 0);
    assert_eq!(items.wrong(), (vec![], vec![]), "lost, or done twice");
    let stats = servers.get("/v1/inbox/jobs");
    assert_eq!(
        (&stats["completed"], &stats["total"]),
        (&json!(items.number()), &json!(items.number())),
        "{stats}"
    );

    let (wrong, keys) = effects.wrong();
    assert!(wrong.is_empty() && keys > 0, "{wrong:?} of {keys}");

    let held = held.into_inner().unwrap();
    assert!(!held.is_empty());
    for lease in &held {
        let resource = lease["resource"].as_str().unwrap().replace('/', "%2F");
        let status = servers.get(&format!("/v1/locks/{resource}"));
        assert_eq!(status["holder"]["token"], lease["token"], "{status}");
    }
    println!(
        "{updates} updates, {} items, {keys} keys, {} locks; {} requests were not answered",
        items.number(),
        held.len(),
        servers.unanswered.load(Ordering::SeqCst)
    );
}

/// The control: clients that count without the lock, or although the lock is busy, lose updates, and
/// the ledger finds them.
#[test]
fn without_the_lock_updates_are_lost() {
    let fixture = Fixture::new(Kind::Postgres);
    let servers = Servers::start(&fixture, 2);
    let counter = Counter::default();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let ask = json!({"resource": "counter", "ttl": "60s"});
                    let response = servers.post("/v1/locks", ask);
                    // The response is ignored: it may be 409.
                    counter.add_one(None);
                    if response.status == 201 {
                        servers.unlock(&response.expect(201));
                    }
                }
            });
        }
    });
    let (lost, updates) = counter.lost();
    assert!(updates == 200 && lost > 0, "{lost} of {updates}");
}

/// The control of the others: a ledger with a loss or a duplicate reports it.
#[test]
fn a_ledger_finds_what_is_wrong() {
    let items = Items::default();
    for id in 1..=3 {
        items.pushed(id);
    }
    for id in [1, 2, 2, 9] {
        items.completed(id);
    }
    assert_eq!(items.wrong(), (vec![3], vec![2, 9]));
    let effects = Effects::default();
    for key in ["a", "a", "b"] {
        effects.done(key);
    }
    effects.heard("b", json!(1));
    effects.heard("b", json!(2));
    effects.heard("c", json!(1));
    assert_eq!(effects.wrong().0, ["a", "b", "c"]);
}
