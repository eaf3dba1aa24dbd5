//! Where the database is and how to reach it, by the conventions of libpq.
//!
//! Values in the URL win over the service file, that over the environment, and that over the defaults.

mod environment;
mod parameters;
mod passfile;
mod service;
mod text;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::config::{
    ChannelBinding, Host, LoadBalanceHosts, SslMode, SslNegotiation, TargetSessionAttrs,
};
use tokio_postgres::{Client, Config, Connection, Socket};

pub use self::environment::Environment;
use self::parameters::{Parameters, invalid_value};
use super::error::{classify, silent};
use super::overlap;
use super::tls::{ClientFiles, Mode, Roots, Tls, TlsOptions, TlsStream};
use crate::error::{Error, Kind, Result};

const DEFAULT_PORT: u16 = 5432;
const DEFAULT_APPLICATION_NAME: &str = "turno";
/// Where servers have their sockets: Debian's folder, and PostgreSQL's own default.
const SOCKET_FOLDERS: [&str; 2] = ["/var/run/postgresql", "/tmp"];
const LOCALHOST: &str = "localhost";

/// Where a PostgreSQL database is and how to connect to it: what [`Turno::connect`](crate::Turno::connect) makes of a
/// store's URL.
///
/// An application with connections of its own uses it to connect the same way, with the same TLS settings, environment
/// variables, password file and service file:
///
/// ```no_run
/// # async fn connect() -> Result<(), Box<dyn std::error::Error>> {
/// use turno::store::postgres::Target;
///
/// let target = Target::parse("postgres://app@db/app?sslmode=verify-full&sslrootcert=system")?;
/// let (client, connection) = target.connect().await?;
/// tokio::spawn(connection);
/// client.batch_execute("select 1").await?;
/// # Ok(()) }
/// ```
///
/// [`config`](Target::config) and [`tls`](Target::tls) are what a pool such as `deadpool_postgres` needs.
#[derive(Debug, Clone)]
pub struct Target {
    /// All hosts.
    config: Config,
    /// One host each.
    hosts: Vec<Config>,
    tls: Tls,
    #[cfg(feature = "sqlx-postgres")]
    tls_options: TlsOptions,
}

/// The time for one host when the URL names one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The same when the URL names several hosts: another one may be able to serve.
const CONNECT_TIMEOUT_PER_HOST: Duration = Duration::from_secs(2);

impl Target {
    /// Reads a URL (`postgres://…`) or a connection string (`host=… user=…`), and what it leaves open from the service
    /// file, the environment variables of this process and the password file. `postgres://` alone leaves everything
    /// open.
    ///
    /// # Errors
    /// If a parameter is unknown or its value invalid, or if a file that a parameter names cannot be used. The message
    /// never has the password.
    pub fn parse(url: &str) -> Result<Self> {
        Target::parse_with(url, &Environment::of_process())
    }

    /// The same with other environment variables than those of this process.
    ///
    /// # Errors
    /// As [`Target::parse`].
    pub fn parse_with(url: &str, environment: &Environment) -> Result<Self> {
        let mut parameters = text::parse(url)?;
        service::apply(&mut parameters, environment)?;
        parameters.set_from_environment(environment);
        resolve(&parameters, environment)
    }

    /// The settings for tokio-postgres, with all hosts.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The settings for each host alone, in order: its address, its password and its encryption.
    pub(super) fn hosts(&self) -> &[Config] {
        &self.hosts
    }

    /// The TLS connector for tokio-postgres.
    pub fn tls(&self) -> Tls {
        self.tls.clone()
    }

    /// The time for one host: connecting, greeting, and the check of the session.
    pub(super) fn connect_timeout(&self) -> Duration {
        let default = match self.hosts.len() {
            0 | 1 => CONNECT_TIMEOUT,
            _ => CONNECT_TIMEOUT_PER_HOST,
        };
        let asked = self.config.get_connect_timeout().copied();
        asked.unwrap_or(default)
    }

    /// Opens a connection to a host that accepts one and has the wanted `target_session_attrs`. The next host is tried when
    /// one has failed, or when it has not answered for a quarter of a second. The connection must be polled, usually by a
    /// task of its own.
    ///
    /// # Errors
    /// If no host accepts it within `connect_timeout` (5 s; 2 s for each of several hosts); the message says why.
    pub async fn connect(&self) -> Result<(Client, Connection<Socket, TlsStream>)> {
        let mut attempts: Vec<overlap::Attempt<'_, _>> = Vec::new();
        for host in &self.hosts {
            attempts.push(Box::pin(self.connect_to(host)));
        }
        overlap::first(attempts, |_| true).await
    }

