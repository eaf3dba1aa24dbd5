//! The two forms of a connection string: a URL, and `key=value` pairs.

use percent_encoding::percent_decode_str;

use super::parameters::Parameters;
use crate::error::{Error, Result};

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
/// Where a parameter of a connection string was read, for errors.
const ORIGIN: &str = "the store's URL";

/// The parameters that a connection string gives.
pub(super) fn parse(text: &str) -> Result<Parameters> {
    let text = text.trim();
    match SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme)) {
        Some(rest) => parse_url(rest),
        // `postgres:` alone, for those who leave the slashes out.
        None if matches!(text, "postgres:" | "postgresql:") => Ok(Parameters::default()),
        None => parse_pairs(text),
    }
}

/// `user:password@host:port,host:port/database?name=value`, each part optional. The scheme is gone already.
fn parse_url(rest: &str) -> Result<Parameters> {
    let mut parameters = Parameters::default();
    let mut set =
        |name: &str, value: &str| -> Result<()> { parameters.set(name, decode(value)?, ORIGIN) };
    // As libpq does: an @ counts as the end of user and password only before the first slash.
    let (credentials, rest) = match rest.find(['@', '/']) {
        Some(end) if rest[end..].starts_with('@') => (&rest[..end], &rest[end + 1..]),
        _ => ("", rest),
    };
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    set("user", user)?;
    set("password", password)?;

    let (address, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if address.contains('@') {
        return Err(malformed(
            "there is more than one @: write %40 for an @ in the password",
        ));
    }
    let (hosts, ports) = hosts(address)?;
    set("host", &hosts)?;
    set("port", &ports)?;

    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    set("dbname", path.strip_prefix('/').unwrap_or(path))?;
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let Some((name, value)) = part.split_once('=') else {
            return Err(malformed(
                "a parameter behind the ? has no =: write name=value, and %3F for a ? in the password",
            ));
        };
        match (&*decode(name)?, value) {
            // What JDBC says for it; libpq accepts it in URLs too.
            ("ssl", "true") => set("sslmode", "require")?,
            (name, value) => set(name, value)?,
        }
    }
    Ok(parameters)
}

/// The hosts and the ports of a URL's address, each separated by commas.
fn hosts(address: &str) -> Result<(String, String)> {
    let mut hosts = Vec::new();
    let mut ports = Vec::new();
    for part in address.split(',') {
        let (host, port) = match part.strip_prefix('[') {
            Some(rest) => {
                let Some((host, port)) = rest.split_once(']') else {
                    return Err(malformed("an IPv6 address has no closing ]"));
                };
                match port.strip_prefix(':') {
                    Some(port) => (host, port),
                    None if port.is_empty() => (host, ""),
                    None => return Err(malformed("after the ] of an IPv6 address comes :port")),
                }
            }
            None => part.split_once(':').unwrap_or((part, "")),
        };
        hosts.push(host);
        ports.push(port);
    }
    // One port is for all hosts; an empty list is no port.
    if ports.iter().all(|port| port.is_empty()) {
        ports.clear();
    }
    Ok((hosts.join(","), ports.join(",")))
}

fn decode(value: &str) -> Result<String> {
    match percent_decode_str(value).decode_utf8() {
        Ok(text) if !text.contains('\0') => Ok(text.into_owned()),
        _ => Err(malformed("a percent-encoded part is not UTF-8")),
    }
}

/// `host=db user='a name' password='it\'s'`: values with spaces are quoted, and a backslash escapes.
fn parse_pairs(text: &str) -> Result<Parameters> {
    let mut parameters = Parameters::default();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let Some((name, after)) = rest.split_once('=') else {
            return Err(malformed(
                "it is neither postgres://… nor made of name=value pairs",
            ));
        };
        let (value, after) = value(after.trim_start())?;
        parameters.set(name.trim(), value, ORIGIN)?;
        rest = after.trim_start();
    }
    Ok(parameters)
}

/// A value, and what comes behind it.
fn value(text: &str) -> Result<(String, &str)> {
    let quoted = text.strip_prefix('\'');
    let text = quoted.unwrap_or(text);
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => value.extend(letters.next().map(|(_, escaped)| escaped)),
            '\'' if quoted.is_some() => return Ok((value, &text[at + 1..])),
            letter if quoted.is_none() && letter.is_whitespace() => {
                return Ok((value, &text[at..]));
            }
            letter => value.push(letter),
        }
    }
    match quoted {
        Some(_) => Err(malformed("a quoted value has no closing quote")),
        None => Ok((value, "")),
    }
}

/// Without the text: it may hold a password.
fn malformed(reason: &str) -> Error {
    Error::invalid(
        "store",
        format!(
            "the store's URL is malformed ({reason}): it looks like postgres://user@host:5432/database"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let parameters = parse(text).unwrap();
        for (name, value) in expected {
            assert_eq!(parameters.get(name), Some(*value), "{name} of {text}");
        }
    }

    #[test]
    fn a_url_gives_every_part() {
        check(
            "postgres://ana:s%40cret@db:5433/app?sslmode=require&application_name=a%20b",
            &[
                ("user", "ana"),
                ("password", "s@cret"),
                ("host", "db"),
                ("port", "5433"),
                ("dbname", "app"),
                ("sslmode", "require"),
                ("application_name", "a b"),
            ],
        );
        check(
            "postgresql://[2001:db8::1]:5433,db2/app",
            &[("host", "2001:db8::1,db2"), ("port", "5433,")],
        );
        check(
            "postgres://%2Fvar%2Frun%2Fpostgresql/app",
            &[("host", "/var/run/postgresql"), ("dbname", "app")],
        );
        check(
            "postgres:///app?host=a,b",
            &[("host", "a,b"), ("dbname", "app")],
        );
        check("postgres://db?ssl=true", &[("sslmode", "require")]);
    }

    #[test]
    fn a_bare_scheme_gives_nothing() {
        for text in ["postgres://", "postgresql://", "postgres:", "postgres:///"] {
            let parameters = parse(text).unwrap();
            for name in ["host", "port", "dbname", "user", "password"] {
                assert_eq!(parameters.get(name), None, "{name} of {text}");
            }
        }
    }

    #[test]
    fn pairs_may_be_quoted_and_escaped() {
        check(
            r"host=a,b port = 5433 user='ana maría' password='it\'s \\' dbname=app",
            &[
                ("host", "a,b"),
                ("port", "5433"),
                ("user", "ana maría"),
                ("password", r"it's \"),
                ("dbname", "app"),
            ],
        );
    }

    #[test]
    fn errors_say_what_to_do_and_never_show_a_password() {
        for (text, says) in [
            ("postgres://ana:s3@cret@db/app", "%40"),
            ("postgres://db/app?s3cret", "name=value"),
            ("postgres://db/app?colour=s3cret", "\"colour\""),
            ("postgres://db/app?s3%40cret=1", "unknown parameter in"),
            ("postgres://db/app?sslcrl=s3cret", "not supported"),
            ("host=db password='s3cret", "closing quote"),
            ("host=db s3cret", "name=value"),
            ("postgres://[::1/app", "closing ]"),
            ("postgres://%ff:s3cret@db", "UTF-8"),
        ] {
            let error = parse(text).err().unwrap();
            assert_eq!(error.field(), Some("store"));
            let message = error.to_string();
            assert!(message.contains(says), "{text}: {message}");
            assert!(
                !message.contains("s3") && !message.contains("cret"),
                "{message}"
            );
        }
    }
}
