//! A private PostgreSQL server.

mod cluster;

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;
use tokio_postgres::Config;

use super::programs::{self, Postgres};
use super::supervised::Supervised;
use super::watchdog::Account;
use super::{Certificate, POSTGRES_ACCOUNT, SmallDisk, lock, overridden, without_pg_environment};
use crate::{eventually, faketime};

/// Default settings: fast, because test data need not survive a crash of the machine, but correct across a crash of the
/// server's processes.
const SETTINGS: [(&str, &str); 7] = [
    ("fsync", "off"),
    ("synchronous_commit", "on"),
    ("full_page_writes", "off"),
    ("max_connections", "300"),
    ("listen_addresses", "127.0.0.1"),
    // In the folder, which the watchdog removes, and not in /dev/shm, where a killed server leaves files behind.
    ("dynamic_shared_memory_type", "mmap"),
    // The default starts a process for each database once a minute, and there are hundreds of databases.
    ("autovacuum_naptime", "10min"),
];

/// Owner of the tests' databases. An ordinary role, as on a managed service: not a superuser, and without the right to create
/// roles.
const OWNER: &str = "owner";

/// Statements that an administrator runs once per cluster, because the owner cannot create roles. Measurements begin after a
/// checkpoint, for which the owner needs `pg_checkpoint` (PostgreSQL 15 and later). `app` and `operator` represent a user's own
/// roles, with the rights of an application and of an operator.
const ROLES: &str = "create role owner login; create role turno_app nologin; create role turno_operator nologin; \
    create role app login in role turno_app; create role operator login in role turno_operator; \
    do $$ begin \
      if exists (select from pg_roles where rolname = 'pg_checkpoint') then grant pg_checkpoint to owner; end if; \
    end $$";

/// How long to wait until a database to copy is not in use any more.
const COPY_TIMEOUT: Duration = Duration::from_secs(30);

/// A private PostgreSQL server, on 127.0.0.1 only, without passwords. Its databases belong to the ordinary role `owner`; its
/// superuser is `postgres`.
///
/// ```no_run
/// # use turno_testkit::PostgresServer;
/// let server = PostgresServer::start()?;
/// let url = server.create_database();
/// server.kill_9()?;
/// server.restart()?;
/// // What was acknowledged is there again at `url`.
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Debug)]
pub struct PostgresServer {
    programs: Postgres,
    port: u16,
    command: Vec<String>,
    server: Mutex<Supervised>,
    databases: AtomicU64,
    clock: Clock,
}

/// The clock of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    /// That of the machine.
    Real,
    /// One that a test sets.
    Settable,
}

/// File with the difference between a settable clock and that of the machine, in the server's folder.
const CLOCK_FILE: &str = "clock";

