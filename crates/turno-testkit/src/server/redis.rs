//! A private Redis server, for comparisons in benchmarks.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::ops::Deref;
use std::time::Duration;

use anyhow::Result;

use super::supervised::Supervised;
use super::{PrivateServer, overridden, programs};

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
    server: PrivateServer,
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
        let settings = overridden(&SETTINGS, settings);
        let server = PrivateServer::start(
            Supervised::new("redis", "TERM", None)?,
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
        Ok(Self { server })
    }

    /// Returns the server's URL, `redis://127.0.0.1:PORT/`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port())
    }
}

impl Deref for RedisServer {
    type Target = PrivateServer;

    fn deref(&self) -> &PrivateServer {
        &self.server
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
