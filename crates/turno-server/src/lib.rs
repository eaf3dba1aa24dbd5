//! Turno over HTTP, for programs in any language.
//!
//! - [`Server`]: the HTTP API of locks, inbox, outbox and once (`turno serve`).
//! - [`gate`]: a reverse proxy that applies once to a service without changes to the service.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use turno_server::{Options, Server};
//!
//! let turno = turno::Turno::connect("sqlite:turno.db").await?;
//! let server = Server::new(turno, Options::default());
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:7117").await?;
//! let shutdown = std::future::pending(); // usually a signal
//! server.run(listener, shutdown).await?;
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]

mod app;
mod auth;
mod background;
pub mod gate;
mod http;
mod metrics;
mod options;
mod overview;
mod readiness;
mod routes;
mod server;
pub mod setting;
mod stream;

pub use self::auth::gatekeeper::{Admission, CurrentAdmission};
pub use self::http::tls::TlsFiles;
pub use self::http::tracing::SetSpanParent;
pub use self::options::{ADDRESS, MakeRelay, Options};
pub use self::routes::openapi;
pub use self::server::Server;