    async fn connect_to(&self, host: &Config) -> Result<(Client, Connection<Socket, TlsStream>)> {
        let timeout = self.connect_timeout();
        match tokio::time::timeout(timeout, host.connect(self.tls())).await {
            Ok(opened) => opened.map_err(classify),
            Err(_) => Err(silent(timeout)),
        }
    }

    /// The settings for sqlx. sqlx connects to one host: the first.
    ///
    /// # Errors
    /// If sqlx cannot do what is asked for.
    #[cfg(feature = "sqlx-postgres")]
    pub fn sqlx_options(&self) -> Result<sqlx::postgres::PgConnectOptions> {
        super::sqlx_options::of(&self.hosts, &self.tls_options)
    }
}

/// Whether a text is a connection string of `key=value` pairs, which has no scheme to know it by.
pub(crate) fn is_connection_string(text: &str) -> bool {
    parameters::starts_with_parameter(text)
}

/// One server of several.
struct Address {
    host: Host,
    hostaddr: Option<IpAddr>,
    port: u16,
}

fn resolve(parameters: &Parameters, environment: &Environment) -> Result<Target> {
    let tls_options = tls_options(parameters, environment)?;
    let user = match parameters.get("user") {
        Some(user) => user.to_owned(),
        None => whoami::username().map_err(|error| {
            Error::caused(
                Kind::invalid("store"),
                "the store's URL names no user and the system's user has no name: add user@ to the URL, or set PGUSER",
                error,
            )
        })?,
    };
    let common = common(parameters, &user, &tls_options)?;
    let passfile = parameters.get("passfile").map(PathBuf::from);
    let passfile = passfile.or_else(|| environment.home_file(".pgpass"));
    let passwords = match (parameters.get("password"), passfile) {
        (None, Some(file)) => passfile::read(&file),
        _ => None,
    };

    let mut config = common.clone();
    let mut hosts = Vec::new();
    for address in addresses(parameters)? {
        let password = passwords.as_deref().and_then(|passwords| {
            let key = passfile::Key {
                host: &passfile_host(&address),
                port: &address.port.to_string(),
                dbname: common.get_dbname().unwrap_or(&user),
                user: &user,
            };
            passfile::password(passwords, &key)
        });
        let mut host = common.clone();
        for config in [&mut config, &mut host] {
            match &address.host {
                Host::Tcp(name) => config.host(name),
                Host::Unix(folder) => config.host_path(folder),
            };
            config.port(address.port);
            if let Some(hostaddr) = address.hostaddr {
                config.hostaddr(hostaddr);
            }
            if let Some(password) = &password
                && config.get_password().is_none()
            {
                config.password(password);
            }
        }
        // As libpq does: a socket of this machine needs no encryption, whatever sslmode says.
        // With hostaddr the connection does not go through the socket.
        if matches!(address.host, Host::Unix(_)) && address.hostaddr.is_none() {
            host.ssl_mode(SslMode::Disable);
        }
        hosts.push(host);
    }
    if hosts
        .iter()
        .all(|host| host.get_ssl_mode() == SslMode::Disable)
    {
        config.ssl_mode(SslMode::Disable);
    }
    Ok(Target {
        config,
        hosts,
        tls: tls_options.connector()?,
        #[cfg(feature = "sqlx-postgres")]
        tls_options,
    })
}

