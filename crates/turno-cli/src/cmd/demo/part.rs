//! One process's side of the play: it meets the others, and says how far it has got.

use std::io::{self, BufRead as _, Write as _};
use std::thread;

use tokio::sync::mpsc::{self, UnboundedReceiver};
use turno::Turno;

use super::set::{Role, Set};

/// A process of the demonstration, as it sees itself.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) set: Set,
    pub(super) role: Role,
    pub(super) index: usize,
    /// Only with Turno.
    pub(super) turno: Option<Turno>,
    cues: UnboundedReceiver<()>,
}

impl Part {
    pub(super) fn new(set: Set, role: Role, index: usize, turno: Option<Turno>) -> Self {
        let (cue, cues) = mpsc::unbounded_channel();
        // A thread of its own: leases are kept alive while this process waits for the others.
        thread::spawn(move || {
            for line in io::stdin().lock().lines() {
                if line.is_err() || cue.send(()).is_err() {
                    break;
                }
            }
            // Whoever directs has gone, and nobody is left to work for.
            std::process::exit(1);
        });
        Part {
            set,
            role,
            index,
            turno,
            cues,
        }
    }

    /// Waits until all others are at this meeting too, have left it behind, are away or have ended. Meetings are
    /// numbered; each process goes to its own in order, and may leave some out.
    pub(super) async fn here(&mut self, meeting: u32) {
        say(&format!("here {meeting}"));
        self.cues.recv().await;
    }

    /// Nobody need wait for this process before its next meeting: it was told to wait for its turn, or to go.
    pub(super) fn away(&self) {
        say("away");
    }

    /// One operation is done.
    pub(super) fn done(&self) {
        say("done");
    }
}

fn say(word: &str) {
    let mut out = io::stdout().lock();
    if writeln!(out, "{word}").and_then(|()| out.flush()).is_err() {
        // Nobody listens any more.
        std::process::exit(1);
    }
}
