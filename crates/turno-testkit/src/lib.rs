//! What Turno's own tests and benchmarks stand on.
//!
//! - [`server`]: private PostgreSQL, PgBouncer and Redis servers, which end with the process that started them;
//! - [`proxy`]: a network that can be cut, black-holed, or made to lose one answer;
//! - [`process`]: child processes that are stopped, continued and killed;
//! - [`eventually`]: waiting for a condition instead of sleeping.
//!
//! Everything here panics or fails with a message that names what was awaited. It needs Linux: `/proc` tells which
//! processes are still there.
#![forbid(unsafe_code)]

mod eventually;
mod port;
mod proc;
pub mod process;
pub mod proxy;
pub mod server;

pub use eventually::{eventually, eventually_async};
pub use process::Process;
pub use proxy::TcpProxy;
pub use server::{PgBouncer, PoolMode, PostgresServer, RedisServer};
