//! A worker that was paused for longer than its claim continues as if nothing had happened.

use turno_testkit::on_each_store;

use crate::fixture::{Effect, Fixture, item};
use crate::worker::{ONE, Options, Report, Worker};

on_each_store! {
    its_completion_is_refused => its_completion_is_refused;
    /// The control: a worker that completes items without its claim processes each one twice.
    without_its_claim_it_is_not => without_its_claim_it_is_not;
}

fn its_completion_is_refused(fixture: &Fixture) {
    let (zombie, next) = paused(fixture, ONE);
    zombie.go();
    assert_eq!(zombie.outcome(), format!("refused {}", next.item));
    assert_eq!(fixture.effects(), [next]);
    zombie.process().term();
    let report = zombie.report();
    assert_eq!((report.completed, report.failed, report.lost), (0, 0, 1));
    let stats = fixture.stats();
    assert_eq!((stats.total, stats.completed), (1, 1), "{stats:?}");
    assert_eq!(fixture.completions().len(), 1);
}

fn without_its_claim_it_is_not(fixture: &Fixture) {
    let naive = Options {
        ending: "naive",
        ..ONE
    };
    let (zombie, next) = paused(fixture, naive);
    zombie.go();
    assert_eq!(zombie.outcome(), format!("written {}", next.item));
    let late = Effect {
        pid: zombie.pid(),
        attempt: 1,
        ..next.clone()
    };
    assert_eq!(fixture.effects(), [next, late]);
}

/// Stops a worker with an item in flight, and continues it after another worker has completed the item. Returns the first
/// worker and the other one's effect.
fn paused(fixture: &Fixture, options: Options) -> (Worker, Effect) {
    let item = fixture.push([item("held")])[0].0;
    let zombie = Worker::start(&fixture.url, options);
    assert_eq!(zombie.began(), (item, 1));
    zombie.process().stop();

    let next = Worker::start(&fixture.url, options);
    assert_eq!(next.began(), (item, 2));
    next.go();
    assert_eq!(next.outcome(), format!("written {item}"));
    next.process().term();
    let Report { failed, .. } = next.report();
    assert_eq!(failed, 0);

    zombie.process().cont();
    let effect = Effect {
        item,
        payload: "held".to_owned(),
        pid: next.pid(),
        attempt: 2,
    };
    (zombie, effect)
}
