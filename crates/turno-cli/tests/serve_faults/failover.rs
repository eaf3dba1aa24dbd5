//! A primary that is killed or frozen under load, and a synchronous standby that is promoted. Servers recover without a restart,
//! and no acknowledged change is lost, whichever host is first in the URL.

use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use turno_testkit::{PostgresServer, eventually};

use crate::common::{Fixture, Kind, LONG, ask_postgres};
use crate::fire::{count, do_once, hold, push, work};
use crate::http::{Server, ask};
use crate::ledger::{Counter, Effects, Items};
use crate::work::Servers;

/// Maximum time from the promotion until a server writes again.
const RECOVERY_BOUND: Duration = Duration::from_secs(5);
/// Number of responses before the primary ends, and after the promotion.
const ANSWERS: u64 = 300;

/// A primary, its synchronous standby, and a database on both.
struct Pair {
    primary: PostgresServer,
    standby: PostgresServer,
    database: String,
}

impl Pair {
    fn start() -> Self {
        let primary = PostgresServer::start().unwrap();
        let url = primary.create_database();
        let standby = primary.start_standby().unwrap();
        let database = url.rsplit('/').next().unwrap().to_owned();
        Pair {
            primary,
            standby,
            database,
        }
    }

    /// Returns a place whose store is on these ports, in this order.
    fn fixture(&self, ports: &[u16]) -> Fixture {
        let hosts: Vec<String> = ports
            .iter()
            .map(|port| format!("127.0.0.1:{port}"))
            .collect();
        Fixture {
            kind: Kind::Postgres,
            folder: tempfile::tempdir().unwrap(),
            store: format!(
                "postgres://owner@{}/{}?target_session_attrs=read-write",
                hosts.join(","),
                self.database
            ),
        }
    }
}

/// Requests a lock from each server until it is granted. Returns the longest time of a server.
fn recovery(servers: &Servers<'_>) -> Duration {
    let since = Instant::now();
    let addresses = servers.addresses();
    thread::scope(|scope| {
        let times: Vec<_> = addresses
            .iter()
            .enumerate()
            .map(|(number, address)| {
                scope.spawn(move || {
                    let body = json!({"resource": format!("recovery/{number}"), "ttl": "60s", "owner": "o"});
                    eventually(LONG, "a server that writes again", || {
                        let response = ask(address, "POST /v1/locks", None, &body)?;
                        (response.status != 503).then(|| drop(response.expect(201)))
                    });
                    since.elapsed()
                })
            })
            .collect();
        times
            .into_iter()
            .map(|time| time.join().unwrap())
            .max()
            .unwrap()
    })
}

fn await_answers(servers: &Servers<'_>, number: u64) {
    let before = servers.answered.load(Ordering::SeqCst);
    eventually(LONG, "the clients to get on", || {
        (servers.answered.load(Ordering::SeqCst) >= before + number).then_some(())
    });
}

/// Puts load on two servers. The primary ends, the standby is promoted, and a server that starts then works too.
fn fail_over(pair: &Pair, fixture: &Fixture, primary_goes: impl Fn(&PostgresServer)) {
    let servers = Servers::start(fixture, 2);
    let (counter, items, effects) = (Counter::default(), Items::default(), Effects::default());
    let held = Mutex::new(Vec::new());
    let recovered = thread::scope(|scope| {
        // If the test fails, its clients must not continue for ever.
        let _stop = servers.stop_when_dropped();
        for _ in 0..2 {
            scope.spawn(|| count(&servers, &counter));
            scope.spawn(|| do_once(&servers, &effects));
            scope.spawn(|| work(&servers, &items));
        }
        scope.spawn(|| push(&servers, &items));
        scope.spawn(|| hold(&servers, &held));
        await_answers(&servers, ANSWERS);
        primary_goes(&pair.primary);
        pair.standby.promote().unwrap();
        let recovered = recovery(&servers);
        await_answers(&servers, ANSWERS);
        // A server that starts now finds the new primary too.
        servers.kill(0);
        await_answers(&servers, ANSWERS);
        recovered
    });
    for address in servers.addresses() {
        ask(&address, "GET /readyz", None, &Value::Null)
            .unwrap()
            .expect(200);
    }
    let (lost, updates) = counter.lost();
    assert!(lost == 0 && updates > 0, "{lost} of {updates} were lost");
    assert!(items.number() > 0);
    assert_eq!(items.wrong(), (vec![], vec![]), "lost, or done twice");
    let stats = servers.get("/v1/inbox/jobs");
    assert_eq!(stats["completed"], json!(items.number()), "{stats}");
    let (wrong, keys) = effects.wrong();
    assert!(wrong.is_empty() && keys > 0, "{wrong:?} of {keys}");
    let held = held.into_inner().unwrap();
    for lease in &held {
        let resource = lease["resource"].as_str().unwrap().replace('/', "%2F");
        let status = servers.get(&format!("/v1/locks/{resource}"));
        assert_eq!(status["holder"]["token"], lease["token"], "{status}");
    }
    println!(
        "0 lost, 0 doubled of {updates} updates, {} items, {keys} keys, {} locks; {} requests were repeated; recovered in {recovered:?}",
        items.number(),
        held.len(),
        servers.unanswered.load(Ordering::SeqCst)
    );
    assert!(recovered < RECOVERY_BOUND, "recovered in {recovered:?}");
}

