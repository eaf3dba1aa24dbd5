//! The instance that does the work is killed during the work.

use turno::once::OnceState;
use turno_testkit::eventually;
use turno_testkit::history::once::EFFECTS;
use turno_testkit::on_each_store;

use crate::LONG;
use crate::client::{Ask, Client, held_after, held_before, problem};
use crate::fixture::Fixture;
use crate::web::{Options, SHORT, Web};

on_each_store! {
    the_next_one_is_refused => the_next_one_is_refused;
    the_next_one_does_it_again => the_next_one_does_it_again;
    a_waiting_request_takes_it_over => a_waiting_request_takes_it_over;
    a_probe_finds_that_it_was_done => a_probe_finds_that_it_was_done;
    a_probe_finds_that_it_was_not_done => a_probe_finds_that_it_was_not_done;
    /// The control: without a probe, a payment that was made before the kill is made again.
    without_a_probe_it_is_done_twice => without_a_probe_it_is_done_twice;
    /// Not repeated either if the answer is committed together with the effect.
    an_answer_that_came_with_its_effect_is_given => an_answer_that_came_with_its_effect_is_given;
}

/// Kills an instance while a handler is paused. Returns another instance, and the id of the killed one.
fn killed(fixture: &Fixture, options: Options, ask: &Ask) -> (Web, i64) {
    let _inside = fixture.runtime.enter();
    let victim = Web::start(fixture, options);
    let cut_off = Client::new().asking(&victim, ask);
    assert_eq!(victim.held(), ask.key);
    victim.process().kill_9();
    assert_eq!(fixture.runtime.block_on(cut_off).unwrap(), None);
    (Web::start(fixture, options), victim.pid())
}

/// Returns the response to the next request after the lease of the killed instance has expired.
fn next(fixture: &Fixture, options: Options, ask: Ask) -> (Web, i64, crate::client::Response) {
    let (web, victim) = killed(fixture, options, &ask);
    fixture.await_state(OnceState::Unknown);
    let response = fixture.runtime.block_on(Client::new().ask(&web, &ask));
    (web, victim, response)
}

fn the_next_one_is_refused(fixture: &Fixture) {
    let ask = held_before("77");
    let (web, _) = killed(fixture, SHORT, &ask);
    fixture.await_state(OnceState::Unknown);
    for _ in 0..2 {
        let response = fixture.runtime.block_on(Client::new().ask(&web, &ask));
        assert_eq!(response.problem(), problem(409, "unknown"));
    }
    assert_eq!(fixture.violations(), []);
}

const RERUN: Options = Options {
    unknown: "rerun",
    ..SHORT
};

fn the_next_one_does_it_again(fixture: &Fixture) {
    let (web, _, response) = next(fixture, RERUN, held_before("77"));
    assert_eq!(
        (response.paid(), response.is_replayed()),
        ((web.pid(), 2), false)
    );
    assert_eq!(fixture.violations(), []);
}

fn a_waiting_request_takes_it_over(fixture: &Fixture) {
    let options = Options {
        in_flight: "wait",
        ..RERUN
    };
    let ask = held_before("77");
    let _inside = fixture.runtime.enter();
    let (victim, web) = (Web::start(fixture, options), Web::start(fixture, options));
    let client = Client::new();
    let cut_off = client.asking(&victim, &ask);
    victim.held();
    let waiting = [&web; 5].map(|web| client.asking(web, &ask));
    eventually(LONG, "all of them to wait", || {
        (web.arrived() == 5).then_some(())
    });
    victim.process().kill_9();
    assert_eq!(fixture.runtime.block_on(cut_off).unwrap(), None);
    let responses = waiting.map(|one| fixture.runtime.block_on(one).unwrap().unwrap());
    assert!(
        responses
            .iter()
            .all(|response| response.paid() == (web.pid(), 2))
    );
    let replayed = responses
        .iter()
        .filter(|response| response.is_replayed())
        .count();
    assert_eq!((replayed, fixture.violations()), (4, vec![]));
}

/// The answer of a probe is not in the history of the instances.
const PROBE: Options = Options {
    unknown: "probe",
    ..SHORT
};

fn a_probe_finds_that_it_was_done(fixture: &Fixture) {
    let (_web, victim, response) = next(fixture, PROBE, held_after("77"));
    assert_eq!(
        (response.paid(), response.is_replayed()),
        ((victim, 1), true)
    );
    assert_eq!((fixture.ran().len(), fixture.effects().len()), (1, 1));
}

fn a_probe_finds_that_it_was_not_done(fixture: &Fixture) {
    let (web, _, response) = next(fixture, PROBE, held_before("77"));
    assert_eq!(
        (response.paid(), response.is_replayed()),
        ((web.pid(), 2), false)
    );
    assert_eq!((fixture.ran().len(), fixture.effects().len()), (2, 1));
}

fn without_a_probe_it_is_done_twice(fixture: &Fixture) {
    let (web, _, response) = next(fixture, RERUN, held_after("77"));
    assert_eq!(response.paid(), (web.pid(), 2));
    assert!(fixture.breaks_only(EFFECTS));
}

fn an_answer_that_came_with_its_effect_is_given(fixture: &Fixture) {
    let options = Options {
        ending: "effect",
        ..RERUN
    };
    let ask = held_after("77");
    let (web, victim) = killed(fixture, options, &ask);
    let response = fixture.runtime.block_on(Client::new().ask(&web, &ask));
    assert_eq!(
        (response.paid(), response.is_replayed()),
        ((victim, 1), true)
    );
    assert_eq!(fixture.violations(), []);
}
