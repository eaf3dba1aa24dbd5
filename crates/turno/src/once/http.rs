//! Once for HTTP: a tower layer that processes a request once, and replays its response to repetitions.
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
//! - The work continues if its client disconnects; a repetition of the request gets the response.
//! - A response is stored before it is sent. If it is too large, too slow, streamed, or marked `no-store`, it is passed on,
//!   and only the fact that there was one is stored, before it is sent: the work is not done again.
//! - A run that ends without an answer makes the request *unknown*, and so does a handler that panics.
//! - The path is matched as the layer sees it. Put the layer around a whole router: inside `nest`, axum has removed the
//!   prefix, and two nested routers with one policy would share responses.
//! - A request that cannot be identified is rejected, unless the [`Policy`] allows it.
//! - A [`Refusal`] is a problem response, or a [`Template`] of the policy.

mod accept;
mod answer;
mod answering;
mod body;
mod caller;
mod counts;
mod identify;
mod layer;
mod near;
mod policy;
mod refusal;
mod shadow;
mod template;
mod work;

pub use self::answer::StoredResponse;
pub use self::answering::Answering;
pub use self::body::Carried;
pub use self::counts::Counts;
pub use self::layer::{OnceLayer, OnceService, Routes};
pub use self::policy::{
    BODY_TIMEOUT, DEFAULT_HEADERS, Fails, InFlight, KeyFrom, MAX_ANSWER_BYTES, MAX_BODY_BYTES,
    Policy, ProbeRequest, Prober, Statuses, Switch, Unidentified, Unknown,
};
pub use self::refusal::Refusal;
pub use self::template::Template;
pub use self::work::{Attempt, WorkOutcome};
