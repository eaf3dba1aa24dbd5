//! Support for Turno's own tests and benchmarks.
//!
//! - [`conformance`]: the rules for all stores, as one suite;
//! - [`model`]: the lock rules as a model in memory, compared with a store on random histories;
//! - [`server`]: private PostgreSQL, PgBouncer, RabbitMQ, NATS and Redis servers, which end with the process that started
//!   them;
//! - [`proxy`]: a network that can be cut, black-holed, or made to lose one response;
//! - [`process`]: child processes that are stopped, continued and killed;
//! - [`faults`]: stores and lossy connections for tests of real processes under faults;
//! - [`history`]: recorded histories, and checkers of Turno's promises;
//! - [`interleave`]: statements of several sessions in every order;
//! - [`load`]: tasks that acquire locks and record the results;
//! - [`sql`]: connections and statements of tests on PostgreSQL;
//! - [`supabase`]: the roles and schemas of a Supabase project;
//! - [`eventually`]: waiting for a condition instead of sleeping.
//!
//! On a timeout, the message of a panic or error names the awaited condition. Linux only: `/proc` is used to find out which
//! processes are still running.
#![forbid(unsafe_code)]

#[cfg(feature = "suite")]
pub mod conformance;
mod eventually;
mod faketime;
#[cfg(feature = "suite")]
pub mod faults;
#[cfg(feature = "suite")]
pub mod history;
#[cfg(feature = "suite")]
pub mod interleave;
#[cfg(feature = "suite")]
pub mod load;
#[cfg(feature = "suite")]
mod migrated;
#[cfg(feature = "suite")]
pub mod model;
mod port;
mod proc;
pub mod process;
pub mod proxy;
pub mod server;
pub mod sql;
pub mod supabase;

pub use eventually::{eventually, eventually_async};
pub use faketime::set_clock;
#[cfg(feature = "suite")]
pub use migrated::migrated_database;
pub use port::free as free_port;
pub use process::Process;
pub use proxy::TcpProxy;
pub use server::{
    Certificate, Nats, PgBouncer, PoolMode, PostgresServer, RabbitMq, RedisServer, SmallDisk,
    Subject,
};
pub use sql::Sql;
