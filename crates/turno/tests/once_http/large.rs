//! Responses that cannot be stored: too large, streamed, or `no-store`. They are passed on, and the work is not done again.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc};
use turno::once::http::Policy;

use crate::kit::{Site, paying, problem};

async fn assert_not_stored(site: &Site) {
    let response = site.send(paying("77")).await;
    assert_eq!(response.problem(), problem(409, "answer_not_stored"));
    assert_eq!((site.runs(), site.counts().not_stored), (1, 1));
}

#[tokio::test]
async fn a_large_answer_is_passed_on_whole() {
    let policy = Policy::new("pagos").max_answer(1000);
    let site = Site::new(policy, async |_, _: Request| "x".repeat(1001)).await;
    site.send(paying("77"))
        .await
        .assert_fresh(&"x".repeat(1001));
    assert_not_stored(&site).await;
}

/// Returns a body of unknown length.
fn chunks(count: usize) -> Body {
    let chunk = |number| Ok::<_, Infallible>(Bytes::from(format!("{number:0100}")));
    Body::from_stream(stream::iter((0..count).map(chunk)))
}

#[tokio::test]
async fn a_large_answer_in_pieces_is_passed_on_whole() {
    let policy = Policy::new("pagos").max_answer(1000);
    let site = Site::new(policy, async |_, _: Request| chunks(30)).await;
    let response = site.send(paying("77")).await;
    let whole = axum::body::to_bytes(chunks(30), usize::MAX).await.unwrap();
    assert_eq!(response.body, whole);
    assert_not_stored(&site).await;
}

#[tokio::test]
async fn an_answer_in_pieces_that_is_just_not_too_large_is_kept() {
    let policy = Policy::new("pagos").max_answer(1000);
    let site = Site::new(policy, async |_, _: Request| chunks(10)).await;
    let response = site.send(paying("77")).await;
    assert_eq!(response.body.len(), 1000);
    let again = site.send(paying("77")).await;
    assert_eq!((again.is_replayed(), again.body), (true, response.body));
}

/// A response within the limit of the policy may still be too large for the store when written as JSON.
#[tokio::test]
async fn an_answer_that_the_store_does_not_take_is_passed_on() {
    let policy = Policy::new("pagos").max_answer(usize::MAX);
    let site = Site::new(policy, async |_, _: Request| vec![0xff_u8; 3_000_000]).await;
    let response = site.send(paying("77")).await;
    assert_eq!(response.body.len(), 3_000_000);
    assert_not_stored(&site).await;
}

#[tokio::test]
async fn an_answer_that_must_not_be_kept_is_not() {
    let site = Site::new(Policy::new("pagos"), async |_, _: Request| {
        ([(header::CACHE_CONTROL, "private, No-Store")], "secret")
    })
    .await;
    site.send(paying("77")).await.assert_fresh("secret");
    assert_not_stored(&site).await;
    let view = site.await_state(turno::once::OnceState::Done).await;
    let view = site.turno.once(&view.key).status().await.unwrap();
    assert_eq!(view.unwrap().answer, None);
}

/// Trailers cannot be stored, and a response without them would differ.
#[tokio::test]
async fn an_answer_with_trailers_is_passed_on_with_them() {
    let site = Site::new(Policy::new("pagos"), async |_, _: Request| {
        let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), HeaderValue::from(1))]);
        let frames = [
            Ok::<_, Infallible>(http_body::Frame::data(Bytes::from("x"))),
            Ok(http_body::Frame::trailers(trailers)),
        ];
        Response::new(Body::new(http_body_util::StreamBody::new(stream::iter(
            frames,
        ))))
    })
    .await;
    let response = site.call(paying("77")).await;
    let collected = http_body_util::BodyExt::collect(response.into_body())
        .await
        .unwrap();
    assert_eq!(collected.trailers().unwrap()["x-sum"], "1");
    assert_eq!(collected.to_bytes(), "x");
    assert_not_stored(&site).await;
}

/// A stream may never end: each chunk is passed on when it arrives.
#[tokio::test]
async fn a_stream_is_passed_on_piece_by_piece() {
    let (pieces, source) = mpsc::channel::<Bytes>(1);
    let source = Arc::new(Mutex::new(Some(source)));
    let site = Site::new(Policy::new("eventos"), move |_, _: Request| {
        let source = source.clone();
        async move {
            let source = source.lock().await.take().unwrap();
            let pieces = stream::unfold(source, async |mut source| {
                let piece = source.recv().await?;
                Some((Ok::<_, Infallible>(piece), source))
            });
            let kind = [(header::CONTENT_TYPE, "text/event-stream")];
            (kind, Body::from_stream(pieces)).into_response()
        }
    })
    .await;
    let response = site.call(paying("77")).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut stream = response.into_body().into_data_stream();
    for piece in ["data: 1\n\n", "data: 2\n\n"] {
        pieces.send(Bytes::from(piece)).await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap(), piece);
    }
    // A repetition meanwhile does not start it again.
    assert_not_stored(&site).await;
    drop(pieces);
    assert!(stream.next().await.is_none());
}

/// A slow response is passed on as it arrives. The fact that there was one is stored before any of it is sent.
#[tokio::test]
async fn a_slow_answer_is_passed_on() {
    let policy = Policy::new("pagos").body_timeout(std::time::Duration::from_millis(50));
    let (send, receive) = mpsc::unbounded_channel::<&'static str>();
    let receive = Arc::new(Mutex::new(receive));
    let site = Site::new(policy, move |_, _: Request| {
        let receive = receive.clone();
        async move {
            Body::from_stream(stream::unfold(receive, async |receive| {
                let next = receive.lock().await.recv().await?;
                Some((Ok::<_, Infallible>(next), receive))
            }))
        }
    })
    .await;
    send.send("first ").unwrap();
    let response = site.call(paying("77")).await;
    assert_not_stored(&site).await;
    send.send("last").unwrap();
    drop(send);
    crate::kit::TestResponse::from(response)
        .await
        .assert_fresh("first last");
}
