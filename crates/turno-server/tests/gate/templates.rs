//! Templates: every refusal in the words of the route's contract, chosen by `Accept`.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::request::Builder;
use http_body_util::{BodyExt, Channel};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use turno::Turno;
use turno::once::http::{Refusal, Routes};
use turno::once::{OnceList, OnceState, Released};
use turno_server::gate::config::RoutesFile;
use turno_server::gate::{Options, Upstream};
use turno_testkit::{PostgresServer, TcpProxy, eventually_async};

use crate::common::{LONG, Running, TestResponse, send};
use crate::service::{Service, whole};

/// The body of a request that a client may send.
const PAGO: &str = r#"{"tipo": "RT"}"#;
/// No response begins in this time.
const SHORT: Duration = Duration::from_millis(20);

const ROUTES: &str = r#"
[[route]]
path = "/pagos"
max_body = 100
[[route]]
path = "/rerun"
unknown = "rerun"
[[route]]
path = "/quota"
quota = 1
[[route]]
path = "/slow"
body_timeout = "20ms"
[[route]]
path = "/principal"
principal = ["x-user"]
[[route]]
path = "/tenant"
tenant = ["x-tenant"]
"#;

/// Returns one template per refusal.
fn templates() -> String {
    let of = |refusal: &Refusal| {
        let name = refusal.as_str();
        format!(
            "[defaults.templates.{name}]\nstatus = 200\nheaders = {{ x-contract = \"1\" }}\n\
             body = '{{\"refusal\": \"{name}\", \"tipo\": {{\"$request\": \"/tipo\"}}}}'\n"
        )
    };
    Refusal::ALL.iter().map(of).collect()
}

fn parsed(text: &str, upstream: &Upstream) -> Routes {
    let file = RoutesFile::parse(text).unwrap();
    file.routes(upstream).unwrap()
}

async fn gate_on(turno: Turno, text: &str, upstream: &str, options: Options) -> Running {
    let upstream: Upstream = format!("http://{upstream}").parse().unwrap();
    let routes = parsed(text, &upstream);
    Running::with(turno, upstream, routes, options).await
}

async fn gate(text: &str, upstream: &str, options: Options) -> Running {
    let turno = Turno::connect("sqlite::memory:").await.unwrap();
    gate_on(turno, text, upstream, options).await
}

fn json(gate: &Running, path: &str, key: &str) -> Builder {
    gate.keyed(path, key)
        .header("content-type", "application/json")
}

async fn post(gate: &Running, path: &str, key: &str) -> TestResponse {
    send(json(gate, path, key).body(whole(PAGO)).unwrap()).await
}

/// Brings about every refusal that a client can get, with the templates that are given. Returns the responses.
async fn refused(templates: &str) -> Vec<(Refusal, TestResponse)> {
    let text = format!("{templates}{ROUTES}");
    let mut refused = of_the_layer(&text).await;
    refused.extend(of_the_line(&text).await);
    refused.push((Refusal::StoreUnavailable, without_a_store(&text).await));
    refused
}

