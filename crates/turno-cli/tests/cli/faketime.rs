//! Clients whose clocks are an hour off behave like all others, because only the store's clock counts.

use std::process::Command;

use serde_json::Value;
use turno_testkit::set_clock;

use crate::common::arguments::Arguments;
use crate::common::{Done, Fixture, TURNO, text};

on_each_store!(
    a_wrong_clock_neither_lengthens_nor_shortens_a_lease,
    a_wrong_clock_takes_over_what_has_expired_and_nothing_else,
    a_wrong_clock_renews_in_the_background,
);

const CLOCKS: [&str; 2] = ["+1h", "-1h"];

/// Runs `turno --json` on a machine whose clock is off.
fn at(fixture: &Fixture, clock: &str, code: i32, arguments: impl Arguments) -> Value {
    let mut command = fixture.command("--json");
    let output = set_clock(command.args(arguments.words()), clock).output();
    Done::of(output.unwrap()).expect(code).json()
}

/// The control: the clock of such a client is really an hour off.
#[test]
fn the_clocks_are_wrong() {
    let seconds = |date: &mut Command| -> i64 {
        let output = date.arg("+%s").output().unwrap();
        String::from_utf8(output.stdout)
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    };
    for (clock, off) in CLOCKS.into_iter().zip([3600, -3600]) {
        let apart = seconds(set_clock(&mut Command::new("date"), clock))
            - seconds(&mut Command::new("date"));
        assert!((apart - off).abs() < 60, "{clock} is {apart} s off");
    }
}

fn left_ms(fixture: &Fixture) -> i64 {
    fixture.json(0, "lock status it")["holder"]["remaining_ms"]
        .as_i64()
        .unwrap()
}

fn a_wrong_clock_neither_lengthens_nor_shortens_a_lease(fixture: Fixture) {
    for clock in CLOCKS {
        let lease = at(&fixture, clock, 0, "lock acquire it --ttl 10m");
        assert!(
            (540_000..=600_000).contains(&left_ms(&fixture)),
            "{clock}: {}",
            left_ms(&fixture)
        );
        fixture.json(75, "lock acquire it");
        for other in CLOCKS {
            let busy = at(&fixture, other, 75, "lock acquire it");
            assert!(
                (540_000..=600_000).contains(&busy["retry_after_ms"].as_i64().unwrap()),
                "{busy}"
            );
        }
        at(
            &fixture,
            clock,
            0,
            &format!("lock renew it --lease {} --ttl 20m", text(&lease, "id")),
        );
        assert!(
            (1_140_000..=1_200_000).contains(&left_ms(&fixture)),
            "{clock}: {}",
            left_ms(&fixture)
        );
        at(
            &fixture,
            clock,
            0,
            &["lock", "release", "it", "--lease", text(&lease, "id")],
        );
        assert!(!fixture.is_locked("it"));
    }
}

fn a_wrong_clock_takes_over_what_has_expired_and_nothing_else(fixture: Fixture) {
    let mut last = 0;
    for (holder, taker) in [(CLOCKS[0], CLOCKS[1]), (CLOCKS[1], CLOCKS[0])] {
        let resource = format!("it{holder}");
        let lease = at(
            &fixture,
            holder,
            0,
            &["lock", "acquire", &resource, "--ttl", "2s"],
        );
        at(&fixture, taker, 75, &["lock", "acquire", &resource]);
        let next = at(
            &fixture,
            taker,
            0,
            &["lock", "acquire", &resource, "--wait", "30s"],
        );
        assert!(
            text(&next, "acquired_at") >= text(&lease, "expires_at"),
            "{lease} {next}"
        );
        assert!(next["token"].as_i64() > lease["token"].as_i64());
        // And tokens grow from one clock to the other.
        assert!(lease["token"].as_i64() > Some(last));
        last = next["token"].as_i64().unwrap();
        at(
            &fixture,
            holder,
            1,
            &["lock", "renew", &resource, "--lease", text(&lease, "id")],
        );
    }
}

fn a_wrong_clock_renews_in_the_background(fixture: Fixture) {
    for clock in CLOCKS {
        // The command runs twice as long as the TTL: the lock is held until its end.
        let mut command = fixture.command("run --lock it --ttl 2s --");
        command.args([TURNO, "lock", "acquire", "it", "--wait", "4s"]);
        set_clock(&mut command, clock);
        assert_eq!(command.output().unwrap().status.code(), Some(75), "{clock}");
        assert!(!fixture.is_locked("it"));
    }
}
