//! The database crashes while work is in flight.

use turno_testkit::PostgresServer;
use turno_testkit::faults::FromStore as _;

use crate::client::{Client, held_after, held_before};
use crate::fixture::Fixture;
use crate::web::{Options, USUAL, Web};

/// Claim, effect and answer all exist, once.
#[test]
fn nothing_is_lost_or_doubled() {
    let server = PostgresServer::start().unwrap();
    for ending in ["plain", "effect"] {
        for ask in [held_before("77"), held_after("77")] {
            let fixture = Fixture::on(&server);
            let options = Options { ending, ..USUAL };
            let (one, other) = (
                Web::start(&fixture.url, options),
                Web::start(&fixture.url, options),
            );
            let _inside = fixture.runtime.enter();
            let client = Client::new();
            let first = client.asking(&one, &ask);
            one.held();
            server.kill_9().unwrap();
            server.restart().unwrap();
            one.go();
            let first = fixture.runtime.block_on(first).unwrap().unwrap();
            assert_eq!((first.paid(), first.is_replayed()), ((one.pid(), 1), false));
            for web in [&one, &other] {
                let again = fixture.runtime.block_on(client.ask(web, &ask));
                assert_eq!((&again.body, again.is_replayed()), (&first.body, true));
            }
            assert_eq!((fixture.ran().len(), fixture.effects().len()), (1, 1));
            println!("{ending}, {}: {}", ask.uri, one.counts());
        }
    }
}