/// Refusals while the service and the store are up.
async fn of_the_layer(text: &str) -> Vec<(Refusal, TestResponse)> {
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let go = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let goes = go.clone();
    let service = Service::start(move |request| {
        let (begun, go) = (begun.clone(), goes.clone());
        async move {
            let is_held = request.headers().contains_key("x-held");
            let attempt = request.headers()["turno-attempt"].clone();
            drop(request.into_body().collect().await);
            if is_held && attempt == "1" {
                begun.send(()).unwrap();
                go.acquire().await.unwrap().forget();
            }
            let response = Response::builder().header("cache-control", "no-store");
            response.body(whole("{}")).unwrap()
        }
    })
    .await;
    let gate = gate(text, &service.address.to_string(), Options::default()).await;
    let gate = &gate;
    let mut refused = Vec::new();
    let body = |request: Builder, body: &str| request.body(whole(body.to_owned())).unwrap();

    // The first one is held in the service.
    let held = |path, key| body(json(gate, path, key).header("x-held", "1"), PAGO);
    let first = tokio::spawn(send(held("/pagos", "in_flight")));
    begins.recv().await.unwrap();
    refused.push((Refusal::InFlight, post(gate, "/pagos", "in_flight").await));
    go.add_permits(1);
    assert_eq!(first.await.unwrap().body, "{}");
    refused.push((
        Refusal::AnswerNotStored,
        post(gate, "/pagos", "in_flight").await,
    ));

    // As if the lease of the first one had expired.
    let late = tokio::spawn(send(held("/rerun", "stale")));
    begins.recv().await.unwrap();
    let ask = OnceList {
        prefix: "/rerun".to_owned(),
        ..OnceList::default()
    };
    let view = gate.turno.once_list(ask).await.unwrap().remove(0);
    assert_eq!(view.state, OnceState::InFlight);
    let released = gate.turno.once_release(&view.claim, Released::Unknown);
    released.await.unwrap();
    assert_eq!(send(held("/rerun", "stale")).await.body, "{}");
    go.add_permits(1);
    refused.push((Refusal::Stale, late.await.unwrap()));

    let other = body(
        json(gate, "/pagos", "in_flight"),
        r#"{"tipo": "RT", "n": 2}"#,
    );
    refused.push((Refusal::Mismatch, send(other).await));
    assert_eq!(post(gate, "/quota", "1").await.body, "{}");
    refused.push((Refusal::OverQuota, post(gate, "/quota", "2").await));

    let keyless = gate.request("/pagos").method("POST");
    let keyless = keyless.header("content-type", "application/json");
    refused.push((Refusal::UnidentifiedKey, send(body(keyless, PAGO)).await));
    refused.push((
        Refusal::UnidentifiedPrincipal,
        post(gate, "/principal", "1").await,
    ));
    refused.push((
        Refusal::UnidentifiedTenant,
        post(gate, "/tenant", "1").await,
    ));
    let malformed = body(json(gate, "/pagos", "1"), "{");
    refused.push((Refusal::UnidentifiedBody, send(malformed).await));
    refused.push((Refusal::UnidentifiedPath, post(gate, "/pagos/", "1").await));
    let large = body(json(gate, "/pagos", "1"), &"1".repeat(101));
    refused.push((Refusal::TooLarge, send(large).await));
    // A body that does not end.
    let (_sender, slow) = Channel::<Bytes, hyper::Error>::new(1);
    let slow = json(gate, "/slow", "1").body(slow.boxed()).unwrap();
    refused.push((Refusal::Timeout, send(slow).await));
    refused
}

/// Refusals while the service is down, or the connection to it breaks.
async fn of_the_line(text: &str) -> Vec<(Refusal, TestResponse)> {
    let (service, _heard) = Service::counting().await;
    let line = TcpProxy::start(service.address).await.unwrap();
    let broken = gate(text, &line.addr().to_string(), Options::default()).await;
    line.drop_next_answer();
    let mut refused = vec![(Refusal::UpstreamBroken, post(&broken, "/pagos", "1").await)];
    refused.push((Refusal::Unknown, post(&broken, "/pagos", "1").await));
    line.cut().await;
    refused.push((
        Refusal::UpstreamUnreachable,
        post(&broken, "/pagos", "2").await,
    ));

    let silent = Service::start(|_| std::future::pending()).await;
    let options = Options {
        answer_timeout: SHORT,
        ..Options::default()
    };
    let late = gate(text, &silent.address.to_string(), options).await;
    refused.push((Refusal::UpstreamLate, post(&late, "/pagos", "1").await));

    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let halves = gate(text, &address, Options::default()).await;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 4096];
        assert!(stream.read(&mut buffer).await.unwrap() > 0);
        let half = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf";
        stream.write_all(half).await.unwrap();
    });
    refused.push((Refusal::Failed, post(&halves, "/pagos", "1").await));
    refused
}

async fn without_a_store(text: &str) -> TestResponse {
    let server = PostgresServer::start().unwrap();
    let turno = Turno::connect(&server.create_database()).await.unwrap();
    let (service, mut heard) = Service::counting().await;
    let gate = gate_on(
        turno,
        text,
        &service.address.to_string(),
        Options::default(),
    )
    .await;
    server.kill_9().unwrap();
    let response = post(&gate, "/pagos", "1").await;
    assert!(heard.try_recv().is_err(), "nothing reached the service");
    response
}

/// Returns whether the request's body was read when the request was refused.
fn has_body(refusal: Refusal) -> bool {
    !matches!(
        refusal,
        Refusal::UnidentifiedBody
            | Refusal::UnidentifiedPath
            | Refusal::TooLarge
            | Refusal::Timeout
    )
}

#[tokio::test]
async fn every_refusal_has_the_form_of_its_template() {
    let refused = refused(&templates()).await;
    for (refusal, response) in &refused {
        assert_eq!(response.status, 200, "{refusal:?}: {response:?}");
        assert_eq!(response.headers["content-type"], "application/json");
        assert_eq!(response.headers["x-contract"], "1", "{refusal:?}");
        for of_problems in ["retry-after", "content-language", "vary"] {
            assert!(!response.headers.contains_key(of_problems), "{refusal:?}");
        }
        let tipo = has_body(*refusal).then_some("RT");
        let wanted = serde_json::json!({ "refusal": refusal.as_str(), "tipo": tipo });
        assert_eq!(response.json(), wanted);
    }
    let mut seen: BTreeSet<Refusal> = refused.iter().map(|(refusal, _)| *refusal).collect();
    // The others fall back to it.
    seen.insert(Refusal::Unidentified);
    assert_eq!(seen, Refusal::ALL.iter().copied().collect());
}

