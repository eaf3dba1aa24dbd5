//! A counter in a plain file, protected only by the lock, and incremented by many processes.

use std::fs;

use turno_testkit::on_each_store;

use crate::actor::Actor;
use crate::fixture::Fixture;

const ACTORS: u32 = 8;
const ROUNDS: u32 = 250;

on_each_store! {
    a_locked_counter_is_exact => |fixture: &Fixture| assert_eq!(count(fixture, "locked"), ACTORS * ROUNDS);
    /// The control: without the lock, updates are lost, or overwrite each other's digits, so the count may even be too large.
    a_bare_counter_is_not => |fixture: &Fixture| assert_ne!(count(fixture, "bare"), ACTORS * ROUNDS);
}

fn count(fixture: &Fixture, options: &str) -> u32 {
    let file = fixture.folder.path().join("counter");
    fs::write(&file, "0").expect("the folder is there");
    let actors: Vec<Actor> = (0..ACTORS).map(|_| Actor::start(&fixture.url)).collect();
    for actor in &actors {
        actor.tell(&format!(
            "count {} counter {ROUNDS} {options}",
            file.display()
        ));
    }
    for actor in &actors {
        assert_eq!(actor.answer(), "counted");
    }
    let count = fs::read_to_string(&file).expect("the counter is there");
    count.trim().parse().unwrap_or(0)
}
