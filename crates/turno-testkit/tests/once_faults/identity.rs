//! Requests that only look the same: they are not processed, and get no answer of another request.

use turno_testkit::on_each_store;

use crate::client::{Ask, Client, held_before, pay, problem};
use crate::fixture::Fixture;
use crate::web::{USUAL, Web};

on_each_store! {
    another_body_under_a_key_is_refused => another_body_under_a_key_is_refused;
    principals_do_not_meet => principals_do_not_meet;
}

/// While the first is in flight, and when it is done; on any instance.
fn another_body_under_a_key_is_refused(fixture: &Fixture) {
    let webs = [Web::start(fixture, USUAL), Web::start(fixture, USUAL)];
    let first = held_before("77");
    let other = Ask {
        body: r#"{"folio": 8}"#,
        ..first.clone()
    };
    let _inside = fixture.runtime.enter();
    let client = Client::new();
    let refused = || {
        for web in &webs {
            let response = fixture.runtime.block_on(client.ask(web, &other));
            assert_eq!(response.problem(), problem(422, "mismatch"));
        }
    };
    let response = client.asking(&webs[0], &first);
    webs[0].held();
    refused();
    webs[0].go();
    let response = fixture.runtime.block_on(response).unwrap().unwrap();
    assert_eq!(response.paid(), (webs[0].pid(), 1));
    refused();
    assert_eq!((fixture.ran().len(), fixture.effects().len()), (1, 1));
}

fn principals_do_not_meet(fixture: &Fixture) {
    let web = Web::start(fixture, USUAL);
    let of = |principal| Ask {
        principal,
        ..pay("77")
    };
    let client = Client::new();
    let ask = |principal| fixture.runtime.block_on(client.ask(&web, &of(principal)));
    for is_replayed in [false, true] {
        for principal in ["ana", "eva"] {
            let response = ask(principal);
            assert_eq!(response.paid(), (web.pid(), 1));
            assert_eq!(response.is_replayed(), is_replayed, "{principal}");
        }
    }
    assert_eq!(fixture.ran().len(), 2);
}
