//! Address of a broker. It contains the password, which is sent to the broker and shown nowhere.

use std::fmt;
use std::str::FromStr;

use lapin::uri::{AMQPScheme, AMQPUri};

use crate::error::{Error, Result};

/// Default heartbeat interval, in seconds. The URL can set another one.
const HEARTBEAT_SECONDS: u16 = 10;

/// Address of a broker, with credentials that are never shown.
#[derive(Clone)]
pub(crate) struct Address(AMQPUri);

impl Address {
    /// Parses `amqp://user:password@host:port/vhost`, or `amqps://…`.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        // The client library's parser repeats the whole URL, with the password, in its error if there is no `//`.
        let rest = url
            .strip_prefix("amqp://")
            .or_else(|| url.strip_prefix("amqps://"))
            .ok_or_else(|| wrong("it must begin with amqp:// or amqps://"))?;
        let mut uri = AMQPUri::from_str(url).map_err(|reason| wrong(&reason))?;
        if let Some(host) = literal_v6(rest) {
            uri.authority.host = host.to_owned();
        }
        // `amqp://host/` names the virtual host with an empty name, which is never what is meant.
        if uri.vhost.is_empty() {
            "/".clone_into(&mut uri.vhost);
        }
        if uri.vhost.len() > 255 {
            return Err(wrong(
                "the name of a virtual host has no more than 255 bytes",
            ));
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
        Ok(Address(uri))
    }

    pub(crate) fn uri(&self) -> &AMQPUri {
        &self.0
    }
}

/// Returns an IPv6 host in brackets. The client library's parser finds no host there, and would use `localhost`.
fn literal_v6(rest: &str) -> Option<&str> {
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    host.strip_prefix('[')?.split(']').next()
}

fn wrong(reason: &str) -> Error {
    Error::invalid(
        "url",
        format!(
            "the broker's URL cannot be read: {reason}. Write amqp://user:password@host:5672/vhost, with what is \
             not a letter or a digit in user and password percent-encoded"
        ),
    )
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = &self.0.authority.host;
        let port = self.0.authority.port;
        if matches!(self.0.scheme, AMQPScheme::AMQPS) {
            f.write_str("amqps://")?;
        }
        match host.contains(':') {
            true => write!(f, "[{host}]:{port}")?,
            false => write!(f, "{host}:{port}")?,
        }
        match self.0.vhost.as_str() {
            "/" => Ok(()),
            vhost => write!(f, "/{vhost}"),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_never_shown() {
        for url in [
            "amqp://user:s3cret@broker:5673/shop",
            "amqps://user:s3cret@[::1]/",
        ] {
            let address = Address::parse(url).unwrap();
            let shown = format!("{address} {address:?}");
            assert!(
                !shown.contains("s3cret") && !shown.contains("user"),
                "{shown}"
            );
        }
        for url in [
            "amqp:user:s3cret@broker",
            "http://user:s3cret@broker",
            "amqp://user:s3cret@broker:port",
            "amqp://user:s3cret@broker?heartbeat=often",
            "amqp://user:s3cret%ff@broker",
            "user:s3cret@broker",
            "",
        ] {
            let error = Address::parse(url).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("s3cret"), "{shown}");
            assert_eq!(error.field(), Some("url"));
        }
    }

    #[test]
    fn hosts_and_virtual_hosts_are_parsed() {
        let shown = |url| Address::parse(url).unwrap().to_string();
        assert_eq!(shown("amqp://broker"), "broker:5672");
        assert_eq!(shown("amqp://broker/"), "broker:5672");
        assert_eq!(shown("amqp://broker/%2f"), "broker:5672");
        assert_eq!(shown("amqps://broker/shop"), "amqps://broker:5671/shop");
        assert_eq!(shown("amqp://u:p@[fe80::1]:5673/"), "[fe80::1]:5673");
    }
}
