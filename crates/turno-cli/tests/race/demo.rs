//! `turno demo`: every scenario shows the problem of its system without Turno, and none with it.

use std::fs;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use turno_testkit::server::RabbitMq;
use turno_testkit::{Process, eventually};

use crate::common::{Done, Fixture, Kind, LONG, is_running, text};

const NAMES: [&str; 5] = ["flowpay", "presentations", "notes", "afore", "ticketflow"];

on_each_store!(
    payments_are_lost_without_a_lock,
    presentations_are_doubled_or_lost_without_an_inbox,
    notes_are_paid_for_twice_without_an_inbox,
    requests_are_executed_by_all_without_once,
    events_are_lost_without_an_outbox,
    the_events_of_others_are_left_alone,
    no_process_is_left_behind,
);

/// The runs of one scenario, by variant.
struct Runs(Value);

impl Runs {
    #[track_caller]
    fn of(fixture: &Fixture, arguments: &[&str]) -> Self {
        let words = [&["--store", &fixture.store, "demo"], arguments].concat();
        let shown = fixture.json(0, &words);
        assert_eq!(shown["clean"], true, "{shown}");
        let [one] = shown["scenarios"].as_array().unwrap().as_slice() else {
            panic!("one scenario: {shown}")
        };
        assert_eq!(text(one, "scenario"), arguments[0]);
        Runs(one["runs"].clone())
    }

    #[track_caller]
    fn run(&self, how: &str) -> &Value {
        let runs = self.0.as_array().unwrap();
        let found = runs.iter().find(|run| text(run, "how") == how);
        found.unwrap_or_else(|| panic!("no run {how} in {}", self.0))
    }

    #[track_caller]
    fn figure(&self, how: &str, field: &str) -> u64 {
        let run = self.run(how);
        run[field]
            .as_u64()
            .unwrap_or_else(|| panic!("no {field} in {run}"))
    }
}

fn payments_are_lost_without_a_lock(fixture: Fixture) {
    let runs = Runs::of(&fixture, &["flowpay"]);
    // All eight read the same balance in every round, and one payment of eight remains.
    assert_eq!(runs.figure("without", "lost_updates"), 175);
    assert_eq!(runs.figure("with turno", "lost_updates"), 0);
    assert_eq!(runs.figure("with turno", "operations"), 200);
}

fn presentations_are_doubled_or_lost_without_an_inbox(fixture: Fixture) {
    let runs = Runs::of(&fixture, &["presentations"]);
    // The three surviving workers select the same item, every time.
    assert_eq!(runs.figure("plain select", "duplicates"), 80);
    assert_eq!(runs.figure("plain select", "lost_items"), 0);
    assert_eq!(runs.figure("marked first", "duplicates"), 0);
    assert_eq!(runs.figure("marked first", "lost_items"), 1);
    assert_eq!(runs.figure("with turno", "duplicates"), 0);
    assert_eq!(runs.figure("with turno", "lost_items"), 0);
    for how in ["plain select", "marked first", "with turno"] {
        assert_eq!(runs.figure(how, "killed"), 1);
    }
}

fn notes_are_paid_for_twice_without_an_inbox(fixture: Fixture) {
    let runs = Runs::of(&fixture, &["notes"]);
    // All five triggers select the first note; how often the others are selected varies.
    assert!(runs.figure("without", "duplicates") >= 4);
    assert_eq!(runs.figure("with turno", "duplicates"), 0);
    let remark = text(runs.run("with turno"), "remark");
    assert_eq!(remark, "2.70 spent, 0.00 of it on duplicates");
}

fn requests_are_executed_by_all_without_once(fixture: Fixture) {
    let runs = Runs::of(&fixture, &["afore"]);
    assert_eq!(runs.figure("without", "duplicates"), 175);
    assert_eq!(runs.figure("with turno", "duplicates"), 0);
    let remark = text(runs.run("with turno"), "remark");
    assert_eq!(remark, "25 executed, 175 rejected as in flight (02/532)");
}

fn events_are_lost_without_an_outbox(fixture: Fixture) {
    events_are_lost_without(&fixture, &["ticketflow"]);
    // The demo leaves nothing in the outbox.
    assert_eq!(fixture.json(0, &["outbox", "stats"])["pending"], 0);
}

#[test]
fn events_are_lost_without_an_outbox_to_rabbitmq() {
    let broker = RabbitMq::start().unwrap();
    let fixture = Fixture::new(Kind::Sqlite);
    events_are_lost_without(&fixture, &["ticketflow", "--broker", &broker.url()]);
}

