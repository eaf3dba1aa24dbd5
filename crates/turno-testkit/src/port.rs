//! Ports for servers that may be restarted on the same port.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

/// Below the range of ephemeral ports. A port in that range could be taken by any client while its server is down, and a
/// client that repeatedly connects to a dead server there can end up connected to itself.
const PORTS: Range<u16> = 12_000..32_000;

/// Number of ports to try before giving up.
const TRIES: usize = 200;

/// Returns a listener on a free local port, chosen at random so that test processes seldom conflict.
pub(crate) fn listen() -> io::Result<TcpListener> {
    let mut last = None;
    for _ in 0..TRIES {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, fastrand::u16(PORTS))) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
}

/// Returns a port that was free a moment ago. Another process may take it first: the caller must be ready to retry.
///
/// # Errors
///
/// Returns an error if no port can be bound.
pub fn free() -> io::Result<u16> {
    Ok(listen()?.local_addr()?.port())
}
