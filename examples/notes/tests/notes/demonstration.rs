//! The program without arguments.

use std::process::{Command, Stdio};

use turno_testkit::{PostgresServer, Process};

use crate::test_database::end;

/// "Demo Concurrent Protection": the table is always the same, because the race is deterministic.
#[test]
fn the_demonstration_shows_duplicates_and_their_absence() {
    let url = PostgresServer::shared().create_database();
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_notes"));
        command.args(["--store", &url]).env("RUST_BACKTRACE", "0");
        end(&Process::spawn(command.stdin(Stdio::null())).unwrap())
    };
    let shown = start();
    assert_eq!(shown.code, Some(0), "{shown:?}");
    for line in [
        "                        without locks     with locks",
        "notes processed                     8             11",
        "transcriptions paid                19             11",
        "analyses paid                      19             11",
        "of these, duplicates               22              0",
        "cost                           $ 3.42         $ 1.98",
        r#"kill -9 of a batch of three: {"total":12,"pending":7,"processing":3,"completed":1,"failed":1}"#,
        r#"cron job later: {"total":12,"pending":0,"processing":0,"completed":12,"failed":0}"#,
        "Paid for nothing: 1 transcription",
    ] {
        assert!(shown.out.contains(line), "no {line:?} in:\n{}", shown.out);
    }
    assert_eq!(
        start().code,
        Some(1),
        "an existing table is not overwritten"
    );
}
