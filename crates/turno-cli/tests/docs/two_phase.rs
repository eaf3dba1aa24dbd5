//! The statements of docs/from-sql.md about `PREPARE TRANSACTION`: a push can be prepared unless a worker is idle, and always
//! without notifications.

use std::thread;

use serde_json::{Value, json};
use turno_testkit::{PostgresServer, eventually};

use crate::block::{BlockKind, blocks};
use crate::common::{Fixture, Kind, LONG};
use crate::http::{Server, ask};
use crate::known::Known;
use crate::sql::Session;

/// Returns the page's only block with these words that is not run by itself.
fn example(words: &str) -> String {
    let page = include_str!("../../../../docs/from-sql.md");
    let mut blocks = blocks(page).unwrap();
    blocks.retain(|block| block.kind == BlockKind::Excerpt && block.text.contains(words));
    let [block] = <[_; 1]>::try_from(blocks).unwrap();
    block.text
}

#[test]
fn a_push_can_be_prepared_until_a_worker_is_idle() {
    let postgres = PostgresServer::start_with(&[("max_prepared_transactions", "2")]).unwrap();
    let fixture = Fixture {
        kind: Kind::Postgres,
        folder: tempfile::tempdir().unwrap(),
        store: postgres.create_database(),
    };
    fixture.turno(&["migrate"]).expect(0);
    let session = Session::new(&fixture.store);
    let run = |text: &str| drop(session.run(&mut Known::default(), text));
    let (example, off) = (example("prepare transaction"), example("turno.setting_set"));
    let succeeds = example.split("-- ERROR").next().unwrap();

    // Without a worker it can be prepared.
    run(succeeds);
    run("commit prepared 'invoice-9';");
    let server = Server::start(&fixture, "");
    let claim = json!({"worker": "w", "wait": "50s"});
    let pushed = server
        .post("/v1/inbox/letters/claim", claim.clone())
        .expect(200);
    assert_eq!(pushed["items"][0]["payload"], json!({"invoice": 9}));

    // With an idle worker it cannot.
    thread::scope(|scope| {
        let waiting = scope.spawn(|| server.post("/v1/inbox/letters/claim", claim.clone()));
        eventually(LONG, "an idle worker", || {
            let idle = "select count(*) from {inbox_listener} where until > clock_timestamp()";
            (fixture.ask(idle) != "0").then_some(())
        });
        run(&example);
        run("rollback;");
        // An ordinary commit wakes the worker.
        run("select turno.inbox_push('letters', '{\"invoice\": 10}');");
        let claimed = waiting.join().unwrap().expect(200);
        assert_eq!(claimed["items"][0]["payload"], json!({"invoice": 10}));

        // Without notifications it can, and a waiting worker finds the item by polling.
        let waiting = scope.spawn(|| server.post("/v1/inbox/letters/claim", claim.clone()));
        eventually(LONG, "an idle worker", || {
            let idle = "select count(*) from {inbox_listener} where until > clock_timestamp()";
            (fixture.ask(idle) != "0").then_some(())
        });
        run(&off);
        run(succeeds);
        run("commit prepared 'invoice-9';");
        let claimed = waiting.join().unwrap().expect(200);
        assert_eq!(claimed["items"][0]["payload"], json!({"invoice": 9}));
    });
    let stats = ask(&server.address, "GET /v1/inbox/letters", None, &Value::Null).unwrap();
    assert_eq!(stats.expect(200)["processing"], json!(3));
}
