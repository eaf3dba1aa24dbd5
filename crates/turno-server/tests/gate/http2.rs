//! HTTP/2 on either side, without TLS.

use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use turno_server::gate::{Options, Upstream};

use crate::common::{Running, pagos, read_response};
use crate::service::{Body, Service, whole};

fn client() -> Client<hyper_util::client::legacy::connect::HttpConnector, Body> {
    Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http()
}

#[tokio::test]
async fn a_client_may_speak_it() {
    let (service, mut heard) = Service::counting().await;
    let gate = Running::start(service.address, pagos()).await;
    let client = client();
    for (path, replayed) in [("/other", false), ("/pagos", false), ("/pagos", true)] {
        let request = gate.keyed(path, "1").version(http::Version::HTTP_2);
        let response = read_response(
            client
                .request(request.body(whole("{}")).unwrap())
                .await
                .unwrap(),
        )
        .await;
        assert_eq!(response.status, 200);
        assert_eq!(
            response.headers.contains_key("idempotency-replayed"),
            replayed
        );
        if !replayed {
            let request = heard.recv().await.unwrap();
            assert_eq!(request.version(), http::Version::HTTP_11);
            assert_eq!(request.headers()["host"], gate.address.to_string());
            assert_eq!(request.body(), "{}");
        }
    }
}

#[tokio::test]
async fn a_service_may_speak_it() {
    let (service, mut heard) = Service::counting().await;
    let upstream: Upstream = format!("h2c://{}", service.address).parse().unwrap();
    let gate = Running::start_with(upstream, pagos(), Options::default()).await;
    for path in ["/other", "/pagos"] {
        let response = gate.post(path, "1").await;
        assert_eq!(response.status, 200);
        let request = heard.recv().await.unwrap();
        assert_eq!(request.version(), http::Version::HTTP_2);
        assert_eq!(
            request.uri().authority().unwrap().as_str(),
            service.address.to_string()
        );
        assert_eq!(
            request.headers()["x-forwarded-host"],
            gate.address.to_string()
        );
        assert!(request.headers().get("host").is_none());
    }
    assert_eq!(
        gate.post("/pagos", "1").await.headers["idempotency-replayed"],
        "true"
    );
}
