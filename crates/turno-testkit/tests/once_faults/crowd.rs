//! A thousand identical concurrent requests to three instances and two gates: the work is done once.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc;
use turno_testkit::eventually;

use crate::LONG;
use crate::client::{Ask, Client, Told, held_before, pay, problem};
use crate::on_each_store;
use crate::place::Place;
use crate::web::{How, USUAL, Web};

const CROWD: usize = 1000;
const INSTANCES: usize = 3;
const GATES: usize = 2;

on_each_store! {
    the_others_are_told_to_come_again => |place: &Place| {
        let turned_away = turned_away(place, "conflict");
        assert!(turned_away.iter().all(|told| told.problem() == problem(409, "in_flight")));
        assert!(turned_away.iter().all(|told| told.headers.contains_key("retry-after")));
    };
    the_others_are_told_in_the_words_of_an_older_contract => |place: &Place| {
        let turned_away = turned_away(place, "template");
        let words = r#"{"resultadoOperacion": "02", "diagnosticoProcesar": "532", "folio": 7}"#;
        assert!(turned_away.iter().all(|told| told.status == 200 && told.body == words));
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
    fn new(place: &Place, in_flight: &'static str) -> Self {
        let how = How { in_flight, ..USUAL };
        let service = Web::bare(&place.url, how);
        let layers = (0..INSTANCES).map(|_| Web::start(&place.url, how));
        let gates = (0..GATES).map(|_| Web::gate(&place.url, &service, how));
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
fn crowd(place: &Place, fronts: &[Web], ask: Ask) -> mpsc::UnboundedReceiver<Told> {
    let (answers, told) = mpsc::unbounded_channel();
    let _inside = place.runtime.enter();
    let (client, ask) = (Client::new(), Arc::new(ask));
    for number in 0..CROWD {
        let (client, ask, answers) = (client.clone(), ask.clone(), answers.clone());
        let port = fronts[number % fronts.len()].port();
        tokio::spawn(async move {
            let told = client.ask_within(port, &ask, LONG).await;
            // The receiver is gone only if the test has failed.
            let _ = answers.send(told.expect("everybody is answered"));
        });
    }
    told
}

fn next(place: &Place, told: &mut mpsc::UnboundedReceiver<Told>, count: usize) -> Vec<Told> {
    place.runtime.block_on(async {
        let mut some = Vec::with_capacity(count);
        while some.len() < count {
            some.push(told.recv().await.expect("everybody is answered"));
        }
        some
    })
}

/// Returns the responses to requests that arrive while the first one is paused, and checks that the first one gets its answer.
fn turned_away(place: &Place, in_flight: &'static str) -> Vec<Told> {
    let fronts = Fronts::new(place, in_flight);
    let began = Instant::now();
    let mut told = crowd(place, &fronts.fronts, held_before("77"));
    let turned_away = next(place, &mut told, CROWD - 1);
    fronts.go();
    let first = next(place, &mut told, 1).remove(0);
    report(place, in_flight, &fronts, began);
    assert_done_once(place, &first);
    assert!(!first.is_replayed());
    turned_away
}

fn the_others_wait_for_the_answer(place: &Place) {
    let fronts = Fronts::new(place, "wait");
    let began = Instant::now();
    let mut told = crowd(place, &fronts.fronts, held_before("77"));
    // Paused until all requests to the instances wait. (The gates do not report theirs.)
    let share = CROWD / (INSTANCES + GATES);
    for instance in &fronts.fronts[..INSTANCES] {
        eventually(LONG, "everybody to come", || {
            (instance.arrived() == share).then_some(())
        });
    }
    assert!(told.is_empty(), "nobody is answered yet");
    fronts.go();
    let all = next(place, &mut told, CROWD);
    report(place, "wait", &fronts, began);
    assert_done_once(place, &all[0]);
    assert!(
        all.iter()
            .all(|told| told.status == 200 && told.body == all[0].body)
    );
    let replayed = all.iter().filter(|told| told.is_replayed()).count();
    assert_eq!(replayed, CROWD - 1);
}

#[track_caller]
fn assert_done_once(place: &Place, told: &Told) {
    let (ran, effects) = (place.ran(), place.effects());
    assert_eq!((ran.len(), effects.len()), (1, 1), "{ran:?}");
    assert_eq!(told.paid(), (ran[0].pid, 1));
}

fn report(place: &Place, what: &str, fronts: &Fronts, began: Instant) {
    println!(
        "{}, {what}: {CROWD} requests at {INSTANCES} instances and {GATES} gates, {} run, in {:?}",
        place.name,
        place.ran().len(),
        began.elapsed()
    );
    for front in &fronts.fronts {
        println!("  {}", front.counts());
    }
}

fn without_the_layer_it_is_done_for_each(place: &Place) {
    let bare: Vec<Web> = (0..INSTANCES)
        .map(|_| Web::bare(&place.url, USUAL))
        .collect();
    let mut told = crowd(place, &bare, pay("77"));
    next(place, &mut told, CROWD);
    println!("{}, bare: {} runs", place.name, place.ran().len());
    assert_eq!(place.ran().len(), CROWD);
}
