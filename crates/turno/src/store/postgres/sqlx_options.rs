//! The same connection for sqlx.

use std::str::FromStr as _;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::tls::{Mode, Roots, TlsOptions};
use crate::error::{Error, Kind, Result};

/// sqlx's settings for the first host.
pub(super) fn of(hosts: &[Config], tls: &TlsOptions) -> Result<PgConnectOptions> {
    let Some(config) = hosts.first() else {
        return Err(Error::new(Kind::Broken, "a connection has no host"));
    };
    let mut options = match config.get_options() {
        // Only a URL can set them as they are.
        Some(text) => {
            let text = utf8_percent_encode(text, NON_ALPHANUMERIC);
            let url = PgConnectOptions::from_str(&format!("postgres://localhost?options={text}"));
            url.map_err(|error| {
                Error::caused(
                    Kind::invalid("store"),
                    "the connection parameter options (or PGOPTIONS) is invalid for sqlx",
                    error,
                )
            })?
        }
        None => PgConnectOptions::new_without_pgpass(),
    };
    options = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => options.host(name),
        Some(Host::Unix(folder)) => options.socket(folder),
        None => options,
    };
    if let Some(port) = config.get_ports().first() {
        options = options.port(*port);
    }
    if let Some(user) = config.get_user() {
        options = options.username(user);
    }
    if let Some(database) = config.get_dbname() {
        options = options.database(database);
    }
    if let Some(Ok(password)) = config.get_password().map(std::str::from_utf8) {
        options = options.password(password);
    }
    if let Some(name) = config.get_application_name() {
        options = options.application_name(name);
    }
    options = options.ssl_mode(match (tls.mode, &tls.roots) {
        (Mode::Disable, _) => PgSslMode::Disable,
        _ if config.get_ssl_mode() == SslMode::Disable => PgSslMode::Disable,
        (Mode::Prefer, None) => PgSslMode::Prefer,
        (Mode::Require, None) => PgSslMode::Require,
        // sqlx trusts public authorities beside the file. Without the host's name, any of their certificates would do.
        _ => PgSslMode::VerifyFull,
    });
    options = match &tls.roots {
        Some(Roots::File(file)) => options.ssl_root_cert(file),
        // Nothing beside the authorities of the system, whatever PGSSLROOTCERT says.
        Some(Roots::System) | None => options.ssl_root_cert_from_pem(Vec::new()),
    };
    if let Some(files) = &tls.client {
        options = options
            .ssl_client_cert(&files.certificate)
            .ssl_client_key(&files.key);
    }
    Ok(options)
}
