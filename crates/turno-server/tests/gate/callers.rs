//! Callers of requests: through the gate, a caller never gets the answer of another.

use http::{HeaderName, HeaderValue, header};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use turno::once::http::{KeyFrom, Policy, Routes};

use crate::common::{Running, TestResponse, read_response, send};
use crate::service::{Body, Service, whole};

const USER: HeaderName = HeaderName::from_static("x-user");

async fn gate(policy: Policy) -> (Service, Running) {
    let (service, _) = Service::counting().await;
    let routes = Routes::new().add("/pagos", policy).unwrap();
    let gate = Running::start(service.address, routes).await;
    (service, gate)
}

fn by_content() -> Policy {
    Policy::new("pagos").key(KeyFrom::Content)
}

#[track_caller]
fn is_answer(response: &TestResponse, number: u64, replayed: bool) {
    assert_eq!(response.status, 200, "{response:?}");
    let is_replayed = response.headers.contains_key("idempotency-replayed");
    assert_eq!(
        (response.json()["n"].as_u64(), is_replayed),
        (Some(number), replayed),
        "{response:?}"
    );
}

#[tokio::test]
async fn a_request_that_does_not_say_who_sends_it_is_refused() {
    for (policy, header, field) in [
        (by_content(), None, "principal"),
        (by_content(), Some(("cookie", "session=ana")), "principal"),
        (
            Policy::new("pagos"),
            Some(("cookie", "session=ana")),
            "principal",
        ),
        (Policy::new("pagos").principal([USER]), None, "principal"),
        (Policy::new("pagos").tenant([USER]), None, "tenant"),
    ] {
        let (_service, gate) = gate(policy).await;
        let mut request = gate.keyed("/pagos", "1");
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let response = send(request.body(whole("{}")).unwrap()).await;
        assert_eq!(response.problem(400, "unidentified")["field"], field);
    }
}

#[tokio::test]
async fn users_that_differ_by_their_cookie_do_not_meet() {
    let (_service, gate) = gate(by_content().principal_cookie("session")).await;
    for replayed in [false, true] {
        for (number, cookie) in [(1, "session=ana"), (2, "a=b; session=eva")] {
            let request = gate.request("/pagos").method("POST");
            let request = request.header("cookie", cookie);
            let response = send(request.body(whole("{}")).unwrap()).await;
            is_answer(&response, number, replayed);
        }
    }
}

#[tokio::test]
async fn values_that_are_no_text_do_not_meet() {
    let (_service, gate) = gate(Policy::new("pagos").principal([USER])).await;
    for replayed in [false, true] {
        for (number, user) in [(1, b"Jos\xe9"), (2, b"Jos\xe8")] {
            let user = HeaderValue::from_bytes(user).unwrap();
            let request = gate.keyed("/pagos", "1").header(USER, user);
            let response = send(request.body(whole("{}")).unwrap()).await;
            is_answer(&response, number, replayed);
        }
    }
}

/// HTTP/2 has no header `Host`, but an authority.
#[tokio::test]
async fn hosts_of_http2_do_not_meet() {
    let (_service, gate) = gate(Policy::new("pagos").tenant([header::HOST])).await;
    let stream = TcpStream::connect(gate.address).await.unwrap();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    for replayed in [false, true] {
        for (number, host) in [(1, "acme.example"), (2, "other.example")] {
            let request = http::Request::post(format!("http://{host}/pagos"));
            let request = request.header("idempotency-key", "1");
            let request: http::Request<Body> = request.body(whole("{}")).unwrap();
            let response = read_response(client.send_request(request).await.unwrap()).await;
            is_answer(&response, number, replayed);
        }
    }
}

/// Sends a request as it is written, over a separate connection.
async fn raw(gate: &Running, target: &str, host: &str) -> String {
    let mut stream = TcpStream::connect(gate.address).await.unwrap();
    let request = format!(
        "POST {target} HTTP/1.1\r\nHost: {host}\r\nIdempotency-Key: 1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// The host of an absolute target is used, and not the header `Host`: the service gets that host, too.
#[tokio::test]
async fn an_absolute_target_has_a_host_of_its_own() {
    let (service, mut heard) = Service::counting().await;
    let policy = Policy::new("pagos").tenant([header::HOST]);
    let routes = Routes::new().add("/pagos", policy).unwrap();
    let gate = Running::start(service.address, routes).await;
    let absolute = "http://other.example/pagos";
    for (target, host, number, replayed) in [
        ("/pagos", "acme.example", 1, false),
        (absolute, "acme.example", 2, false),
        ("/pagos", "other.example", 2, true),
        (absolute, "third.example", 2, true),
        ("/pagos", "acme.example", 1, true),
    ] {
        let answer = raw(&gate, target, host).await.to_ascii_lowercase();
        let expected = format!("{{\"n\": {number}}}");
        assert!(answer.ends_with(&expected), "{target} {host}: {answer}");
        assert_eq!(
            answer.contains("idempotency-replayed"),
            replayed,
            "{answer}"
        );
    }
    for host in ["acme.example", "other.example"] {
        assert_eq!(heard.recv().await.unwrap().headers()["host"], host);
    }
}
