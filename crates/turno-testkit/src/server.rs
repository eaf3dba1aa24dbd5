//! Private servers: each in a temporary folder, on a free local port, ended with the process that started it.
//!
//! The calls block and need no runtime. A server runs under a small shell that watches a pipe from this process: when the pipe
//! closes, by a drop, an exit or `kill -9`, the shell stops the server, ends its child processes, and removes the folder.

mod certificates;
mod nats;
mod pgbouncer;
mod postgres;
mod private;
mod programs;
mod rabbitmq;
mod redis;
mod small_disk;
mod supervised;
mod watchdog;

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use certificates::{Certificate, Subject};
pub use nats::Nats;
pub use pgbouncer::{PgBouncer, PoolMode};
pub use postgres::PostgresServer;
pub use private::PrivateServer;
pub use rabbitmq::RabbitMq;
pub use redis::RedisServer;
pub use small_disk::SmallDisk;

/// User account that Debian's database packages create, for servers that refuse to run as root.
const POSTGRES_ACCOUNT: &str = "postgres";

/// Returns `defaults` overridden by `wanted`.
fn overridden<'a>(
    defaults: &[(&'a str, &'a str)],
    wanted: &[(&'a str, &'a str)],
) -> Vec<(&'a str, &'a str)> {
    let mut settings: Vec<_> = defaults
        .iter()
        .filter(|(name, _)| !wanted.iter().any(|(other, _)| other == name))
        .copied()
        .collect();
    settings.extend_from_slice(wanted);
    settings
}

/// Ignores poisoning: a test that panicked while it held a server's lock has not damaged the server.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes `PGHOST`, `PGSSLMODE` and similar variables of the user, which must not apply to private servers.
fn without_pg_environment(command: &mut Command) {
    for (key, _) in std::env::vars_os() {
        if key.to_string_lossy().starts_with("PG") {
            command.env_remove(key);
        }
    }
}