/// What is the same for all hosts.
fn common(parameters: &Parameters, user: &str, tls: &TlsOptions) -> Result<Config> {
    let mut config = Config::new();
    config.user(user);
    config.dbname(parameters.get("dbname").unwrap_or(user));
    if let Some(password) = parameters.get("password") {
        config.password(password);
    }
    if let Some(options) = parameters.get("options") {
        config.options(options);
    }
    let name = parameters.get("application_name");
    let name = name.or_else(|| parameters.get("fallback_application_name"));
    config.application_name(name.unwrap_or(DEFAULT_APPLICATION_NAME));
    check_encoding(parameters)?;
    set_times(&mut config, parameters)?;
    if parameters.get("gssencmode") == Some("require") {
        return Err(invalid_value(
            "gssencmode",
            "Turno does not support GSSAPI; give disable, and encrypt with sslmode",
        ));
    }

    let target = parameters.choice(
        "target_session_attrs",
        &[
            ("any", TargetSessionAttrs::Any),
            ("read-write", TargetSessionAttrs::ReadWrite),
            // Turno writes, so that both mean the same to it.
            ("primary", TargetSessionAttrs::ReadWrite),
        ],
    )?;
    config.target_session_attrs(target.unwrap_or(TargetSessionAttrs::Any));
    let balance = parameters.choice(
        "load_balance_hosts",
        &[
            ("disable", LoadBalanceHosts::Disable),
            ("random", LoadBalanceHosts::Random),
        ],
    )?;
    config.load_balance_hosts(balance.unwrap_or(LoadBalanceHosts::Disable));
    let binding = parameters.choice(
        "channel_binding",
        &[
            ("disable", ChannelBinding::Disable),
            ("prefer", ChannelBinding::Prefer),
            ("require", ChannelBinding::Require),
        ],
    )?;
    config.channel_binding(binding.unwrap_or(ChannelBinding::Prefer));
    let negotiation = parameters.choice(
        "sslnegotiation",
        &[
            ("postgres", SslNegotiation::Postgres),
            ("direct", SslNegotiation::Direct),
        ],
    )?;
    let negotiation = negotiation.unwrap_or_default();
    if negotiation == SslNegotiation::Direct && matches!(tls.mode, Mode::Disable | Mode::Prefer) {
        return Err(invalid_value(
            "sslnegotiation",
            "direct needs sslmode=require, verify-ca or verify-full",
        ));
    }
    config.ssl_negotiation(negotiation);
    config.ssl_mode(match tls.mode {
        Mode::Disable => SslMode::Disable,
        Mode::Prefer => SslMode::Prefer,
        Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
    });
    Ok(config)
}

fn check_encoding(parameters: &Parameters) -> Result<()> {
    let encoding = parameters.get("client_encoding").unwrap_or("utf8");
    match encoding.to_ascii_lowercase().as_str() {
        "utf8" | "utf-8" | "unicode" | "auto" => Ok(()),
        _ => Err(invalid_value(
            "client_encoding",
            "Turno uses UTF8; remove the parameter",
        )),
    }
}

fn set_times(config: &mut Config, parameters: &Parameters) -> Result<()> {
    // As in libpq, zero and less mean the default.
    let positive = |name| -> Result<Option<u64>> {
        let number = parameters.number::<i64>(name)?;
        Ok(number.and_then(|number| u64::try_from(number).ok().filter(|number| *number > 0)))
    };
    if let Some(seconds) = positive("connect_timeout")? {
        config.connect_timeout(Duration::from_secs(seconds));
    }
    if let Some(milliseconds) = positive("tcp_user_timeout")? {
        config.tcp_user_timeout(Duration::from_millis(milliseconds));
    }
    if let Some(keepalives) = parameters.number::<i64>("keepalives")? {
        config.keepalives(keepalives != 0);
    }
    if let Some(seconds) = positive("keepalives_idle")? {
        config.keepalives_idle(Duration::from_secs(seconds));
    }
    if let Some(seconds) = positive("keepalives_interval")? {
        config.keepalives_interval(Duration::from_secs(seconds));
    }
    if let Some(count) = positive("keepalives_count")? {
        let count = u32::try_from(count);
        config.keepalives_retries(
            count.map_err(|_| invalid_value("keepalives_count", "give a smaller number"))?,
        );
    }
    Ok(())
}

/// The hosts in order. A host that is empty is the default: a socket of this machine, or `localhost` if there is none.
fn addresses(parameters: &Parameters) -> Result<Vec<Address>> {
    let names = parameters.list("host");
    let hostaddrs = parameters
        .list("hostaddr")
        .into_iter()
        .map(|address| match address {
            "" => Ok(None),
            address => address
                .parse::<IpAddr>()
                .map(Some)
                .map_err(|_| invalid_value("hostaddr", "give an IP address")),
        })
        .collect::<Result<Vec<_>>>()?;
    if !names.is_empty() && !hostaddrs.is_empty() && names.len() != hostaddrs.len() {
        return Err(invalid_value(
            "hostaddr",
            "give as many addresses as there are hosts",
        ));
    }
    let ports = parameters
        .list("port")
        .into_iter()
        .map(|port| match port {
            "" => Ok(DEFAULT_PORT),
            port => port
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or_else(|| invalid_value("port", "give a number between 1 and 65535")),
        })
        .collect::<Result<Vec<u16>>>()?;
    let count = names.len().max(hostaddrs.len()).max(1);
    if ports.len() > 1 && ports.len() != count {
        return Err(invalid_value(
            "port",
            "give one port, or as many as there are hosts",
        ));
    }
    let addresses = (0..count).map(|index| {
        let port = ports.get(index).or(ports.first());
        let port = port.copied().unwrap_or(DEFAULT_PORT);
        let hostaddr = hostaddrs.get(index).copied().flatten();
        let name = names.get(index).filter(|name| !name.is_empty());
        let host = match (name, hostaddr) {
            (Some(name), _) if name.starts_with('/') => Host::Unix(PathBuf::from(name)),
            (Some(name), _) => Host::Tcp((*name).to_owned()),
            (None, Some(address)) => Host::Tcp(address.to_string()),
            (None, None) => default_host(port),
        };
        Address {
            host,
            hostaddr,
            port,
        }
    });
    Ok(addresses.collect())
}

