//! Bodies: streamed where no policy needs them whole, and of any size.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Channel, channel::Sender};
use tokio::sync::mpsc;

use crate::common::{LONG, Running, client, pagos, send};
use crate::service::{Body, Service, whole};

const LARGE: usize = 32 * 1024 * 1024;
/// Timeout of a response; the slow upload takes four times as long.
const SHORT: Duration = Duration::from_millis(50);

fn channel() -> (Sender<Bytes, hyper::Error>, Body) {
    let (sender, body) = Channel::new(1);
    (sender, body.boxed())
}

#[tokio::test]
async fn both_directions_flow_bit_by_bit() {
    // The service responds to every part of the body before the next one is sent, so buffering would block for ever.
    let service = Service::start(|request| async move {
        let (mut sender, body) = channel();
        tokio::spawn(async move {
            let mut parts = request.into_body();
            while let Some(Ok(frame)) = parts.frame().await {
                let data = frame.into_data().unwrap();
                let _ = sender.send_data(data).await;
            }
        });
        Response::new(body)
    })
    .await;
    let gate = Running::start(service.address, pagos()).await;
    let (mut sender, body) = channel();
    let exchange = async {
        let request = gate.request("/echo").method("POST").body(body).unwrap();
        let response = client().request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        let mut answer = response.into_body();
        for part in ["one", "two", "three"] {
            sender.send_data(Bytes::from(part)).await.unwrap();
            let frame = answer.frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), part);
        }
        drop(sender);
        assert!(answer.frame().await.is_none());
    };
    tokio::time::timeout(LONG, exchange).await.unwrap();
}

#[tokio::test]
async fn large_bodies_pass_whole() {
    let service = Service::start(|request| async {
        let said = request.headers().get("content-length").cloned();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut response = Response::new(whole(body));
        response.headers_mut().insert("x-said", said.unwrap());
        response
    })
    .await;
    let gate = Running::start(service.address, pagos()).await;
    let body: Bytes = (0..LARGE).map(|n| (n % 251) as u8).collect();
    let request = gate.request("/echo").method("PUT");
    let response = send(request.body(whole(body.clone())).unwrap()).await;
    assert_eq!(response.headers["x-said"], LARGE.to_string());
    assert!(response.body == body, "{} bytes", response.body.len());
}

#[tokio::test]
async fn a_body_of_unknown_length_reaches_the_service_with_any_method() {
    let (service, mut heard) = Service::counting().await;
    let gate = Running::start(service.address, pagos()).await;
    for method in ["GET", "POST", "DELETE"] {
        let (mut sender, body) = channel();
        sender.send_data(Bytes::from("part")).await.unwrap();
        drop(sender);
        let request = gate.request("/other").method(method);
        let request = request.header("transfer-encoding", "chunked");
        assert_eq!(send(request.body(body).unwrap()).await.status, 200);
        assert_eq!(heard.recv().await.unwrap().body(), "part", "{method}");
    }
    // `content-length: 0` of the client reaches the service.
    let request = gate.request("/other").method("POST");
    let request = request.header("content-length", "0");
    send(request.body(whole("")).unwrap()).await;
    assert_eq!(heard.recv().await.unwrap().headers()["content-length"], "0");
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let service = Service::start(|request| async {
        let body = request.into_body().collect().await.unwrap();
        let sum = body.trailers().unwrap()["x-sum"].clone();
        let trailers: HeaderMap = [("x-sum".parse().unwrap(), sum)].into_iter().collect();
        let (mut sender, body) = channel();
        tokio::spawn(async move {
            sender.send_data(Bytes::from("answer")).await.unwrap();
            sender.send(Frame::trailers(trailers)).await.unwrap();
        });
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert("trailer", "x-sum".parse().unwrap());
        response
    })
    .await;
    let gate = Running::start(service.address, pagos()).await;
    let (mut sender, body) = channel();
    let trailers: HeaderMap = [("x-sum".parse().unwrap(), "7".parse().unwrap())]
        .into_iter()
        .collect();
    tokio::spawn(async move {
        sender.send_data(Bytes::from("question")).await.unwrap();
        sender.send(Frame::trailers(trailers)).await.unwrap();
    });
    let request = gate
        .request("/sum")
        .method("POST")
        .header("te", "trailers")
        .header("trailer", "x-sum");
    let response = client().request(request.body(body).unwrap()).await.unwrap();
    let body = response.into_body().collect().await.unwrap();
    assert_eq!(body.trailers().unwrap()["x-sum"], "7");
    assert_eq!(body.to_bytes(), "answer");
}

#[tokio::test]
async fn an_upload_may_take_its_time() {
    let (service, mut heard) = Service::counting().await;
    let upstream = format!("http://{}", service.address).parse().unwrap();
    let options = turno_server::gate::Options {
        answer_timeout: SHORT,
        ..Default::default()
    };
    let gate = Running::start_with(upstream, pagos(), options).await;
    let (mut sender, body) = channel();
    let request = gate.request("/other").method("POST").body(body).unwrap();
    let (done, ended) = mpsc::channel::<()>(1);
    tokio::spawn(async move {
        sender.send_data(Bytes::from("one")).await.unwrap();
        tokio::time::sleep(4 * SHORT).await;
        sender.send_data(Bytes::from("two")).await.unwrap();
        drop(done);
    });
    assert_eq!(send(request).await.status, 200);
    drop(ended);
    assert_eq!(heard.recv().await.unwrap().body(), "onetwo");
}

/// After the end of the upload, the service has the usual timeout.
#[tokio::test]
async fn after_an_upload_that_took_its_time_a_silent_service_is_late() {
    let (whole_body, mut arrived) = mpsc::unbounded_channel();
    let service = Service::start(move |request| {
        let whole_body = whole_body.clone();
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            whole_body.send(body).unwrap();
            std::future::pending().await
        }
    })
    .await;
    let upstream = format!("http://{}", service.address).parse().unwrap();
    let options = turno_server::gate::Options {
        answer_timeout: SHORT,
        ..Default::default()
    };
    let gate = Running::start_with(upstream, pagos(), options).await;
    let (mut sender, body) = channel();
    let request = gate.request("/other").method("POST").body(body).unwrap();
    let upload = async {
        sender.send_data(Bytes::from("one")).await.unwrap();
        tokio::time::sleep(4 * SHORT).await;
        sender.send_data(Bytes::from("two")).await.unwrap();
        drop(sender);
    };
    let (response, ()) = tokio::join!(send(request), upload);
    response.problem(504, "upstream_late");
    assert_eq!(arrived.recv().await.unwrap(), "onetwo");
}
