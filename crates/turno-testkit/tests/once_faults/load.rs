//! Clients that time out and retry, with instances that are killed repeatedly: each effect happens exactly once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use turno_testkit::eventually;

use crate::client::{Ask, Client, held_after, held_before, pay};
use crate::place::Place;
use crate::web::{How, SHORT, Web};
use crate::{LONG, on_each_store};

const KEYS: usize = 200;
/// Number of clients per key.
const CLIENTS: usize = 10;
/// Maximum number of concurrent requests.
const AT_ONCE: usize = 100;
const INSTANCES: usize = 3;
/// Number of instances that are killed and replaced.
const KILLS: usize = 10;
/// Timeout after which a client repeats its request.
const PATIENCE: Duration = Duration::from_millis(500);
/// Pause before that.
const BACK_OFF: Duration = Duration::from_millis(5);

on_each_store! {
    effects_happen_exactly_once => |place: &Place| {
        let outcome = load(place, "effect");
        assert_eq!((outcome.lost, outcome.doubled), (0, 0));
    };
    /// The control: an effect that is not committed together with its answer is repeated.
    effects_beside_their_answers_are_repeated => |place: &Place| {
        let outcome = load(place, "plain");
        assert!(outcome.doubled > 0);
        assert_eq!(outcome.lost, 0);
    };
}

struct Outcome {
    /// Keys with an answer and without an effect.
    lost: usize,
    /// Keys with more than one effect.
    doubled: usize,
}

/// Returns the request for a key. One request of each stage is paused at the worst moment, and its instance is killed then:
/// alternately before it has paid, and after it has paid but not yet responded.
fn asked(stage: usize, number: usize) -> Ask {
    let key = format!("k{stage}-{number}");
    match number {
        0 if stage.is_multiple_of(2) => held_before(key),
        0 => held_after(key),
        _ => pay(key),
    }
}

fn load(place: &Place, ending: &'static str) -> Outcome {
    let how = How {
        ending,
        in_flight: "wait",
        unknown: "rerun",
        ..SHORT
    };
    let mut webs: Vec<Web> = (0..INSTANCES)
        .map(|_| Web::start(&place.url, how))
        .collect();
    let began = Instant::now();
    let mut clients = Clients::new(&webs);
    for stage in 0..KILLS {
        clients.start(place, stage);
        let victim = eventually(LONG, "a handler to be held", || {
            webs.iter().position(|web| {
                let line = web.process().lines().next(Duration::ZERO);
                line.is_some_and(|line| line.starts_with("held "))
            })
        });
        webs[victim].process().kill_9();
        webs[victim] = Web::start(&place.url, how);
        clients.ports[victim].store(webs[victim].port(), Ordering::Relaxed);
    }
    let answers = clients.end(place);
    judge(place, ending, &answers, began)
}

struct Clients {
    client: Client,
    ports: Arc<Vec<AtomicU16>>,
    turns: Arc<Semaphore>,
    asking: JoinSet<()>,
    answers: Arc<Mutex<HashMap<String, Vec<String>>>>,
    tries: Arc<AtomicUsize>,
}

/// Responses to the clients.
struct Answers {
    of_key: HashMap<String, Vec<String>>,
    tries: usize,
}

impl Clients {
    fn new(webs: &[Web]) -> Self {
        let ports: Vec<AtomicU16> = webs.iter().map(|web| AtomicU16::new(web.port())).collect();
        Clients {
            client: Client::new(),
            ports: Arc::new(ports),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            asking: JoinSet::new(),
            answers: Arc::default(),
            tries: Arc::default(),
        }
    }

    /// Starts clients, each of which retries until it has its answer, on any instance.
    fn start(&mut self, place: &Place, stage: usize) {
        for number in 0..KEYS / KILLS * CLIENTS {
            // Requests of one key follow each other closely.
            let ask = asked(stage, number / CLIENTS);
            let (client, ports) = (self.client.clone(), self.ports.clone());
            let (turns, tries) = (self.turns.clone(), self.tries.clone());
            let answers = self.answers.clone();
            let insist = async move {
                let _turn = turns.acquire().await.unwrap();
                let end = Instant::now() + LONG;
                let told = loop {
                    assert!(Instant::now() < end, "{} is not answered", ask.key);
                    let next = tries.fetch_add(1, Ordering::Relaxed);
                    let port = ports[next % INSTANCES].load(Ordering::Relaxed);
                    let told = client.ask_within(port, &ask, PATIENCE).await;
                    if let Some(told) = told.filter(|told| told.status == 200) {
                        break told;
                    }
                    // As clients do: an instance that is being replaced is not available immediately.
                    tokio::time::sleep(BACK_OFF).await;
                };
                let body = String::from_utf8(told.body.to_vec()).unwrap();
                let mut answers = answers.lock().unwrap();
                answers.entry(ask.key).or_default().push(body);
            };
            self.asking.spawn_on(insist, place.runtime.handle());
        }
    }

    fn end(self, place: &Place) -> Answers {
        place.runtime.block_on(self.asking.join_all());
        Answers {
            of_key: std::mem::take(&mut self.answers.lock().unwrap()),
            tries: self.tries.load(Ordering::Relaxed),
        }
    }
}

fn judge(place: &Place, ending: &str, answers: &Answers, began: Instant) -> Outcome {
    let mut effects: HashMap<String, usize> = HashMap::new();
    for effect in place.effects() {
        *effects.entry(effect.key).or_default() += 1;
    }
    let of_key = &answers.of_key;
    let outcome = Outcome {
        lost: of_key
            .keys()
            .filter(|key| !effects.contains_key(*key))
            .count(),
        doubled: effects.values().filter(|count| **count > 1).count(),
    };
    println!(
        "{}, {ending}: {} requests over {KEYS} keys in {} tries and {:?}, with {KILLS} kills: {} runs, {} lost, {} doubled",
        place.name,
        KEYS * CLIENTS,
        answers.tries,
        began.elapsed(),
        place.ran().len(),
        outcome.lost,
        outcome.doubled
    );
    assert_eq!(of_key.len(), KEYS);
    for (key, told) in of_key {
        assert_eq!(told.len(), CLIENTS, "{key}");
        assert!(told.iter().all(|one| *one == told[0]), "{key}: {told:?}");
    }
    outcome
}
