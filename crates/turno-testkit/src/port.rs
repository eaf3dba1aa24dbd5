//! Ports for servers that may have to come back on the same one.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

/// Below the range from which systems hand out ports for outgoing connections. A port from inside it could be taken by any
/// client while its server is down, and a client that keeps dialling a dead server there ends up connected to itself.
const PORTS: Range<u16> = 12_000..32_000;

/// How many ports to try before giving up.
const TRIES: usize = 200;

/// A listener on a free local port, chosen at random so that test processes seldom meet.
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

/// A port that was free a moment ago. Another process may take it first: whoever binds it must be ready to ask again.
pub(crate) fn free() -> io::Result<u16> {
    Ok(listen()?.local_addr()?.port())
}
