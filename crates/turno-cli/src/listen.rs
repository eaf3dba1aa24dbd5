//! Listen address: an IP address or a name such as localhost, and a port.

use std::net::{SocketAddr, ToSocketAddrs as _};

use serde::Deserialize;
use serde::de::{self, Deserializer};

/// Parses `127.0.0.1:7117`, `[::1]:7117` or `localhost:7117`. If a name has several addresses, the first IPv4 address is used,
/// because most clients try it first.
pub(crate) fn parse(text: &str) -> Result<SocketAddr, String> {
    let how = |reason: String| format!("{reason}: give an address such as 127.0.0.1:7117");
    let found = text.to_socket_addrs();
    let found: Vec<SocketAddr> = found.map_err(|error| how(error.to_string()))?.collect();
    let chosen = found.iter().find(|address| address.is_ipv4());
    let chosen = chosen.or(found.first()).copied();
    chosen.ok_or_else(|| how("the name has no address".to_owned()))
}

/// Same, for a value in a file.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).map(Some).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_read() {
        for text in ["127.0.0.1:7117", "localhost:7117"] {
            assert_eq!(parse(text), Ok(([127, 0, 0, 1], 7117).into()), "{text}");
        }
        assert!(parse("[::1]:7117").is_ok_and(|address| address.is_ipv6()));
        for text in ["", "7117", "localhost", "127.0.0.1", "127.0.0.1:port"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("127.0.0.1:7117"), "{text}: {error}");
        }
    }
}
