//! An instance that was paused for longer than its lease continues and responds as if nothing had happened.

use turno::once::OnceState;

use turno_testkit::history::once::{EFFECTS, ONE_ANSWER};
use turno_testkit::on_each_store;

use crate::client::{Ask, Client, Response, held_before, problem};
use crate::fixture::Fixture;
use crate::web::{Options, SHORT, Web};

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
    late: Response,
}

impl Both {
    /// Returns the response to a repetition of the request.
    fn again(&self, fixture: &Fixture) -> Response {
        let response = fixture
            .runtime
            .block_on(Client::new().ask(&self.next, &self.ask));
        assert!(response.is_replayed(), "{response:?}");
        response
    }
}

fn paused(fixture: &Fixture, ending: &'static str) -> Both {
    let options = Options {
        ending,
        unknown: "rerun",
        ..SHORT
    };
    let ask = held_before("77");
    let _inside = fixture.runtime.enter();
    let (zombie, next) = (Web::start(fixture, options), Web::start(fixture, options));
    let client = Client::new();
    let late = client.asking(&zombie, &ask);
    zombie.held();
    zombie.process().stop();
    fixture.await_state(OnceState::Unknown);
    let response = fixture.runtime.block_on(client.ask(&next, &ask));
    assert_eq!(
        (response.paid(), response.is_replayed()),
        ((next.pid(), 2), false)
    );

    zombie.process().cont();
    zombie.go();
    let late = fixture.runtime.block_on(late).unwrap().unwrap();
    Both {
        zombie,
        next,
        ask,
        late,
    }
}

fn its_answer_is_refused(fixture: &Fixture) {
    let both = paused(fixture, "plain");
    assert_eq!(both.late.problem(), problem(409, "stale"));
    assert_eq!(both.again(fixture).paid(), (both.next.pid(), 2));
    // Its effect is not in the transaction of the answer.
    assert!(fixture.breaks_only(EFFECTS));
    let known = fixture.known();
    assert_eq!((known.state, known.late), (OnceState::Done, 1), "{known:?}");
    println!("{}: {}", fixture.name, both.zombie.counts());
}

/// Effect and answer are committed together: neither of them is stored.
fn its_effect_is_refused(fixture: &Fixture) {
    let both = paused(fixture, "effect");
    assert_eq!(both.late.status, 500);
    assert_eq!(both.again(fixture).paid(), (both.next.pid(), 2));
    assert_eq!(fixture.violations(), []);
}

fn without_its_token_it_is_not(fixture: &Fixture) {
    let both = paused(fixture, "naive");
    assert_eq!(both.again(fixture).paid(), (both.zombie.pid(), 1));
    let violations = fixture.violations();
    assert!(violations.iter().any(|broken| broken.promise == ONE_ANSWER));
}
