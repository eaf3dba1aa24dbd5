//! A private PgBouncer in front of a private PostgreSQL server.

use std::fmt;
use std::ops::Deref;

use anyhow::Result;

use super::supervised::Supervised;
use super::watchdog::Account;
use super::{POSTGRES_ACCOUNT, PostgresServer, PrivateServer, overridden, programs};

const CONFIG: &str = "pgbouncer.ini";

/// When PgBouncer assigns a server connection to another client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    /// When the client disconnects.
    Session,
    /// When the client's transaction ends.
    Transaction,
    /// After each statement; transactions of several statements are rejected.
    Statement,
}

impl fmt::Display for PoolMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Session => "session",
            Self::Transaction => "transaction",
            Self::Statement => "statement",
        })
    }
}

/// A private PgBouncer. Each client has the ordinary role `owner`, without a password.
#[derive(Debug)]
pub struct PgBouncer {
    server: PrivateServer,
}

impl PgBouncer {
    /// Starts a pooler in front of `postgres`.
    ///
    /// # Errors
    ///
    /// Returns an error if PgBouncer is not installed (the message says what to install) or does not start (the message has
    /// the end of its log).
    pub fn start(postgres: &PostgresServer, pool_mode: PoolMode) -> Result<Self> {
        Self::start_with(postgres, pool_mode, &[])
    }

    /// Starts a pooler with `settings` (as in the `[pgbouncer]` section), which override the default ones.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_with(
        postgres: &PostgresServer,
        pool_mode: PoolMode,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        let program = programs::program("pgbouncer", "pgbouncer")?;
        let account = Account::instead_of_root(POSTGRES_ACCOUNT)?;
        let pool_mode = pool_mode.to_string();
        let defaults = [
            ("listen_addr", "127.0.0.1"),
            // No socket: with one, PgBouncer would start even if another process used its port.
            ("unix_socket_dir", ""),
            ("auth_type", "any"),
            ("pool_mode", pool_mode.as_str()),
            ("max_client_conn", "500"),
            ("ignore_startup_parameters", "extra_float_digits"),
        ];
        let settings = overridden(&defaults, settings);
        let server = PrivateServer::start(
            Supervised::new("pgbouncer", "TERM", account)?,
            |server, port| {
                server.write(CONFIG, config(postgres.port(), port, &settings))?;
                Ok(vec![program.display().to_string(), CONFIG.to_owned()])
            },
            is_ready,
        )?;
        Ok(Self { server })
    }

    /// Returns the URL of a database of the server, through this pooler.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://owner@127.0.0.1:{}/{database}", self.port())
    }
}

impl Deref for PgBouncer {
    type Target = PrivateServer;

    fn deref(&self) -> &PrivateServer {
        &self.server
    }
}

fn config(postgres: u16, port: u16, settings: &[(&str, &str)]) -> String {
    let mut config = format!(
        "[databases]\n* = host=127.0.0.1 port={postgres} user=owner\n[pgbouncer]\nlisten_port = {port}\n"
    );
    for (name, value) in settings {
        config.push_str(&format!("{name} = {value}\n"));
    }
    config
}

/// Checks its own log for its own process id: on the port, another server might respond.
fn is_ready(server: &Supervised, port: u16) -> bool {
    let Some(pid) = server.pid() else {
        return false;
    };
    let own = format!("[{}]", pid.as_raw_nonzero());
    let listening = format!("listening on 127.0.0.1:{port}");
    server
        .log()
        .lines()
        .any(|line| line.contains(&own) && line.contains(&listening))
}
