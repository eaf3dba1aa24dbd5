//! The test's side of a `turno-relay` process.

use std::process::{Command, Stdio};
use std::time::Duration;

use turno_testkit::Process;

use crate::LONG;

/// The program, built along with this test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_turno-relay");

/// Exchange of all tests.
pub const EXCHANGE: &str = "ticketflow.events";

/// Options of a relay.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub mode: &'static str,
    /// `confirmed`, or another one for a control.
    pub confirms: &'static str,
    pub batch: u32,
    pub lease: Duration,
    pub attempts: u32,
}

/// Keeps the order of events, and has a short lease.
pub const ORDERED: Options = Options {
    mode: "ordered",
    confirms: "confirmed",
    batch: 200,
    lease: Duration::from_secs(2),
    attempts: 2,
};

pub struct Relay {
    process: Process,
}

impl Relay {
    /// Starts one, and waits until it is ready.
    pub fn start(store: &str, broker: &str, exchange: &str, options: Options) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args([store, broker, exchange, options.mode, options.confirms]);
        command.arg(options.batch.to_string());
        command.arg(options.lease.as_millis().to_string());
        command.arg(options.attempts.to_string());
        let process =
            Process::spawn(command.stdin(Stdio::piped())).expect("a relay can be started");
        process.lines().expect_line("ready ", LONG);
        Self { process }
    }

    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Ends it with SIGTERM. Returns its report: sent, refused, dead, returned, stale, outages.
    #[track_caller]
    pub fn end(&self) -> Vec<u64> {
        self.process.term();
        let ended = self.process.lines().expect_line("ended ", LONG);
        ended
            .split(' ')
            .map(|count| count.parse().expect("a count is a number"))
            .collect()
    }
}
