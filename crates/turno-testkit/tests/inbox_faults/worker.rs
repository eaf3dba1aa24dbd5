//! The test's end of a `turno-worker` process.

use std::io::Write;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use turno_testkit::Process;

use crate::LONG;
use crate::place::QUEUE;

/// The program, built along with this test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_turno-worker");

/// How a worker is run.
#[derive(Debug, Clone, Copy)]
pub struct How {
    /// `effect`, `plain` or `naive`: how an item ends.
    pub ending: &'static str,
    pub lease: Duration,
    pub concurrency: usize,
    pub prefetch: usize,
}

/// A worker that ends items together with their effects, and is taken over from soon.
pub const EFFECT: How = How {
    ending: "effect",
    lease: Duration::from_secs(1),
    concurrency: 8,
    prefetch: 8,
};

/// The same, with one item at a time.
pub const ONE: How = How {
    concurrency: 1,
    prefetch: 0,
    ..EFFECT
};

pub struct Worker {
    process: Process,
    stdin: Mutex<ChildStdin>,
}

/// What a worker that was asked to end says that it did.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    pub completed: u64,
    pub failed: u64,
    pub given_back: u64,
    pub lost: u64,
}

impl Worker {
    /// Starts one, and goes on when it is about to work.
    pub fn start(url: &str, how: How) -> Self {
        let worker = Self::begin(url, how);
        worker.process.lines().expect_line("ready ", LONG);
        worker
    }

    /// Starts one, and does not wait for it.
    pub fn begin(url: &str, how: How) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args([url, QUEUE, how.ending]);
        command.arg(how.lease.as_millis().to_string());
        command.arg(how.concurrency.to_string());
        command.arg(how.prefetch.to_string());
        let process =
            Process::spawn(command.stdin(Stdio::piped())).expect("a worker can be started");
        let stdin = process.take_stdin().expect("its input is piped");
        Self {
            process,
            stdin: Mutex::new(stdin),
        }
    }

    pub fn pid(&self) -> i64 {
        self.process.id().into()
    }

    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Lets one handler go on that is held.
    pub fn go(&self) {
        let mut stdin = self
            .stdin
            .lock()
            .expect("nobody panics while writing a line");
        writeln!(stdin, "go").expect("the worker is there");
    }

    /// The next item that a held handler has begun with, and which attempt it is.
    #[track_caller]
    pub fn began(&self) -> (i64, u32) {
        let began = self.process.lines().expect_line("began ", LONG);
        let (item, attempt) = began.split_once(' ').expect("an item and an attempt");
        (item.parse().unwrap(), attempt.parse().unwrap())
    }

    /// What came of a held handler that was let go on: `written ITEM` or `refused ITEM`.
    #[track_caller]
    pub fn outcome(&self) -> String {
        self.process
            .lines()
            .next(LONG)
            .expect("a handler that goes on comes to an end")
    }

    /// Reads what it says last; it was asked to end before.
    #[track_caller]
    pub fn report(&self) -> Report {
        let ended = self.process.lines().expect_line("ended ", LONG);
        let status = self.process.wait_timeout(LONG).expect("it ends");
        assert!(status.success(), "{status}");
        let counts: Vec<u64> = ended
            .split(' ')
            .map(|count| count.parse().expect("a count is a number"))
            .collect();
        match counts[..] {
            [completed, failed, given_back, lost] => Report {
                completed,
                failed,
                given_back,
                lost,
            },
            _ => panic!("{ended:?} is no report"),
        }
    }
}
