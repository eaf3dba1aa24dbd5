//! The instance that does the work is killed during the work.

use turno::once::OnceState;
use turno_testkit::eventually;

use crate::client::{Ask, Client, held_after, held_before, problem};
use crate::place::Place;
use crate::web::{How, SHORT, Web};
use crate::{LONG, on_each_store};

on_each_store! {
    the_next_one_is_refused => the_next_one_is_refused;
    the_next_one_does_it_again => the_next_one_does_it_again;
    whoever_waits_takes_it_over => whoever_waits_takes_it_over;
    a_probe_finds_that_it_was_done => a_probe_finds_that_it_was_done;
    a_probe_finds_that_it_was_not_done => a_probe_finds_that_it_was_not_done;
    /// The control: without a probe, a payment that was made before the kill is made again.
    without_a_probe_it_is_done_twice => without_a_probe_it_is_done_twice;
    /// Not repeated either if the answer is committed together with the effect.
    an_answer_that_came_with_its_effect_is_given => an_answer_that_came_with_its_effect_is_given;
}

/// Kills an instance while a handler is paused. Returns another instance, and the id of the killed one.
fn killed(place: &Place, how: How, ask: &Ask) -> (Web, i64) {
    let _inside = place.runtime.enter();
    let victim = Web::start(&place.url, how);
    let cut_off = Client::new().asking(&victim, ask);
    assert_eq!(victim.held(), ask.key);
    victim.process().kill_9();
    assert_eq!(place.runtime.block_on(cut_off).unwrap(), None);
    (Web::start(&place.url, how), victim.pid())
}

/// Returns the response to the next request after the lease of the killed instance has expired.
fn next(place: &Place, how: How, ask: Ask) -> (Web, i64, crate::client::Told) {
    let (web, victim) = killed(place, how, &ask);
    place.await_state(OnceState::Unknown);
    let told = place.runtime.block_on(Client::new().ask(&web, &ask));
    (web, victim, told)
}

fn the_next_one_is_refused(place: &Place) {
    let ask = held_before("77");
    let (web, victim) = killed(place, SHORT, &ask);
    place.await_state(OnceState::Unknown);
    for _ in 0..2 {
        let told = place.runtime.block_on(Client::new().ask(&web, &ask));
        assert_eq!(told.problem(), problem(409, "unknown"));
    }
    let ran = place.ran();
    assert_eq!((ran.len(), ran[0].pid), (1, victim));
}

const RERUN: How = How {
    unknown: "rerun",
    ..SHORT
};

fn the_next_one_does_it_again(place: &Place) {
    let (web, victim, told) = next(place, RERUN, held_before("77"));
    assert_eq!((told.paid(), told.is_replayed()), ((web.pid(), 2), false));
    let ran: Vec<_> = place
        .ran()
        .iter()
        .map(|ran| (ran.pid, ran.attempt))
        .collect();
    assert_eq!(ran, [(victim, 1), (web.pid(), 2)]);
    assert_eq!(place.effects().len(), 1);
}

fn whoever_waits_takes_it_over(place: &Place) {
    let how = How {
        in_flight: "wait",
        ..RERUN
    };
    let ask = held_before("77");
    let _inside = place.runtime.enter();
    let (victim, web) = (Web::start(&place.url, how), Web::start(&place.url, how));
    let client = Client::new();
    let cut_off = client.asking(&victim, &ask);
    victim.held();
    let waiting = [&web; 5].map(|web| client.asking(web, &ask));
    eventually(LONG, "all of them to wait", || {
        (web.arrived() == 5).then_some(())
    });
    victim.process().kill_9();
    assert_eq!(place.runtime.block_on(cut_off).unwrap(), None);
    let told = waiting.map(|one| place.runtime.block_on(one).unwrap().unwrap());
    assert!(told.iter().all(|told| told.paid() == (web.pid(), 2)));
    let replayed = told.iter().filter(|told| told.is_replayed()).count();
    assert_eq!((replayed, place.effects().len()), (4, 1));
}

const PROBE: How = How {
    unknown: "probe",
    ..SHORT
};

fn a_probe_finds_that_it_was_done(place: &Place) {
    let (_web, victim, told) = next(place, PROBE, held_after("77"));
    assert_eq!((told.paid(), told.is_replayed()), ((victim, 1), true));
    assert_eq!((place.ran().len(), place.effects().len()), (1, 1));
}

fn a_probe_finds_that_it_was_not_done(place: &Place) {
    let (web, _, told) = next(place, PROBE, held_before("77"));
    assert_eq!((told.paid(), told.is_replayed()), ((web.pid(), 2), false));
    assert_eq!((place.ran().len(), place.effects().len()), (2, 1));
}

fn without_a_probe_it_is_done_twice(place: &Place) {
    let (web, victim, told) = next(place, RERUN, held_after("77"));
    assert_eq!(told.paid(), (web.pid(), 2));
    let paid: Vec<_> = place.effects().iter().map(|effect| effect.pid).collect();
    assert_eq!(paid, [victim, web.pid()]);
}

fn an_answer_that_came_with_its_effect_is_given(place: &Place) {
    let how = How {
        ending: "effect",
        ..RERUN
    };
    let ask = held_after("77");
    let (web, victim) = killed(place, how, &ask);
    let told = place.runtime.block_on(Client::new().ask(&web, &ask));
    assert_eq!((told.paid(), told.is_replayed()), ((victim, 1), true));
    assert_eq!((place.ran().len(), place.effects().len()), (1, 1));
}
