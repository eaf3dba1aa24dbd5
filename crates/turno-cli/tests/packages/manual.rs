//! The manual pages.

use std::fs;
use std::process::Command;

use crate::accepts;
use crate::common::{Fixture, Kind};

#[test]
fn every_verb_has_a_page_that_man_shows_without_a_warning() {
    let fixture = Fixture::new(Kind::Sqlite);
    let folder = fixture.path("man1");
    fs::create_dir(&folder).unwrap();
    fixture.turno(&["__man", "man1"]).expect(0);
    for page in fs::read_dir(&folder).unwrap() {
        let page = page.unwrap().path();
        let mut man = Command::new("man");
        man.args(["--warnings", "--encoding=UTF-8", "--local-file"]);
        man.env("LC_ALL", "C.UTF-8").env("MANWIDTH", "200");
        let said = accepts(man.arg(&page));
        let name = page.display();
        assert!(said.contains("SYNOPSIS"), "{name}: {said}");
        assert!(!said.contains("warning:"), "{name}: {said}");
        assert!(
            said.contains("TURNO_STORE"),
            "{name}: variables are documented"
        );
    }
    // The golden help texts are one per command.
    let helps = fs::read_dir("tests/golden").unwrap();
    let verbs: Vec<_> = helps.map(|help| help.unwrap().path()).collect();
    assert!(verbs.len() > 40, "{verbs:?}");
    for verb in verbs {
        let page = folder.join(verb.file_name().unwrap()).with_extension("1");
        assert!(page.exists(), "{} has no page", verb.display());
    }
}

#[test]
fn a_folder_that_is_not_there_is_refused() {
    let fixture = Fixture::new(Kind::Sqlite);
    let refused = fixture.turno(&["__man", "nowhere"]).expect(1);
    assert!(refused.err.contains("nowhere"), "{}", refused.err);
    fixture.turno(&["__man"]).expect(2);
}
