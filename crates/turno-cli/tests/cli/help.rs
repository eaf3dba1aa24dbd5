//! The help texts, as they were agreed on. To change them: `TURNO_UPDATE_GOLDEN=1 cargo test -p turno-cli help`.

use std::path::PathBuf;

use crate::common::{Kind, Place};

const HELPS: [&[&str]; 45] = [
    &[],
    &["serve"],
    &["migrate"],
    &["lock"],
    &["lock", "acquire"],
    &["lock", "release"],
    &["lock", "renew"],
    &["lock", "status"],
    &["lock", "list"],
    &["lock", "history"],
    &["lock", "break"],
    &["run"],
    &["once"],
    &["inbox"],
    &["inbox", "push"],
    &["inbox", "claim"],
    &["inbox", "complete"],
    &["inbox", "fail"],
    &["inbox", "extend"],
    &["inbox", "give-back"],
    &["inbox", "stats"],
    &["inbox", "list"],
    &["inbox", "requeue"],
    &["inbox", "discard"],
    &["inbox", "reset"],
    &["outbox"],
    &["outbox", "emit"],
    &["outbox", "relay"],
    &["outbox", "stats"],
    &["outbox", "list"],
    &["outbox", "show"],
    &["outbox", "requeue"],
    &["outbox", "discard"],
    &["history"],
    &["gate"],
    &["adopt"],
    &["sweep"],
    &["token"],
    &["token", "create"],
    &["token", "list"],
    &["token", "revoke"],
    &["doctor"],
    &["top"],
    &["demo"],
    &["completions"],
];

#[test]
fn every_help_is_as_agreed() {
    let place = Place::new(Kind::Sqlite);
    let update = std::env::var_os("TURNO_UPDATE_GOLDEN").is_some();
    for verb in HELPS {
        let help = place.turno(&[verb, &["--help"]].concat()).expect(0);
        assert_eq!(
            place.turno(&[verb, &["-h"]].concat()).out,
            help.out,
            "there is one help, not two"
        );
        let name = [&["turno"], verb].concat().join("-");
        // Tests run in their package's folder.
        let golden = PathBuf::from(format!("tests/golden/{name}.txt"));
        if update {
            std::fs::write(&golden, &help.out).unwrap();
        }
        let agreed = std::fs::read_to_string(&golden).unwrap_or_default();
        assert_eq!(
            help.out, agreed,
            "{name} has changed; if that is meant, run with TURNO_UPDATE_GOLDEN=1"
        );
    }
}

#[test]
fn every_verb_has_a_golden_help() {
    let place = Place::new(Kind::Sqlite);
    let verbs = |of: &[&str]| -> Vec<String> {
        let help = place.turno(&[of, &["--help"]].concat()).expect(0).out;
        let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let listed = listed.take_while(|line| !line.is_empty());
        listed
            .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
            // The parser's own, which every group of commands has.
            .filter(|verb| verb != "help")
            .collect()
    };
    let known = |path: &[&str]| assert!(HELPS.contains(&path), "{path:?} has no golden help");
    let top = verbs(&[]);
    assert_eq!(top.len(), 16);
    for verb in &top {
        known(&[verb]);
    }
    for noun in ["lock", "inbox", "outbox"] {
        for verb in verbs(&[noun]) {
            known(&[noun, &verb]);
        }
    }
}

#[test]
fn help_shows_names_of_variables_and_never_their_values() {
    let place = Place::new(Kind::Sqlite);
    let mut command = place.command(["run", "--help"]);
    command
        .env("TURNO_STORE", "postgres://ana:s3cret@db/app")
        .env("TURNO_USER", "ana.maria");
    let help = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(
        help.contains("TURNO_STORE") && !help.contains("s3cret") && !help.contains("ana"),
        "{help}"
    );
}

#[test]
fn help_shows_no_secret_of_the_environment() {
    let place = Place::new(Kind::Sqlite);
    let mut command = place.command(["outbox", "relay", "--help"]);
    command
        .env("TURNO_SINK", "amqp://ana:s3cret@broker/")
        .env("TURNO_WEBHOOK_SECRET", "whsec_s3cret");
    let help = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(
        help.contains("TURNO_WEBHOOK_SECRET") && !help.contains("s3cret"),
        "{help}"
    );
    let mut command = place.command(["once", "--help"]);
    command.env("TURNO_ANSWER_KEYS", "a:s3cret");
    let help = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(
        help.contains("TURNO_ANSWER_KEYS") && !help.contains("s3cret"),
        "{help}"
    );
}

#[test]
fn the_version_is_told() {
    let place = Place::new(Kind::Sqlite);
    assert_eq!(
        place.turno(&["--version"]).expect(0).out,
        concat!("turno ", env!("CARGO_PKG_VERSION"), "\n")
    );
}
