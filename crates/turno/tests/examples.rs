//! Each example runs to its end, and checks what it shows.

#[path = "../examples/adopt.rs"]
mod adopt;
#[path = "../examples/lock.rs"]
mod lock;
#[path = "../examples/lock_guard.rs"]
mod lock_guard;
#[path = "../examples/lock_shared.rs"]
mod lock_shared;
#[path = "../examples/lock_wait.rs"]
mod lock_wait;
#[path = "../examples/mark_processed.rs"]
mod mark_processed;
#[path = "../examples/once.rs"]
mod once;
#[path = "../examples/once_http.rs"]
mod once_http;
#[path = "../examples/outbox_relay.rs"]
mod outbox_relay;
#[path = "../examples/push_in_transaction.rs"]
mod push_in_transaction;
#[path = "../examples/schedule.rs"]
mod schedule;
#[path = "../examples/worker.rs"]
mod worker;

#[test]
fn example_adopt() {
    adopt::main().unwrap();
}

#[test]
fn example_lock() {
    lock::main().unwrap();
}

#[test]
fn example_lock_guard() {
    lock_guard::main().unwrap();
}

#[test]
fn example_lock_shared() {
    lock_shared::main().unwrap();
}

#[test]
fn example_lock_wait() {
    lock_wait::main().unwrap();
}

#[test]
fn example_mark_processed() {
    mark_processed::main().unwrap();
}

#[test]
fn example_once() {
    once::main().unwrap();
}

#[test]
fn example_once_http() {
    once_http::main().unwrap();
}

#[test]
fn example_outbox_relay() {
    outbox_relay::main().unwrap();
}

#[test]
fn example_push_in_transaction() {
    push_in_transaction::main().unwrap();
}

#[test]
fn example_schedule() {
    schedule::main().unwrap();
}

#[test]
fn example_worker() {
    worker::main().unwrap();
}

/// An example is read in one go.
const MAX_LINES: usize = 60;

#[test]
fn examples_are_short_and_listed() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let guide = include_str!("../../../docs/from-rust.md");
    let mut examples = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap().path();
        let name = file.file_name().unwrap().to_str().unwrap();
        let lines = std::fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= MAX_LINES, "{name} has {lines} lines");
        assert!(
            guide.contains(&format!("examples/{name})")),
            "{name} is not in docs/from-rust.md"
        );
        examples += 1;
    }
    assert_eq!(examples, 12);
}
