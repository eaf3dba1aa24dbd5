//! Child processes that a test stops, continues and kills.

use std::fmt;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::eventually::poll;

/// A child process whose standard output is read line by line. It is killed with SIGKILL on drop.
///
/// ```
/// use std::process::Command;
/// use std::time::Duration;
/// use turno_testkit::Process;
///
/// let process = Process::spawn(Command::new("sh").args(["-c", "echo ready; exec sleep 60"]))?;
/// process.lines().expect_line("ready", Duration::from_secs(5));
/// process.kill_9();
/// let status = process.wait_timeout(Duration::from_secs(5)).expect("a killed process ends");
/// assert!(!status.success());
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Debug)]
pub struct Process {
    child: Mutex<Child>,
    stdin: Mutex<Option<ChildStdin>>,
    lines: Lines,
}

impl Process {
    /// Starts `command`. Its standard output is piped; all other settings are the command's.
    ///
    /// # Errors
    ///
    /// Returns an error if the program cannot be started; the message names it.
    pub fn spawn(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("could not start {command:?}: is the program there?"))?;
        let stdout = child
            .stdout
            .take()
            .context("a spawned child has the stdout asked for")?;
        let (sender, receiver) = mpsc::channel();
        // The thread ends with the child's output, or when the receiver is dropped.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            stdin: Mutex::new(child.stdin.take()),
            child: Mutex::new(child),
            lines: Lines {
                inner: Mutex::new(Inner {
                    receiver,
                    seen: Vec::new(),
                }),
            },
        })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        lock(&self.child).id()
    }

    /// Freezes the process (SIGSTOP): it keeps its connections and does nothing, as in a long pause of its machine.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues a frozen process (SIGCONT).
    pub fn cont(&self) {
        self.signal(Signal::CONT);
    }

    /// Requests the process to end (SIGTERM).
    pub fn term(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills the process (SIGKILL).
    pub fn kill_9(&self) {
        self.signal(Signal::KILL);
    }

    /// Writes a line to the standard input of the process.
    ///
    /// # Panics
    ///
    /// Panics if the input is not piped, was taken, or is closed because the process has ended.
    #[track_caller]
    pub fn write_line(&self, line: &str) {
        let mut stdin = lock(&self.stdin);
        let stdin = stdin.as_mut().expect("the input is piped");
        writeln!(stdin, "{line}").expect("the process is running");
    }

    /// Returns the child's standard input, if the command piped it. It can be taken once; dropping it closes the pipe.
    pub fn take_stdin(&self) -> Option<ChildStdin> {
        lock(&self.stdin).take()
    }

    /// Returns the output of the process.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Waits at most `timeout` for the process to end. Returns `None` if it is still running.
    pub fn wait_timeout(&self, timeout: Duration) -> Option<ExitStatus> {
        poll(timeout, || lock(&self.child).try_wait().ok().flatten())
    }

    fn signal(&self, signal: Signal) {
        let mut child = lock(&self.child);
        // The id of a child that was reaped may already belong to another process.
        if matches!(child.try_wait(), Ok(None)) {
            let sent = kill_process(Pid::from_child(&child), signal);
            debug_assert!(sent.is_ok(), "an unreaped child can be signalled: {sent:?}");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Both calls fail only if the process has already ended, which is fine.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// The lines that a [`Process`] prints on its standard output.
pub struct Lines {
    inner: Mutex<Inner>,
}

struct Inner {
    receiver: Receiver<String>,
    /// Lines read so far, for the message of a failed expectation.
    seen: Vec<String>,
}

impl Lines {
    /// Returns the next line; `None` if none arrives within `timeout` or the output has ended.
    pub fn next(&self, timeout: Duration) -> Option<String> {
        lock(&self.inner).next(timeout).ok()
    }

    /// Reads up to the first line that starts with `prefix`, and returns the rest of that line, trimmed.
    ///
    /// # Panics
    ///
    /// Panics if no such line arrives within `timeout` or before the output ends; the message has all lines read so far.
    #[track_caller]
    pub fn expect_line(&self, prefix: &str, timeout: Duration) -> String {
        let deadline = Instant::now() + timeout;
        let mut inner = lock(&self.inner);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let why = match inner.next(left) {
                Ok(line) => match line.strip_prefix(prefix) {
                    Some(rest) => return rest.trim().to_owned(),
                    None => continue,
                },
                Err(RecvTimeoutError::Timeout) => format!("within {timeout:?}"),
                Err(RecvTimeoutError::Disconnected) => "before the output ended".to_owned(),
            };
            let seen = inner.seen.join("\n");
            // Released first: a panic must not poison the mutex for a test that continues.
            drop(inner);
            panic!("no line starting with {prefix:?} came {why}; the lines were:\n{seen}");
        }
    }

    /// Returns all further lines until the output ends.
    pub fn rest(&self) -> Vec<String> {
        lock(&self.inner).receiver.iter().collect()
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").finish_non_exhaustive()
    }
}

impl Inner {
    fn next(&mut self, timeout: Duration) -> Result<String, RecvTimeoutError> {
        let line = self.receiver.recv_timeout(timeout)?;
        self.seen.push(line.clone());
        Ok(line)
    }
}

/// Ignores poisoning: a panic in another thread leaves the data behind these mutexes consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Process {
        Process::spawn(
            Command::new("sh")
                .args(["-c", script])
                .stdin(Stdio::piped()),
        )
        .unwrap()
    }

    fn state_of(process: &Process) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }

    #[test]
    fn lines_are_read_and_the_rest_of_a_match_returned() {
        let process = shell("echo one; echo 'port 7117 '; echo three");
        assert_eq!(process.lines().expect_line("port", LONG), "7117");
        assert_eq!(process.lines().rest(), ["three"]);
        assert!(process.wait_timeout(LONG).unwrap().success());
    }

    #[test]
    #[should_panic(expected = "before the output ended; the lines were:\none")]
    fn a_line_that_never_comes_is_named_with_those_that_came() {
        shell("echo one").lines().expect_line("two", LONG);
    }

    #[test]
    fn a_stopped_process_does_nothing_until_continued() {
        let process = shell("echo ready; while read -r line; do echo \"got $line\"; done");
        process.lines().expect_line("ready", LONG);
        process.stop();
        poll(LONG, || (state_of(&process) == 'T').then_some(())).expect("SIGSTOP stops");
        process.take_stdin().unwrap().write_all(b"mail\n").unwrap();
        assert_eq!(process.lines().next(Duration::from_millis(50)), None);
        process.cont();
        process.lines().expect_line("got mail", LONG);
    }

    #[test]
    fn wait_timeout_tells_running_from_ended() {
        let process = shell("trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done");
        process.lines().expect_line("ready", LONG);
        assert!(process.wait_timeout(Duration::ZERO).is_none());
        process.term();
        assert_eq!(process.wait_timeout(LONG).unwrap().code(), Some(7));
        // The id is no longer ours: this must not signal any process.
        process.kill_9();
    }

    #[test]
    fn dropping_kills_even_a_stopped_process() {
        let process = shell("exec sleep 600");
        let pid = Pid::from_raw(process.id().try_into().unwrap()).unwrap();
        process.stop();
        drop(process);
        assert!(!crate::proc::is_running(pid));
    }
}
