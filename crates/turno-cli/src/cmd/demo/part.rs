//! A process of the demonstration: meets the others, and reports its progress.

use std::io::{self, BufRead as _, Write as _};
use std::thread;

use tokio::sync::mpsc::{self, UnboundedReceiver};
use turno::Turno;

use super::set::{Role, Set};

/// A process of the demonstration, from its own point of view.
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
        // A thread of its own: leases are renewed while this process waits for the others.
        thread::spawn(move || {
            for line in io::stdin().lock().lines() {
                if line.is_err() || cue.send(()).is_err() {
                    break;
                }
            }
            // The director is gone, so this process ends.
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

    /// Waits until all other processes are at this meeting too, are past it, are away or have ended. Meetings are numbered. Each
    /// process goes to its meetings in order, and may skip some.
    pub(super) async fn here(&mut self, meeting: u32) {
        say(&format!("here {meeting}"));
        self.cues.recv().await;
    }

    /// Reports that the others need not wait for this process before its next meeting: it waits for a lock, or was rejected.
    pub(super) fn away(&self) {
        say("away");
    }

    /// Reports that one operation is done.
    pub(super) fn done(&self) {
        say("done");
    }
}

fn say(word: &str) {
    let mut out = io::stdout().lock();
    if writeln!(out, "{word}").and_then(|()| out.flush()).is_err() {
        // The director is gone.
        std::process::exit(1);
    }
}