impl PostgresServer {
    /// Starts a server with settings suited to tests.
    ///
    /// # Errors
    ///
    /// Returns an error if PostgreSQL is not installed (the message says what to install) or does not start (the message has
    /// the end of its log).
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// Starts a server with `settings` (as in `postgresql.conf`), which override the default ones.
    ///
    /// ```no_run
    /// # use turno_testkit::PostgresServer;
    /// let durable = PostgresServer::start_with(&[("fsync", "on"), ("full_page_writes", "on")])?;
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), and for a setting that is unknown to PostgreSQL.
    pub fn start_with(settings: &[(&str, &str)]) -> Result<Self> {
        Self::start_prepared(settings, Clock::Real, |_, _| Ok(()))
    }

    /// Starts a server whose clock can be set; see [`set_clock`](Self::set_clock). That of its standbys can be set, too.
    ///
    /// # Errors
    ///
    /// As [`start_with`](Self::start_with).
    pub fn start_with_clock(settings: &[(&str, &str)]) -> Result<Self> {
        Self::start_prepared(settings, Clock::Settable, |_, _| Ok(()))
    }

    /// Sets the clock of a running server to this difference from that of the machine, such as `+5` (seconds) or `-1h`. It takes
    /// effect within about a second.
    ///
    /// # Errors
    ///
    /// Returns an error if the file with the difference cannot be written.
    pub fn set_clock(&self, difference: &str) -> Result<()> {
        lock(&self.server).write(CLOCK_FILE, difference)
    }

    /// Starts a server that accepts only encrypted connections with a password (`hostssl … scram-sha-256`), except on its
    /// socket. It uses `certificate`, and trusts client certificates of `authority`. `rules` are inserted before the general
    /// rule in `pg_hba.conf`.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_hostssl(
        certificate: &Certificate,
        authority: &Certificate,
        rules: &[&str],
    ) -> Result<Self> {
        let settings = [
            // As on a managed service, so that `turno doctor` finds no problem.
            ("fsync", "on"),
            ("full_page_writes", "on"),
            ("ssl", "on"),
            ("ssl_cert_file", "../server.crt"),
            ("ssl_key_file", "../server.key"),
            ("ssl_ca_file", "../authority.crt"),
        ];
        Self::start_prepared(&settings, Clock::Real, |server, data| {
            for (name, from) in [
                ("server.crt", &certificate.certificate),
                ("server.key", &certificate.key),
                ("authority.crt", &authority.certificate),
            ] {
                server.write(name, fs::read(from)?)?;
                let file = server.folder().join(name);
                fs::set_permissions(file, fs::Permissions::from_mode(0o600))?;
            }
            let rules = rules.join("\n");
            let rules = format!(
                "local all all trust\n{rules}\nhostssl all all 127.0.0.1/32 scram-sha-256\n"
            );
            fs::write(data.join("pg_hba.conf"), rules).context("could not write pg_hba.conf")
        })
    }

    /// Starts a server after `prepare` has changed its folder and its data folder.
    fn start_prepared(
        settings: &[(&str, &str)],
        clock: Clock,
        prepare: impl FnOnce(&Supervised, &Path) -> Result<()>,
    ) -> Result<Self> {
        let programs = programs::postgres()?;
        let account = Account::instead_of_root(POSTGRES_ACCOUNT)?;
        let mut server = Supervised::new("postgres", "QUIT", account)?;
        let data = data(&server);
        cluster::create(&mut server, &programs.server, &data)?;
        let sockets = server.folder().display().to_string();
        let private = [("unix_socket_directories", sockets.as_str())];
        append_settings(&data, &overridden(&SETTINGS, &private))?;
        append_settings(&data, settings)?;
        prepare(&server, &data)?;
        let (port, command) = server.start_on_free_port(
            |server, port| {
                append_settings(&data, &[("port", &port.to_string())])?;
                command(server, &programs, clock)
            },
            |server, port| is_ready(&programs.clients, server.folder(), port),
        )?;
        let server = Self {
            programs,
            port,
            command,
            server: Mutex::new(server),
            databases: AtomicU64::new(0),
            clock,
        };
        server
            .administer(ROLES)
            .context("could not create the roles")?;
        Ok(server)
    }

    /// Starts a streaming standby of this server. From then on, this server acknowledges a commit only after the standby has
    /// it, so that a promotion loses no acknowledged commit.
    ///
    /// ```no_run
    /// # use turno_testkit::PostgresServer;
    /// let primary = PostgresServer::start()?;
    /// let standby = primary.start_standby()?;
    /// primary.freeze()?;
    /// standby.promote()?;
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the copy fails, or the standby does not start or does not follow.
    pub fn start_standby(&self) -> Result<Self> {
        let programs = self.programs.clone();
        let account = Account::instead_of_root(POSTGRES_ACCOUNT)?;
        let mut server = Supervised::new("postgres", "QUIT", account)?;
        let data = data(&server);
        server.prepare(&base_backup(&programs.clients, self.port, &data))?;
        append_settings(
            &data,
            &[("unix_socket_directories", &text(server.folder()))],
        )?;
        let (port, command) = server.start_on_free_port(
            |server, port| {
                append_settings(&data, &[("port", &port.to_string())])?;
                command(server, &programs, self.clock)
            },
            |server, port| is_ready(&programs.clients, server.folder(), port),
        )?;
        let standby = Self {
            programs,
            port,
            command,
            server: Mutex::new(server),
            databases: AtomicU64::new(0),
            clock: self.clock,
        };
        self.await_standby()?;
        self.administer("alter system set synchronous_standby_names = '*'")?;
        self.administer("select pg_reload_conf()")?;
        Ok(standby)
    }

    /// Waits until a standby follows this server, and has all that was committed so far.
    ///
    /// # Errors
    ///
    /// Returns an error if none does.
    pub fn await_standby(&self) -> Result<()> {
        let following = "do $$ declare so_far pg_lsn := pg_current_wal_lsn(); begin \
             for i in 1..600 loop \
               if exists (select from pg_stat_replication where state = 'streaming' and flush_lsn >= so_far) \
               then return; end if; \
               perform pg_sleep(0.05), pg_stat_clear_snapshot(); \
             end loop; \
             raise 'no standby'; \
           end $$";
        self.administer(following)
            .context("the standby does not follow its primary")
    }

    /// Promotes a standby to primary, and waits until it accepts writes.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not a standby or the promotion does not finish.
    pub fn promote(&self) -> Result<()> {
        self.administer("select pg_promote()")
            .context("could not promote the standby")
    }

    /// Freezes the server and all of its processes (SIGSTOP): connections stay open, the kernel accepts new ones, and there
    /// are no responses. Only [`kill_9`](Self::kill_9) ends it.
    ///
    /// # Errors
    ///
    /// Returns an error if a process cannot be signalled.
    pub fn freeze(&self) -> Result<()> {
        lock(&self.server).freeze()
    }

    /// Runs SQL as the superuser, in the database `postgres`.
    ///
    /// # Errors
    ///
    /// Returns an error if a statement fails; the message has the server's error.
    pub fn administer(&self, sql: &str) -> Result<()> {
        let mut config = Config::new();
        // Through its socket, which needs no password even if the port does.
        config.host_path(self.folder()).port(self.port);
        config.user("postgres").dbname("postgres");
        run_alone(&config, sql)
    }

    /// Returns the server that all tests of this process share. The first call starts it. Do not stop or kill it.
    ///
    /// # Panics
    ///
    /// Panics if it cannot be started; the message is that of [`start`](Self::start).
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        SHARED.get_or_init(|| match Self::start() {
            Ok(server) => server,
            Err(error) => panic!("{error:#}"),
        })
    }

    /// Creates an empty database for the caller alone, and returns its URL.
    ///
    /// # Panics
    ///
    /// Panics if the server does not create it; the message has the server's error.
    #[track_caller]
    pub fn create_database(&self) -> String {
        match self.create("template1") {
            Ok(url) => url,
            Err(error) => panic!("could not create a database (is the server stopped?): {error}"),
        }
    }

    /// Creates an empty database whose tables are on a small disk, and returns its URL. The log of the server is not there.
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not create it.
    pub fn create_database_on(&self, disk: &SmallDisk) -> Result<String> {
        let number = self.databases.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("turno_{number}");
        let folder = disk.path();
        self.administer(&format!(
            "create tablespace {name} location '{}'",
            folder.display()
        ))?;
        self.administer(&format!(
            "create database {name} owner {OWNER} tablespace {name}"
        ))?;
        Ok(self.url(&name))
    }

    /// Creates a copy of a database, as soon as it has no connections any more, and returns the URL of the copy.
    ///
    /// # Panics
    ///
    /// Panics if the server does not create it; the message has the server's error.
    #[track_caller]
    pub fn copy_database(&self, url: &str) -> String {
        let template = url.rsplit('/').next().unwrap_or(url);
        eventually(COPY_TIMEOUT, "a copy of a database", || {
            match self.create(template) {
                Ok(url) => Some(url),
                Err(error) if error.contains("being accessed by other users") => None,
                Err(error) => panic!("could not copy {url}: {error}"),
            }
        })
    }

    /// Creates a copy of a database on a server that another process has started, as soon as it has no connections any more, and
    /// returns the URL of the copy. Its name begins with that of the database.
    ///
    /// # Panics
    ///
    /// Panics if the server does not create it; the message has the server's error.
    #[track_caller]
    pub fn copy_on_running_server(url: &str) -> String {
        static COPIES: AtomicU64 = AtomicU64::new(0);
        let (server, template) = url.rsplit_once('/').unwrap_or((url, url));
        let number = COPIES.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("{template}_{}_{number}", std::process::id());
        let mut superuser = match url.parse::<Config>() {
            Ok(config) => config,
            Err(error) => panic!("{url} is not the URL of a database: {error}"),
        };
        superuser.user("postgres").dbname("postgres");
        let create = format!("create database {name} owner {OWNER} template {template}");
        eventually(COPY_TIMEOUT, "a copy of a database", || {
            match run_alone(&superuser, &create) {
                Ok(()) => Some(format!("{server}/{name}")),
                Err(error) if is_in_use(&error) => None,
                Err(error) => panic!("could not copy {url}: {error:#}"),
            }
        })
    }

    fn create(&self, template: &str) -> Result<String, String> {
        let number = self.databases.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("turno_{number}");
        match self.administer(&format!(
            "create database {name} owner {OWNER} template {template}"
        )) {
            Ok(()) => Ok(self.url(&name)),
            Err(error) => Err(format!("{error:#}")),
        }
    }

    /// Returns the URL of a database on this server, as its owner.
    pub fn url(&self, database: &str) -> String {
        self.url_as(OWNER, database)
    }

    /// Returns the URL of a database on this server, as the superuser, for statements that an ordinary owner cannot run.
    pub fn superuser_url(&self, database: &str) -> String {
        self.url_as("postgres", database)
    }

    /// Returns the URL of a database on this server, as any role.
    pub fn url_as(&self, role: &str, database: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/{database}", self.port)
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
        let mut server = lock(&self.server);
        server.kill_9()?;
        remove_shared_memory(&data(&server));
        Ok(())
    }

    /// Stops the server gracefully, ending its connections (a *fast* shutdown).
    ///
    /// # Errors
    ///
    /// Returns an error if it does not end in time; the message has the end of its log.
    pub fn stop(&self) -> Result<()> {
        lock(&self.server).stop(Signal::INT)
    }

    /// Starts the server again on the same folder and port, and waits until it accepts connections. Stops it first if it is
    /// running.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not start; the message has the end of its log.
    pub fn restart(&self) -> Result<()> {
        let mut server = lock(&self.server);
        server.stop(Signal::INT)?;
        server.start_again(&self.command, |server| {
            is_ready(&self.programs.clients, server.folder(), self.port)
        })
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

/// The server's error message, if it sent one.
fn described(error: tokio_postgres::Error) -> anyhow::Error {
    match error.as_db_error() {
        Some(said) => anyhow::anyhow!("{said}"),
        None => error.into(),
    }
}

/// Returns the command that copies a running server as a standby of it.
fn base_backup(bin: &Path, primary: u16, data: &Path) -> Vec<String> {
    let mut command = vec![
        text(&bin.join("pg_basebackup")),
        "-D".to_owned(),
        text(data),
    ];
    command.push(format!(
        "--dbname=host=127.0.0.1 port={primary} user=postgres"
    ));
    let options = [
        "--checkpoint=fast",
        "--wal-method=stream",
        "--write-recovery-conf",
        "--no-sync",
    ];
    command.extend(options.map(str::to_owned));
    command
}

/// Connects through the socket in the server's own folder: on the port, another server might respond. PostgreSQL opens the
/// socket only after the port is bound.
fn is_ready(bin: &Path, sockets: &Path, port: u16) -> bool {
    let mut command = Command::new(bin.join("pg_isready"));
    without_pg_environment(&mut command);
    command
        .args([
            "--quiet",
            "--host",
            &text(sockets),
            "--port",
            &port.to_string(),
        ])
        .stdin(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Later lines win, so that settings can be overridden, also by `alter system`.
fn append_settings(data: &Path, settings: &[(&str, &str)]) -> Result<()> {
    let path = data.join("postgresql.conf");
    let mut lines = String::new();
    for (name, value) in settings {
        writeln!(lines, "{name} = '{}'", value.replace('\'', "''"))?;
    }
    OpenOptions::new()
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(lines.as_bytes()))
        .with_context(|| format!("could not write {}", path.display()))
}

/// Removes the small System V segment with which PostgreSQL guards its folder. It outlives a killed server, and systems have
/// few of them. Its id is the second number on the seventh line of `postmaster.pid`. Best effort: a restart would take it
/// over.
fn remove_shared_memory(data: &Path) {
    let lock_file = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let id = lock_file
        .lines()
        .nth(6)
        .and_then(|line| line.split_whitespace().nth(1));
    if let Some(id) = id {
        let _ = Command::new("ipcrm")
            .args(["-m", id])
            .stderr(Stdio::null())
            .status();
    }
}

/// Returns the command that starts a server.
fn command(server: &Supervised, programs: &Postgres, clock: Clock) -> Result<Vec<String>> {
    let mut command = match clock {
        Clock::Real => Vec::new(),
        Clock::Settable => {
            server.write(CLOCK_FILE, "+0")?;
            faketime::with_clock_of(&server.folder().join(CLOCK_FILE))
        }
    };
    command.push(text(&programs.server.join("postgres")));
    command.push("-D".to_owned());
    command.push(text(&data(server)));
    Ok(command)
}

fn data(server: &Supervised) -> PathBuf {
    server.folder().join("data")
}

/// Runs statements in a connection of their own.
fn run_alone(config: &Config, sql: &str) -> Result<()> {
    let run = async {
        let (client, connection) = config.connect(tokio_postgres::NoTls).await?;
        let connection = tokio::spawn(connection);
        let ran = client.batch_execute(sql).await;
        drop(client);
        // It has ended, with an error only if the statement had one.
        let _ = connection.await;
        ran
    };
    // On its own thread, because the caller may be inside a runtime.
    let ran = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(run).map_err(described)
        });
        thread.join()
    });
    ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns whether a database could not be copied because it has connections.
fn is_in_use(error: &anyhow::Error) -> bool {
    format!("{error:#}").contains("being accessed by other users")
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
