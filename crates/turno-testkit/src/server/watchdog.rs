//! The shell process that outlives this one just long enough to clean up.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Pid;

use super::without_pg_environment;

/// User account of a server when the tests run as root, as which servers refuse to run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Account {
    /// Returns the account of that name if this process is root. Returns `None` if not; then servers run as the same user.
    pub(super) fn instead_of_root(name: &str) -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let id = |flag: &str| -> Result<u32> {
            let output = Command::new("id")
                .args([flag, name])
                .output()
                .context("could not run `id`")?;
            let text = String::from_utf8_lossy(&output.stdout);
            text.trim().parse().with_context(|| {
                format!(
                    "there is no account {name:?} to run a server as, and it refuses to run as root: \
                     create one (`useradd --system {name}`) or run the tests as another user"
                )
            })
        };
        Ok(Some(Self {
            uid: id("-u")?,
            gid: id("-g")?,
        }))
    }
}

/// A running `watchdog.sh` and its folder. On drop, it ends the server and removes the folder.
#[derive(Debug)]
pub(super) struct Watchdog {
    shell: Child,
    // Taken only on drop: the watchdog ends when this pipe closes. Rust opens it close-on-exec, so that no other child of this
    // process holds it open.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    account: Option<Account>,
    folder: PathBuf,
}

impl Watchdog {
    /// Starts a watchdog for a server of that name. The signal `stop_now` stops the server at once.
    pub(super) fn start(name: &str, stop_now: &str, account: Option<Account>) -> Result<Self> {
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                include_str!("watchdog.sh"),
                "turno-watchdog",
                name,
                stop_now,
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A separate process group: a signal to the tests' group (Ctrl-C, timeout of a runner) must not end the watchdog.
            .process_group(0)
            .current_dir("/")
            .env("LC_ALL", "C");
        without_pg_environment(&mut command);
        if let Some(account) = account {
            command.uid(account.uid).gid(account.gid);
        }
        let mut shell = command.spawn().context("could not start `sh`")?;
        let orders = shell.stdin.take();
        let answers = shell
            .stdout
            .take()
            .context("a spawned child has the stdout asked for")?;
        let mut watchdog = Self {
            shell,
            orders,
            answers: BufReader::new(answers),
            account,
            folder: PathBuf::new(),
        };
        watchdog.folder = watchdog
            .answer()
            .context("no temporary folder could be made: is there a /tmp that all may write?")?
            .into();
        Ok(watchdog)
    }

    /// Returns the folder, which is also the server's working directory.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a file that the server can read.
    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.folder.join(name);
        fs::write(&path, content).with_context(|| format!("could not write {}", path.display()))?;
        if let Some(account) = self.account {
            chown(&path, Some(account.uid), Some(account.gid))
                .with_context(|| format!("could not give {} away", path.display()))?;
        }
        Ok(path)
    }

    /// Runs a command to its end.
    pub(super) fn run(&mut self, command: &[String]) -> Result<()> {
        let status = self.order("run", command)?;
        ensure!(
            status == "0",
            "{} ended with status {status}",
            command.join(" ")
        );
        Ok(())
    }

    /// Starts the server.
    pub(super) fn launch(&mut self, command: &[String]) -> Result<Pid> {
        let answer = self.order("start", command)?;
        answer
            .parse()
            .ok()
            .and_then(Pid::from_raw)
            .with_context(|| format!("the watchdog answered {answer:?} instead of a process id"))
    }

    /// Reaps a server that has ended.
    pub(super) fn reap(&mut self) -> Result<()> {
        self.order("reap", &[]).map(drop)
    }

    fn order(&mut self, verb: &str, words: &[String]) -> Result<String> {
        let mut line = verb.to_owned();
        for word in words {
            ensure!(
                !word.contains('\n'),
                "an order is one line, and {word:?} is not"
            );
            line.push(' ');
            line.push_str(&quoted(word));
        }
        line.push('\n');
        let orders = self
            .orders
            .as_mut()
            .context("orders are open until the watchdog is dropped")?;
        orders
            .write_all(line.as_bytes())
            .context("the watchdog is gone: was it killed?")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("the watchdog ended without an answer");
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.orders.take());
        // Fails only if the shell was reaped elsewhere; then there is nothing to wait for.
        let _ = self.shell.wait();
    }
}

/// Quotes any text as one word of a POSIX shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn words_reach_the_command_as_they_are() {
        let mut watchdog = Watchdog::start("test", "TERM", None).unwrap();
        let odd = "it's $HOME `date` \\ \"x\" *";
        watchdog.run(&words(&["printf", "%s", odd])).unwrap();
        assert_eq!(
            fs::read_to_string(watchdog.folder().join("log")).unwrap(),
            odd
        );
    }

    #[test]
    fn a_command_that_fails_is_named() {
        let mut watchdog = Watchdog::start("test", "TERM", None).unwrap();
        let error = watchdog.run(&words(&["sh", "-c", "exit 3"])).unwrap_err();
        assert!(
            error.to_string().ends_with("ended with status 3"),
            "{error}"
        );
    }

    #[test]
    fn dropping_ends_even_a_frozen_server_and_removes_the_folder() {
        let mut watchdog = Watchdog::start("test", "TERM", None).unwrap();
        let folder = watchdog.folder().to_owned();
        let server = watchdog.launch(&words(&["sleep", "600"])).unwrap();
        rustix::process::kill_process(server, rustix::process::Signal::STOP).unwrap();
        drop(watchdog);
        assert!(!crate::proc::is_running(server));
        assert!(!folder.exists());
    }

    /// Starts a server that starts a daemon, as Erlang does: in a separate session and another folder.
    fn with_daemon(watchdog: &mut Watchdog) -> (Pid, Pid) {
        let daemon = "setsid sh -c 'cd /; echo $$ >\"$HOME/new\"; mv \"$HOME/new\" \"$HOME/pid\"; exec sleep 600'";
        let script = format!("{daemon} & exec sleep 600");
        let server = watchdog.launch(&words(&["sh", "-c", &script])).unwrap();
        let file = watchdog.folder().join("pid");
        let pid = crate::eventually(Duration::from_secs(20), "a daemon's id", || {
            fs::read_to_string(&file).ok()
        });
        (server, Pid::from_raw(pid.trim().parse().unwrap()).unwrap())
    }

    #[test]
    fn dropping_ends_the_servers_daemon_too() {
        let mut watchdog = Watchdog::start("test", "TERM", None).unwrap();
        let (_, daemon) = with_daemon(&mut watchdog);
        drop(watchdog);
        assert!(!crate::proc::is_running(daemon));
    }

    #[test]
    fn a_server_is_collected_with_its_daemon() {
        let mut watchdog = Watchdog::start("test", "TERM", None).unwrap();
        let (server, daemon) = with_daemon(&mut watchdog);
        rustix::process::kill_process(server, rustix::process::Signal::KILL).unwrap();
        assert!(crate::proc::is_running(daemon));
        watchdog.reap().unwrap();
        assert!(!crate::proc::is_running(daemon));
    }
}
