//! A campaign of faults on each store, for a minute. `cargo xtask campaign` runs longer ones.

use std::process::Command;

/// The program, built along with this test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_turno-campaign");

/// Runs a campaign. Returns whether it found no violation, and what it printed.
fn campaign(store: &str, minutes: &str, more: &[&str]) -> (bool, String) {
    let seed = fastrand::u32(..).to_string();
    let output = Command::new(PROGRAM)
        .args(["run", "--store", store, "--minutes", minutes])
        .args(["--seed", &seed])
        .args(more)
        .output()
        .expect("a campaign can be started");
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    println!("{printed}");
    (output.status.success(), printed)
}

#[test]
fn a_minute_of_faults_on_postgres_breaks_nothing() {
    let (is_right, printed) = campaign("postgres", "1", &[]);
    assert!(is_right, "{printed}");
}

#[test]
fn a_minute_of_faults_on_sqlite_breaks_nothing() {
    let (is_right, printed) = campaign("sqlite", "1", &[]);
    assert!(is_right, "{printed}");
}

/// The control: a campaign on functions with a known bug finds it. `turno-campaign plants` does so with all of them.
#[test]
fn a_known_bug_is_found() {
    let plant = ["--plant", "once-answer-without-token"];
    let (is_right, printed) = campaign("postgres", "0.3", &plant);
    assert!(!is_right && printed.contains("BROKEN"), "{printed}");
}
