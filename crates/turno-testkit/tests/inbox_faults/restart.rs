//! A server that is killed and restarted under load: acknowledged items are processed once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use turno_testkit::faults::FromStore as _;
use turno_testkit::history::{self, Violation, inbox};
use turno_testkit::load::steady_us;
use turno_testkit::{PostgresServer, eventually};

use crate::LONG;
use crate::fixture::{Fixture, item, record_push};
use crate::worker::{EFFECT, Worker};

const WORKERS: usize = 4;
const PUSHERS: usize = 4;
const CRASHES: usize = 3;
/// A crash loses little: only what was still in the server's own memory. Hence several crashes.
const FORGETFUL_CRASHES: usize = 8;
/// Number of pushed and of processed items between two crashes.
const BETWEEN: u64 = 300;

#[test]
fn what_was_acknowledged_is_done_once() {
    let server = PostgresServer::start().unwrap();
    assert_eq!(crashed(&server, CRASHES), []);
}

/// The control: a server that acknowledges commits before they are written loses some of them, and the test detects that.
#[test]
fn unwritten_commits_are_lost() {
    let forgetful = [("synchronous_commit", "off"), ("wal_writer_delay", "10s")];
    let server = PostgresServer::start_with(&forgetful).unwrap();
    let violations = crashed(&server, FORGETFUL_CRASHES);
    let is_lost = |broken: &Violation| broken.promise == inbox::NOT_LOST;
    assert!(violations.iter().any(is_lost), "{violations:?}");
}

/// Runs pushers and workers on a server that is killed repeatedly. Returns the violations.
fn crashed(server: &PostgresServer, crashes: usize) -> Vec<Violation> {
    let fixture = Fixture::on(server);
    let workers: Vec<Worker> = (0..WORKERS)
        .map(|_| Worker::start(&fixture, EFFECT))
        .collect();
    let pushing = Pushing::start(&fixture);
    let mut crashes_us = Vec::new();
    for crash in 0..crashes {
        pushing.await_progress(&fixture, &format!("load before crash {crash}"));
        crashes_us.push(steady_us());
        server.kill_9().expect("the server can be killed");
        server.restart().expect("the server recovers");
    }
    pushing.await_progress(&fixture, "load after the last crash");
    pushing.stop(&fixture);
    fixture.await_stats("an empty queue", |stats| {
        stats.pending + stats.scheduled + stats.processing == 0
    });
    assert_eq!(fixture.stats().failed, 0);
    for worker in &workers {
        let ended = worker.process().wait_timeout(Duration::ZERO);
        assert!(ended.is_none(), "a worker gave up: {ended:?}");
    }
    fixture.violations(crashes_us)
}

struct Pushing {
    acknowledged: Arc<AtomicU64>,
    stop: CancellationToken,
    pushers: JoinSet<()>,
}

impl Pushing {
    fn start(fixture: &Fixture) -> Self {
        let acknowledged: Arc<AtomicU64> = Arc::default();
        let stop = CancellationToken::new();
        let mut pushers = JoinSet::new();
        for pusher in 0..PUSHERS {
            let (queue, recorder) = (fixture.inbox(), fixture.recorder.clone());
            let (acknowledged, stop) = (acknowledged.clone(), stop.clone());
            let push = async move {
                for number in 0.. {
                    if stop.is_cancelled() {
                        return;
                    }
                    // A name and not the item's id: a server that loses commits gives the id to another item.
                    let payload = format!("work {pusher}-{number}");
                    let pending = record_push(&recorder, &payload);
                    match queue.push(item(&payload)).await {
                        Ok(pushed) => {
                            let item = pushed.id.0;
                            pending.answer(history::Answer::Inbox(inbox::Answer::Pushed { item }));
                            acknowledged.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => pending.failed(&error),
                    }
                }
            };
            pushers.spawn_on(push, fixture.runtime.handle());
        }
        Self {
            acknowledged,
            stop,
            pushers,
        }
    }

    /// Waits until pushes are acknowledged and items are processed.
    #[track_caller]
    fn await_progress(&self, fixture: &Fixture, what: &str) {
        let acknowledged = || self.acknowledged.load(Ordering::Relaxed);
        let done = || fixture.stats().completed;
        let (enough_pushed, enough_done) = (acknowledged() + BETWEEN, done() + BETWEEN);
        eventually(LONG, what, || {
            (acknowledged() >= enough_pushed && done() >= enough_done).then_some(())
        });
    }

    fn stop(self, fixture: &Fixture) {
        self.stop.cancel();
        fixture.runtime.block_on(self.pushers.join_all());
    }
}