fn events_are_lost_without(fixture: &Fixture, arguments: &[&str]) {
    let runs = Runs::of(fixture, arguments);
    assert_eq!(runs.figure("without", "lost_events"), 3);
    assert_eq!(runs.figure("without", "killed"), 3);
    assert_eq!(runs.figure("with turno", "lost_events"), 0);
    // Three writers of tickets, and a relay.
    assert_eq!(runs.figure("with turno", "killed"), 4);
    for how in ["without", "with turno"] {
        assert_eq!(runs.figure(how, "operations"), 60);
    }
}

fn the_events_of_others_are_left_alone(fixture: Fixture) {
    fixture.json(0, &["outbox", "emit", "OrderPlacedEvent"]);
    let words = ["--json", "--store", &fixture.store, "demo"];
    for name in [&[][..], &["ticketflow"]] {
        let refused = fixture.turno(&[&words, name].concat()).expect(2);
        assert_eq!(text(&refused.error(), "field"), "store");
    }
    let stats = fixture.json(0, &["outbox", "stats"]);
    assert_eq!(
        (&stats["pending"], &stats["dispatched"]),
        (&1.into(), &0.into())
    );
}

/// However it ends: by a user, by a service manager, or by a kill.
fn no_process_is_left_behind(fixture: Fixture) {
    for (signal, code) in [
        (Signal::INT, Some(130)),
        (Signal::TERM, Some(143)),
        (Signal::KILL, None),
    ] {
        let demo = fixture.start(&["--store", &fixture.store, "demo", "presentations"]);
        let children = eventually(LONG, "the processes to start", || {
            let children = children(&demo);
            (children.len() >= 3).then_some(children)
        });
        for child in &children {
            let words = words_of(child);
            assert!(
                !words.contains(&fixture.store),
                "the store can be seen: {words}"
            );
        }
        let pid = Pid::from_raw(demo.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        let status = demo.wait_timeout(LONG).unwrap();
        assert_eq!(status.code(), code, "{signal:?}");
        eventually(LONG, "its processes to end", || {
            (!children.iter().any(|child| is_running(child))).then_some(())
        });
    }
}

/// Returns its child processes, after each has executed its own program.
fn children(parent: &Process) -> Vec<String> {
    let pid = parent.id();
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let listed = listed.unwrap_or_default();
    let children = listed.split_whitespace().map(str::to_owned);
    children
        .filter(|child| words_of(child).contains("__demo"))
        .collect()
}

fn words_of(pid: &str) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ")
}

#[test]
fn all_scenarios_take_less_than_a_minute_and_need_nothing() {
    let fixture = Fixture::new(Kind::Sqlite);
    let started = Instant::now();
    let mut command = fixture.command("demo");
    let done = Done::of(command.env_remove("TURNO_STORE").output().unwrap()).expect(0);
    println!("all of them in {:.1?}", started.elapsed());
    assert!(started.elapsed() < LONG);
    for name in NAMES {
        let rows = done.out.lines().filter(|line| line.starts_with(name));
        // In the table, and in the text.
        assert_eq!(rows.count(), 2, "{name}: {}", done.out);
    }
    assert!(done.err.is_empty(), "{}", done.err);
    assert_eq!(fs::read_dir(&fixture.folder).unwrap().count(), 0);
}

#[test]
fn the_scenarios_are_listed() {
    let fixture = Fixture::new(Kind::Sqlite);
    let list = fixture.json(0, &["demo", "--list"]);
    let scenarios = list["scenarios"].as_array().unwrap();
    let names: Vec<&str> = scenarios.iter().map(|one| text(one, "scenario")).collect();
    assert_eq!(names, NAMES);
    let help = fixture.turno(&["demo", "--help"]).expect(0).out;
    let list = fixture.turno(&["demo", "--list"]).expect(0).out;
    for one in scenarios {
        let said = format!("{}: {}", text(one, "primitive"), text(one, "story"));
        assert!(help.contains(&said), "{said} is not in {help}");
        assert!(list.contains(text(one, "story")), "{list}");
    }
}

#[test]
fn what_cannot_be_shown_is_refused() {
    let fixture = Fixture::new(Kind::Sqlite);
    let rows: [(&str, &[&str]); 4] = [
        ("name", &["demo", "payflow"]),
        (
            "broker",
            &["demo", "ticketflow", "--broker", "http://broker"],
        ),
        (
            "broker",
            &["demo", "ticketflow", "--broker", "amqp://ana:s3cret@a b"],
        ),
        ("store", &["demo", "flowpay", "--store", "sqlite::memory:"]),
    ];
    for (field, words) in rows {
        let refused = fixture.turno(&[&["--json"], words].concat()).expect(2);
        let error = refused.error();
        assert_eq!(text(&error, "field"), field, "{error}");
        assert!(!refused.err.contains("s3cret"), "{error}");
    }
    let refused = fixture.turno(&["demo", "payflow"]).expect(2);
    for name in NAMES {
        assert!(refused.err.contains(name), "{}", refused.err);
    }
}
