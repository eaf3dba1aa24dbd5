//! `turno completions`

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::common::{Fixture, Kind};

#[test]
fn each_shell_gets_a_script_that_knows_the_verbs_and_no_hidden_ones() {
    let fixture = Fixture::new(Kind::Sqlite);
    for shell in ["bash", "zsh", "fish"] {
        let script = fixture.turno(&["completions", shell]).expect(0).out;
        for word in ["acquire", "history", "doctor", "relay", "--retry-delay"] {
            let word = if shell == "fish" {
                word.trim_start_matches('-')
            } else {
                word
            };
            assert!(script.contains(word), "{shell} does not know {word}");
        }
        assert!(
            !script.contains(" __exec") && !script.contains(" __demo"),
            "{shell}"
        );
    }
    fixture.turno("completions cmd.exe").expect(2);
}

#[test]
fn bash_can_read_its_script() {
    let fixture = Fixture::new(Kind::Sqlite);
    let script = fixture.turno("completions bash").expect(0).out;
    let mut bash = Command::new("bash")
        .arg("-n")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    bash.stdin
        .take()
        .unwrap()
        .write_all(script.as_bytes())
        .unwrap();
    assert!(bash.wait().unwrap().success());
}
