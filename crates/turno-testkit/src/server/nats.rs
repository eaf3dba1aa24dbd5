//! A private NATS server with JetStream.

use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;

use super::supervised::Supervised;
use super::{lock, programs};

const CONFIG: &str = "nats.conf";

/// Timeout of one check of the server.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// A private NATS server on 127.0.0.1, without a password. JetStream is enabled, and its streams survive a crash.
///
/// ```no_run
/// # use turno_testkit::server::Nats;
/// let server = Nats::start_with("max_payload: 65536\n")?;
/// let url = server.url();
/// server.kill_9()?;
/// server.restart()?;
/// // What JetStream acknowledged is there again at `url`.
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Debug)]
pub struct Nats {
    port: u16,
    command: Vec<String>,
    server: Mutex<Supervised>,
}

impl Nats {
    /// Starts a server.
    ///
    /// # Errors
    ///
    /// Returns an error if NATS is not installed (the message says what to install) or does not start (the message has the end
    /// of its log).
    pub fn start() -> Result<Self> {
        Self::start_with("")
    }

    /// Starts a server with these lines (as in `nats-server.conf`) after the default ones.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), and for a line that is invalid for NATS.
    pub fn start_with(lines: &str) -> Result<Self> {
        let program = programs::program("nats-server", "nats-server")?;
        let mut server = Supervised::new("nats", "TERM", None)?;
        let (port, command) = server.start_on_free_port(
            |server, port| {
                server.write(CONFIG, config(&name(server), port, lines))?;
                Ok(vec![
                    program.display().to_string(),
                    "--config".to_owned(),
                    CONFIG.to_owned(),
                ])
            },
            is_ready,
        )?;
        Ok(Self {
            port,
            command,
            server: Mutex::new(server),
        })
    }

    /// Returns the server's URL, `nats://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Port on 127.0.0.1. It stays the same across restarts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server (SIGKILL), as a crash would. [`restart`](Self::restart) recovers it.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be signalled or does not end.
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
        server.start_again(&self.command, |server| is_ready(server, self.port))
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

fn config(name: &str, port: u16, lines: &str) -> String {
    format!(
        "server_name: {name:?}\n\
         listen: \"127.0.0.1:{port}\"\n\
         jetstream {{ store_dir: \"data\" }}\n\
         {lines}\n"
    )
}

/// Returns the name of its folder, which is unique.
fn name(server: &Supervised) -> String {
    let name = server.folder().file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Checks that the greeting has the server's own name: on the port, another server might respond. It accepts connections only
/// after it has loaded its streams.
fn is_ready(server: &Supervised, port: u16) -> bool {
    let own = format!("\"server_name\":{:?}", name(server));
    greeting(port)
        .is_ok_and(|greeting| greeting.contains(&own) && greeting.contains("\"jetstream\":true"))
}

fn greeting(port: u16) -> io::Result<String> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(LOOK_TIMEOUT))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line)
}
