//! Points at which a test makes this process die or freeze, so that a race happens for certain and not by luck.
//!
//! `TICKETFLOW_FAULT=kill@despues-del-commit:3` kills it with -9 the third time that it comes there;
//! `stop@…` freezes it (SIGSTOP) until it is told to go on. With ` once` at the end, it happens to one of the processes of the
//! same folder only: the first that comes there.

use std::fs::File;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

/// The variable's name.
pub(crate) const VARIABLE: &str = "TICKETFLOW_FAULT";

/// All is said, and nothing is committed yet.
pub(crate) const BEFORE_COMMIT: &str = "antes-del-commit";
/// It is committed, and nobody knows yet.
pub(crate) const AFTER_COMMIT: &str = "despues-del-commit";
/// The broker has it, and that is not recorded yet.
pub(crate) const AFTER_PUBLISH: &str = "despues-de-publicar";

/// In the current folder: the fault has happened.
const HAPPENED: &str = "fault-happened";

/// Longer than it takes a signal to stop a process.
const STOPPING: Duration = Duration::from_secs(1);

struct Fault {
    signal: Signal,
    point: String,
    /// How often the point is passed until then.
    left: AtomicI64,
    /// It happens to one process of the folder only.
    once: bool,
}

static FAULT: LazyLock<Option<Fault>> = LazyLock::new(|| parse(&std::env::var(VARIABLE).ok()?));

fn parse(text: &str) -> Option<Fault> {
    let (text, once) = match text.strip_suffix(" once") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let (signal, point) = text.split_once('@')?;
    let (point, nth) = point.split_once(':').unwrap_or((point, "1"));
    Some(Fault {
        signal: match signal {
            "kill" => Signal::KILL,
            "stop" => Signal::STOP,
            _ => return None,
        },
        point: point.to_owned(),
        left: AtomicI64::new(nth.parse().ok()?),
        once,
    })
}

/// Passes a point.
pub(crate) fn here(point: &str) {
    if let Some(fault) = &*FAULT
        && fault.point == point
        && fault.left.fetch_sub(1, Ordering::SeqCst) == 1
        && (!fault.once || File::create_new(HAPPENED).is_ok())
    {
        // It cannot fail for a process's own id.
        let _ = kill_process(getpid(), fault.signal);
        // Another thread may be the one that is told to stop; until it has stopped this one too, go no further.
        std::thread::sleep(STOPPING);
    }
}
