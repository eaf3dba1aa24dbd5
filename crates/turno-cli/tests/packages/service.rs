//! `turno.service`: systemd accepts it, and it matches how the program ends.

use std::fs;
use std::process::Command;

use crate::common::TURNO;
use crate::{accepts, read};

const UNIT: &str = "packaging/turno.service";

/// Returns the value of a key that has its own line.
fn value<'a>(text: &'a str, key: &str) -> &'a str {
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        .unwrap_or_else(|| panic!("{key} is not there"))
}

#[test]
fn systemd_accepts_the_service() {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("turno.service");
    // systemd checks that the program exists, which is elsewhere here.
    let text = read(UNIT).replace("/usr/local/bin/turno", TURNO);
    let verify = || {
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", "--man=no"]).arg(&unit);
        accepts(&mut command)
    };
    fs::write(&unit, &text).unwrap();
    assert_eq!(verify(), "");
    // An unknown key is only a warning.
    fs::write(&unit, text.replace("NoNewPrivileges", "NoNewPrivilege")).unwrap();
    assert!(verify().contains("NoNewPrivilege"));
}

#[test]
fn the_service_is_shut_in() {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("turno.service");
    fs::write(&unit, read(UNIT)).unwrap();
    let mut command = Command::new("systemd-analyze");
    // In tenths; the scale ends at 10.
    command.args(["security", "--offline=yes", "--threshold=20"]);
    accepts(command.arg(&unit));
}

#[test]
fn the_service_is_given_the_time_and_the_files_that_the_program_wants() {
    let unit = read(UNIT);
    let example = read("turno.toml.example");
    let number = |key: &str| -> u64 {
        let line = example
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        line.unwrap()
            .trim_matches(['"', 's'])
            .parse()
            .unwrap_or_else(|_| panic!("{key}"))
    };
    let stop = value(&unit, "TimeoutStopSec").trim_end_matches('s');
    assert!(stop.parse::<u64>().unwrap() > number("drain"));
    let files = value(&unit, "LimitNOFILE").parse::<u64>().unwrap();
    assert!(files > 2 * number("max_connections"));
}
