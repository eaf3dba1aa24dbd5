//! An instance that was paused for longer than its lease continues and responds as if nothing had happened.

use turno::once::OnceState;

use crate::client::{Ask, Client, Told, held_before, problem};
use crate::on_each_store;
use crate::place::Place;
use crate::web::{How, SHORT, Web};

on_each_store! {
    its_answer_is_refused => its_answer_is_refused;
    its_effect_is_refused => its_effect_is_refused;
    /// The control: an answer that is stored without its token replaces the valid one.
    without_its_token_it_is_not => without_its_token_it_is_not;
}

/// A paused instance and the one that has taken over its work.
struct Both {
    zombie: Web,
    next: Web,
    ask: Ask,
    /// Response to the client of the paused instance.
    late: Told,
}

impl Both {
    /// Returns the response to a repetition of the request.
    fn again(&self, place: &Place) -> Told {
        let told = place
            .runtime
            .block_on(Client::new().ask(&self.next, &self.ask));
        assert!(told.is_replayed(), "{told:?}");
        told
    }
}

fn paused(place: &Place, ending: &'static str) -> Both {
    let how = How {
        ending,
        unknown: "rerun",
        ..SHORT
    };
    let ask = held_before("77");
    let _inside = place.runtime.enter();
    let (zombie, next) = (Web::start(&place.url, how), Web::start(&place.url, how));
    let client = Client::new();
    let late = client.asking(&zombie, &ask);
    zombie.held();
    zombie.process().stop();
    place.await_state(OnceState::Unknown);
    let told = place.runtime.block_on(client.ask(&next, &ask));
    assert_eq!((told.paid(), told.is_replayed()), ((next.pid(), 2), false));

    zombie.process().cont();
    zombie.go();
    let late = place.runtime.block_on(late).unwrap().unwrap();
    Both {
        zombie,
        next,
        ask,
        late,
    }
}

fn its_answer_is_refused(place: &Place) {
    let both = paused(place, "plain");
    assert_eq!(both.late.problem(), problem(409, "stale"));
    assert_eq!(both.again(place).paid(), (both.next.pid(), 2));
    let known = place.known();
    assert_eq!((known.state, known.late), (OnceState::Done, 1), "{known:?}");
    println!("{}: {}", place.name, both.zombie.counts());
}

/// Effect and answer are committed together: neither of them is stored.
fn its_effect_is_refused(place: &Place) {
    let both = paused(place, "effect");
    assert_eq!(both.late.status, 500);
    assert_eq!(both.again(place).paid(), (both.next.pid(), 2));
    let paid: Vec<_> = place.effects().iter().map(|effect| effect.pid).collect();
    assert_eq!(paid, [both.next.pid()]);
}

fn without_its_token_it_is_not(place: &Place) {
    let both = paused(place, "naive");
    assert_eq!(both.again(place).paid(), (both.zombie.pid(), 1));
}
