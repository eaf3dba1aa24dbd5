//! An item that kills every worker that processes it.

use turno::inbox::ItemState;
use turno_testkit::eventually;
use turno_testkit::on_each_store;

use crate::LONG;
use crate::fixture::{Fixture, item};
use crate::worker::{ONE, Worker};

const ATTEMPTS: u16 = 4;

on_each_store! {
    a_crash_loop_comes_to_an_end => a_crash_loop_comes_to_an_end;
    /// The control: without the maximum, the same item goes on to kill workers.
    without_a_maximum_it_goes_on => without_a_maximum_it_goes_on;
}

fn without_a_maximum_it_goes_on(fixture: &Fixture) {
    fixture.push_recorded(["poison"], item);
    for _ in 0..ATTEMPTS + 1 {
        let status = Worker::start(fixture, ONE).process().wait_timeout(LONG);
        assert!(!status.expect("the item kills the worker").success());
    }
    assert_eq!(fixture.stats().failed, 0);
}

/// The first attempt fails, the others end with their process; then the item is failed, and others are processed.
fn a_crash_loop_comes_to_an_end(fixture: &Fixture) {
    let limited = |payload: &str| item(payload).max_attempts(ATTEMPTS);
    let poisonous = fixture.push_recorded(["poison", "work"], limited)[0];
    let mut crashes = 0;
    let mut worker = Worker::start(fixture, ONE);
    eventually(LONG, "both items' ends", || {
        let stats = fixture.stats();
        if (stats.failed, stats.completed) == (1, 1) {
            return Some(());
        }
        if let Some(status) = worker.process().wait_timeout(std::time::Duration::ZERO) {
            assert!(!status.success(), "{status}");
            crashes += 1;
            worker = Worker::start(fixture, ONE);
        }
        None
    });
    assert_eq!(crashes, ATTEMPTS - 1);

    let failed = fixture.list(ItemState::Failed);
    let [failed] = &failed[..] else {
        panic!("{failed:?}");
    };
    assert_eq!(failed.id, poisonous);
    assert_eq!((failed.attempts, failed.abandoned), (4, 3));
    let errors: Vec<(u32, &str)> = failed
        .errors
        .iter()
        .map(|error| (error.attempt, error.kind.as_str()))
        .collect();
    let abandoned = (2..=4).map(|attempt| (attempt, "abandoned"));
    assert!(
        errors
            .iter()
            .copied()
            .eq([(1, "failed")].into_iter().chain(abandoned)),
        "{errors:?}"
    );
    assert_eq!(failed.errors[0].error, "not to be worked on");
    assert!(failed.errors[1].error.contains("vanished"));
    // The worker that marked it as failed is alive, and continues.
    assert!(
        worker
            .process()
            .wait_timeout(std::time::Duration::ZERO)
            .is_none()
    );
    // The item that is failed has no effect, and the other one has one.
    assert_eq!(fixture.violations(Vec::new()), []);
}
