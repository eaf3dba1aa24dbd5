//! `turno.toml.example` and the service's `turno.toml`: the real program reads them, and they have every key.

use std::fs;

use crate::common::{Fixture, Kind};
use crate::read;

/// Sections, and the text before an unknown key that makes the program reject the key there.
const SECTIONS: [(&str, &str); 10] = [
    ("", ""),
    ("lock", "[lock]"),
    ("lock.retry", "[lock.retry]"),
    ("inbox", "[inbox]"),
    ("outbox", "[outbox]"),
    ("once", "[once]"),
    ("serve", "[serve]"),
    (
        "schedule",
        "[[schedule]]\nname = \"a\"\ncron = \"0 3 * * *\"",
    ),
    ("cleanup", "[cleanup]"),
    ("application", "[application]"),
];

/// Returns the keys of a section: the program lists them when it rejects another.
fn known(fixture: &Fixture, head: &str) -> Vec<String> {
    let text = format!("{head}\nnobody_knows_this = 1\n");
    fs::write(fixture.path("turno.toml"), text).unwrap();
    let refused = fixture.turno(&["lock", "list"]).expect(2);
    let (_, expected) = refused.err.split_once("expected ").unwrap();
    let keys = expected.split('`').skip(1).step_by(2);
    keys.map(str::to_owned).collect()
}

/// Parses a line that sets a value, also if it is commented out. Returns key and value.
fn setting(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.trim_start_matches("# ").split_once(" = ")?;
    let is_key = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
    key.chars().all(is_key).then_some((key, value))
}

/// Returns the full names of all keys that a text sets or shows, with their section.
fn shown(text: &str) -> Vec<String> {
    let mut section = String::new();
    let mut keys = Vec::new();
    for line in text.lines() {
        let bare = line.trim_start_matches("# ");
        if bare.starts_with('[') {
            section = format!("{}.", bare.trim_matches(['[', ']']));
        } else if let Some((key, _)) = setting(line) {
            keys.push(format!("{section}{key}"));
        }
    }
    keys
}

#[test]
fn the_example_names_every_key_that_the_program_knows() {
    let fixture = Fixture::new(Kind::Sqlite);
    let shown = shown(&read("turno.toml.example"));
    let mut looked_at = 0;
    for (section, head) in SECTIONS {
        for key in known(&fixture, head) {
            let name = format!("{section}.{key}");
            let name = name.trim_start_matches('.');
            let beneath = format!("{name}.");
            let is_shown = |one: &String| one == name || one.starts_with(&beneath);
            assert!(shown.iter().any(is_shown), "{name} is not in the example");
            let is_section = SECTIONS.iter().any(|(section, _)| *section == name);
            looked_at += usize::from(!is_section);
        }
    }
    // If a section were missing, or its list not parsed, this would fail.
    assert_eq!(looked_at, shown.len(), "{shown:#?}");
}

#[test]
fn what_the_example_has_commented_out_is_valid_too() {
    let fixture = Fixture::new(Kind::Sqlite);
    let bare = |line: &str| {
        let is_section = line.starts_with("# [[");
        if setting(line).is_some() || is_section {
            line.trim_start_matches("# ").to_owned() + "\n"
        } else {
            String::new()
        }
    };
    let example = read("turno.toml.example");
    // Section headers are kept, and so are lines that are not comments.
    let text: String = example
        .lines()
        .map(|line| {
            if line.starts_with('[') {
                format!("{line}\n")
            } else {
                bare(line)
            }
        })
        .collect();
    assert!(text.contains("\nsink = ") && text.contains("[[schedule]]"));
    fs::write(fixture.path("turno.toml"), &text).unwrap();
    // This command reads the whole file, and does not connect.
    fixture.turno(&["completions", "bash"]).expect(0);
    let wrong = text.replace("cron = ", "corn = ");
    fs::write(fixture.path("turno.toml"), wrong).unwrap();
    fixture.turno(&["completions", "bash"]).expect(2);
}

#[test]
fn the_settings_of_the_service_start_a_server() {
    let fixture = Fixture::new(Kind::Sqlite);
    let text = read("packaging/turno.toml");
    assert!(text.contains("store = \"sqlite:/var/lib/turno/turno.db\""));
    let text = text
        .replace("/var/lib/turno", fixture.folder.path().to_str().unwrap())
        .replace("127.0.0.1:7117", "127.0.0.1:0");
    fs::write(fixture.path("turno.toml"), text).unwrap();
    let mut command = fixture.command("serve --json");
    command.env_remove("TURNO_STORE");
    let server = turno_testkit::Process::spawn(&mut command).unwrap();
    let line = server.lines().next(crate::common::LONG).unwrap();
    assert!(line.contains("\"open_to\":\"local\""), "{line}");
    assert!(fixture.path("turno.db").exists(), "the store is its own");
    server.term();
    let ended = server.wait_timeout(crate::common::LONG).unwrap();
    assert_eq!(ended.code(), Some(0));
}