#[test]
fn failover_with_the_standby_named_first() {
    let pair = Pair::start();
    let fixture = pair.fixture(&[pair.standby.port(), pair.primary.port()]);
    fail_over(&pair, &fixture, |primary| primary.kill_9().unwrap());
}

#[test]
fn failover_with_a_frozen_primary_named_first() {
    let pair = Pair::start();
    let fixture = pair.fixture(&[pair.primary.port(), pair.standby.port()]);
    fail_over(&pair, &fixture, |primary| primary.freeze().unwrap());
    pair.primary.kill_9().unwrap();
}

#[test]
fn failover_with_a_refusing_primary_named_first() {
    let pair = Pair::start();
    let fixture = pair.fixture(&[pair.primary.port(), pair.standby.port()]);
    fail_over(&pair, &fixture, |primary| primary.kill_9().unwrap());
    // A host that refuses is not mistaken for a pooler.
    // The finding is that the test's server would lose data in a crash of the machine.
    let doctor = fixture.json(1, "doctor");
    let findings = doctor["findings"].as_array().unwrap();
    let pooler = findings.iter().find(|finding| finding["check"] == "pooler");
    assert_eq!(pooler.unwrap()["severity"], "ok", "{doctor}");
    // A server that starts now listens for its waiters.
    let server = Server::start(&fixture, "");
    let taken = json!({"resource": "r", "ttl": "60s", "owner": "a"});
    let lease = server.post("/v1/locks", taken).expect(201);
    thread::scope(|scope| {
        let with_wait = json!({"resource": "r", "ttl": "60s", "owner": "b", "wait": "60s"});
        let waiting = scope.spawn(|| server.post("/v1/locks", with_wait));
        eventually(LONG, "a listening session", || {
            let listening = "select count(*) from pg_stat_activity where query like '%turno.notifies%' and pid <> pg_backend_pid()";
            (ask_postgres(&pair.standby.superuser_url(&pair.database), listening) != "0")
                .then_some(())
        });
        let id = lease["id"].as_str().unwrap();
        server
            .ask(&format!("DELETE /v1/leases/{id}"), &Value::Null)
            .expect(204);
        waiting.join().unwrap().expect(201);
    });
}

/// A first host that accepts connections and does not respond, and one that does not even accept them.
#[test]
fn a_silent_host_does_not_keep_others_from_being_used() {
    let postgres = PostgresServer::shared();
    let database = postgres.create_database();
    let database = database.rsplit('/').next().unwrap();
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let hosts = format!(
        "127.0.0.1:{},127.0.0.1:{}",
        mute.local_addr().unwrap().port(),
        postgres.port()
    );
    let fixture = Fixture {
        kind: Kind::Postgres,
        folder: tempfile::tempdir().unwrap(),
        store: format!("postgres://owner@{hosts}/{database}"),
    };
    fixture.turno("migrate").expect(0);
    fixture.turno("lock acquire r --ttl 60s").expect(0);
    // The control: without other hosts, it is an error that names the reason.
    let alone = Fixture {
        store: format!(
            "postgres://owner@127.0.0.1:{}/{database}?connect_timeout=1",
            mute.local_addr().unwrap().port()
        ),
        ..fixture
    };
    let refused = alone.turno("lock status r");
    assert!(
        refused.code != Some(0) && refused.err.contains("no answer within 1s"),
        "{refused:?}"
    );
}

/// A standby alone responds, accepts no writes, and is therefore not ready. After its promotion it is ready, without a restart.
#[test]
fn a_server_on_a_standby_is_not_ready_until_the_promotion() {
    let pair = Pair::start();
    let url = pair.primary.url(&pair.database);
    let on_primary = Fixture {
        kind: Kind::Postgres,
        folder: tempfile::tempdir().unwrap(),
        store: url,
    };
    on_primary.turno("migrate").expect(0);
    let standby = Fixture {
        kind: Kind::Postgres,
        folder: tempfile::tempdir().unwrap(),
        store: pair.standby.url(&pair.database),
    };
    eventually(LONG, "the schema on the standby", || {
        let there = "select to_regprocedure('turno.schema_version()') is not null";
        (ask_postgres(&standby.store, there) == "t").then_some(())
    });
    let server = Server::start(&standby, "");
    let ready = server.get("/readyz");
    assert_eq!(ready.expect(503)["detail"], "the store accepts no writes");
    let refused = server.post("/v1/locks", json!({"resource": "r", "ttl": "60s"}));
    assert_eq!(refused.expect(503)["code"], "refused");
    pair.primary.kill_9().unwrap();
    pair.standby.promote().unwrap();
    eventually(LONG, "a server that is ready", || {
        (server.get("/readyz").status == 200).then_some(())
    });
    server
        .post("/v1/locks", json!({"resource": "r", "ttl": "60s"}))
        .expect(201);
}
