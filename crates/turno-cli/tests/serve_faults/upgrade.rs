//! Three servers on one database whose schema is upgraded under load, and which are replaced one at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use turno::store::SCHEMA_VERSION;
use turno_testkit::eventually;

use crate::common::{Fixture, Kind, LONG, ask_postgres};
use crate::fire::{count, do_once, hold, push, work};
use crate::http::ask;
use crate::ledger::{Counter, Effects, Items};
use crate::work::Servers;

/// Number of responses before and after each step.
const ANSWERS: u64 = 200;
/// Interval of the readiness checks of each server.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// Migrates to the next version of the schema, as its migration will do: all functions are created again under the lock of
/// migrations, in one transaction that ends with the version and the oldest program that may use it.
fn upgrade(fixture: &Fixture, oldest_program: u32) {
    let script = turno::store::postgres::script();
    let functions =
        &script[script.find("-- Function file").unwrap()..script.rfind("commit;").unwrap()];
    let version = SCHEMA_VERSION + 1;
    let sql = format!(
        "begin; set local lock_timeout = '10s'; set local client_min_messages = warning; \
         select pg_advisory_xact_lock({}); {functions}; \
         insert into turno.migration (version, name, oldest_program) values ({version}, 'tomorrow', {oldest_program}); \
         commit",
        0x0074_7572_6e6f_i64
    );
    ask_postgres(&fixture.store, &sql);
}

fn readiness(address: &str) -> u16 {
    ask(address, "GET /readyz", None, &Value::Null).map_or(0, |response| response.status)
}

fn await_answers(servers: &Servers<'_>, number: u64) {
    let before = servers.answered.load(Ordering::SeqCst);
    eventually(LONG, "the clients to get on", || {
        (servers.answered.load(Ordering::SeqCst) >= before + number).then_some(())
    });
}

#[test]
fn a_rolling_upgrade_keeps_every_server_ready() {
    let fixture = Fixture::new(Kind::Postgres);
    let servers = Servers::start(&fixture, 3);
    let (counter, items, effects) = (Counter::default(), Items::default(), Effects::default());
    let held = Mutex::new(Vec::new());
    let polling = AtomicBool::new(true);
    let polls = thread::scope(|scope| {
        let polls = scope.spawn(|| {
            let mut polls = 0;
            while polling.load(Ordering::SeqCst) {
                servers.each_up(|address| {
                    assert_eq!(readiness(address), 200, "a server left readiness");
                    polls += 1;
                });
                thread::sleep(POLL_EVERY);
            }
            polls
        });
        thread::scope(|scope| {
            let _stop = servers.stop_when_dropped();
            scope.spawn(|| count(&servers, &counter));
            scope.spawn(|| count(&servers, &counter));
            scope.spawn(|| do_once(&servers, &effects));
            scope.spawn(|| do_once(&servers, &effects));
            scope.spawn(|| push(&servers, &items));
            scope.spawn(|| work(&servers, &items));
            scope.spawn(|| hold(&servers, &held));
            await_answers(&servers, ANSWERS);
            upgrade(&fixture, SCHEMA_VERSION);
            await_answers(&servers, ANSWERS);
            for which in 0..3 {
                servers.replace(which);
                await_answers(&servers, ANSWERS);
            }
        });
        polling.store(false, Ordering::SeqCst);
        polls.join().unwrap()
    });
    assert_eq!(
        servers.unanswered.load(Ordering::SeqCst),
        0,
        "requests that were not answered"
    );
    let (lost, updates) = counter.lost();
    assert!(lost == 0 && updates > 0, "{lost} of {updates} were lost");
    assert!(items.number() > 0);
    assert_eq!(items.wrong(), (vec![], vec![]), "lost, or done twice");
    let (wrong, keys) = effects.wrong();
    assert!(wrong.is_empty() && keys > 0, "{wrong:?} of {keys}");
    let version = fixture.ask("select max(version) from {migration}");
    assert_eq!(version, (SCHEMA_VERSION + 1).to_string());
    println!(
        "0 errors in {} requests, ready in {polls} of {polls} polls; {updates} updates, {} items, {keys} keys, {} locks",
        servers.answered.load(Ordering::SeqCst),
        items.number(),
        held.lock().unwrap().len()
    );
}

/// The control: a schema that the old servers may not use ends their readiness.
#[test]
fn an_upgrade_that_is_not_compatible_ends_readiness() {
    let fixture = Fixture::new(Kind::Postgres);
    let servers = Servers::start(&fixture, 1);
    let address = &servers.addresses()[0];
    assert_eq!(readiness(address), 200);
    upgrade(&fixture, SCHEMA_VERSION + 1);
    eventually(LONG, "a server that is not ready", || {
        (readiness(address) == 503).then_some(())
    });
    // `turno migrate` of this program has nothing to do, and says so.
    let refused = fixture.turno("migrate");
    assert!(
        refused.code != Some(0) && refused.err.contains("upgrade this program"),
        "{refused:?}"
    );
}

/// An older program changes nothing on a newer schema that it may use.
#[test]
fn an_older_program_migrates_nothing() {
    let fixture = Fixture::new(Kind::Postgres);
    fixture.turno("migrate").expect(0);
    upgrade(&fixture, SCHEMA_VERSION);
    let newer = SCHEMA_VERSION + 1;
    let done = fixture.turno("migrate").expect(0);
    assert!(
        done.out.contains("newer than this program, and compatible"),
        "{done:?}"
    );
    for arguments in [&["migrate"][..], &["migrate", "--repair"]] {
        let report = fixture.json(0, arguments);
        assert_eq!(
            (&report["from"], &report["to"], &report["repaired"]),
            (&json!(newer), &json!(newer), &json!(false))
        );
    }
}
