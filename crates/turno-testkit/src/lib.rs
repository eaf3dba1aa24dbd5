//! What Turno's own tests and benchmarks stand on.
//!
//! - [`conformance`]: the rules that every store must keep, as one suite;
//! - [`model`]: the lock rules once more, in memory, and random histories that both must agree on;
//! - [`server`]: private PostgreSQL, PgBouncer, RabbitMQ, NATS and Redis servers, which end with the process that started them;
//! - [`proxy`]: a network that can be cut, black-holed, or made to lose one answer;
//! - [`process`]: child processes that are stopped, continued and killed;
//! - [`load`]: tasks that take locks and write down what they were told;
//! - [`eventually`]: waiting for a condition instead of sleeping.
//!
//! Everything here panics or fails with a message that names what was awaited. It needs Linux: `/proc` tells which
//! processes are still there.
#![forbid(unsafe_code)]

#[cfg(feature = "suite")]
pub mod conformance;
mod eventually;
mod faketime;
#[cfg(feature = "suite")]
pub mod load;
#[cfg(feature = "suite")]
pub mod model;
mod port;
mod proc;
pub mod process;
pub mod proxy;
pub mod server;

pub use eventually::{eventually, eventually_async};
pub use faketime::set_clock;
pub use process::Process;
pub use proxy::TcpProxy;
pub use server::{
    Certificate, Nats, PgBouncer, PoolMode, PostgresServer, RabbitMq, RedisServer, Subject,
};
