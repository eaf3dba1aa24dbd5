//! The test's side of a `turno-web` process.

use std::process::{Command, Stdio};
use std::time::Duration;

use turno_testkit::Process;

use crate::LONG;
use crate::fixture::Fixture;

/// The program, built along with this test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_turno-web");

/// Options of a server, as the program's arguments.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub ending: &'static str,
    pub in_flight: &'static str,
    pub unknown: &'static str,
    pub lease: Duration,
}

/// The defaults, with a lease that no test outlives.
pub const USUAL: Options = Options {
    ending: "plain",
    in_flight: "conflict",
    unknown: "refuse",
    lease: LONG,
};

/// A short lease, so that work is taken over soon.
pub const SHORT: Options = Options {
    lease: Duration::from_secs(1),
    ..USUAL
};

pub struct Web {
    process: Process,
    port: u16,
}

impl Web {
    /// Starts the handler with the layer around it.
    pub fn start(fixture: &Fixture, options: Options) -> Self {
        Self::face(fixture, "layer", options)
    }

    /// Starts the handler alone.
    pub fn bare(fixture: &Fixture, options: Options) -> Self {
        Self::face(fixture, "bare", options)
    }

    /// Starts a gate in front of another server.
    pub fn gate(fixture: &Fixture, service: &Web, options: Options) -> Self {
        let upstream = format!("http://127.0.0.1:{}", service.port);
        Self::face(fixture, &upstream, options)
    }

    fn face(fixture: &Fixture, face: &str, options: Options) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args([
            &fixture.url,
            face,
            options.ending,
            options.in_flight,
            options.unknown,
        ]);
        command.arg(options.lease.as_millis().to_string());
        command.arg(fixture.folder.path());
        let process =
            Process::spawn(command.stdin(Stdio::piped())).expect("a server can be started");
        let port = process.lines().expect_line("listening ", LONG);
        Self {
            process,
            port: port.parse().unwrap(),
        }
    }

    pub fn pid(&self) -> i64 {
        self.process.id().into()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Lets one paused handler continue.
    pub fn go(&self) {
        self.process.write_line("go");
    }

    /// Returns the counters of its layer.
    pub fn counts(&self) -> String {
        self.process.write_line("counts");
        self.process.lines().expect_line("counts ", LONG)
    }

    /// Returns the number of requests that have arrived at its layer.
    pub fn arrived(&self) -> usize {
        self.process.write_line("arrived");
        let arrived = self.process.lines().expect_line("arrived ", LONG);
        arrived.parse().unwrap()
    }

    /// Returns the key of the next request whose handler is paused.
    #[track_caller]
    pub fn held(&self) -> String {
        self.process.lines().expect_line("held ", LONG)
    }
}
