//! A thousand identical concurrent requests to three instances and two gates: the work is done once.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc;
use turno_testkit::eventually;
use turno_testkit::on_each_store;

use crate::LONG;
use crate::client::{Ask, Client, Response, held_before, pay, problem};
use crate::fixture::Fixture;
use crate::web::{Options, USUAL, Web};

const CROWD: usize = 1000;
const INSTANCES: usize = 3;
const GATES: usize = 2;

on_each_store! {
    the_others_are_asked_to_retry => |fixture: &Fixture| {
        let turned_away = turned_away(fixture, "conflict");
        assert!(turned_away.iter().all(|response| response.problem() == problem(409, "in_flight")));
        assert!(turned_away.iter().all(|response| response.headers.contains_key("retry-after")));
    };
    the_others_get_the_template_of_an_older_contract => |fixture: &Fixture| {
        let turned_away = turned_away(fixture, "template");
        let words = r#"{"resultadoOperacion": "02", "diagnosticoProcesar": "532", "folio": 7}"#;
        assert!(turned_away.iter().all(|response| response.status == 200 && response.body == words));
    };
    the_others_wait_for_the_answer => the_others_wait_for_the_answer;
    /// The control: without the layer, each of them is processed.
    without_the_layer_it_is_done_for_each => without_the_layer_it_is_done_for_each;
}

/// The servers that get requests, and the service behind the gates.
struct Fronts {
    fronts: Vec<Web>,
    service: Web,
}

impl Fronts {
    fn new(fixture: &Fixture, in_flight: &'static str) -> Self {
        let options = Options { in_flight, ..USUAL };
        let service = Web::bare(fixture, options);
        let layers = (0..INSTANCES).map(|_| Web::start(fixture, options));
        let gates = (0..GATES).map(|_| Web::gate(fixture, &service, options));
        Fronts {
            fronts: layers.chain(gates).collect(),
            service,
        }
    }

    /// Continues the paused handler, on whichever server it is.
    fn go(&self) {
        let webs = self.fronts.iter().chain([&self.service]);
        webs.for_each(Web::go);
    }
}

/// Sends the same request to all of them concurrently. Responses are returned as they arrive.
fn crowd(fixture: &Fixture, fronts: &[Web], ask: Ask) -> mpsc::UnboundedReceiver<Response> {
    let (answers, responses) = mpsc::unbounded_channel();
    let _inside = fixture.runtime.enter();
    let (client, ask) = (Client::new(), Arc::new(ask));
    for number in 0..CROWD {
        let (client, ask, answers) = (client.clone(), ask.clone(), answers.clone());
        let port = fronts[number % fronts.len()].port();
        tokio::spawn(async move {
            let response = client.ask_within(port, &ask, LONG).await;
            // The receiver is gone only if the test has failed.
            let _ = answers.send(response.expect("each request is answered"));
        });
    }
    responses
}

fn next(
    fixture: &Fixture,
    responses: &mut mpsc::UnboundedReceiver<Response>,
    count: usize,
) -> Vec<Response> {
    fixture.runtime.block_on(async {
        let mut some = Vec::with_capacity(count);
        while some.len() < count {
            some.push(responses.recv().await.expect("each request is answered"));
        }
        some
    })
}

/// Returns the responses to requests that arrive while the first one is paused, and checks that the first one gets its answer.
fn turned_away(fixture: &Fixture, in_flight: &'static str) -> Vec<Response> {
    let fronts = Fronts::new(fixture, in_flight);
    let began = Instant::now();
    let mut responses = crowd(fixture, &fronts.fronts, held_before("77"));
    let turned_away = next(fixture, &mut responses, CROWD - 1);
    fronts.go();
    let first = next(fixture, &mut responses, 1).remove(0);
    report(fixture, in_flight, &fronts, began);
    assert_done_once(fixture, &first);
    assert!(!first.is_replayed());
    turned_away
}

fn the_others_wait_for_the_answer(fixture: &Fixture) {
    let fronts = Fronts::new(fixture, "wait");
    let began = Instant::now();
    let mut responses = crowd(fixture, &fronts.fronts, held_before("77"));
    // Paused until all requests to the instances wait. (The gates do not report theirs.)
    let share = CROWD / (INSTANCES + GATES);
    for instance in &fronts.fronts[..INSTANCES] {
        eventually(LONG, "all requests to arrive", || {
            (instance.arrived() == share).then_some(())
        });
    }
    assert!(responses.is_empty(), "no request is answered yet");
    fronts.go();
    let all = next(fixture, &mut responses, CROWD);
    report(fixture, "wait", &fronts, began);
    assert_done_once(fixture, &all[0]);
    assert!(
        all.iter()
            .all(|response| response.status == 200 && response.body == all[0].body)
    );
    let replayed = all.iter().filter(|response| response.is_replayed()).count();
    assert_eq!(replayed, CROWD - 1);
}

#[track_caller]
fn assert_done_once(fixture: &Fixture, response: &Response) {
    let (ran, effects) = (fixture.ran(), fixture.effects());
    assert_eq!((ran.len(), effects.len()), (1, 1), "{ran:?}");
    assert_eq!(response.paid(), (ran[0].pid, 1));
}

fn report(fixture: &Fixture, what: &str, fronts: &Fronts, began: Instant) {
    println!(
        "{}, {what}: {CROWD} requests at {INSTANCES} instances and {GATES} gates, {} run, in {:?}",
        fixture.name,
        fixture.ran().len(),
        began.elapsed()
    );
    for front in &fronts.fronts {
        println!("  {}", front.counts());
    }
}

fn without_the_layer_it_is_done_for_each(fixture: &Fixture) {
    let bare: Vec<Web> = (0..INSTANCES).map(|_| Web::bare(fixture, USUAL)).collect();
    let mut responses = crowd(fixture, &bare, pay("77"));
    next(fixture, &mut responses, CROWD);
    println!("{}, bare: {} runs", fixture.name, fixture.ran().len());
    assert_eq!(fixture.ran().len(), CROWD);
}
