//! A typed client of `turno serve`, and the words that are spoken over HTTP.
//!
//! - [`Client`]: one method for each call. Contention is an outcome, not an error, as in the library.
//! - [`RemoteStore`]: the server as a store of the library, so that `turno::Turno` works over HTTP: renewing, waiting,
//!   workers and all.
//! - [`wire`]: what is asked and answered, one type each; the server is built on the same.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use turno_client::wire::Acquire;
//! use turno_client::{Acquired, Client};
//!
//! let client = Client::new("http://127.0.0.1:7117")?;
//! let ask = Acquire {
//!     resource: "PRESTAMO/123".into(),
//!     user: Some("1".into()),
//!     ..Acquire::default()
//! };
//! match client.acquire(&ask).await? {
//!     Acquired::Acquired(lease) | Acquired::Reentered(lease) => println!("mine, with token {}", lease.token),
//!     Acquired::Busy(problem) => println!("{}", problem.detail),
//! }
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
mod remote;
pub mod wire;

#[cfg(feature = "client")]
pub use self::client::{
    Acquired, AcquiredAll, Began, Broke, Client, Ended, Error, Page, Released, Renewed, Resolved,
    Result, Stream, StreamEvent,
};
#[cfg(feature = "client")]
pub use self::remote::RemoteStore;
