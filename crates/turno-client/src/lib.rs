//! A typed HTTP client for `turno serve`.
//!
//! - [`Client`]: one method per call. Contention is an outcome, not an error, as in the library.
//! - [`RemoteStore`]: the server as a store of the library. With it, `turno::Turno` works over HTTP, including renewal,
//!   waiting and workers.
//! - [`api`]: the types of requests and responses. The server uses the same types.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use turno_client::Client;
//! use turno_client::api::lock::{Acquire, Language, LockOutcome};
//!
//! let client = Client::new("http://127.0.0.1:7117")?;
//! let ask = Acquire {
//!     resource: "PRESTAMO/123".into(),
//!     user: Some("1".into()),
//!     ..Acquire::default()
//! };
//! match client.acquire(&ask).await? {
//!     LockOutcome::Acquired(grant) => println!("mine, with token {}", grant.token),
//!     LockOutcome::Busy(busy) => println!("{}", busy.message(Language::English)),
//! }
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod client;
mod remote;

pub use turno_api as api;

pub use self::client::{Client, Error, Page, Result, Stream, StreamEvent};
pub use self::remote::RemoteStore;
