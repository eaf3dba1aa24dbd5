//! A bare reverse proxy: hyper and a pooled client. The gate is compared with it.

use std::convert::Infallible;

use anyhow::Result;
use axum::body::Bytes;
use axum::http::{Request, Response, StatusCode, Uri};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

use super::web::Served;

pub async fn serve(upstream: u16) -> Result<Served> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let port = listener.local_addr()?.port();
    let client: Client<_, Incoming> = Client::builder(TokioExecutor::new()).build_http();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // No delay, as in the gate.
            let _ = stream.set_nodelay(true);
            let client = client.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let client = client.clone();
                    async move { Ok::<_, Infallible>(forward(&client, request, upstream).await) }
                });
                let connection = auto::Builder::new(TokioExecutor::new());
                let _ = connection
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    Ok(Served::of(port, task))
}

type Body = BoxBody<Bytes, hyper::Error>;

async fn forward(
    client: &Client<hyper_util::client::legacy::connect::HttpConnector, Incoming>,
    mut request: Request<Incoming>,
    upstream: u16,
) -> Response<Body> {
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    let uri: Result<Uri, _> = format!("http://127.0.0.1:{upstream}{path}").parse();
    let answer = match uri {
        Ok(uri) => {
            *request.uri_mut() = uri;
            client.request(request).await.ok()
        }
        Err(_) => None,
    };
    match answer {
        Some(answer) => answer.map(BodyExt::boxed),
        None => {
            let empty = Empty::new().map_err(|never| match never {}).boxed();
            let mut failed = Response::new(empty);
            *failed.status_mut() = StatusCode::BAD_GATEWAY;
            failed
        }
    }
}
