//! Failures on the way to the service, and the response to the next request.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use turno_server::gate::Options;
use turno_testkit::TcpProxy;

use crate::common::{Running, pagos, send};
use crate::service::{Service, whole};

#[tokio::test]
async fn nothing_was_sent_and_the_next_one_does_it() {
    let (service, _heard) = Service::counting().await;
    let line = TcpProxy::start(service.address).await.unwrap();
    let gate = Running::start(line.addr(), pagos()).await;
    line.cut().await;
    gate.post("/pagos", "1")
        .await
        .problem(502, "upstream_unreachable");
    gate.post("/other", "1")
        .await
        .problem(502, "upstream_unreachable");
    line.restore().await.unwrap();
    let response = gate.post("/pagos", "1").await;
    assert_eq!(
        (response.status.as_u16(), &response.json()["n"]),
        (200, &1.into())
    );
    assert_eq!(gate.gate.counts().unknown, 0);
}

#[tokio::test]
async fn a_service_that_reads_and_goes_away_leaves_the_request_unknown() {
    let (service, mut heard) = Service::counting().await;
    let line = TcpProxy::start(service.address).await.unwrap();
    let gate = Running::start(line.addr(), pagos()).await;
    line.drop_next_answer();
    let response = gate.post("/pagos", "1").await;
    response.problem(502, "upstream_broken");
    heard.recv().await.unwrap();
    gate.post("/pagos", "1").await.problem(409, "unknown");
    assert!(heard.try_recv().is_err(), "it is not sent again");
    // Other keys are not affected.
    assert_eq!(gate.post("/pagos", "2").await.status, 200);
}

#[tokio::test]
async fn an_answer_that_breaks_off_leaves_the_request_unknown() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let gate = Running::start(listener.local_addr().unwrap(), pagos()).await;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 4096];
        assert!(stream.read(&mut buffer).await.unwrap() > 0);
        let half = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf";
        stream.write_all(half).await.unwrap();
    });
    gate.post("/pagos", "1").await.problem(500, "failed");
    gate.post("/pagos", "1").await.problem(409, "unknown");
}

#[tokio::test]
async fn an_answer_that_falls_silent_leaves_the_request_unknown() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let upstream = format!("http://{}", listener.local_addr().unwrap());
    let options = Options {
        answer_timeout: Duration::from_millis(50),
        ..Options::default()
    };
    let gate = Running::start_with(upstream.parse().unwrap(), pagos(), options).await;
    let silent = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 4096];
        assert!(stream.read(&mut buffer).await.unwrap() > 0);
        let half = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf";
        stream.write_all(half).await.unwrap();
        // The gate gives up.
        while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
    });
    gate.post("/pagos", "1").await.problem(500, "failed");
    gate.post("/pagos", "1").await.problem(409, "unknown");
    silent.await.unwrap();
}

#[tokio::test]
async fn an_answer_that_does_not_come_in_time_leaves_the_request_unknown() {
    let service = Service::start(|_| std::future::pending()).await;
    let upstream = format!("http://{}", service.address).parse().unwrap();
    let options = Options {
        answer_timeout: Duration::from_millis(20),
        ..Options::default()
    };
    let gate = Running::start_with(upstream, pagos(), options).await;
    gate.post("/pagos", "1").await.problem(504, "upstream_late");
    gate.post("/pagos", "1").await.problem(409, "unknown");
    gate.post("/other", "1").await.problem(504, "upstream_late");
}

#[tokio::test]
async fn a_service_that_does_not_even_read_is_waited_for_no_longer() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let upstream = format!("http://{}", listener.local_addr().unwrap());
    let options = Options {
        answer_timeout: Duration::from_millis(20),
        ..Options::default()
    };
    let policy = turno::once::http::Policy::new("pagos").max_body(64 * 1024 * 1024);
    let routes = turno::once::http::Routes::new()
        .add("/pagos", policy)
        .unwrap();
    let gate = Running::start_with(upstream.parse().unwrap(), routes, options).await;
    // More than the buffers of two sockets.
    let body = whole(vec![b' '; 32 * 1024 * 1024]);
    let request = gate
        .keyed("/pagos", "1")
        .header("content-type", "text/plain");
    send(request.body(body).unwrap())
        .await
        .problem(504, "upstream_late");
}

#[tokio::test]
async fn problems_are_in_the_clients_language() {
    let (service, _heard) = Service::counting().await;
    let line = TcpProxy::start(service.address).await.unwrap();
    line.cut().await;
    let gate = Running::start(line.addr(), pagos()).await;
    let request = gate
        .request("/other")
        .header("accept-language", "es-MX, en;q=0.5");
    let response = send(request.body(whole("")).unwrap()).await;
    let problem = response.problem(502, "upstream_unreachable");
    assert_eq!(problem["title"], "No se puede contactar con el servicio");
    assert_eq!(response.headers["content-language"], "es");
}

#[tokio::test]
async fn connections_are_reused_unless_disabled() {
    for (keep_alive, connections) in [(Duration::from_secs(60), 1), (Duration::ZERO, 3)] {
        let (service, _heard) = Service::counting().await;
        let upstream = format!("http://{}", service.address);
        let upstream: turno_server::gate::Upstream = upstream.parse().unwrap();
        let upstream = upstream.keep_alive(keep_alive);
        let gate = Running::start_with(upstream, pagos(), Options::default()).await;
        for key in ["1", "2", "3"] {
            assert_eq!(gate.post("/pagos", key).await.status, 200);
        }
        assert_eq!(service.connections(), connections, "{keep_alive:?}");
    }
}

/// If the service closes an idle connection, no request is lost, and none is repeated.
#[tokio::test]
async fn a_connection_that_ends_while_idle_is_no_doubt() {
    let (service, mut heard) = Service::counting().await;
    let line = TcpProxy::start(service.address).await.unwrap();
    let gate = Running::start(line.addr(), pagos()).await;
    for round in 0..20 {
        let key = round.to_string();
        loop {
            let response = gate.post("/pagos", &key).await;
            if response.status == 200 {
                break;
            }
            // The response says that nothing was sent, so the client may retry immediately.
            response.problem(502, "upstream_unreachable");
        }
        heard.recv().await.unwrap();
        assert!(heard.try_recv().is_err(), "sent once");
        line.cut().await;
        line.restore().await.unwrap();
    }
    assert_eq!(gate.gate.counts().unknown, 0);
}
