//! PostgreSQL crashes after a relay has claimed an event, and perhaps published it: the next copy has a label.

use std::time::Duration;

use turno::outbox::Event;
use turno::store::{Order, OutboxClaim};
use turno_testkit::faults::{FromStore as _, client};
use turno_testkit::{PostgresServer, eventually};
use uuid::Uuid;

use crate::LONG;
use crate::fixture::{End, Fixture};

const LEASE: Duration = Duration::from_secs(1);

/// What a commit does not wait for is written after seconds.
const LAZY_WRITES: [(&str, &str); 1] = [("wal_writer_delay", "10s")];

#[test]
fn a_claim_survives_a_crash_of_the_store() {
    let doubtful = after_crash(|fixture| {
        let ask = claim();
        let store = fixture.turno.store();
        let claimed = fixture.runtime.block_on(store.outbox_claim(&ask)).unwrap();
        assert_eq!(claimed.len(), 1);
        assert_eq!(claimed[0].doubtful, 0);
    });
    assert_eq!(doubtful, 1);
}

/// The control: a claim whose commit does not wait for the disk is forgotten, and the event has no label.
#[test]
fn a_claim_that_is_not_durable_is_forgotten() {
    let doubtful = after_crash(|fixture| {
        let claim = "select id from turno.outbox_claim('relay', 1, '1 second', true, gen_random_uuid(), false)";
        fixture.runtime.block_on(async {
            let claimed = client(&fixture.url).await.query(claim, &[]).await.unwrap();
            assert_eq!(claimed.len(), 1);
        });
    });
    assert_eq!(doubtful, 0);
}

/// Lets a relay claim an event, kills the server, and returns the number of attempts that the next claim says may have published it.
fn after_crash(claim_one: impl FnOnce(&Fixture)) -> u32 {
    let server = PostgresServer::start_with(&LAZY_WRITES).unwrap();
    let fixture = Fixture::on(&server);
    let event = Event::new("TicketCreatedEvent", &1).ordering_key("7");
    fixture.emit(&[event], End::Commit);
    claim_one(&fixture);
    server.kill_9().unwrap();
    server.restart().unwrap();
    let ask = claim();
    eventually(LONG, "the event's next claim", || {
        let store = fixture.turno.store();
        let claimed = fixture.runtime.block_on(store.outbox_claim(&ask)).ok()?;
        claimed.first().map(|event| event.doubtful)
    })
}

fn claim() -> OutboxClaim {
    OutboxClaim {
        relay: "relay".to_owned(),
        limit: 1,
        lease: LEASE,
        order: Order::ByKey,
        token: Uuid::now_v7(),
    }
}
