//! A server that is killed and started again under load: what was acknowledged is done, once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use turno_testkit::{PostgresServer, eventually};

use crate::LONG;
use crate::place::{Place, item};
use crate::worker::{EFFECT, Worker};

const WORKERS: usize = 4;
const PUSHERS: usize = 4;
const CRASHES: usize = 3;
/// A crash forgets little: only what had not left the server's own memory.
const FORGETFUL_CRASHES: usize = 8;
/// How much is pushed, and how much is done, between two crashes.
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

/// The control: a server that acknowledges what it has not written yet forgets some of it, and that is noticed.
#[test]
fn unwritten_commits_are_lost() {
    let forgetful = [("synchronous_commit", "off"), ("wal_writer_delay", "10s")];
    let server = PostgresServer::start_with(&forgetful).unwrap();
    let outcome = crashed(&server, FORGETFUL_CRASHES);
    assert!(!outcome.lost.is_empty());
}

#[derive(Debug)]
struct Outcome {
    /// Acknowledged, and never done.
    lost: Vec<String>,
    /// Done more than once.
    doubled: Vec<String>,
}

/// Pushers and workers on a server that is killed over and over.
fn crashed(server: &PostgresServer, crashes: usize) -> Outcome {
    let place = Place::on(server);
    let workers: Vec<Worker> = (0..WORKERS)
        .map(|_| Worker::start(&place.url, EFFECT))
        .collect();
    let pushing = Pushing::start(&place);
    for crash in 0..crashes {
        pushing.await_progress(&place, &format!("load before crash {crash}"));
        server.kill_9().expect("the server can be killed");
        server.restart().expect("the server recovers");
    }
    pushing.await_progress(&place, "load after the last crash");
    let pushed = pushing.stop(&place);
    place.await_stats("an empty queue", |stats| {
        stats.pending + stats.scheduled + stats.processing == 0
    });
    for worker in &workers {
        let ended = worker.process().wait_timeout(Duration::ZERO);
        assert!(ended.is_none(), "a worker gave up: {ended:?}");
    }
    judge(&place, pushed)
}

fn judge(place: &Place, pushed: Pushed) -> Outcome {
    let mut done: HashMap<String, usize> = HashMap::new();
    for effect in place.effects() {
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

/// What pushers were told.
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
    fn start(place: &Place) -> Self {
        let pushed: Arc<Mutex<Pushed>> = Arc::default();
        let stop = CancellationToken::new();
        let mut pushers = JoinSet::new();
        for pusher in 0..PUSHERS {
            let (inbox, pushed, stop) = (place.inbox(), pushed.clone(), stop.clone());
            let push = async move {
                for number in 0.. {
                    if stop.is_cancelled() {
                        return;
                    }
                    // Its own name and not its number: a server that forgets gives the number to another.
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
            pushers.spawn_on(push, place.runtime.handle());
        }
        Self {
            pushed,
            stop,
            pushers,
        }
    }

    /// Waits until pushes are acknowledged and items are done, by themselves.
    #[track_caller]
    fn await_progress(&self, place: &Place, what: &str) {
        let acknowledged = || self.pushed.lock().unwrap().acknowledged.len();
        let done = || place.stats().completed;
        let (enough_pushed, enough_done) = (acknowledged() + BETWEEN, done() + BETWEEN as u64);
        eventually(LONG, what, || {
            (acknowledged() >= enough_pushed && done() >= enough_done).then_some(())
        });
    }

    fn stop(self, place: &Place) -> Pushed {
        self.stop.cancel();
        place.runtime.block_on(self.pushers.join_all());
        std::mem::take(&mut *self.pushed.lock().unwrap())
    }
}
