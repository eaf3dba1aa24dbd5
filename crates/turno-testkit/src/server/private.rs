//! What the private servers have in common.

use std::fmt;
use std::path::PathBuf;
use std::sync::Mutex;

use anyhow::Result;
use rustix::process::Signal;

use super::lock;
use super::supervised::Supervised;

/// Returns whether the server on this port responds.
type Ready = Box<dyn Fn(&Supervised, u16) -> bool + Send + Sync>;

/// A server that can be stopped, killed, and restarted on its folder and port.
pub struct PrivateServer {
    port: u16,
    command: Vec<String>,
    ready: Ready,
    server: Mutex<Supervised>,
}

impl fmt::Debug for PrivateServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateServer")
            .field("port", &self.port)
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}

impl PrivateServer {
    /// Starts a server on a free port. `configure` gets the port and returns the command.
    pub(super) fn start(
        mut server: Supervised,
        configure: impl FnMut(&Supervised, u16) -> Result<Vec<String>>,
        ready: impl Fn(&Supervised, u16) -> bool + Send + Sync + 'static,
    ) -> Result<Self> {
        let (port, command) = server.start_on_free_port(configure, &ready)?;
        Ok(Self {
            port,
            command,
            ready: Box::new(ready),
            server: Mutex::new(server),
        })
    }

    /// Port on 127.0.0.1. It stays the same across restarts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server and all of its processes (SIGKILL), as a crash would. [`restart`](Self::restart) recovers it.
    ///
    /// # Errors
    ///
    /// Returns an error if a process cannot be signalled or does not end.
    pub fn kill_9(&self) -> Result<()> {
        lock(&self.server).kill_9()
    }

    /// Stops the server gracefully.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not end in time; the message has the end of its log.
    pub fn stop(&self) -> Result<()> {
        lock(&self.server).stop(Signal::TERM)
    }

    /// Starts the server again on the same folder and port, and waits until it responds. Stops it first if it is running.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not start; the message has the end of its log.
    pub fn restart(&self) -> Result<()> {
        let mut server = lock(&self.server);
        server.stop(Signal::TERM)?;
        server.start_again(&self.command, |server| (self.ready)(server, self.port))
    }

    /// Starts the server again on the same folder and port if it has crashed, as systemd does. Returns whether it had.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not start; the message has the end of its log.
    pub fn restart_after_crash(&self) -> Result<bool> {
        let mut server = lock(&self.server);
        let has_crashed = server.has_crashed()?;
        if has_crashed {
            server.start_again(&self.command, |server| (self.ready)(server, self.port))?;
        }
        Ok(has_crashed)
    }

    /// Returns the server's folder, which is deleted with it.
    pub fn folder(&self) -> PathBuf {
        lock(&self.server).folder().to_owned()
    }

    /// Returns the server's log so far.
    pub fn log(&self) -> String {
        lock(&self.server).log()
    }
}
