//! Two servers on one database behave like one.

use std::thread;

use serde_json::{Value, json};

use crate::common::{Fixture, Kind};
use crate::http::Server;

fn two() -> (Fixture, Server, Server) {
    let fixture = Fixture::new(Kind::Postgres);
    let a = Server::start(&fixture, "");
    let b = Server::start(&fixture, "");
    (fixture, a, b)
}

#[test]
fn a_lock_that_is_taken_at_one_is_busy_at_the_other_and_released_there() {
    let (_fixture, a, b) = two();
    let ask = json!({"resource": "loan/1", "ttl": "60s", "user": "ana"});
    let lease = a.post("/v1/locks", ask.clone()).expect(201);
    let busy = b.post("/v1/locks", ask.clone()).expect(409);
    assert_eq!(
        (&busy["code"], &busy["holder"]["user"]),
        (&"busy".into(), &"ana".into())
    );
    thread::scope(|scope| {
        let mut with_wait = ask.clone();
        with_wait["wait"] = "60s".into();
        let waiting = scope.spawn(|| a.post("/v1/locks", with_wait));
        turno_testkit::eventually(crate::common::LONG, "a waiter", || {
            let held = b.get("/v1/locks/loan%2F1").expect(200);
            (held["holder"]["waiters"] == 1).then_some(())
        });
        let id = lease["id"].as_str().unwrap();
        b.ask(&format!("DELETE /v1/leases/{id}"), &Value::Null)
            .expect(204);
        let next = waiting.join().unwrap().expect(201);
        assert!(next["token"].as_i64() > lease["token"].as_i64());
    });
}

#[test]
fn a_push_at_one_server_wakes_a_claim_at_the_other() {
    let (_fixture, a, b) = two();
    thread::scope(|scope| {
        let claim = json!({"worker": "w", "wait": "60s"});
        let waiting = scope.spawn(move || b.post("/v1/inbox/jobs/claim", claim));
        let pushed = a.post("/v1/inbox/jobs", json!({"items": [{"payload": {"n": 1}}]}));
        let claimed = waiting.join().unwrap().expect(200);
        assert_eq!(claimed["items"][0]["id"], pushed.expect(201)["ids"][0]);
        let claim = &claimed["items"][0]["claim"];
        let done = a.post("/v1/inbox/jobs/complete", json!({"claims": [claim]}));
        assert_eq!(done.expect(200), json!({"done": 1, "stale": []}));
    });
}

#[test]
fn what_is_begun_at_one_is_in_flight_and_then_replayed_at_the_other() {
    let (_fixture, a, b) = two();
    let begin = json!({"key": "payment/77"});
    let fresh = a.post("/v1/once", begin.clone()).expect(201);
    let in_flight = b.post("/v1/once", begin.clone());
    assert_eq!(in_flight.expect(409)["code"], "in_flight");
    assert!(in_flight.headers.contains_key("retry-after"));
    let claim = fresh["claim"].as_str().unwrap();
    b.ask(
        &format!("PUT /v1/once/{claim}"),
        &json!({"answer": {"receipt": 1}}),
    )
    .expect(204);
    for server in [&a, &b] {
        let replay = server.post("/v1/once", begin.clone());
        assert_eq!(replay.headers["idempotency-replayed"], "true");
        assert_eq!(replay.expect(200)["replay"], json!({"receipt": 1}));
    }
}

/// The control: servers on two databases share nothing of this.
#[test]
fn servers_on_two_databases_share_nothing() {
    let (_fixture, a, _) = two();
    let (_another, b, _) = two();
    for server in [&a, &b] {
        let lock = json!({"resource": "loan/1", "ttl": "60s"});
        server.post("/v1/locks", lock).expect(201);
        server
            .post("/v1/once", json!({"key": "payment/77"}))
            .expect(201);
    }
    let item = json!({"items": [{"payload": {"n": 1}}]});
    a.post("/v1/inbox/jobs", item).expect(201);
    let claimed = b.post("/v1/inbox/jobs/claim", json!({"worker": "w"}));
    assert_eq!(claimed.expect(200)["items"], json!([]));
}
