//! Clients that time out and retry, with instances that are killed repeatedly: each effect happens exactly once.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use turno_testkit::eventually;
use turno_testkit::history::once::EFFECTS;
use turno_testkit::on_each_store;

use crate::LONG;
use crate::client::{Ask, Client, held_after, held_before, pay};
use crate::fixture::Fixture;
use crate::web::{Options, SHORT, Web};

const KEYS: usize = 200;
/// Number of clients per key.
const CLIENTS: usize = 10;
/// Maximum number of concurrent requests.
const AT_ONCE: usize = 100;
const INSTANCES: usize = 3;
/// Number of instances that are killed and replaced.
const KILLS: usize = 10;
/// Timeout after which a client repeats its request.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Pause before that.
const BACK_OFF: Duration = Duration::from_millis(5);

on_each_store! {
    effects_happen_exactly_once => |fixture: &Fixture| {
        load(fixture, "effect");
        assert_eq!(fixture.violations(), []);
    };
    /// The control: an effect that is not committed together with its answer is repeated.
    effects_beside_their_answers_are_repeated => |fixture: &Fixture| {
        load(fixture, "plain");
        assert!(fixture.breaks_only(EFFECTS));
        let paid: HashSet<String> = fixture.effects().into_iter().map(|row| row.key).collect();
        assert_eq!(paid.len(), KEYS);
    };
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

/// Has all requests answered, while instances are killed.
fn load(fixture: &Fixture, ending: &'static str) {
    let options = Options {
        ending,
        in_flight: "wait",
        unknown: "rerun",
        ..SHORT
    };
    let mut webs: Vec<Web> = (0..INSTANCES)
        .map(|_| Web::start(fixture, options))
        .collect();
    let began = Instant::now();
    let mut clients = Clients::new(&webs);
    for stage in 0..KILLS {
        clients.start(fixture, stage);
        let victim = eventually(LONG, "a handler to be held", || {
            webs.iter().position(|web| {
                let line = web.process().lines().next(Duration::ZERO);
                line.is_some_and(|line| line.starts_with("held "))
            })
        });
        webs[victim].process().kill_9();
        webs[victim] = Web::start(fixture, options);
        clients.ports[victim].store(webs[victim].port(), Ordering::Relaxed);
    }
    let tries = clients.end(fixture);
    println!(
        "{}, {ending}: {} requests over {KEYS} keys in {tries} tries and {:?}, with {KILLS} kills: {} runs",
        fixture.name,
        KEYS * CLIENTS,
        began.elapsed(),
        fixture.ran().len(),
    );
}

struct Clients {
    client: Client,
    ports: Arc<Vec<AtomicU16>>,
    turns: Arc<Semaphore>,
    asking: JoinSet<()>,
    tries: Arc<AtomicUsize>,
}

impl Clients {
    fn new(webs: &[Web]) -> Self {
        let ports: Vec<AtomicU16> = webs.iter().map(|web| AtomicU16::new(web.port())).collect();
        Clients {
            client: Client::new(),
            ports: Arc::new(ports),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            asking: JoinSet::new(),
            tries: Arc::default(),
        }
    }

    /// Starts clients, each of which retries until it has its answer, on any instance.
    fn start(&mut self, fixture: &Fixture, stage: usize) {
        for number in 0..KEYS / KILLS * CLIENTS {
            // Requests of one key follow each other closely.
            let ask = asked(stage, number / CLIENTS);
            let (client, ports) = (self.client.clone(), self.ports.clone());
            let (turns, tries) = (self.turns.clone(), self.tries.clone());
            let insist = async move {
                let _turn = turns.acquire().await.unwrap();
                let end = Instant::now() + LONG;
                loop {
                    assert!(Instant::now() < end, "{} is not answered", ask.key);
                    let next = tries.fetch_add(1, Ordering::Relaxed);
                    let port = ports[next % INSTANCES].load(Ordering::Relaxed);
                    let response = client.ask_within(port, &ask, TIMEOUT).await;
                    if response.is_some_and(|response| response.status == 200) {
                        break;
                    }
                    // As clients do: an instance that is being replaced is not available immediately.
                    tokio::time::sleep(BACK_OFF).await;
                }
            };
            self.asking.spawn_on(insist, fixture.runtime.handle());
        }
    }

    /// Waits until each of them has its answer. Returns the number of tries.
    fn end(self, fixture: &Fixture) -> usize {
        fixture.runtime.block_on(self.asking.join_all());
        self.tries.load(Ordering::Relaxed)
    }
}
