//! A worker that was paused for longer than its claim continues as if nothing had happened.

use turno_testkit::history::inbox;
use turno_testkit::on_each_store;

use crate::fixture::{Fixture, item};
use crate::worker::{ONE, Options, Report, Worker};

on_each_store! {
    its_completion_is_refused => its_completion_is_refused;
    /// The control: a worker that completes items without its claim processes each one twice.
    without_its_claim_it_is_not => without_its_claim_it_is_not;
}

fn its_completion_is_refused(fixture: &Fixture) {
    let (zombie, item) = paused(fixture, ONE);
    zombie.go();
    assert_eq!(zombie.outcome(), format!("refused {item}"));
    assert_eq!(fixture.violations(Vec::new()), []);
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
    let (zombie, item) = paused(fixture, naive);
    zombie.go();
    assert_eq!(zombie.outcome(), format!("written {item}"));
    let violations = fixture.violations(Vec::new());
    let is_doubled = violations
        .iter()
        .any(|broken| broken.promise == inbox::ONCE);
    assert!(is_doubled, "{violations:?}");
}

/// Stops a worker with an item in flight, and continues it after another worker has completed the item. Returns the first
/// worker and the item.
fn paused(fixture: &Fixture, options: Options) -> (Worker, i64) {
    let item = fixture.push_recorded(["held"], item)[0].0;
    let zombie = Worker::start(fixture, options);
    assert_eq!(zombie.began(), (item, 1));
    zombie.process().stop();

    let next = Worker::start(fixture, options);
    assert_eq!(next.began(), (item, 2));
    next.go();
    assert_eq!(next.outcome(), format!("written {item}"));
    next.process().term();
    let Report { failed, .. } = next.report();
    assert_eq!(failed, 0);

    zombie.process().cont();
    (zombie, item)
}
