//! Requests that only look the same: they are not processed, and get no answer of another request.

use crate::client::{Ask, Client, held_before, pay, problem};
use crate::on_each_store;
use crate::place::Place;
use crate::web::{USUAL, Web};

on_each_store! {
    another_body_under_a_key_is_refused => another_body_under_a_key_is_refused;
    principals_do_not_meet => principals_do_not_meet;
}

/// While the first is in flight, and when it is done; on any instance.
fn another_body_under_a_key_is_refused(place: &Place) {
    let webs = [Web::start(&place.url, USUAL), Web::start(&place.url, USUAL)];
    let first = held_before("77");
    let other = Ask {
        body: r#"{"folio": 8}"#,
        ..first.clone()
    };
    let _inside = place.runtime.enter();
    let client = Client::new();
    let refused = || {
        for web in &webs {
            let told = place.runtime.block_on(client.ask(web, &other));
            assert_eq!(told.problem(), problem(422, "mismatch"));
        }
    };
    let told = client.asking(&webs[0], &first);
    webs[0].held();
    refused();
    webs[0].go();
    let told = place.runtime.block_on(told).unwrap().unwrap();
    assert_eq!(told.paid(), (webs[0].pid(), 1));
    refused();
    assert_eq!((place.ran().len(), place.effects().len()), (1, 1));
}

fn principals_do_not_meet(place: &Place) {
    let web = Web::start(&place.url, USUAL);
    let of = |principal| Ask {
        principal,
        ..pay("77")
    };
    let client = Client::new();
    let ask = |principal| place.runtime.block_on(client.ask(&web, &of(principal)));
    for is_replayed in [false, true] {
        for principal in ["ana", "eva"] {
            let told = ask(principal);
            assert_eq!(told.paid(), (web.pid(), 1));
            assert_eq!(told.is_replayed(), is_replayed, "{principal}");
        }
    }
    assert_eq!(place.ran().len(), 2);
}
