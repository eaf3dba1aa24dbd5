//! `turno once`: a command that runs once, and its answer, which is replayed to each repetition.

mod answers;
mod in_flight;
mod operators;
mod vanished;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use turno_testkit::{PostgresServer, Process, TcpProxy, eventually};

use crate::common::{Done, Fixture, Kind, LONG, is_running, state, text};

/// Appends a mark each time it runs.
const MARK: &str = "echo ran >> runs;";
/// Prints its pid, then works until it gets a signal, and prints that.
const WORK: &str = "trap 'echo got TERM; exit 3' TERM; echo pid $$; while :; do sleep 0.05; done";
/// Prints its token, and waits for a line.
const ASK: &str = "echo token $TURNO_ONCE_TOKEN; read -r line; echo got $line";

/// Returns `turno once KEY [OPTIONS] -- sh -c SCRIPT`.
fn words<'a>(key: &'a str, options: &[&'a str], script: &'a str) -> Vec<&'a str> {
    [&["once", key], options, &["--", "sh", "-c", script]].concat()
}

fn once(fixture: &Fixture, key: &str, options: &[&str], script: &str) -> Done {
    fixture.turno(&words(key, options, script))
}

/// Runs the same, and returns its raw output.
fn raw(fixture: &Fixture, key: &str, options: &[&str], script: &str) -> Output {
    fixture
        .command(&words(key, options, script))
        .output()
        .unwrap()
}

/// Starts it with a pipe to its standard input, and its standard error in a file.
fn started(fixture: &Fixture, key: &str, options: &[&str], script: &str) -> Process {
    let errors = File::create(fixture.path("errors")).unwrap();
    let mut command = fixture.command(&words(key, options, script));
    Process::spawn(command.stdin(Stdio::piped()).stderr(errors)).unwrap()
}

fn answer_line(process: &Process) {
    let mut stdin = process.take_stdin().unwrap();
    stdin.write_all(b"it\n").unwrap();
}

fn errors(fixture: &Fixture) -> String {
    fs::read_to_string(fixture.path("errors")).unwrap()
}

/// Returns how often the command has run.
fn runs(fixture: &Fixture) -> usize {
    fs::read_to_string(fixture.path("runs")).map_or(0, |marks| marks.lines().count())
}

fn status(fixture: &Fixture, key: &str) -> Value {
    fixture.json(0, &["once", key, "--status"])
}

fn kill(pid: &str, signal: Signal) {
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), signal).unwrap();
}
