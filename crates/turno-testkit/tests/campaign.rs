//! A minute of the campaign of faults on each store. `cargo xtask campaign` runs longer ones.

use std::process::Command;

/// Runs a campaign with a new seed, which its output names.
fn campaign(store: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_turno-campaign"))
        .args(["run", "--minutes", "1", "--store", store])
        .output()
        .expect("the campaign starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("{printed}{errors}");
    assert!(output.status.success(), "{}", output.status);
    // A campaign that did nothing would break no promise.
    for part in ["locks", "inbox", "outbox", "once"] {
        let row = printed.lines().find_map(|line| {
            let (name, count) = line.strip_prefix("| ")?.split_once(" | ")?;
            let count = count.strip_suffix(" |")?;
            (name == part).then(|| count.parse::<u64>().expect("a number"))
        });
        assert!(row.is_some_and(|operations| operations > 100), "{part}");
    }
}

#[test]
fn no_promise_is_broken_on_postgres() {
    campaign("postgres");
}

#[test]
fn no_promise_is_broken_on_sqlite() {
    campaign("sqlite");
}
