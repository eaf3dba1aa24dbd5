//! The database crashes while work is in flight.

use turno_testkit::PostgresServer;

use crate::client::{Client, held_after, held_before};
use crate::place::Place;
use crate::web::{How, USUAL, Web};

/// Claim, effect and answer all exist, once.
#[test]
fn nothing_is_lost_or_doubled() {
    let server = PostgresServer::start().unwrap();
    for ending in ["plain", "effect"] {
        for ask in [held_before("77"), held_after("77")] {
            let place = Place::on(&server);
            let how = How { ending, ..USUAL };
            let (one, other) = (Web::start(&place.url, how), Web::start(&place.url, how));
            let _inside = place.runtime.enter();
            let client = Client::new();
            let first = client.asking(&one, &ask);
            one.held();
            server.kill_9().unwrap();
            server.restart().unwrap();
            one.go();
            let first = place.runtime.block_on(first).unwrap().unwrap();
            assert_eq!((first.paid(), first.is_replayed()), ((one.pid(), 1), false));
            for web in [&one, &other] {
                let again = place.runtime.block_on(client.ask(web, &ask));
                assert_eq!((&again.body, again.is_replayed()), (&first.body, true));
            }
            assert_eq!((place.ran().len(), place.effects().len()), (1, 1));
            println!("{ending}, {}: {}", ask.uri, one.counts());
        }
    }
}
