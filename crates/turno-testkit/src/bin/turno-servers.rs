//! A victim: starts private servers, says `ready`, and waits to be killed. Nothing of them may be left then.
#![forbid(unsafe_code)]

use std::convert::Infallible;

use anyhow::Result;
use turno_testkit::{PgBouncer, PoolMode, PostgresServer};

fn main() -> Result<Infallible> {
    let server = PostgresServer::start()?;
    let _pooler = PgBouncer::start(&server, PoolMode::Session)?;
    println!("ready");
    loop {
        std::thread::park();
    }
}
