//! Once for HTTP: a tower layer that answers a request once, whoever repeats it.
//!
//! ```
//! # use http_body_util::{BodyExt, Full};
//! # use bytes::Bytes;
//! # use tower_service::Service;
//! # use tower_layer::Layer;
//! # #[derive(Clone)] struct Payments;
//! # impl<B> Service<http::Request<B>> for Payments {
//! #     type Response = http::Response<Full<Bytes>>;
//! #     type Error = std::convert::Infallible;
//! #     type Future = std::future::Ready<Result<Self::Response, Self::Error>>;
//! #     fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> { std::task::Poll::Ready(Ok(())) }
//! #     fn call(&mut self, _: http::Request<B>) -> Self::Future { std::future::ready(Ok(http::Response::new("paid".into()))) }
//! # }
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use turno::once::http::{OnceLayer, Policy};
//!
//! let turno = turno::Turno::connect("sqlite::memory:").await?;
//! // With axum: `Router::new().route("/pagos", post(pay)).layer(layer)`.
//! let layer = OnceLayer::new(turno, Policy::new("pagos"));
//! let mut service = layer.layer(Payments);
//!
//! let request = || http::Request::post("/pagos").header("idempotency-key", "77").body(Full::new(Bytes::new()));
//! let first = service.call(request()?).await?;
//! let again = service.call(request()?).await?;
//! assert_eq!(again.headers()["idempotency-replayed"], "true");
//! assert_eq!(again.into_body().collect().await?.to_bytes(), "paid");
//! # drop(first);
//! # Ok(()) }
//! ```
//!
//! - The work goes on if its client disconnects; whoever repeats the request gets the answer.
//! - An answer is stored before it is sent. One that is too large, too slow, streamed, or marked `no-store` is passed on, and
//!   only that there was one is stored, before it is sent: the work is not done again.
//! - A run that vanishes leaves the request *unknown*, and so does a handler that panics.
//! - A path counts as the layer sees it. Put the layer around a whole router: inside `nest`, axum has taken the prefix
//!   away, and two nested routers with one policy would answer for each other.
//! - What cannot be told apart is refused, unless the [`Policy`] says that it may pass.

mod answer;
mod answering;
mod body;
mod caller;
mod counts;
mod identify;
mod layer;
mod near;
mod policy;
mod shadow;
mod template;
mod work;

pub use self::answer::StoredResponse;
pub use self::answering::Answering;
pub use self::body::Carried;
pub use self::counts::Counts;
pub use self::layer::{OnceLayer, OnceService, Routes};
pub use self::policy::{
    Asked, BODY_TIMEOUT, DEFAULT_HEADERS, Fails, InFlight, KeyFrom, MAX_ANSWER_BYTES,
    MAX_BODY_BYTES, Policy, Prober, Statuses, Switch, Unidentified, Unknown,
};
pub use self::template::Template;
pub use self::work::{Attempt, Fate};
