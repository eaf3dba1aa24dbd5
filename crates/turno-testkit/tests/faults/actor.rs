//! The test's side of a `turno-actor` process.

use std::process::{Command, Stdio};

use turno_testkit::{Process, set_clock};

use crate::LONG;

/// The program, built along with this test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_turno-actor");

pub struct Actor {
    process: Process,
}

/// Result of an `acquire`.
#[derive(Debug, Clone, Copy)]
pub struct Acquired {
    pub token: i64,
    pub answered_us: i64,
}

impl Actor {
    pub fn start(url: &str) -> Self {
        Self::spawn(Command::new(PROGRAM).arg(url))
    }

    /// Starts one whose clock is shifted by libfaketime, for example by `+1h`.
    pub fn start_at(url: &str, offset: &str) -> Self {
        Self::spawn(set_clock(Command::new(PROGRAM).arg(url), offset))
    }

    fn spawn(command: &mut Command) -> Self {
        let process =
            Process::spawn(command.stdin(Stdio::piped())).expect("an actor can be started");
        process.lines().expect_line("ready ", LONG);
        Self { process }
    }

    pub fn pid(&self) -> i32 {
        self.process.id().cast_signed()
    }

    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Freezes it, like a long pause of its machine.
    pub fn stop(&self) {
        self.process.stop();
    }

    pub fn cont(&self) {
        self.process.cont();
    }

    pub fn kill_9(&self) {
        self.process.kill_9();
    }

    /// Sends a command; [`Actor::answer`] returns its result.
    pub fn tell(&self, command: &str) {
        self.process.write_line(command);
    }

    #[track_caller]
    pub fn answer(&self) -> String {
        self.process
            .lines()
            .next(LONG)
            .expect("an actor answers every command, unless it has died")
    }

    #[track_caller]
    pub fn ask(&self, command: &str) -> String {
        self.tell(command);
        self.answer()
    }

    #[track_caller]
    pub fn acquire(&self, resource: &str, ttl_ms: u64, wait_ms: u64, user: &str) -> Acquired {
        self.tell_acquire(resource, ttl_ms, wait_ms, user);
        self.acquired()
    }

    pub fn tell_acquire(&self, resource: &str, ttl_ms: u64, wait_ms: u64, user: &str) {
        self.tell(&format!("acquire {resource} {ttl_ms} {wait_ms} {user}"));
    }

    /// Returns the result of an acquire that must be granted.
    #[track_caller]
    pub fn acquired(&self) -> Acquired {
        let answer = self.answer();
        let words: Vec<&str> = answer.split(' ').collect();
        match words[..] {
            ["acquired", token, answered_us] => Acquired {
                token: token.parse().expect("a token is a number"),
                answered_us: answered_us.parse().expect("a time is a number"),
            },
            _ => panic!("expected to acquire, got {answer:?}"),
        }
    }

    /// Releases a lease that must still be held. Returns when the release was acknowledged.
    #[track_caller]
    pub fn release(&self, resource: &str) -> i64 {
        let answer = self.ask(&format!("release {resource}"));
        match answer.strip_prefix("released ") {
            Some(answered_us) => answered_us.parse().expect("a time is a number"),
            None => panic!("expected to release {resource}, got {answer:?}"),
        }
    }
}
