//! Templates: refusals in the words of an older contract.

use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use turno::Turno;
use turno::once::http::{Fails, InFlight, OnceLayer, Policy, Refusal, Switch, Template};
use turno_testkit::PostgresServer;

use crate::kit::{Held, Site, TestResponse, paying, post, problem, run_number};

fn json(text: &str) -> Template {
    let body = format!(r#"{{"says": "{text}", "amount": {{"$request": "/amount"}}}}"#);
    Template::new(200, body).unwrap()
}

#[track_caller]
fn assert_template(response: &TestResponse, text: &str, amount: Option<u32>) {
    assert_eq!(response.status.as_u16(), 200, "{response:?}");
    assert_eq!(response.header("content-type"), Some("application/json"));
    for of_problems in ["retry-after", "content-language", "vary"] {
        assert_eq!(response.header(of_problems), None, "{response:?}");
    }
    let wanted = serde_json::json!({ "says": text, "amount": amount });
    assert_eq!(response.json(), wanted);
}

fn keyless() -> Request {
    let request = Request::post("/pagos").header("content-type", "application/json");
    request.body(Body::from(r#"{"amount": 100}"#)).unwrap()
}

#[tokio::test]
async fn the_most_specific_template_applies() {
    let policy = Policy::new("pagos").max_body(20);
    let large = || post("77").body(Body::from(" ".repeat(21))).unwrap();
    let site = Site::new(policy.clone(), run_number).await;
    assert_eq!(
        site.send(keyless()).await.problem(),
        problem(400, "unidentified")
    );
    assert_eq!(
        site.send(large()).await.problem(),
        problem(413, "too_large")
    );

    let policy = policy.default_template(json("default"));
    let site = Site::new(policy.clone(), run_number).await;
    assert_template(&site.send(keyless()).await, "default", Some(100));
    assert_template(&site.send(large()).await, "default", None);

    let policy = policy.template(Refusal::Unidentified, json("general"));
    let site = Site::new(policy.clone(), run_number).await;
    assert_template(&site.send(keyless()).await, "general", Some(100));

    let policy = policy
        .template(Refusal::UnidentifiedKey, json("old"))
        .template(Refusal::UnidentifiedKey, json("key"));
    let site = Site::new(policy.clone(), run_number).await;
    assert_template(&site.send(keyless()).await, "key", Some(100));
    assert_template(&site.send(large()).await, "default", None);
    // What is not refused is not touched, and what is refused counts as before.
    site.send(paying("77")).await.assert_fresh("run 1");
    site.send(paying("77")).await.assert_replayed("run 1");
    assert_eq!(site.counts().unidentified, 2);

    let site = Site::new(policy.switch(Switch::Shadow), run_number).await;
    site.send(keyless()).await.assert_fresh("run 1");
}

/// [`InFlight::Template`] is the same as a template for [`Refusal::InFlight`].
#[tokio::test]
async fn a_duplicate_in_flight_has_its_template() {
    let short = std::time::Duration::from_millis(20);
    for policy in [
        Policy::new("pagos").template(Refusal::InFlight, json("in flight")),
        Policy::new("pagos").in_flight(InFlight::Template(json("in flight"))),
        Policy::new("pagos")
            .in_flight(InFlight::Wait(short))
            .template(Refusal::InFlight, json("in flight")),
    ] {
        let policy = policy.default_template(json("default"));
        let held = Held::new();
        let holding = held.clone();
        let site = Site::new(policy, move |run, _: Request| {
            let held = holding.clone();
            async move {
                held.hold().await;
                format!("run {run}")
            }
        })
        .await;
        let first = site.sending(paying("77"));
        held.begun().await;
        assert_template(&site.send(paying("77")).await, "in flight", Some(100));
        held.go();
        first.await.unwrap().assert_fresh("run 1");
    }
}

async fn fails(run: u32, _: Request) -> String {
    panic!("run {run} fails on purpose")
}

/// The response of a run that fails is replaced; the run stays unknown.
#[tokio::test]
async fn a_handler_that_panics() {
    let policy = Policy::new("pagos")
        .template(Refusal::Failed, json("failed"))
        .template(Refusal::Unknown, json("unknown"));
    let site = Site::new(policy, fails).await;
    assert_template(&site.send(paying("77")).await, "failed", Some(100));
    assert_template(&site.send(paying("77")).await, "unknown", Some(100));
    assert_eq!(site.runs(), 1);
}

#[tokio::test]
async fn the_store_is_down() {
    let server = PostgresServer::start().unwrap();
    let policy = Policy::new("pagos").default_template(json("default"));
    let url = server.create_database();
    let closed = Site::on(&url, policy.clone(), run_number).await;
    let open = Site::on(&url, policy.store_down(Fails::Open), run_number).await;
    server.kill_9().unwrap();
    assert_template(&closed.send(paying("77")).await, "default", Some(100));
    assert_eq!((closed.runs(), closed.counts().store_down), (0, 1));
    open.send(paying("77")).await.assert_fresh("run 1");
}

/// Outer layers find the refusal in the extensions, with a template or without.
#[tokio::test]
async fn a_refusal_is_marked() {
    for policy in [
        Policy::new("pagos"),
        Policy::new("pagos").default_template(json("default")),
    ] {
        let site = Site::new(policy, run_number).await;
        let response = site.call(keyless()).await;
        let refusal = response.extensions().get::<Refusal>();
        assert_eq!(refusal, Some(&Refusal::UnidentifiedKey));
        let fresh = site.call(paying("77")).await;
        assert_eq!(fresh.extensions().get::<Refusal>(), None);
    }
}

#[tokio::test]
async fn the_client_chooses_the_content_type() {
    let xml = Template::with_type(503, "application/xml", "<a>{\"$request\": \"/amount\"}</a>");
    let template = json("json").variant(xml.unwrap());
    let policy = Policy::new("pagos").default_template(template);
    let site = Site::new(policy, run_number).await;
    let mut request = keyless();
    let accept = HeaderValue::from_static("application/json;q=0.5, application/xml;q=0.6");
    request.headers_mut().insert("accept", accept);
    let response = site.send(request).await;
    assert_eq!(
        (response.status.as_u16(), response.text()),
        (503, "<a>100</a>")
    );
    assert_eq!(response.headers[CONTENT_TYPE], "application/xml");
    assert_eq!(response.header("vary"), Some("accept"));
}

/// An operator sees for whom a request is in flight.
#[tokio::test]
async fn a_run_has_the_user_and_the_service_of_the_settings() {
    let host_and_process = |worker: &str| worker.ends_with(&format!("/{}", std::process::id()));
    for (user, service, wanted) in [
        (Some("SYSTEM"), Some("CERT_AFORE"), "SYSTEM@CERT_AFORE on "),
        (None, Some("CERT_AFORE"), "CERT_AFORE on "),
        (Some("SYSTEM"), None, "SYSTEM on "),
        (None, None, ""),
        // Both together are too long for one name.
        (Some(&*"u".repeat(200)), Some(&*"s".repeat(200)), ""),
    ] {
        let mut builder = Turno::builder();
        if let Some(user) = user {
            builder = builder.user(user);
        }
        if let Some(service) = service {
            builder = builder.service(service);
        }
        let turno = builder.connect("sqlite::memory:").await.unwrap();
        let layer = OnceLayer::new(turno.clone(), Policy::new("pagos"));
        let site = Site::with(layer, turno, run_number);
        site.send(paying("77")).await.assert_fresh("run 1");
        let view = site.await_state(turno::once::OnceState::Done).await;
        let worker = view.worker.unwrap();
        assert!(
            worker.starts_with(wanted) && host_and_process(&worker),
            "{worker}"
        );
        assert_eq!(worker.contains(" on "), !wanted.is_empty(), "{worker}");
    }
}
