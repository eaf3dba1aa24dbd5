//! Health and counters of a gate, on a separate address.

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::common::{LONG, Running, TestResponse, pagos, send};
use crate::service::{Service, whole};

async fn ask(address: std::net::SocketAddr, path: &str) -> TestResponse {
    let request = http::Request::get(format!("http://{address}{path}"));
    send(request.body(whole("")).unwrap()).await
}

#[tokio::test]
async fn it_says_how_it_is_and_what_it_did() {
    let (service, mut heard) = Service::counting().await;
    let gate = Running::start(service.address, pagos()).await;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (closing, stop) = (CancellationToken::new(), CancellationToken::new());
    let (admin, closes, stops) = (gate.gate.clone(), closing.clone(), stop.clone());
    let admin = tokio::spawn(async move {
        admin
            .run_admin(listener, closes, stops.cancelled_owned())
            .await
    });

    for _ in 0..2 {
        gate.post("/pagos", "1").await;
    }
    heard.recv().await.unwrap();
    for path in ["/healthz", "/readyz"] {
        assert_eq!(ask(address, path).await.status, 200);
    }
    let metrics = ask(address, "/metrics").await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    for sample in [
        "turno_gate_requests_total{outcome=\"fresh\"} 1\n",
        "turno_gate_requests_total{outcome=\"replayed\"} 1\n",
        "turno_gate_requests_total{outcome=\"unknown\"} 0\n",
        "# EOF",
    ] {
        assert!(text.contains(sample), "{sample}: {text}");
    }
    // On the gate's own address, these paths belong to the service.
    assert_eq!(ask(gate.address, "/healthz").await.json()["n"], 2);

    closing.cancel();
    assert_eq!(ask(address, "/readyz").await.status, 503);
    assert_eq!(ask(address, "/healthz").await.status, 200);
    stop.cancel();
    let ended = tokio::time::timeout(LONG, admin).await;
    ended.unwrap().unwrap().unwrap();
}
