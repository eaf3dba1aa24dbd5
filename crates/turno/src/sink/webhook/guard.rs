//! Addresses that a webhook may call. They are checked when a connection is made, not when the URL is configured: a name
//! may resolve to another address a moment later.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::{TcpStream, lookup_host};

/// Which addresses may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Public addresses.
    Public,
    /// Every address that this machine can reach.
    All,
}

impl Reach {
    fn covers(self, address: IpAddr) -> bool {
        self == Reach::All || is_public(address)
    }
}

/// Resolves names to allowed addresses. The client connects to no others.
pub(super) struct Guarded(pub(super) Reach);

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.0;
        Box::pin(async move {
            let found = resolve(name.as_str(), 0, reach).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

async fn resolve(host: &str, port: u16, reach: Reach) -> io::Result<Vec<SocketAddr>> {
    let found: Vec<_> = lookup_host((host, port)).await?.collect();
    let allowed: Vec<_> = found
        .iter()
        .filter(|found| reach.covers(found.ip()))
        .copied()
        .collect();
    match found.first() {
        Some(first) if allowed.is_empty() => Err(io::Error::other(forbidden(first.ip()))),
        _ => Ok(allowed),
    }
}

fn forbidden(address: IpAddr) -> String {
    format!(
        "its address {address} is not a public one, and such are not called unless private addresses are allowed"
    )
}

/// Checks a URL that has an IP address instead of a name: the client does not resolve it.
pub(super) fn check_literal(url: &Url, reach: Reach) -> Result<(), String> {
    match literal(url) {
        Some(address) if !reach.covers(address) => {
            Err(format!("cannot be called: {}", forbidden(address)))
        }
        _ => Ok(()),
    }
}

fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .ok()
}

/// Checks whether the destination can be connected to.
pub(super) async fn connect(url: &Url, reach: Reach) -> Result<(), String> {
    check_literal(url, reach)?;
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = url.port_or_known_default().unwrap_or(443);
    let connect = async {
        let found = resolve(host, port, reach).await?;
        TcpStream::connect(&found[..]).await.map(drop)
    };
    connect.await.map_err(|error| error.to_string())
}

/// Returns whether an address is a public one, and not of this machine, its networks or a reserved range.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_multicast()
        || address.is_documentation()
        // "This network", carrier-grade NAT, protocol assignments, benchmarks, reserved.
        || a == 0
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19))
        || a >= 240;
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let embedded = |high: u16, low: u16| {
        let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match (a, b, c, d, e, f) {
        // Loopback, unspecified, and embedded IPv4 addresses, which no public name has.
        (0, 0, 0, 0, _, _) => false,
        // Translated and tunnelled IPv4: the embedded address decides.
        (0x64, 0xff9b, 0, 0, 0, 0) => embedded(g, h),
        (0x2002, ..) => embedded(b, c),
        (0x64, 0xff9b, ..) | (0x2001, 0, ..) | (0x2001, 0xdb8, ..) | (0x100, 0, 0, 0, _, _) => {
            false
        }
        // Unique local, link-local, site-local, multicast.
        _ => {
            !(a & 0xfe00 == 0xfc00
                || a & 0xffc0 == 0xfe80
                || a & 0xffc0 == 0xfec0
                || a & 0xff00 == 0xff00)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.0.1",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "223.255.255.1",
            "2606:4700::1111",
            "2a00:1450::1",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.127.0.1",
            "192.0.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::7f00:1",
            "::ffff:0:127.0.0.1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "fc00::1",
            "fd12:3456::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "100::1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::1",
            "2002:a00:1::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn an_address_in_a_url_is_seen_however_it_is_written() {
        for url in [
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://[::1]:8080/",
            "http://[::ffff:10.0.0.1]/",
            "https://169.254.169.254/latest",
        ] {
            let url = Url::parse(url).unwrap();
            assert!(check_literal(&url, Reach::Public).is_err(), "{url}");
            assert!(check_literal(&url, Reach::All).is_ok(), "{url}");
        }
        let named = Url::parse("https://example.com/").unwrap();
        assert!(check_literal(&named, Reach::Public).is_ok());
    }
}
