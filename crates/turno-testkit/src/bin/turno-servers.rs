//! Starts the private servers that its arguments name, prints PostgreSQL's address and then `ready`, and waits to be killed.
//! No process or file of the servers may be left then.
#![forbid(unsafe_code)]

use std::any::Any;
use std::convert::Infallible;

use anyhow::{Result, bail};
use turno_testkit::server::{Nats, PgBouncer, PoolMode, PostgresServer, RabbitMq};

fn main() -> Result<Infallible> {
    let mut servers = Vec::new();
    for kind in std::env::args().skip(1) {
        servers.push(start(&kind)?);
    }
    println!("ready");
    loop {
        std::thread::park();
    }
}

fn start(kind: &str) -> Result<Box<dyn Any>> {
    Ok(match kind {
        "postgres" => {
            let server = PostgresServer::start()?;
            let pooler = PgBouncer::start(&server, PoolMode::Session)?;
            println!("{}", server.create_database());
            Box::new((server, pooler))
        }
        #[cfg(feature = "suite")]
        "migrated" => {
            println!("{}", turno_testkit::migrated_database());
            Box::new(())
        }
        "rabbitmq" => Box::new(RabbitMq::start()?),
        "nats" => Box::new(Nats::start()?),
        other => bail!("there is no server {other:?} to start"),
    })
}