/// The control: without templates, the same requests get problems.
#[tokio::test]
async fn without_a_template_a_refusal_is_a_problem() {
    for (refusal, response) in refused("").await {
        let status = response.status.as_u16();
        assert!(status >= 400, "{refusal:?}: {response:?}");
        let code = match refusal.as_str() {
            name if name.starts_with("unidentified") => "unidentified",
            name => name,
        };
        response.problem(status, code);
    }
}

#[tokio::test]
async fn the_default_is_for_all_others() {
    let templates = "[defaults.templates]\ndefault = { status = 200, body = '\"default\"' }\n\
        unknown = { status = 200, body = '\"unknown\"' }\nunidentified = { status = 200, body = '\"unidentified\"' }\n\
        unidentified_key = { status = 200, body = '\"key\"' }\n";
    for (refusal, response) in refused(templates).await {
        let wanted = match refusal.as_str() {
            "unknown" => "unknown",
            "unidentified_key" => "key",
            name if name.starts_with("unidentified") => "unidentified",
            _ => "default",
        };
        assert_eq!(response.json(), wanted, "{refusal:?}");
    }
}

#[tokio::test]
async fn the_client_chooses_the_content_type() {
    let routes = r#"
[[route]]
path = "/pagos"
[route.templates.upstream_unreachable]
status = 200
headers = { x-contract = "1" }
body = '{"tipo": {"$request": "/tipo"}}'
variants = [
    { content_type = "application/xml; charset=utf-8", body = '<tipo>{"$request": "/tipo"}</tipo>' },
    { content_type = "text/plain", status = 503, body = 'tipo {"$request": "/tipo"}' },
]
"#;
    let (service, _heard) = Service::counting().await;
    let line = TcpProxy::start(service.address).await.unwrap();
    line.cut().await;
    let gate = gate(routes, &line.addr().to_string(), Options::default()).await;
    let json_type = "application/json";
    let xml_type = "application/xml; charset=utf-8";
    let json = (200, json_type, r#"{"tipo": "<RT>"}"#);
    let xml = (200, xml_type, "<tipo>&lt;RT&gt;</tipo>");
    let text = (503, "text/plain", "tipo <RT>");
    for (accept, (status, content_type, body)) in [
        ("", json),
        ("*/*", json),
        ("image/png", json),
        ("application/xml", xml),
        ("text/*;q=0.9, application/*;q=0.8", text),
        ("application/json;q=0.1, */*;q=0.2", xml),
    ] {
        let request = gate
            .keyed("/pagos", "1")
            .header("content-type", json_type)
            .header("accept", accept);
        let response = send(request.body(whole(r#"{"tipo": "<RT>"}"#)).unwrap()).await;
        assert_eq!(response.status, status, "{accept}");
        assert_eq!(response.headers["content-type"], content_type, "{accept}");
        assert_eq!(response.headers["vary"], "accept");
        assert_eq!(response.headers["x-contract"], "1");
        assert_eq!(response.body, body, "{accept}");
    }
}

/// A route that lets unidentified requests pass keeps its contract for them, too. In shadow mode nothing is changed.
#[tokio::test]
async fn what_passes_has_the_templates_and_a_shadow_has_none() {
    let (service, _heard) = Service::counting().await;
    let line = TcpProxy::start(service.address).await.unwrap();
    line.cut().await;
    let routes = "[defaults.templates.default]\nstatus = 200\nbody = '{}'\n\
        [[route]]\npath = \"/open\"\nunidentified = \"open\"\n\
        [[route]]\npath = \"/shadow\"\nswitch = \"shadow\"\n[[route]]\npath = \"/off\"\nswitch = \"off\"";
    let gate = gate(routes, &line.addr().to_string(), Options::default()).await;
    let keyless = |path: &str| {
        let request = gate.request(path).method("POST").body(whole(PAGO));
        send(request.unwrap())
    };
    assert_eq!(keyless("/open").await.body, "{}");
    for path in ["/shadow", "/off", "/other"] {
        keyless(path).await.problem(502, "upstream_unreachable");
    }
    // A response of the service is never replaced.
    line.restore().await.unwrap();
    let fresh = eventually_async(LONG, "the service", async || {
        let response = post(&gate, "/open", "1").await;
        (response.body != "{}").then_some(response)
    })
    .await;
    assert_eq!(fresh.json()["n"], 1);
}
