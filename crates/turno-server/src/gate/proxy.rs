//! The service that the layer stands around: it sends a request on, and brings the answer back.

use std::convert::Infallible;
use std::pin::Pin;
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
use tower_service::Service;
use turno::once::http::{Attempt, Carried, language};

use super::answering::Answering;
use super::clients::Origin;
use super::failure::Failure;
use super::sending::Sending;
use super::upstream::Unsent;
use super::{HostHeader, Upstream, headers, tunnel};

type Sent = Sending<Carried<Incoming>>;
/// What the service answers, or what the gate has to say itself.
pub(super) type Answered = Either<Answering, Full<Bytes>>;

/// Sends requests on to the service.
#[derive(Clone)]
pub(super) struct Proxy {
    upstream: Upstream,
    /// For requests without a policy.
    plain: Client<HttpConnector, Sent>,
    /// For requests under one: whatever happens, they are sent once.
    once: Client<HttpConnector, Sent>,
    host: HostHeader,
    answer_timeout: Duration,
}

impl Proxy {
    pub(super) fn new(upstream: Upstream, host: HostHeader, answer_timeout: Duration) -> Self {
        Proxy {
            plain: upstream.client(Unsent::Again),
            once: upstream.client(Unsent::Never),
            upstream,
            host,
            answer_timeout,
        }
    }

    async fn answer(self, mut request: Request<Carried<Incoming>>) -> Response<Answered> {
        let language = language(request.headers());
        let attempt = request.extensions_mut().remove::<Attempt>();
        let upgrade = Upgrade::of(&mut request, attempt.as_ref());
        let answered = match self.prepare(&mut request, attempt.as_ref(), upgrade.as_ref()) {
            Ok(()) => self.send(request, attempt.is_some()).await,
            Err(failure) => Err(failure),
        };
        let answered = answered.and_then(|response| accept(response, upgrade));
        match answered {
            Ok(response) => response.map(|body| {
                Either::Left(match attempt {
                    Some(_) => Answering::within(body, self.answer_timeout),
                    None => Answering::patient(body),
                })
            }),
            Err(failure) => failure.response(language).map(Either::Right),
        }
    }

    /// Makes the client's request the gate's own.
    fn prepare(
        &self,
        request: &mut Request<Carried<Incoming>>,
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
        let host = headers::host(request);
        let takes_trailers = headers::takes_trailers(request.headers());
        let peer = request.extensions().get::<Origin>().map(|from| from.peer);
        let version = self.upstream.version();
        *request.uri_mut() = self.upstream.uri(path).map_err(|_| Failure::Unsupported)?;
        *request.version_mut() = version;

        headers::strip(request.headers_mut());
        let length = {
            let mut said = std::mem::take(request.headers_mut());
            headers::length(&mut said, request.body(), version);
            said
        };
        *request.headers_mut() = length;
        let given = request.headers_mut();
        headers::attempt(given, attempt);
        if let Some(peer) = peer {
            headers::forward(given, peer, host.as_ref());
        }
        // The client sets the service's own, if there is none. HTTP/2 has it in the address.
        given.remove(HOST);
        if let (HostHeader::Client, Some(host), Version::HTTP_11) = (self.host, host, version) {
            given.insert(HOST, host);
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
        Ok(())
    }

    /// The service's answer, or why there is none.
    async fn send(
        &self,
        request: Request<Carried<Incoming>>,
        is_under_policy: bool,
    ) -> Result<Response<Incoming>, Failure> {
        let (head, body) = request.into_parts();
        let (body, sent) = Sending::new(body);
        let request = Request::from_parts(head, body);
        let late = async {
            // A body that comes bit by bit takes the time that its client takes. One under a policy is here already.
            if !is_under_policy {
                sent.cancelled().await;
            }
            tokio::time::sleep(self.answer_timeout).await;
        };
        let client = if is_under_policy {
            &self.once
        } else {
            &self.plain
        };
        tokio::select! {
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
        }
    }
}

/// Makes the service's answer the gate's own.
fn accept(
    mut response: Response<Incoming>,
    upgrade: Option<Upgrade>,
) -> Result<Response<Incoming>, Failure> {
    // Each side has its own: an answer in HTTP/1.0 would end the client's connection.
    *response.version_mut() = Version::default();
    let switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let protocol = response.headers().get(UPGRADE).cloned();
    headers::strip(response.headers_mut());
    match (switched, upgrade, protocol) {
        (false, _, _) => Ok(response),
        (true, Some(upgrade), Some(protocol)) => {
            let given = response.headers_mut();
            given.insert(UPGRADE, protocol);
            given.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            let service = hyper::upgrade::on(&mut response);
            // It ends with either side, or with the gate.
            let tasks = upgrade.origin.tasks.clone();
            tasks.spawn(tunnel::carry(upgrade.client, service, upgrade.origin));
            Ok(response)
        }
        // Nobody has asked for that.
        (true, _, _) => Err(Failure::Broken),
    }
}

/// A client that wants to go on with another protocol.
struct Upgrade {
    protocol: HeaderValue,
    client: OnUpgrade,
    origin: Origin,
}

impl Upgrade {
    /// Not under a policy: what follows has no answer that could be kept. The request then goes without it, as the
    /// standard allows.
    fn of(request: &mut Request<Carried<Incoming>>, attempt: Option<&Attempt>) -> Option<Self> {
        if attempt.is_some() {
            return None;
        }
        let protocol = headers::upgrade(request)?;
        let origin = request.extensions().get::<Origin>()?.clone();
        Some(Upgrade {
            protocol,
            client: hyper::upgrade::on(request),
            origin,
        })
    }
}

impl Service<Request<Carried<Incoming>>> for Proxy {
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
