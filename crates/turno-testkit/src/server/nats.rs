//! A private NATS server with JetStream.

use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, TcpStream};
use std::ops::Deref;
use std::time::Duration;

use anyhow::Result;

use super::supervised::Supervised;
use super::{PrivateServer, programs};

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
    server: PrivateServer,
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
        let server = PrivateServer::start(
            Supervised::new("nats", "TERM", None)?,
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
        Ok(Self { server })
    }

    /// Returns the server's URL, `nats://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port())
    }
}

impl Deref for Nats {
    type Target = PrivateServer;

    fn deref(&self) -> &PrivateServer {
        &self.server
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
