//! Requests that cannot be identified: no key, or a body that does not match its content type.

use axum::body::{Body, Bytes};
use axum::extract::Request;
use futures_util::stream;
use turno::once::http::{Fails, KeyFrom, Policy};
use turno::once::{MAX_DEPTH, MAX_KEY_BYTES};

use crate::kit::{Site, post, problem, run_number};

fn keyed(keys: &[&str]) -> Request {
    let request = keys.iter().fold(Request::post("/pagos"), |request, key| {
        request.header("idempotency-key", *key)
    });
    request.body(Body::empty()).unwrap()
}

#[tokio::test]
async fn a_key_must_be_there_once_and_be_one() {
    let site = Site::new(Policy::new("pagos"), run_number).await;
    let long = "k".repeat(MAX_KEY_BYTES + 1);
    let bad: [&[&str]; 8] = [
        &[],
        &["77", "77"],
        &["77", "78"],
        &[""],
        &["7 7"],
        &["\"77"],
        &["ñ"],
        &[&long],
    ];
    for keys in bad {
        let response = site.send(keyed(keys)).await;
        assert_eq!(response.problem(), problem(400, "unidentified"), "{keys:?}");
        assert_eq!(response.json()["field"], "key", "{response:?}");
    }
    assert_eq!((site.runs(), site.counts().unidentified), (0, 8));
    let longest = "k".repeat(MAX_KEY_BYTES);
    site.send(keyed(&[&longest])).await.assert_fresh("run 1");
}

#[tokio::test]
async fn without_a_key_it_passes_where_it_may() {
    let policy = Policy::new("pagos").unidentified(Fails::Open);
    let site = Site::new(policy, run_number).await;
    site.send(keyed(&[])).await.assert_fresh("run 1");
    site.send(keyed(&[])).await.assert_fresh("run 2");
    site.send(keyed(&["77"])).await.assert_fresh("run 3");
    site.send(keyed(&["77"])).await.assert_replayed("run 3");
    assert_eq!(site.counts().unidentified, 2);
}

#[tokio::test]
async fn a_body_must_be_the_json_that_it_says_it_is() {
    let deep = format!("{}{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1));
    let bad = [
        "{",
        "nada",
        "1 2",
        r#"{"a": 1, "a": 1}"#,
        r#"{"a": 1, "\u0061": 2}"#,
        &deep,
    ];
    for key in [
        KeyFrom::Content,
        KeyFrom::Header("idempotency-key".parse().unwrap()),
    ] {
        let site = Site::new(Policy::new("pagos").key(key).no_principal(), run_number).await;
        for body in bad {
            let response = site
                .send(post("77").body(Body::from(body.to_owned())).unwrap())
                .await;
            assert_eq!(response.problem(), problem(400, "unidentified"), "{body}");
        }
        assert_eq!(site.runs(), 0);
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let site = Site::new(Policy::new("pagos").max_body(1000), run_number).await;
    let body = |bytes| Body::from("x".repeat(bytes));
    // A body of unknown length.
    let chunks = |count| {
        let chunk = || Ok::<_, std::convert::Infallible>(Bytes::from("x".repeat(100)));
        Body::from_stream(stream::iter((0..count).map(move |_| chunk())))
    };
    let send = async |key: &str, body| {
        let request = Request::post("/pagos").header("idempotency-key", key);
        site.send(request.body(body).unwrap()).await
    };
    for large in [body(1001), chunks(11)] {
        let response = send("77", large).await;
        assert_eq!(response.problem(), problem(413, "too_large"));
    }
    assert_eq!(site.runs(), 0);
    send("78", body(1000)).await.assert_fresh("run 1");
    send("78", chunks(10)).await.assert_replayed("run 1");
}

/// A request whose client disconnects during the body has no effect.
#[tokio::test]
async fn a_body_that_breaks_off_is_refused() {
    let site = Site::new(Policy::new("pagos"), run_number).await;
    let frames = [Ok(Bytes::from("{")), Err(std::io::Error::other("gone"))];
    let request = post("77")
        .body(Body::from_stream(stream::iter(frames)))
        .unwrap();
    let response = site.send(request).await;
    assert_eq!(response.problem(), problem(400, "unidentified"));
    assert_eq!(site.runs(), 0);
}

/// A request whose body arrives too slowly is rejected after the timeout, and holds no resources.
#[tokio::test]
async fn a_body_that_comes_too_slowly_is_refused() {
    let policy = Policy::new("pagos").body_timeout(std::time::Duration::from_millis(50));
    let site = Site::new(policy.clone(), run_number).await;
    let endless = || {
        let bit = stream::once(async { Ok::<_, std::convert::Infallible>(Bytes::from("{")) });
        Body::from_stream(futures_util::StreamExt::chain(bit, stream::pending()))
    };
    let response = site.send(post("77").body(endless()).unwrap()).await;
    assert_eq!(response.problem(), problem(408, "timeout"));
    assert_eq!((site.runs(), site.counts().unidentified), (0, 1));
    // In shadow mode it passes unchanged.
    let shadow = Site::new(policy.switch(turno::once::http::Switch::Shadow), run_number).await;
    let response = shadow.send(post("77").body(endless()).unwrap()).await;
    response.assert_fresh("run 1");
}
