//! A disk with little space.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Result;

use super::POSTGRES_ACCOUNT;
use super::watchdog::Account;
use crate::process::Process;

/// Runs a command with a file system in memory of `$0` bytes at the folder `$1`. Only that process and its children see it, so no
/// rights are needed.
const SCRIPT: &str = r#"mount -t tmpfs -o size="$0" none "$1" && shift && exec "$@""#;
/// Holds the file system, and obeys [`SmallDisk::occupy`]. Its input ends with this process.
const HOLDER: &str =
    "echo ready; while read -r bytes; do head -c $bytes /dev/zero > /mnt/occupied; echo done; done";
/// A folder that exists on every system. Outside the process, it stays as it is.
const FOLDER: &str = "/mnt";
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A small file system in memory, for a PostgreSQL server of the tests. It ends when it is dropped, and with this process.
///
/// ```no_run
/// use turno_testkit::{PostgresServer, SmallDisk};
///
/// let disk = SmallDisk::start(32 << 20)?;
/// let store = PostgresServer::shared().create_database_on(&disk)?;
/// # drop(store); Ok::<(), anyhow::Error>(())
/// ```
#[derive(Debug)]
pub struct SmallDisk {
    holder: Process,
}

impl SmallDisk {
    /// Starts one of so many bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be started.
    pub fn start(bytes: u64) -> Result<Self> {
        let account = Account::instead_of_root(POSTGRES_ACCOUNT)?;
        let words = Self::command_as(false, Path::new(FOLDER), bytes);
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .args(["sh", "-c", HOLDER])
            .stdin(Stdio::piped());
        if let Some(account) = account {
            command.uid(account.uid).gid(account.gid);
        }
        let holder = Process::spawn(&mut command)?;
        holder.lines().expect_line("ready", START_TIMEOUT);
        Ok(SmallDisk { holder })
    }

    /// Returns the words that run a command, whose own words follow, with a small disk in place of a folder. Other processes see
    /// the files below `/proc/PID/root`.
    pub fn command(folder: &Path, bytes: u64) -> Vec<String> {
        Self::command_as(rustix::process::geteuid().is_root(), folder, bytes)
    }

    /// The same for root, or for an ordinary user. The user stays the same in both cases.
    fn command_as(root: bool, folder: &Path, bytes: u64) -> Vec<String> {
        let own: &[&str] = match root {
            true => &[],
            // A user may mount in a user namespace of its own.
            false => &["--user", "--map-current-user", "--keep-caps"],
        };
        let words = [&["unshare"], own, &["--mount", "sh", "-c", SCRIPT]].concat();
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        words.extend([bytes.to_string(), folder.display().to_string()]);
        words
    }

    /// Occupies so many bytes of it with one file, instead of as many as before.
    pub fn occupy(&self, bytes: usize) {
        self.holder.write_line(&bytes.to_string());
        self.holder.lines().expect_line("done", START_TIMEOUT);
    }

    /// Its folder, as every process of the same user sees it.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{FOLDER}", self.holder.id()))
    }
}
