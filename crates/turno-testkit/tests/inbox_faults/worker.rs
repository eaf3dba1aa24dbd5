//! The test's side of a `turno-worker` process.

use std::process::{Command, Stdio};
use std::time::Duration;

use turno_testkit::Process;

use crate::LONG;
use crate::fixture::{Fixture, QUEUE};

/// The program, built along with this test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_turno-worker");

/// Options of a worker.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How an item ends: `effect`, `plain` or `naive`.
    pub ending: &'static str,
    pub lease: Duration,
    pub concurrency: usize,
    pub prefetch: usize,
}

/// Completes items together with their effects, and has a short lease.
pub const EFFECT: Options = Options {
    ending: "effect",
    lease: Duration::from_secs(1),
    concurrency: 8,
    prefetch: 8,
};

/// The same, with one item at a time.
pub const ONE: Options = Options {
    concurrency: 1,
    prefetch: 0,
    ..EFFECT
};

pub struct Worker {
    process: Process,
}

/// Counters that a worker reports after SIGTERM.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    pub completed: u64,
    pub failed: u64,
    pub given_back: u64,
    pub lost: u64,
}

impl Worker {
    /// Starts one, and waits until it is ready.
    pub fn start(fixture: &Fixture, options: Options) -> Self {
        let worker = Self::begin(fixture, options);
        worker.process.lines().expect_line("ready ", LONG);
        worker
    }

    /// Starts one without waiting for it.
    pub fn begin(fixture: &Fixture, options: Options) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args([&fixture.url, QUEUE, options.ending]);
        command.arg(options.lease.as_millis().to_string());
        command.arg(options.concurrency.to_string());
        command.arg(options.prefetch.to_string());
        command.arg(fixture.folder.path());
        let process =
            Process::spawn(command.stdin(Stdio::piped())).expect("a worker can be started");
        Self { process }
    }

    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Lets one paused handler continue.
    pub fn go(&self) {
        self.process.write_line("go");
    }

    /// Returns the next item that a paused handler has begun, and its attempt.
    #[track_caller]
    pub fn began(&self) -> (i64, u32) {
        let began = self.process.lines().expect_line("began ", LONG);
        let (item, attempt) = began.split_once(' ').expect("an item and an attempt");
        (item.parse().unwrap(), attempt.parse().unwrap())
    }

    /// Returns the result of a handler that continued: `written ITEM` or `refused ITEM`.
    #[track_caller]
    pub fn outcome(&self) -> String {
        self.process
            .lines()
            .next(LONG)
            .expect("a handler that goes on comes to an end")
    }

    /// Reads its report. Call it after SIGTERM.
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
