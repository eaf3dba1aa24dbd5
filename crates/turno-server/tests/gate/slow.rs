//! Bodies that are too slow in either direction, and clients that do not read: each has a timeout.

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Channel, channel::Sender};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc::unbounded_channel;
use turno::once::http::{Policy, Routes};
use turno_server::gate::Options;

use crate::common::{LONG, Running, client, send};
use crate::service::{Body, Service, whole};

const SHORT: Duration = Duration::from_millis(50);

fn short_timeouts() -> Options {
    Options {
        body_timeout: SHORT,
        stream_timeout: SHORT,
        ..Options::default()
    }
}

async fn gate(service: &Service, options: Options) -> Running {
    let upstream = format!("http://{}", service.address).parse().unwrap();
    let policy = Policy::new("pagos").body_timeout(SHORT);
    let routes = Routes::new().add("/pagos", policy).unwrap();
    Running::start_with(upstream, routes, options).await
}

fn channel() -> (Sender<Bytes, hyper::Error>, Body) {
    let (sender, body) = Channel::new(1);
    (sender, body.boxed())
}

/// Starts a client that sends half of its body, and then nothing.
async fn half(gate: &Running, path: &str) -> String {
    let mut stream = TcpStream::connect(gate.address).await.unwrap();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nIdempotency-Key: 1\r\nContent-Length: 10\r\n\r\nhalf"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = tokio::time::timeout(LONG, stream.read_to_string(&mut answer));
    read.await.expect("the gate ends it").unwrap();
    answer
}

#[tokio::test]
async fn a_request_that_comes_too_slowly_is_refused() {
    let (service, mut heard) = Service::counting().await;
    let gate = gate(&service, short_timeouts()).await;
    for path in ["/pagos", "/other"] {
        let answer = half(&gate, path).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{path}: {answer}");
        assert!(answer.contains("\"code\":\"timeout\""), "{path}: {answer}");
    }
    assert!(heard.try_recv().is_err(), "no service had it whole");
    // Nothing of it was stored.
    let response = gate.post("/pagos", "1").await;
    assert_eq!(
        (response.status.as_u16(), &response.json()["n"]),
        (200, &1.into())
    );
}

/// The control: without a policy, a body that takes as long, but never pauses for that long, is passed on.
#[tokio::test]
async fn a_request_that_keeps_coming_is_passed_on() {
    let (service, mut heard) = Service::counting().await;
    let options = Options {
        body_timeout: Duration::from_secs(5),
        ..short_timeouts()
    };
    let gate = gate(&service, options).await;
    let (mut sender, body) = channel();
    let request = gate.request("/other").method("POST").body(body).unwrap();
    tokio::spawn(async move {
        for _ in 0..5 {
            sender.send_data(Bytes::from("x")).await.unwrap();
            tokio::time::sleep(2 * SHORT).await;
        }
    });
    assert_eq!(send(request).await.status, 200);
    assert_eq!(heard.recv().await.unwrap().body(), "xxxxx");
}

/// Starts a service whose response begins and never ends: silent, or one piece at a time.
async fn endless(each: Option<Duration>) -> Service {
    Service::start(move |_| async move {
        let (mut sender, body) = channel();
        tokio::spawn(async move {
            while sender.send_data(Bytes::from("x")).await.is_ok() {
                match each {
                    Some(each) => tokio::time::sleep(each).await,
                    None => std::future::pending().await,
                }
            }
        });
        Response::new(body)
    })
    .await
}

#[tokio::test]
async fn a_silent_answer_breaks_off() {
    let service = endless(None).await;
    let gate = gate(&service, short_timeouts()).await;
    let request = gate.request("/other").body(whole("")).unwrap();
    let response = client().request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let body = tokio::time::timeout(LONG, response.into_body().collect());
    assert!(body.await.expect("it ends").is_err(), "it broke off");
}

/// With a policy, a response that is too slow does not keep its request in flight: it is passed on as it arrives, and
/// the fact that there was one is stored.
#[tokio::test]
async fn an_answer_that_comes_too_slowly_is_passed_on() {
    let service = endless(Some(SHORT / 5)).await;
    let gate = gate(&service, Options::default()).await;
    let request = gate.keyed("/pagos", "1").body(whole("{}")).unwrap();
    let response = client().request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    gate.post("/pagos", "1")
        .await
        .problem(409, "answer_not_stored");
    let mut body = response.into_body();
    for _ in 0..10 {
        assert!(body.frame().await.unwrap().is_ok());
    }
}

/// If a client does not read, its connection is closed, and so is the one to the service.
#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off() {
    let (tell, mut ended) = unbounded_channel();
    let service = Service::start(move |_| {
        let tell = tell.clone();
        async move {
            let (mut sender, body) = channel();
            tokio::spawn(async move {
                let part = Bytes::from(vec![b'x'; 1 << 20]);
                while sender.send_data(part.clone()).await.is_ok() {}
                // The receiver is gone when the test has ended.
                let _ = tell.send(());
            });
            Response::new(body)
        }
    })
    .await;
    let gate = gate(&service, short_timeouts()).await;
    let mut stream = TcpStream::connect(gate.address).await.unwrap();
    let request = b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let end = tokio::time::timeout(LONG, ended.recv());
    end.await.expect("the service can send no more").unwrap();
    // Data in transit arrives, and then the connection ends.
    let mut buffer = vec![0; 1 << 20];
    let rest = async { while let Ok(1..) = stream.read(&mut buffer).await {} };
    let rest = tokio::time::timeout(LONG, rest);
    rest.await.expect("the gate ends it");
}
