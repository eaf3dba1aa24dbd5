//! The parameters of a connection: their names, their environment variables, and the values given.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::environment::Environment;
use crate::error::{Error, Result};

/// Each supported parameter, with the environment variable that libpq reads for it.
const SUPPORTED: [(&str, Option<&str>); 30] = [
    ("service", Some("PGSERVICE")),
    ("servicefile", Some("PGSERVICEFILE")),
    ("host", Some("PGHOST")),
    ("hostaddr", Some("PGHOSTADDR")),
    ("port", Some("PGPORT")),
    ("dbname", Some("PGDATABASE")),
    ("user", Some("PGUSER")),
    ("password", Some("PGPASSWORD")),
    ("passfile", Some("PGPASSFILE")),
    ("options", Some("PGOPTIONS")),
    ("application_name", Some("PGAPPNAME")),
    ("fallback_application_name", None),
    // Turno always uses UTF-8; psql's variable is not for it.
    ("client_encoding", None),
    ("connect_timeout", Some("PGCONNECT_TIMEOUT")),
    ("tcp_user_timeout", None),
    ("keepalives", None),
    ("keepalives_idle", None),
    ("keepalives_interval", None),
    ("keepalives_count", None),
    ("target_session_attrs", Some("PGTARGETSESSIONATTRS")),
    ("load_balance_hosts", Some("PGLOADBALANCEHOSTS")),
    ("channel_binding", Some("PGCHANNELBINDING")),
    ("gssencmode", Some("PGGSSENCMODE")),
    ("sslmode", Some("PGSSLMODE")),
    ("sslnegotiation", Some("PGSSLNEGOTIATION")),
    ("sslrootcert", Some("PGSSLROOTCERT")),
    ("sslcert", Some("PGSSLCERT")),
    ("sslkey", Some("PGSSLKEY")),
    ("sslsni", Some("PGSSLSNI")),
    ("ssl_min_protocol_version", Some("PGSSLMINPROTOCOLVERSION")),
];

/// Parameters that libpq knows and Turno does not implement. To ignore one could weaken a connection, so they are refused.
const UNSUPPORTED: [&str; 17] = [
    "gssdelegation",
    "gsslib",
    "krbsrvname",
    "max_protocol_version",
    "min_protocol_version",
    "oauth_client_id",
    "oauth_issuer",
    "replication",
    "require_auth",
    "requirepeer",
    "ssl_max_protocol_version",
    "sslcertmode",
    "sslcompression",
    "sslcrl",
    "sslcrldir",
    "sslkeylogfile",
    "sslpassword",
];

/// How long a name may be that an error repeats. What is longer, or has other letters, may be part of a password.
const MAX_SHOWN_NAME: usize = 40;

/// Values by the name of their parameter.
#[derive(Default)]
pub(super) struct Parameters(BTreeMap<&'static str, String>);

impl Parameters {
    /// Sets a parameter; a later value replaces an earlier one. `origin` is where it was read, for the error.
    pub(super) fn set(&mut self, name: &str, value: String, origin: &str) -> Result<()> {
        let name = known(name, origin)?;
        if value.is_empty() {
            self.0.remove(name);
        } else {
            self.0.insert(name, value);
        }
        Ok(())
    }

    /// Sets a parameter unless it has a value.
    pub(super) fn set_default(&mut self, name: &str, value: String, origin: &str) -> Result<()> {
        let name = known(name, origin)?;
        if !value.is_empty() {
            self.0.entry(name).or_insert(value);
        }
        Ok(())
    }

    /// Sets what has no value yet from the environment.
    pub(super) fn set_from_environment(&mut self, environment: &Environment) {
        for (name, variable) in SUPPORTED {
            if let Some(value) = variable.and_then(|variable| environment.get(variable)) {
                self.0.entry(name).or_insert_with(|| value.to_owned());
            }
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The elements of a list that is separated by commas.
    pub(super) fn list(&self, name: &str) -> Vec<&str> {
        self.get(name).map_or(Vec::new(), |value| {
            value.split(',').map(str::trim).collect()
        })
    }

    /// A whole number.
    pub(super) fn number<T: FromStr>(&self, name: &'static str) -> Result<Option<T>> {
        let number = |value: &str| {
            let number = value.trim().parse();
            number.map_err(|_| invalid_value(name, "give a whole number"))
        };
        self.get(name).map(number).transpose()
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(
        &self,
        name: &'static str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let found = choices.iter().find(|(word, _)| *word == value);
        found.map(|(_, choice)| Some(*choice)).ok_or_else(|| {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            invalid_value(name, &format!("give {}", words.join(", ")))
        })
    }
}

/// Whether a text begins with a parameter and `=`, as connection strings of libpq do.
pub(super) fn starts_with_parameter(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        let name = name.trim();
        SUPPORTED.iter().any(|(known, _)| *known == name) || UNSUPPORTED.contains(&name)
    })
}

/// An error that names the parameter and says what it may be; never the value, which may be a misplaced password.
pub(super) fn invalid_value(name: &str, next: &str) -> Error {
    let variable = SUPPORTED.iter().find(|(known, _)| *known == name);
    let variable = match variable {
        Some((_, Some(variable))) => format!(" (or {variable})"),
        _ => String::new(),
    };
    Error::invalid(
        "store",
        format!("the connection parameter {name}{variable} is invalid: {next}"),
    )
}

fn known(name: &str, origin: &str) -> Result<&'static str> {
    // tokio-postgres has a name of its own for this one.
    let name = match name {
        "keepalives_retries" => "keepalives_count",
        name => name,
    };
    if let Some((known, _)) = SUPPORTED.iter().find(|(known, _)| *known == name) {
        return Ok(known);
    }
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let shown = if name.len() <= MAX_SHOWN_NAME && !name.is_empty() && name.chars().all(is_word) {
        format!("parameter {name:?}")
    } else {
        "parameter".to_owned()
    };
    let message = if UNSUPPORTED.contains(&name) {
        format!("the {shown} in {origin} is not supported by Turno: remove it")
    } else {
        format!(
            "unknown {shown} in {origin}: remove it or correct its name; the parameters are those of libpq, as in docs/postgres.md"
        )
    };
    Err(Error::invalid("store", message))
}