fn default_host(port: u16) -> Host {
    let socket = format!(".s.PGSQL.{port}");
    let has_socket = |folder: &&&str| Path::new(folder).join(&socket).exists();
    match SOCKET_FOLDERS.iter().find(has_socket) {
        Some(folder) => Host::Unix(PathBuf::from(folder)),
        None => Host::Tcp(LOCALHOST.to_owned()),
    }
}

/// The name that a password file has for a server. A socket in its usual place is `localhost` there.
fn passfile_host(address: &Address) -> String {
    match &address.host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(folder) => match folder.to_str() {
            Some(folder) if !SOCKET_FOLDERS.contains(&folder) => folder.to_owned(),
            _ => LOCALHOST.to_owned(),
        },
    }
}

fn tls_options(parameters: &Parameters, environment: &Environment) -> Result<TlsOptions> {
    if parameters.get("sslmode") == Some("allow") {
        return Err(invalid_value(
            "sslmode",
            "allow is not supported; give prefer, which encrypts whenever the server can",
        ));
    }
    let mode = parameters.choice(
        "sslmode",
        &[
            ("disable", Mode::Disable),
            ("prefer", Mode::Prefer),
            ("require", Mode::Require),
            ("verify-ca", Mode::VerifyCa),
            ("verify-full", Mode::VerifyFull),
        ],
    )?;
    let roots = match parameters.get("sslrootcert") {
        Some("system") => Some(Roots::System),
        Some(file) => Some(Roots::File(PathBuf::from(file))),
        None => None,
    };
    if roots == Some(Roots::System) && !matches!(mode, None | Some(Mode::VerifyFull)) {
        return Err(invalid_value(
            "sslmode",
            "sslrootcert=system needs verify-full, because every public authority is trusted then",
        ));
    }
    let mode = match (mode, &roots) {
        (Some(mode), _) => mode,
        (None, Some(Roots::System)) => Mode::VerifyFull,
        (None, _) => Mode::Prefer,
    };
    let default_file = |name: &str| {
        let file = environment.home_file(name);
        file.filter(|file| file.exists())
    };
    let roots = roots.or_else(|| match mode {
        // Not for prefer: libpq would connect without encryption after a failed verification, which protects less.
        Mode::Disable | Mode::Prefer => None,
        Mode::Require | Mode::VerifyCa | Mode::VerifyFull => {
            default_file(".postgresql/root.crt").map(Roots::File)
        }
    });
    let file = |name: &str, default: &str| match parameters.get(name) {
        Some(file) => Some(PathBuf::from(file)),
        None => default_file(default),
    };
    let client = match (
        file("sslcert", ".postgresql/postgresql.crt"),
        file("sslkey", ".postgresql/postgresql.key"),
    ) {
        (Some(certificate), Some(key)) => Some(ClientFiles { certificate, key }),
        (Some(_), None) => {
            return Err(invalid_value(
                "sslkey",
                "there is a client certificate without a key; name the file of its key",
            ));
        }
        (None, _) => None,
    };
    let tls13_only = parameters.choice(
        "ssl_min_protocol_version",
        &[
            ("TLSv1", false),
            ("TLSv1.1", false),
            ("TLSv1.2", false),
            ("TLSv1.3", true),
        ],
    )?;
    let sni = parameters.choice("sslsni", &[("0", false), ("1", true)])?;
    Ok(TlsOptions {
        mode,
        roots,
        client,
        is_tls13_only: tls13_only.unwrap_or(false),
        sends_host_name: sni.unwrap_or(true),
    })
}

#[cfg(test)]
mod tests;
