//! Points at which a test makes this process die or freeze, so that a race is deterministic.
//!
//! `TICKETFLOW_FAULT=kill@despues-del-commit:3` kills it with -9 when it reaches that point for the third time; `stop@…`
//! freezes it (SIGSTOP) until it gets SIGCONT. With ` once` at the end, it happens in only one of the processes of the same
//! folder: the first that reaches the point.

use std::fs::File;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

/// Name of the environment variable.
pub(crate) const VARIABLE: &str = "TICKETFLOW_FAULT";

/// The event is published or emitted, and the transaction is not committed yet.
pub(crate) const BEFORE_COMMIT: &str = "antes-del-commit";
/// The transaction is committed; the API has not published, the consumer has not acknowledged yet.
pub(crate) const AFTER_COMMIT: &str = "despues-del-commit";
/// The broker has confirmed the event, and this is not recorded yet.
pub(crate) const AFTER_PUBLISH: &str = "despues-de-publicar";

/// File in the current folder which marks that the fault has happened.
const HAPPENED: &str = "fault-happened";

/// Pause, longer than it takes a signal to stop a process.
const STOPPING: Duration = Duration::from_secs(1);

struct Fault {
    signal: Signal,
    point: String,
    /// Number of passes left until the fault happens.
    left: AtomicI64,
    /// The fault happens in only one process of the folder.
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

/// Passes a point, and triggers its fault if there is one.
pub(crate) fn here(point: &str) {
    if let Some(fault) = &*FAULT
        && fault.point == point
        && fault.left.fetch_sub(1, Ordering::SeqCst) == 1
        && (!fault.once || File::create_new(HAPPENED).is_ok())
    {
        // This cannot fail for the process's own id.
        let _ = kill_process(getpid(), fault.signal);
        // The signal may be delivered to another thread. Do not continue until this thread is stopped, too.
        std::thread::sleep(STOPPING);
    }
}
