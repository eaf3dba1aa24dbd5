//! A server that is killed and restarted under load: acknowledged items are processed once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use turno_testkit::faults::FromStore as _;
use turno_testkit::{PostgresServer, eventually};

use crate::LONG;
use crate::fixture::{Fixture, item};
use crate::worker::{EFFECT, Worker};

const WORKERS: usize = 4;
const PUSHERS: usize = 4;
const CRASHES: usize = 3;
/// A crash loses little: only what was still in the server's own memory. Hence several crashes.
const FORGETFUL_CRASHES: usize = 8;
/// Number of pushed and of processed items between two crashes.
const BETWEEN: usize = 300;

#[test]
fn what_was_acknowledged_is_done_once() {
    let server = PostgresServer::start().unwrap();
    let outcome = crashed(&server, CRASHES);
    assert!(
        outcome.lost.is_empty() && outcome.doubled.is_empty(),
        "{outcome:?}"
    );
}

/// The control: a server that acknowledges commits before they are written loses some of them, and the test detects that.
#[test]
fn unwritten_commits_are_lost() {
    let forgetful = [("synchronous_commit", "off"), ("wal_writer_delay", "10s")];
    let server = PostgresServer::start_with(&forgetful).unwrap();
    let outcome = crashed(&server, FORGETFUL_CRASHES);
    assert!(!outcome.lost.is_empty());
}

#[derive(Debug)]
struct Outcome {
    /// Acknowledged, and never processed.
    lost: Vec<String>,
    /// Processed more than once.
    doubled: Vec<String>,
}

/// Runs pushers and workers on a server that is killed repeatedly.
fn crashed(server: &PostgresServer, crashes: usize) -> Outcome {
    let fixture = Fixture::on(server);
    let workers: Vec<Worker> = (0..WORKERS)
        .map(|_| Worker::start(&fixture.url, EFFECT))
        .collect();
    let pushing = Pushing::start(&fixture);
    for crash in 0..crashes {
        pushing.await_progress(&fixture, &format!("load before crash {crash}"));
        server.kill_9().expect("the server can be killed");
        server.restart().expect("the server recovers");
    }
    pushing.await_progress(&fixture, "load after the last crash");
    let pushed = pushing.stop(&fixture);
    fixture.await_stats("an empty queue", |stats| {
        stats.pending + stats.scheduled + stats.processing == 0
    });
    for worker in &workers {
        let ended = worker.process().wait_timeout(Duration::ZERO);
        assert!(ended.is_none(), "a worker gave up: {ended:?}");
    }
    judge(&fixture, pushed)
}

fn judge(fixture: &Fixture, pushed: Pushed) -> Outcome {
    let mut done: HashMap<String, usize> = HashMap::new();
    for effect in fixture.effects() {
        *done.entry(effect.payload).or_default() += 1;
    }
    println!(
        "{} pushes acknowledged, {} answered unavailable, {} items done",
        pushed.acknowledged.len(),
        pushed.unanswered,
        done.len()
    );
    let many = |(payload, count): (&String, &usize)| (*count > 1).then(|| payload.clone());
    Outcome {
        doubled: done.iter().filter_map(many).collect(),
        lost: pushed
            .acknowledged
            .into_iter()
            .filter(|payload| !done.contains_key(payload))
            .collect(),
    }
}

/// Responses to the pushers.
#[derive(Debug, Default)]
struct Pushed {
    acknowledged: Vec<String>,
    unanswered: usize,
}

struct Pushing {
    pushed: Arc<Mutex<Pushed>>,
    stop: CancellationToken,
    pushers: JoinSet<()>,
}

impl Pushing {
    fn start(fixture: &Fixture) -> Self {
        let pushed: Arc<Mutex<Pushed>> = Arc::default();
        let stop = CancellationToken::new();
        let mut pushers = JoinSet::new();
        for pusher in 0..PUSHERS {
            let (inbox, pushed, stop) = (fixture.inbox(), pushed.clone(), stop.clone());
            let push = async move {
                for number in 0.. {
                    if stop.is_cancelled() {
                        return;
                    }
                    // A name and not the item's id: a server that loses commits gives the id to another item.
                    let payload = format!("work {pusher}-{number}");
                    let answer = inbox.push(item(&payload)).await;
                    let mut pushed = pushed.lock().unwrap();
                    match answer {
                        Ok(_) => pushed.acknowledged.push(payload),
                        Err(error) if error.is_unavailable() => pushed.unanswered += 1,
                        Err(error) => panic!("{error:?}"),
                    }
                }
            };
            pushers.spawn_on(push, fixture.runtime.handle());
        }
        Self {
            pushed,
            stop,
            pushers,
        }
    }

    /// Waits until pushes are acknowledged and items are processed.
    #[track_caller]
    fn await_progress(&self, fixture: &Fixture, what: &str) {
        let acknowledged = || self.pushed.lock().unwrap().acknowledged.len();
        let done = || fixture.stats().completed;
        let (enough_pushed, enough_done) = (acknowledged() + BETWEEN, done() + BETWEEN as u64);
        eventually(LONG, what, || {
            (acknowledged() >= enough_pushed && done() >= enough_done).then_some(())
        });
    }

    fn stop(self, fixture: &Fixture) -> Pushed {
        self.stop.cancel();
        fixture.runtime.block_on(self.pushers.join_all());
        std::mem::take(&mut *self.pushed.lock().unwrap())
    }
}
