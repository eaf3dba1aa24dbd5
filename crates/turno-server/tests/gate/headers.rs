//! Headers that reach the service, and headers that reach the client.

use http::Response;
use turno_server::gate::{HostHeader, Options};

use crate::common::{Running, pagos, send};
use crate::service::{Service, whole};

#[tokio::test]
async fn what_belongs_to_one_connection_stays_on_it() {
    let (service, mut heard) = Service::counting().await;
    let gate = Running::start(service.address, pagos()).await;
    let request = gate
        .request("/other?a=1&a=2")
        .header("connection", "keep-alive, x-hop")
        .header("x-hop", "1")
        .header("keep-alive", "timeout=5")
        .header("proxy-authorization", "Basic x")
        .header("upgrade", "h2c")
        .header("x-end", "2")
        .header("expect", "100-continue");
    assert_eq!(send(request.body(whole("")).unwrap()).await.status, 200);
    let request = heard.recv().await.unwrap();
    assert_eq!(request.uri(), "/other?a=1&a=2");
    assert_eq!(request.headers()["x-end"], "2");
    for name in [
        "x-hop",
        "keep-alive",
        "proxy-authorization",
        "upgrade",
        "connection",
        "expect",
        "transfer-encoding",
    ] {
        assert!(request.headers().get(name).is_none(), "{name}");
    }
}

#[tokio::test]
async fn the_answer_loses_them_too() {
    let service = Service::start(|_| async {
        let mut response = Response::new(whole("x"));
        for (name, value) in [
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-authenticate", "Basic"),
            ("x-end", "2"),
        ] {
            response.headers_mut().append(name, value.parse().unwrap());
        }
        response
    })
    .await;
    let gate = Running::start(service.address, pagos()).await;
    for path in ["/other", "/pagos"] {
        let response = gate.post(path, "1").await;
        assert_eq!(response.headers["x-end"], "2");
        for name in ["x-hop", "keep-alive", "proxy-authenticate", "connection"] {
            assert!(response.headers.get(name).is_none(), "{path}: {name}");
        }
    }
}

#[tokio::test]
async fn the_service_learns_who_asks_and_for_what() {
    let (service, mut heard) = Service::counting().await;
    let gate = Running::start(service.address, pagos()).await;
    let request = gate
        .keyed("/pagos", "77")
        .header("host", "pagos.example")
        .header("x-forwarded-for", "203.0.113.7")
        // Values that a client sends for these headers are ignored.
        .header("turno-fence", "1")
        .header("turno-attempt", "9")
        .header("turno-key", "mine");
    send(request.body(whole("{}")).unwrap()).await;
    let request = heard.recv().await.unwrap();
    let said = request.headers();
    assert_eq!(said["host"], "pagos.example");
    assert_eq!(said["x-forwarded-for"], "203.0.113.7, 127.0.0.1");
    assert_eq!(said["x-forwarded-host"], "pagos.example");
    assert_eq!(said["x-forwarded-proto"], "http");
    assert_eq!(
        said["forwarded"],
        "for=127.0.0.1;host=\"pagos.example\";proto=http"
    );
    assert_eq!(said["idempotency-key"], "77");
    assert_eq!(said["content-length"], "2");
    assert_eq!(said["turno-attempt"], "1");
    assert_eq!(said.get_all("turno-fence").iter().count(), 1);
    assert!(
        said["turno-fence"]
            .to_str()
            .unwrap()
            .parse::<i64>()
            .unwrap()
            > 1
    );
    assert!(said["turno-key"].to_str().unwrap().starts_with("pagos:"));

    let request = gate.keyed("/other", "77").header("turno-fence", "1");
    send(request.body(whole("{}")).unwrap()).await;
    let request = heard.recv().await.unwrap();
    assert!(
        request.headers().get("turno-fence").is_none(),
        "not from a caller"
    );
}

#[tokio::test]
async fn the_service_can_have_its_own_host() {
    let (service, mut heard) = Service::counting().await;
    let upstream = format!("http://{}", service.address).parse().unwrap();
    let options = Options {
        host: HostHeader::Upstream,
        ..Options::default()
    };
    let gate = Running::start_with(upstream, pagos(), options).await;
    let request = gate.request("/other").header("host", "pagos.example");
    send(request.body(whole("")).unwrap()).await;
    let request = heard.recv().await.unwrap();
    assert_eq!(request.headers()["host"], service.address.to_string());
    assert_eq!(request.headers()["x-forwarded-host"], "pagos.example");
}
