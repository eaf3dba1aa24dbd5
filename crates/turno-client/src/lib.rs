//! A typed client of `turno serve`, and the types of its HTTP API.
//!
//! - [`Client`]: one method per call. Contention is an outcome, not an error, as in the library.
//! - [`RemoteStore`]: the server as a store of the library. With it, `turno::Turno` works over HTTP, including renewal,
//!   waiting and workers.
//! - [`wire`]: one type per request body and response body. The server uses the same types.
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
