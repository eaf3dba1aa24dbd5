//! A private Redis server, for comparisons in benchmarks.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;

use super::supervised::Supervised;
use super::{lock, overridden, programs};

const CONFIG: &str = "redis.conf";

/// Default settings: nothing is written to disk.
const SETTINGS: [(&str, &str); 3] = [
    ("bind", "127.0.0.1"),
    ("save", "\"\""),
    ("appendonly", "no"),
];

/// Timeout of one check of the server.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// A private Redis server on 127.0.0.1, without a password.
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    command: Vec<String>,
    server: Mutex<Supervised>,
}

impl RedisServer {
    /// Starts a server that keeps all data in memory.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis is not installed (the message says what to install) or does not start (the message has the
    /// end of its log).
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// Starts a server with `settings` (as in `redis.conf`), which override the default ones, for example `("appendonly",
    /// "yes")`.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), and for a setting that is unknown to Redis.
    pub fn start_with(settings: &[(&str, &str)]) -> Result<Self> {
        let program = programs::program("redis-server", "redis-server")?;
        let mut server = Supervised::new("redis", "TERM", None)?;
        let settings = overridden(&SETTINGS, settings);
        let (port, command) = server.start_on_free_port(
            |server, port| {
                let lines: String = settings
                    .iter()
                    .map(|(name, value)| format!("{name} {value}\n"))
                    .collect();
                server.write(CONFIG, format!("{lines}port {port}\n"))?;
                Ok(vec![program.display().to_string(), CONFIG.to_owned()])
            },
            is_ready,
        )?;
        Ok(Self {
            port,
            command,
            server: Mutex::new(server),
        })
    }

    /// Returns the server's URL, `redis://127.0.0.1:PORT/`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Port on 127.0.0.1. It stays the same across restarts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server (SIGKILL), as a crash would.
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
}

/// Checks that the response has the server's own process id: on the port, another server might respond. A server that is still
/// loading its file also responds, hence the second condition; `async_loading` is a different field.
fn is_ready(server: &Supervised, port: u16) -> bool {
    let Some(pid) = server.pid() else {
        return false;
    };
    info(port).is_ok_and(|info| {
        info.contains(&format!("process_id:{}\r\n", pid.as_raw_nonzero()))
            && info.contains("\nloading:0\r\n")
    })
}

fn info(port: u16) -> io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(LOOK_TIMEOUT))?;
    // `QUIT` makes the server close the connection, so that the response has an end.
    stream.write_all(b"INFO\r\nQUIT\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
