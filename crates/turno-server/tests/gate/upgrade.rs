//! Connections that switch from HTTP to another protocol.

use http::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::common::{LONG, Running, pagos};
use crate::service::{Service, whole};

async fn echo() -> Service {
    Service::start(|mut request| async move {
        let Some(protocol) = request.headers().get("upgrade").cloned() else {
            return Response::new(whole("plain"));
        };
        let upgraded = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let stream = TokioIo::new(upgraded.await.unwrap());
            let (mut reader, mut writer) = tokio::io::split(stream);
            let _ = tokio::io::copy(&mut reader, &mut writer).await;
        });
        let mut response = Response::new(whole(""));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert("connection", "upgrade".parse().unwrap());
        headers.insert("upgrade", protocol);
        headers.insert("sec-websocket-accept", "x".parse().unwrap());
        response
    })
    .await
}

/// Requests a WebSocket, and returns the head of the response in lower case.
async fn ask(gate: &Running, method: &str, path: &str) -> (String, BufReader<TcpStream>) {
    let mut stream = TcpStream::connect(gate.address).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nidempotency-key: 1\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).await.unwrap() > 0, "{head}");
    }
    (head.to_lowercase(), reader)
}

#[tokio::test]
async fn a_websocket_is_tunnelled_until_the_gate_shuts_down() {
    let service = echo().await;
    let gate = Running::start(service.address, pagos()).await;
    let (head, mut stream) = ask(&gate, "GET", "/chat").await;
    assert!(head.starts_with("http/1.1 101"), "{head}");
    assert!(head.contains("upgrade: websocket"), "{head}");
    assert!(head.contains("sec-websocket-accept: x"), "{head}");
    for word in ["hola", "adiós"] {
        stream.write_all(word.as_bytes()).await.unwrap();
        let mut back = vec![0; word.len()];
        stream.read_exact(&mut back).await.unwrap();
        assert_eq!(back, word.as_bytes());
    }
    gate.end().await;
    let mut rest = [0; 1];
    let rest = tokio::time::timeout(LONG, stream.read(&mut rest))
        .await
        .unwrap();
    assert!(matches!(rest, Ok(0) | Err(_)), "{rest:?}");
}

#[tokio::test]
async fn under_a_policy_the_request_stays_a_request() {
    let service = echo().await;
    let gate = Running::start(service.address, pagos()).await;
    let (head, _stream) = ask(&gate, "POST", "/pagos").await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
}

#[tokio::test]
async fn connect_is_refused() {
    let service = echo().await;
    let gate = Running::start(service.address, pagos()).await;
    let (head, _stream) = ask(&gate, "CONNECT", "x:443").await;
    assert!(head.starts_with("http/1.1 501"), "{head}");
    assert!(head.contains("application/problem+json"), "{head}");
}
