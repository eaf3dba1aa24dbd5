//! The service inside the once layer: forwards a request and returns the response.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderValue, TE, UPGRADE};
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use tokio_util::sync::CancellationToken;
use tower_service::Service;
use turno::once::http::{Attempt, Carried};
use turno::problem::language;

use super::answering::Answering;
use super::clients::Origin;
use super::failure::Failure;
use super::options::{HostHeader, Options};
use super::sending::{Sending, Silence};
use super::upstream::{Unsent, Upstream};
use super::{headers, tunnel};

type Sent = Sending<Carried<Incoming>>;
/// Body of the service's response, or of a problem of the gate.
pub(super) type Answered = Either<Answering, Full<Bytes>>;

/// The connection to the service.
pub(super) struct Proxy {
    upstream: Upstream,
    /// For requests without a policy.
    plain: Client<HttpConnector, Sent>,
    /// For requests under a policy, which are sent at most once.
    once: Client<HttpConnector, Sent>,
    host: HostHeader,
    answer_timeout: Duration,
    body_timeout: Duration,
    stream_timeout: Duration,
}

impl Proxy {
    pub(super) fn new(upstream: Upstream, options: &Options) -> Self {
        Proxy {
            plain: upstream.client(Unsent::Again),
            once: upstream.client(Unsent::Never),
            upstream,
            host: options.host,
            answer_timeout: options.answer_timeout,
            body_timeout: options.body_timeout,
            stream_timeout: options.stream_timeout,
        }
    }

    /// Rewrites the client's request for the service.
    fn prepare(
        &self,
        request: &mut Request<Carried<Incoming>>,
        origin: &Origin,
        attempt: Option<&Attempt>,
        upgrade: Option<&Upgrade>,
    ) -> Result<(), Failure> {
        if request.method() == Method::CONNECT {
            return Err(Failure::Unsupported);
        }
        let path = match request.uri().path_and_query() {
            Some(path) => path.clone(),
            None => PathAndQuery::from_static("/"),
        };
        let host = headers::host(request.uri(), request.headers());
        let takes_trailers = headers::takes_trailers(request.headers());
        let version = self.upstream.version();
        *request.uri_mut() = self.upstream.uri(path).map_err(|_| Failure::Unsupported)?;
        *request.version_mut() = version;

        let mut given = std::mem::take(request.headers_mut());
        // Capacity for the headers that every request gets.
        given.reserve(4);
        headers::strip(&mut given);
        headers::disown(&mut given);
        headers::length(&mut given, request.body(), version);
        if let Some(attempt) = attempt {
            headers::attempt(&mut given, attempt);
        }
        origin.peer.forward(&mut given, host.as_ref());
        match (self.host, host, version) {
            (HostHeader::Client, Some(host), Version::HTTP_11) => {
                given.insert(HOST, host);
            }
            // The HTTP client sets the service's own `Host`. HTTP/2 has it in the address.
            _ => {
                given.remove(HOST);
            }
        }
        if takes_trailers {
            given.insert(TE, HeaderValue::from_static("trailers"));
            if version == Version::HTTP_11 {
                given.insert(CONNECTION, HeaderValue::from_static("te"));
            }
        }
        if let Some(upgrade) = upgrade {
            given.insert(UPGRADE, upgrade.protocol.clone());
            given.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        }
        *request.headers_mut() = given;
        Ok(())
    }

    /// Sends a request. Returns the service's response, or the failure.
    async fn send(
        &self,
        request: Request<Carried<Incoming>>,
        is_under_policy: bool,
    ) -> Result<Response<Incoming>, Failure> {
        let (head, body) = request.into_parts();
        let is_answered = Arc::new(AtomicBool::new(false));
        let silence = Silence {
            unanswered: self.body_timeout,
            answered: self.stream_timeout,
            is_answered: is_answered.clone(),
        };
        let (body, over) = Sending::new(body, silence);
        let request = Request::from_parts(head, body);
        let late = async {
            tokio::time::sleep(self.answer_timeout).await;
            // Without a policy, the timeout starts when the body has been sent, because a streamed body takes as long as its
            // client takes. Under a policy the body was read before. `over` is awaited only after the first timeout:
            // awaiting it earlier would wake this task once per request.
            if !is_under_policy && let Ok(sent) = over.await {
                tokio::time::sleep_until(sent + self.answer_timeout).await;
            }
        };
        let client = if is_under_policy {
            &self.once
        } else {
            &self.plain
        };
        let answered = tokio::select! {
            answered = client.request(request) => answered.map_err(|error| {
                let failure = Failure::of(&error);
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(upstream = %self.upstream.authority(), ?failure, %error, cause, "the service did not answer");
                failure
            }),
            () = late => {
                tracing::warn!(upstream = %self.upstream.authority(), "the service did not answer in {:?}", self.answer_timeout);
                Err(Failure::Late)
            }
        };
        is_answered.store(true, Ordering::Relaxed);
        answered
    }
}

