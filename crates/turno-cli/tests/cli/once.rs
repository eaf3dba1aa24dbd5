//! `turno once`: a command that runs once, and its answer, which is replayed to each repetition.

mod answers;
mod in_flight;
mod people;
mod vanished;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use turno_testkit::{PostgresServer, Process, TcpProxy, eventually};

use crate::common::{Done, Kind, LONG, Place, is_running, state, text};

/// Appends a mark each time it runs.
const MARK: &str = "echo ran >> runs;";
/// Prints its pid, then works until it gets a signal, and prints that.
const WORK: &str = "trap 'echo told TERM; exit 3' TERM; echo pid $$; while :; do sleep 0.05; done";
/// Prints its token, and waits for a line.
const ASK: &str = "echo token $TURNO_ONCE_TOKEN; read -r line; echo got $line";

/// Returns `turno once KEY [OPTIONS] -- sh -c SCRIPT`.
fn words<'a>(key: &'a str, options: &[&'a str], script: &'a str) -> Vec<&'a str> {
    [&["once", key], options, &["--", "sh", "-c", script]].concat()
}

fn once(place: &Place, key: &str, options: &[&str], script: &str) -> Done {
    place.turno(&words(key, options, script))
}

/// Runs the same, and returns its raw output.
fn raw(place: &Place, key: &str, options: &[&str], script: &str) -> Output {
    place.command(words(key, options, script)).output().unwrap()
}

/// Starts it with a pipe to its standard input, and its standard error in a file.
fn started(place: &Place, key: &str, options: &[&str], script: &str) -> Process {
    let errors = File::create(place.path("errors")).unwrap();
    let mut command = place.command(words(key, options, script));
    Process::spawn(command.stdin(Stdio::piped()).stderr(errors)).unwrap()
}

fn answer_line(process: &Process) {
    let mut stdin = process.take_stdin().unwrap();
    stdin.write_all(b"it\n").unwrap();
}

fn errors(place: &Place) -> String {
    fs::read_to_string(place.path("errors")).unwrap()
}

/// Returns how often the command has run.
fn runs(place: &Place) -> usize {
    fs::read_to_string(place.path("runs")).map_or(0, |marks| marks.lines().count())
}

fn status(place: &Place, key: &str) -> Value {
    place.json(0, &["once", key, "--status"])
}

fn kill(pid: &str, signal: Signal) {
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), signal).unwrap();
}
