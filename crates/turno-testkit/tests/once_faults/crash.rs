//! The database crashes while work is in flight.

use turno_testkit::faults::{FromStore as _, client};
use turno_testkit::sql::Sql as _;
use turno_testkit::{PostgresServer, eventually};

use crate::LONG;
use crate::client::{Ask, Client, Response, held_after, held_before};
use crate::fixture::Fixture;
use crate::web::{Options, USUAL, Web};

/// Claim, effect and answer all exist, once.
#[test]
fn nothing_is_lost_or_doubled() {
    let server = PostgresServer::start().unwrap();
    for ending in ["plain", "effect"] {
        for ask in [held_before("77"), held_after("77")] {
            let crashed = Crashed::new(&server, ending, &ask);
            let Crashed {
                fixture,
                one,
                first,
                ..
            } = &crashed;
            assert_eq!((first.paid(), first.is_replayed()), ((one.pid(), 1), false));
            for web in [one, &crashed.other] {
                let again = fixture.runtime.block_on(Client::new().ask(web, &ask));
                assert_eq!((&again.body, again.is_replayed()), (&first.body, true));
            }
            assert_eq!(fixture.violations(), []);
            println!("{ending}, {}: {}", ask.uri, one.counts());
        }
    }
}

/// The control: a server that acknowledges commits before they are written forgets runs that have begun.
#[test]
fn a_server_that_forgets_is_noticed() {
    let forgetful = [("synchronous_commit", "off"), ("wal_writer_delay", "10s")];
    let server = PostgresServer::start_with(&forgetful).unwrap();
    // Whether a commit was written before the crash depends on the moment.
    eventually(LONG, "a run that was forgotten", || {
        let crashed = Crashed::new(&server, "plain", &held_before("77"));
        (!crashed.fixture.violations().is_empty()).then_some(())
    });
}

/// Two instances, and the response to a request during whose work the database crashed.
struct Crashed {
    fixture: Fixture,
    one: Web,
    other: Web,
    first: Response,
}

impl Crashed {
    fn new(server: &PostgresServer, ending: &'static str, ask: &Ask) -> Self {
        let fixture = Fixture::on(server);
        let options = Options { ending, ..USUAL };
        let one = Web::start(&fixture, options);
        let other = Web::start(&fixture, options);
        // The tables are written, so that a crash can cost only what follows.
        fixture.runtime.block_on(async {
            let client = client(&fixture.url).await;
            client.run("checkpoint").await;
        });
        let first = {
            let _inside = fixture.runtime.enter();
            Client::new().asking(&one, ask)
        };
        one.held();
        server.kill_9().unwrap();
        server.restart().unwrap();
        one.go();
        let first = fixture.runtime.block_on(first).unwrap().unwrap();
        Crashed {
            fixture,
            one,
            other,
            first,
        }
    }
}