/// Rewrites the service's response for the client.
fn accept(
    mut response: Response<Incoming>,
    upgrade: Option<Upgrade>,
) -> Result<Response<Incoming>, Failure> {
    // Each side has its own version: a response in HTTP/1.0 would end the client's connection.
    *response.version_mut() = Version::default();
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        headers::strip(response.headers_mut());
        return Ok(response);
    }
    let protocol = response.headers().get(UPGRADE).cloned();
    headers::strip(response.headers_mut());
    match (upgrade, protocol) {
        (Some(upgrade), Some(protocol)) => {
            let given = response.headers_mut();
            given.insert(UPGRADE, protocol);
            given.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            let service = hyper::upgrade::on(&mut response);
            // The tunnel ends when either side or the gate ends.
            let tasks = upgrade.origin.tasks.clone();
            tasks.spawn(tunnel::carry(upgrade.client, service, upgrade.origin));
            Ok(response)
        }
        // An upgrade that the client did not request.
        _ => Err(Failure::Broken),
    }
}

/// A client's request to upgrade to another protocol.
struct Upgrade {
    protocol: HeaderValue,
    client: OnUpgrade,
    origin: Arc<Origin>,
}

impl Upgrade {
    /// Returns `None` under a policy, because an upgraded connection has no response that could be stored. The request is then
    /// sent without the upgrade, as the standard allows.
    fn of(
        request: &mut Request<Carried<Incoming>>,
        origin: &Arc<Origin>,
        attempt: Option<&Attempt>,
    ) -> Option<Self> {
        if attempt.is_some() {
            return None;
        }
        Some(Upgrade {
            protocol: headers::upgrade(request)?,
            client: hyper::upgrade::on(request),
            origin: origin.clone(),
        })
    }
}

/// Forwards the requests of one client to the service. The once layer wraps it.
#[derive(Clone)]
pub(super) struct Forward {
    proxy: Arc<Proxy>,
    origin: Arc<Origin>,
}

impl Forward {
    pub(super) fn new(proxy: Arc<Proxy>, origin: Arc<Origin>) -> Self {
        Forward { proxy, origin }
    }

    /// Cancelled when the gate shuts down.
    pub(super) fn closing(&self) -> &CancellationToken {
        &self.origin.closing
    }

    /// How long a client may read nothing of its response.
    pub(super) fn stream_timeout(&self) -> Duration {
        self.proxy.stream_timeout
    }

    async fn answer(self, mut request: Request<Carried<Incoming>>) -> Response<Answered> {
        let Forward { proxy, origin } = self;
        let language = language(request.headers());
        let attempt = request.extensions_mut().remove::<Attempt>();
        let upgrade = Upgrade::of(&mut request, &origin, attempt.as_ref());
        let prepared = proxy.prepare(&mut request, &origin, attempt.as_ref(), upgrade.as_ref());
        let answered = match prepared {
            Ok(()) => proxy.send(request, attempt.is_some()).await,
            Err(failure) => Err(failure),
        };
        match answered.and_then(|response| accept(response, upgrade)) {
            Ok(response) => response.map(|body| {
                Either::Left(match attempt {
                    // The work goes on after the client has disconnected, and must end.
                    Some(_) => Answering::new(body, proxy.answer_timeout),
                    None => Answering::new(body, proxy.stream_timeout),
                })
            }),
            Err(failure) => failure.response(language).map(Either::Right),
        }
    }
}

impl Service<Request<Carried<Incoming>>> for Forward {
    type Response = Response<Answered>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Carried<Incoming>>) -> Self::Future {
        let answer = self.clone().answer(request);
        Box::pin(async move { Ok(answer.await) })
    }
}
